//! What a guest boots: Debian's kernel, and a small Debian that fits into memory.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use super::cpio::Archive;
use super::packages;
use crate::process::run;
use crate::program::find;
use crate::trial::Stop;

/// The first process of a guest.
const INIT: &str = include_str!("init");
/// What it, or a unit, has carry out commands.
const COMMANDS: &str = include_str!("commands");

/// The modules that guests may load, with all that these depend on: how their paths below the
/// kernel's folder of modules begin.
const MODULES: [&str; 28] = [
    "modules.",
    "kernel/arch/x86/crypto/crc32c",
    "kernel/block/",
    "kernel/crypto/",
    "kernel/drivers/block/nbd.",
    "kernel/drivers/block/virtio_blk.",
    "kernel/drivers/md/dm-",
    "kernel/drivers/md/persistent-data/",
    "kernel/drivers/net/net_failover.",
    "kernel/drivers/net/tun.",
    "kernel/drivers/net/veth.",
    "kernel/drivers/net/virtio_net.",
    "kernel/drivers/scsi/device_handler/",
    "kernel/drivers/scsi/iscsi_tcp.",
    "kernel/drivers/scsi/libiscsi",
    "kernel/drivers/scsi/scsi_",
    "kernel/drivers/scsi/sd_mod.",
    "kernel/drivers/target/",
    "kernel/drivers/virtio/",
    "kernel/fs/configfs/",
    "kernel/fs/ext4/",
    "kernel/fs/jbd2/",
    "kernel/fs/mbcache.",
    "kernel/fs/xfs/",
    "kernel/lib/",
    "kernel/net/core/",
    "kernel/net/ipv4/",
    "kernel/net/sched/",
];

/// What of the packages no guest looks at: how their paths begin.
const UNUSED: [&str; 5] = [
    "boot/",
    "usr/include/",
    "usr/lib/x86_64-linux-gnu/gconv/",
    "usr/lib/x86_64-linux-gnu/perl",
    "usr/share/",
];

/// The longest time to strip a program.
const STRIP_LIMIT: Duration = Duration::from_secs(120);

/// A kernel and its first file system, as `qemu` takes them.
#[derive(Debug, Clone)]
pub struct Image {
    pub(super) kernel: PathBuf,
    pub(super) file_system: PathBuf,
}

impl Image {
    /// This image with `program` as `/usr/local/bin/NAME`, written into `folder`. Where the machine has `strip`, the
    /// program comes without its symbols: a guest keeps all its files in memory.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn with_program(&self, program: &Path, name: &str, folder: &Path) -> Result<Image, Stop> {
        let content = match find("strip") {
            Ok(strip) => {
                let lean = folder.join(name);
                let mut command = Command::new(strip);
                command.arg("-o").arg(&lean).arg(program);
                run(&mut command, STRIP_LIMIT)?.success()?;
                let content = fs::read(&lean)?;
                fs::remove_file(&lean)?;
                content
            }
            Err(_) => fs::read(program)?,
        };
        let image = self.with_files(folder, |archive| {
            archive.folder("usr/local")?;
            archive.folder("usr/local/bin")?;
            archive.file(&format!("usr/local/bin/{name}"), 0o755, &content)
        });
        Ok(image?)
    }

    /// This image with the files that `add` adds, written into `folder`.
    ///
    /// # Errors
    /// If one cannot be read or written.
    pub fn with_files(
        &self,
        folder: &Path,
        add: impl FnOnce(&mut Archive<BufWriter<File>>) -> io::Result<()>,
    ) -> io::Result<Image> {
        let file_system = folder.join("initramfs");
        if self.file_system != file_system {
            fs::copy(&self.file_system, &file_system)?;
        }
        // The kernel unpacks one archive after the other.
        let more = File::options().append(true).open(&file_system)?;
        let mut archive = Archive::new(BufWriter::new(more));
        add(&mut archive)?;
        archive.finish()?;
        Ok(Image {
            kernel: self.kernel.clone(),
            file_system,
        })
    }
}

