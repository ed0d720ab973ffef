//! The machines of a round: the target, which can be killed and started again, and the proxy in
//! front of it.

use std::net::SocketAddr;
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
    lun: String,
    /// Goes last, with the disk in it.
    _folder: TempDir,
}

fn start(lun: &str) -> Result<Target, String> {
    Target::start(Path::new(WANSAN), &["--lun", lun]).map_err(|error| error.to_string())
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
    pub(crate) fn start(terms: &Terms) -> Result<World, String> {
        let folder = TempDir::with_prefix("wansan-faults-").map_err(|error| error.to_string())?;
        let disk = folder.path().join("disk.img");
        let lun = terms.lun(&disk.display().to_string());
        let target = start(&lun)?;
        let proxy =
            Proxy::start(address(&target), terms.delay).map_err(|error| error.to_string())?;
        Ok(World {
            proxy: Arc::new(proxy),
            target: Some(target),
            restarting: None,
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
        let (target, lun, proxy) = (self.target.take(), self.lun.clone(), self.proxy.clone());
        self.restarting = Some(std::thread::spawn(move || {
            drop(target);
            std::thread::sleep(down);
            let target = start(&lun)?;
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
