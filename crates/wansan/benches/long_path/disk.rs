//! The disks at the far end: ours and tgtd's, each a file in memory.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use wansan_lab::world::Node;
use wansan_peers::process::PeerError;
use wansan_peers::program::Missing;
use wansan_peers::tgtd::Tgtd;
use wansan_peers::wansan;

/// The binary that is measured: the one that cargo built for this benchmark.
pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
pub(crate) const DISK_BYTES: usize = 1 << 30;
/// It lies in memory, so no disk is measured.
const MEMORY_FOLDER: &str = "/dev/shm";
pub(crate) const OUR_PORT: u16 = 3260;
const TGTD_PORT: u16 = 3261;

/// Both targets, each on a file of its own.
pub(crate) struct Disks {
    // End before their folder goes: fields drop in order.
    ours: wansan::Target,
    tgtd: Result<Tgtd, Missing>,
    _folder: TempDir,
}

impl Disks {
    /// Starts both on `host`. A tgtd that is not installed fails only the questions that need it.
    pub(crate) fn start(host: &Node) -> Result<Self> {
        let folder = memory_folder()?;
        let our_file = filled(folder.path(), "ours")?;
        let tgtd_file = filled(folder.path(), "tgtd")?;
        let address = host.address();
        let ours = ours(host, address, &our_file)?;
        let portal = SocketAddr::from((address, TGTD_PORT));
        let tgtd = match host
            .namespace()
            .run(move || Tgtd::start_at(&tgtd_file, portal))
        {
            Ok(tgtd) => Ok(tgtd),
            Err(PeerError::Missing(missing)) => Err(missing),
            Err(error) => return Err(error.into()),
        };
        Ok(Disks {
            ours,
            tgtd,
            _folder: folder,
        })
    }

    /// Our target's disk.
    pub(crate) fn our_url(&self) -> String {
        self.ours.url(0)
    }

    /// tgtd's, or why there is none.
    pub(crate) fn tgtd_url(&self) -> Result<String, PeerError> {
        let tgtd = self.tgtd.as_ref().map_err(Missing::clone)?;
        Ok(tgtd.url())
    }
}

/// Our target alone, reached at each address of `host`; with it goes its folder.
pub(crate) fn at_each_address(host: &Node) -> Result<(wansan::Target, TempDir)> {
    let folder = memory_folder()?;
    let target = ours(host, Ipv4Addr::UNSPECIFIED, &filled(folder.path(), "ours")?)?;
    Ok((target, folder))
}

fn memory_folder() -> Result<TempDir> {
    TempDir::with_prefix_in("wansan-bench-", MEMORY_FOLDER)
        .with_context(|| format!("cannot use {MEMORY_FOLDER}"))
}

fn ours(host: &Node, address: Ipv4Addr, file: &Path) -> Result<wansan::Target> {
    let portal = format!("{address}:{OUR_PORT}");
    let unit = format!("file:{}", file.display());
    let start = move || wansan::Target::start_at(Path::new(WANSAN), &portal, &["--lun", &unit]);
    Ok(host.namespace().run(start)?)
}

/// A file without holes, as a hole is cheaper to read than data.
fn filled(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    let mut file = File::create(&path)?;
    let piece = vec![0xa5; 1 << 20];
    (0..DISK_BYTES / piece.len()).try_for_each(|_| file.write_all(&piece))?;
    Ok(path)
}
