//! The two targets: a fresh one for each suite, so that no suite finds what another has left.

use std::fs::File;
use std::path::Path;

use tempfile::TempDir;
use wansan_peers::cunit::{Test, run_suite};
use wansan_peers::process::PeerError;
use wansan_peers::tgtd::Tgtd;
use wansan_peers::wansan::Target;

const DISK_MIB: u64 = 64;

/// What `suite` says of our target.
pub(crate) fn ours(suite: &str) -> Result<Vec<Test>, PeerError> {
    let folder = folder()?;
    let target = Target::start(
        Path::new(env!("CARGO_BIN_EXE_wansan")),
        &["--lun", &unit(suite)],
    )?;
    run_suite(suite, &target.url(0), folder.path())
}

/// Our unit for `suite`. GetLBAStatus gets blocks that are as large as the physical ones: where they
/// are smaller, its test UnmapSingle asks for the status of one block and expects that of another.
fn unit(suite: &str) -> String {
    let block_bytes = if suite == "SCSI.GetLBAStatus" {
        4096
    } else {
        512
    };
    format!("memory:{DISK_MIB}MiB,thin,block={block_bytes}")
}

/// What `suite` says of tgtd, which is told to let blocks be unmapped.
pub(crate) fn tgtd(suite: &str) -> Result<Vec<Test>, PeerError> {
    let folder = folder()?;
    let disk = folder.path().join("disk.img");
    File::create(&disk)
        .and_then(|file| file.set_len(DISK_MIB << 20))
        .map_err(system)?;
    let tgtd = Tgtd::start(&disk)?;
    tgtd.provision_thinly()?;
    run_suite(suite, &tgtd.url(), folder.path())
}

fn folder() -> Result<TempDir, PeerError> {
    TempDir::with_prefix("wansan-conformance-").map_err(system)
}

fn system(source: std::io::Error) -> PeerError {
    PeerError::System {
        program: "temporary folder".to_owned(),
        source,
    }
}
