//! Debian's packages, fetched and unpacked into a folder of ours: nothing is installed, and nothing
//! needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{Finished, run};
use crate::program::find;
use crate::trial::Stop;

/// What guests need; whatever these depend on comes along.
const WANTED: [&str; 11] = [
    "linux-image-amd64",
    "busybox-static",
    "kmod",
    "udev",
    "e2fsprogs",
    "iproute2",
    "open-iscsi",
    "multipath-tools",
    "procps",
    "systemd",
    "xfsprogs",
];

/// Packages that only installing, or programs that no test starts, would need, by the beginning of
/// their names.
const UNUSED: [&str; 6] = [
    "perl",
    "libperl",
    "libicu",
    "debconf",
    "dpkg_",
    "initramfs-tools",
];

/// What fetching about 100 MiB may take.
const FETCH_LIMIT: Duration = Duration::from_secs(1200);

/// The unpacked packages, each in a folder of its own that is named for its version and kept below
/// `cache`.
///
/// # Errors
/// [`Stop::NotRun`] without Debian's package tools; else what they printed.
pub(super) fn unpacked(cache: &Path) -> Result<Vec<PathBuf>, Stop> {
    let apt = Apt::new(cache)?;
    let files = match apt.files() {
        Ok(files) => files,
        // There are no lists of packages yet.
        Err(_) => {
            apt.run(&["update"])?;
            apt.files()?
        }
    };
    let folder = cache.join("packages");
    fs::create_dir_all(&folder)?;
    if files.iter().all(|file| folder.join(file).exists()) {
        return Ok(files.iter().map(|file| folder.join(file)).collect());
    }
    eprintln!("fetching Debian's kernel and packages for virtual machines, about 100 MiB, once");
    let files = match apt.download() {
        Ok(()) => files,
        // The lists are so old that they name versions that have gone.
        Err(_) => {
            apt.run(&["update"])?;
            apt.download()?;
            apt.files()?
        }
    };
    let unpacked = files
        .iter()
        .map(|file| unpack(&apt.archives.join(file), &folder.join(file)))
        .collect::<Result<_, _>>()?;
    fs::remove_dir_all(&apt.archives)?;
    Ok(unpacked)
}

/// Unpacks `file` into `folder`, which is there only when all of it is.
fn unpack(file: &Path, folder: &Path) -> Result<PathBuf, Stop> {
    if !folder.exists() {
        let begun = folder.with_extension("begun");
        if begun.exists() {
            fs::remove_dir_all(&begun)?;
        }
        fs::create_dir(&begun)?;
        let mut unpack = Command::new(find("dpkg-deb")?);
        run(unpack.arg("-x").arg(file).arg(&begun), FETCH_LIMIT)?.success()?;
        fs::rename(&begun, folder)?;
    }
    Ok(folder.to_owned())
}

/// `apt-get` with lists, archives and a record of installed packages of our own: the last one is
/// empty, so that everything counts as missing.
struct Apt {
    program: PathBuf,
    state: PathBuf,
    archives: PathBuf,
}

impl Apt {
    fn new(cache: &Path) -> Result<Self, Stop> {
        let apt = Self {
            program: find("apt-get")?,
            state: cache.join("apt"),
            archives: cache.join("archives"),
        };
        fs::create_dir_all(apt.state.join("lists/partial"))?;
        fs::create_dir_all(apt.archives.join("partial"))?;
        fs::write(apt.state.join("status"), "")?;
        Ok(apt)
    }

    fn run(&self, arguments: &[&str]) -> Result<Finished, Stop> {
        let state = self.state.display();
        let mut command = Command::new(&self.program);
        command.arg("-qq").arg("-y");
        for option in [
            format!("Dir::State={state}"),
            format!("Dir::State::status={state}/status"),
            format!("Dir::Cache={state}"),
            format!("Dir::Cache::archives={}", self.archives.display()),
            // Root would otherwise drop to a user that may not reach our folder.
            "APT::Sandbox::User=root".to_owned(),
            "APT::Architecture=amd64".to_owned(),
            "Acquire::Retries=3".to_owned(),
            // Else `update` succeeds where nothing can be fetched.
            "APT::Update::Error-Mode=any".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        let finished = run(command.args(arguments), FETCH_LIMIT)?;
        if finished.status.success() {
            return Ok(finished);
        }
        let mut errors = finished
            .stderr
            .lines()
            .filter(|line| line.starts_with("E: "));
        let last = errors.next_back().unwrap_or("E: no reason given");
        Err(Stop::Failed(format!(
            "cannot fetch Debian's kernel: apt-get {}: {}; check this machine's network and /etc/apt/sources.list",
            arguments[0],
            last[3..].trim_end_matches('.')
        )))
    }

    fn install(&self, how: &str) -> Result<Finished, Stop> {
        let install = ["install", "--no-install-recommends", how];
        self.run(&[&install[..], &WANTED].concat())
    }

    fn download(&self) -> Result<(), Stop> {
        self.install("--download-only").map(drop)
    }

    /// The names of all package files that guests use: `NAME_VERSION_ARCHITECTURE.deb`.
    fn files(&self) -> Result<Vec<String>, Stop> {
        let plan = self.install("--simulate")?;
        let files: Vec<String> = plan.stdout.lines().filter_map(file_of).collect();
        let used = |file: &String| !UNUSED.iter().any(|unused| file.starts_with(unused));
        Ok(files.into_iter().filter(used).collect())
    }
}

/// The file of a package that `apt-get --simulate` would install:
/// `Inst NAME (VERSION ARCHIVE, ARCHIVE [ARCHITECTURE]) ...`.
fn file_of(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
    let (version, rest) = rest.split_once(' ')?;
    let (_, architecture) = rest.split_once('[')?;
    let (architecture, _) = architecture.split_once(']')?;
    // A file's name has the colon after an epoch escaped.
    let version = version.replace(':', "%3a");
    Some(format!("{name}_{version}_{architecture}.deb"))
}
