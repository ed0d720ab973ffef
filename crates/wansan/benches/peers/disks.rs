//! The disks that are served: ours and tgtd's, on files of the same kind and size.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wansan_peers::process::PeerError;
use wansan_peers::tgtd::{BackingStore, Tgtd};
use wansan_peers::wansan;

use crate::loads::WANSAN;

/// The file behind each unit.
const DISK_BYTES: usize = 256 << 20;
const MEMORY_FOLDER: &str = "/dev/shm";
/// Where cargo lets a benchmark keep files: in the target folder, beside the build.
const BUILD_FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
/// File systems without a device below them.
const MEMORY_FILE_SYSTEMS: [&str; 2] = ["tmpfs", "ramfs"];

/// tgtd gets what wansan's targets ask for by default, which is several times its own: with smaller
/// PDUs and bursts a large write would be a comparison of defaults.
const TGTD_KEYS: [(&str, &str); 4] = [
    ("MaxRecvDataSegmentLength", "262144"),
    ("FirstBurstLength", "262144"),
    ("MaxBurstLength", "1048576"),
    ("InitialR2T", "No"),
];

/// A target that serves one unit.
pub(crate) struct Disk {
    // Ends before its folder goes: fields drop in order.
    _server: Server,
    _folder: TempDir,
    /// What runs, in the words of a result.
    pub(crate) name: &'static str,
    /// The URL of the unit.
    pub(crate) url: String,
    /// The target's process id.
    pub(crate) id: u32,
}

#[expect(dead_code, reason = "held until the disk is dropped")]
enum Server {
    Ours(wansan::Target),
    Tgtd(Tgtd),
}

impl Disk {
    /// Ours, on a file in `folder`.
    pub(crate) fn ours(folder: TempDir) -> Result<Self, PeerError> {
        Self::ours_with(folder, "wansan target", "")
    }

    /// Ours, on a file in `folder`, without the page cache.
    pub(crate) fn ours_directly(folder: TempDir) -> Result<Self, PeerError> {
        Self::ours_with(folder, "wansan target, direct", ",direct")
    }

    fn ours_with(folder: TempDir, name: &'static str, options: &str) -> Result<Self, PeerError> {
        let unit = format!("file:{}{options}", filled(folder.path())?.display());
        let target = wansan::Target::start(Path::new(WANSAN), &["--lun", &unit])?;
        Ok(Self {
            name,
            url: target.url(0),
            id: target.id(),
            _server: Server::Ours(target),
            _folder: folder,
        })
    }

    /// tgtd's, on a file in `folder`.
    pub(crate) fn tgtd(folder: TempDir, store: BackingStore) -> Result<Self, PeerError> {
        let tgtd = Tgtd::start_with(&filled(folder.path())?, store)?;
        for (key, value) in TGTD_KEYS {
            tgtd.set_parameter(key, value)?;
        }
        Ok(Self {
            name: match store {
                BackingStore::ReadWrite => "tgtd, rdwr (page cache)",
                BackingStore::Aio => "tgtd, aio (O_DIRECT)",
            },
            url: tgtd.url(),
            id: tgtd.id(),
            _server: Server::Tgtd(tgtd),
            _folder: folder,
        })
    }
}

/// A folder in memory, so that no disk is measured.
pub(crate) fn memory_folder() -> Result<TempDir, PeerError> {
    folder_in(MEMORY_FOLDER)
}

/// A folder of the file system that the build is on.
///
/// # Errors
/// When that has no device below it.
pub(crate) fn build_folder() -> Result<TempDir, PeerError> {
    let file_system = build_file_system()?;
    if MEMORY_FILE_SYSTEMS.contains(&file_system.as_str()) {
        let what =
            format!("{file_system} has no device: set CARGO_TARGET_DIR to a folder of a disk");
        return Err(system(BUILD_FOLDER, io::Error::other(what)));
    }
    folder_in(BUILD_FOLDER)
}

/// The type of the file system that the build is on, such as `ext4`.
pub(crate) fn build_file_system() -> Result<String, PeerError> {
    let find = || {
        let folder = Path::new(BUILD_FOLDER).canonicalize()?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        file_system_of(&folder, &mounts)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no mount point holds it"))
    };
    find().map_err(|source| system(BUILD_FOLDER, source))
}

/// The type of the file system that holds `folder` by proc_pid_mountinfo(5): the fifth field is the
/// mount point, and the type follows a lone hyphen. Of several mounts at one point the last is on top.
fn file_system_of(folder: &Path, mounts: &str) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        let depth = folder
            .starts_with(point)
            .then(|| point.components().count())?;
        Some((depth, file_system.split(' ').next()?))
    });
    let (_, name) = mounts.max_by_key(|(depth, _)| *depth)?;
    Some(name.to_owned())
}

fn folder_in(parent: &str) -> Result<TempDir, PeerError> {
    TempDir::with_prefix_in("wansan-bench-", parent).map_err(|source| system(parent, source))
}

/// A file without holes, as a hole is cheaper to read than data. It is left clean in the page cache.
pub(crate) fn filled(folder: &Path) -> Result<PathBuf, PeerError> {
    let disk = folder.join("disk.img");
    let fill = || -> io::Result<()> {
        let mut file = File::create(&disk)?;
        let chunk: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 7) as u8).collect();
        (0..DISK_BYTES / chunk.len()).try_for_each(|_| file.write_all(&chunk))?;
        file.sync_all()
    };
    match fill() {
        Ok(()) => Ok(disk),
        Err(source) => Err(system(&disk.to_string_lossy(), source)),
    }
}

fn system(program: &str, source: io::Error) -> PeerError {
    PeerError::System {
        program: program.to_owned(),
        source,
    }
}
