//! The machines of a round: the target, which can be killed and started again, and the proxy in
//! front of it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use wansan_peers::wansan::{TARGET_NAME, Target};
use wansan_san::url::IscsiUrl;

use crate::proxy::Proxy;
use crate::terms::Terms;

/// The binary under test.
pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

/// A target behind a proxy.
pub(crate) struct World {
    pub(crate) proxy: Arc<Proxy>,
    target: Option<Target>,
    /// Restarts the target beside the caller.
    restarting: Option<JoinHandle<Result<Target, String>>>,
    /// Where the target listens, with any free port.
    portal: SocketAddr,
    lun: String,
    /// Goes last, with the disk in it.
    _folder: TempDir,
}

/// An address of loopback for the round of `seed` alone, with any free port.
///
/// Rounds run side by side. On one address, the port of a target that is down can become that of
/// another round's target, and the initiators that come back would write to a wrong disk.
pub(crate) fn portal(seed: u64) -> SocketAddr {
    let [.., a, b, c] = seed.to_be_bytes();
    // Neither 127.0.0.0/16, where everyone else listens, nor the broadcast address.
    let address = Ipv4Addr::new(127, 1 + a % 254, b, c);
    SocketAddr::new(IpAddr::V4(address), 0)
}

fn start(portal: SocketAddr, lun: &str) -> Result<Target, String> {
    let started = Target::start_at(Path::new(WANSAN), &portal.to_string(), &["--lun", lun]);
    started.map_err(|error| error.to_string())
}

fn address(target: &Target) -> SocketAddr {
    let address = target.address().parse();
    address.expect("the target listens on an address of loopback")
}

fn url(portal: SocketAddr) -> IscsiUrl {
    let url = format!("iscsi://{portal}/{TARGET_NAME}/0").parse();
    url.expect("an address and a name make a URL")
}

impl World {
    /// The machines of the round of `seed`.
    pub(crate) fn start(terms: &Terms, seed: u64) -> Result<World, String> {
        let folder = TempDir::with_prefix("wansan-faults-").map_err(|error| error.to_string())?;
        let disk = folder.path().join("disk.img");
        let lun = terms.lun(&disk.display().to_string());
        let portal = portal(seed);
        let target = start(portal, &lun)?;
        let proxy =
            Proxy::start(address(&target), terms.delay).map_err(|error| error.to_string())?;
        Ok(World {
            proxy: Arc::new(proxy),
            target: Some(target),
            restarting: None,
            portal,
            lun,
            _folder: folder,
        })
    }

    /// The disk through the proxy.
    pub(crate) fn url(&self) -> IscsiUrl {
        url(self.proxy.address())
    }

    /// The disk without the proxy, once the target runs.
    pub(crate) fn straight_url(&mut self) -> Result<IscsiUrl, String> {
        self.finish_restart()?;
        let target = self.target.as_ref().ok_or("the target is gone")?;
        Ok(url(address(target)))
    }

    /// Kills the target with SIGKILL, and starts it again after `down`, on another port.
    pub(crate) fn restart(&mut self, down: Duration) -> Result<(), String> {
        self.finish_restart()?;
        let (target, portal) = (self.target.take(), self.portal);
        let (lun, proxy) = (self.lun.clone(), self.proxy.clone());
        self.restarting = Some(std::thread::spawn(move || {
            drop(target);
            std::thread::sleep(down);
            let target = start(portal, &lun)?;
            proxy.set_upstream(address(&target));
            Ok(target)
        }));
        Ok(())
    }

    /// Whether the target is down.
    pub(crate) fn is_restarting(&self) -> bool {
        let restarting = self.restarting.as_ref();
        restarting.is_some_and(|thread| !thread.is_finished())
    }

    fn finish_restart(&mut self) -> Result<(), String> {
        if let Some(thread) = self.restarting.take() {
            let target = thread.join().map_err(|_| "the restart panicked")??;
            self.target = Some(target);
        }
        Ok(())
    }

    /// What the target has said, if it still can.
    pub(crate) fn log(&self) -> String {
        self.target.as_ref().map(Target::log).unwrap_or_default()
    }
}