/// The image of all guests of this process, which is made once, by the first who asks, of packages that are kept below
/// the folder `cache`.
///
/// # Errors
/// [`Stop::NotRun`] without qemu or Debian's package tools.
pub fn image(cache: &Path) -> Result<Image, Stop> {
    static IMAGE: Mutex<Option<Image>> = Mutex::new(None);
    // A thread that failed has left nothing in it.
    let mut image = IMAGE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*image {
        Some(image) => Ok(image.clone()),
        None => Ok(image.insert(make(&cache.join("kernels"))?).clone()),
    }
}

fn make(cache: &Path) -> Result<Image, Stop> {
    // Without it, there is no use in fetching packages.
    find(super::QEMU)?;
    let packages = packages::unpacked(cache)?;
    let kernel = packages
        .iter()
        .filter_map(|package| fs::read_dir(package.join("boot")).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().contains("/boot/vmlinuz-"))
        .ok_or_else(|| Stop::Failed("no package has a kernel".to_owned()))?;
    let file_system = cache.join("initramfs");
    // Another process may be booting from the one before.
    let begun = cache.join(format!("initramfs.{}", std::process::id()));
    pack(&packages, &begun)?;
    fs::rename(&begun, &file_system)?;
    Ok(Image {
        kernel,
        file_system,
    })
}

/// Packs what guests use of `packages`, and their first process, into the archive `to`.
fn pack(packages: &[PathBuf], to: &Path) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(to)?));
    // Every package's /bin, /sbin and /lib are those below /usr, whatever its release says.
    let mut packed: BTreeSet<String> = ["usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"]
        .map(str::to_owned)
        .into();
    for name in &packed {
        archive.folder(name)?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive.link(name, &format!("usr/{name}"))?;
    }
    for package in packages {
        add(&mut archive, &mut packed, package, package)?;
    }
    archive.file("init", 0o755, INIT.as_bytes())?;
    archive.file("commands", 0o755, COMMANDS.as_bytes())?;
    archive.finish()
}

/// Adds what guests use of `folder` in the unpacked `package`, each name once.
fn add(
    archive: &mut Archive<BufWriter<File>>,
    packed: &mut BTreeSet<String>,
    package: &Path,
    folder: &Path,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let below = path.strip_prefix(package).map_err(io::Error::other)?;
        let name = name_in_guest(&below.to_string_lossy());
        let metadata = path.symlink_metadata()?;
        if metadata.is_dir() {
            if is_used(&format!("{name}/")) {
                if packed.insert(name.clone()) {
                    archive.folder(&name)?;
                }
                add(archive, packed, package, &path)?;
            }
        } else if is_used(&name) && packed.insert(name.clone()) {
            if metadata.is_symlink() {
                archive.link(&name, &fs::read_link(&path)?.to_string_lossy())?;
            } else {
                archive.file(&name, metadata.permissions().mode(), &fs::read(&path)?)?;
            }
        }
    }
    Ok(())
}

/// The name of a package's file once `/bin`, `/sbin` and `/lib` are those below `/usr`.
fn name_in_guest(name: &str) -> String {
    let first = name.split('/').next().unwrap_or_default();
    match first {
        "bin" | "sbin" | "lib" | "lib64" => format!("usr/{name}"),
        _ => name.to_owned(),
    }
}

/// Whether guests use the file `name`, or anything below a folder whose name ends with `/`.
fn is_used(name: &str) -> bool {
    if UNUSED.iter().any(|unused| name.starts_with(unused)) {
        return false;
    }
    // The kernel's modules: usr/lib/modules/VERSION/...
    match name
        .strip_prefix("usr/lib/modules/")
        .and_then(|name| name.split_once('/'))
    {
        Some((_, module)) => MODULES.iter().any(|used| {
            module.starts_with(used)
                || (module.is_empty() || module.ends_with('/')) && used.starts_with(module)
        }),
        None => true,
    }
}
