//! The two targets: a fresh one for each suite, so that no suite finds what another has left.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wansan_peers::cunit::{Program, Test};
use wansan_peers::process::PeerError;
use wansan_peers::tgtd::Tgtd;
use wansan_peers::wansan::Target;

const DISK_MIB: u64 = 64;

/// The suite whose tests skip themselves without CHAP.
const CHAP_SUITE: &str = "iSCSI.iSCSICHAP";
/// One of its tests wants a name that looks like a number.
const CHAP_USER: &str = "0x2026";
const CHAP_SECRET: &str = "conformance-secret";

/// What `tests` of `suite` say of our target.
pub(crate) fn ours(
    program: &Program,
    suite: &str,
    tests: &[String],
) -> Result<Vec<Test>, PeerError> {
    let folder = folder()?;
    let unit = unit(suite);
    let mut arguments = vec!["--lun", &unit];
    let secret = chap_secret(folder.path())?;
    let secret = secret.to_string_lossy();
    if suite == CHAP_SUITE {
        arguments.extend(["--chap-user", CHAP_USER, "--chap-secret-file", &secret]);
    }
    let target = Target::start(Path::new(env!("CARGO_BIN_EXE_wansan")), &arguments)?;
    let url = with_account(suite, target.url(0));
    program.run(suite, tests, &url, folder.path())
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

/// What `tests` of `suite` say of tgtd, which is told to let blocks be unmapped.
pub(crate) fn tgtd(
    program: &Program,
    suite: &str,
    tests: &[String],
) -> Result<Vec<Test>, PeerError> {
    let folder = folder()?;
    let disk = folder.path().join("disk.img");
    File::create(&disk)
        .and_then(|file| file.set_len(DISK_MIB << 20))
        .map_err(system)?;
    let tgtd = Tgtd::start(&disk)?;
    tgtd.provision_thinly()?;
    if suite == CHAP_SUITE {
        tgtd.demand_chap(CHAP_USER, CHAP_SECRET)?;
    }
    let url = with_account(suite, tgtd.url());
    program.run(suite, tests, &url, folder.path())
}

/// `url` with the account that the target wants for `suite`.
fn with_account(suite: &str, url: String) -> String {
    if suite == CHAP_SUITE {
        url.replacen("://", &format!("://{CHAP_USER}%{CHAP_SECRET}@"), 1)
    } else {
        url
    }
}

/// A file with the secret, which only its owner can read.
fn chap_secret(folder: &Path) -> Result<PathBuf, PeerError> {
    let path = folder.join("chap-secret");
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(CHAP_SECRET.as_bytes()))
        .map_err(system)?;
    Ok(path)
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
