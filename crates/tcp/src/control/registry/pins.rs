//! Pins of a control: files in the BPF file system that keep it loaded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use rustix::mount::{MountFlags, mount};

use super::{Algorithm, ControlError, GROWTH, LAW, Options};
use crate::control::{HighSpeed, data};

/// Default mount point of the BPF file system.
const BPF_FS: &str = "/sys/fs/bpf";
/// Its magic number in statfs(2) (linux/magic.h).
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The folder of a control's pins: its link, and the data that it was loaded with.
pub(super) struct Pins {
    folder: PathBuf,
}

impl Pins {
    pub(super) fn of(algorithm: Algorithm) -> Pins {
        let folder = Path::new(BPF_FS).join("wansan/cc").join(algorithm.name());
        Pins { folder }
    }

    fn link(&self) -> PathBuf {
        self.folder.join("link")
    }

    /// The pin of a section of read-only data. Names in this file system contain no dots.
    fn data(&self, section: &str) -> PathBuf {
        self.folder
            .join(section.rsplit('.').next().unwrap_or(section))
    }

    pub(super) fn exist(&self) -> bool {
        self.link().exists()
    }

    /// Makes the folder; mounts the file system if necessary.
    pub(super) fn make_room(&self) -> Result<(), ControlError> {
        let root = Path::new(BPF_FS);
        if !is_bpf_fs(root) {
            mount("bpf", root, "bpf", MountFlags::empty(), None)
                .map_err(|errno| keeping("mount", root)(errno.into()))?;
        }
        // Remains of an earlier process that was killed between two pins.
        if self.folder.exists() && !self.exist() {
            self.remove()?;
        }
        fs::create_dir_all(&self.folder).map_err(keeping("make", &self.folder))
    }

    /// Pins the link, which keeps the control, and its data, which `show` reads.
    pub(super) fn pin(&self, link: &mut Link, object: &mut Object) -> Result<(), ControlError> {
        let failed = |path: PathBuf| {
            move |error: libbpf_rs::Error| keeping("pin", &path)(io::Error::other(error))
        };
        for mut map in object.maps_mut() {
            for section in [GROWTH, LAW] {
                if map.name() == section {
                    let path = self.data(section);
                    map.pin(&path).map_err(failed(path))?;
                }
            }
        }
        link.pin(self.link()).map_err(failed(self.link()))
    }

    /// Removes all pins; the link last, so that a second attempt finds what a first one left.
    pub(super) fn remove(&self) -> Result<(), ControlError> {
        for path in [self.data(GROWTH), self.data(LAW), self.link()] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(keeping("remove", &path)(error));
                }
                _ => {}
            }
        }
        fs::remove_dir(&self.folder).map_err(keeping("remove", &self.folder))
    }

    /// The options that the control was loaded with.
    pub(super) fn options(&self) -> Option<Options> {
        let growth = data::growth(&read(&self.data(GROWTH))?)?;
        let highspeed = match read(&self.data(LAW)) {
            Some(law) => data::highspeed(&law)?,
            None => HighSpeed::default(),
        };
        Some(Options { growth, highspeed })
    }
}

/// The single value of a map of read-only data.
fn read(path: &Path) -> Option<Vec<u8>> {
    let map = MapHandle::from_pinned_path(path).ok()?;
    map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()?
}

fn is_bpf_fs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 == BPF_FS_MAGIC)
}

fn keeping(action: &'static str, path: &Path) -> impl Fn(io::Error) -> ControlError {
    let path = path.to_owned();
    move |source| ControlError::Keeping {
        action,
        path: path.clone(),
        source,
    }
}
