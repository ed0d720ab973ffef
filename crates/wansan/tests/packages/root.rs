//! A clean Debian, in a folder.

use std::collections::BTreeSet;
use std::fs::{read_to_string, write};
use std::path::Path;
use std::process::Command;

use rustix::process::getuid;
use tempfile::TempDir;
use wansan_peers::process::{Finished, run};
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require};

use crate::LIMIT;

/// Runs a script, then ends all.
const UNIT: &str = "[Unit]
After=sysinit.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/sh /script
ExecStart=/bin/touch /done
StandardOutput=file:/told
StandardError=inherit
";

/// A clean Debian of the release that this machine has, for which the package was built. It goes with the test.
pub(crate) struct Root {
    folder: TempDir,
}

impl Root {
    /// Makes it, with these packages besides the least that there is.
    pub(crate) fn make(packages: &[&str]) -> Result<Self, Stop> {
        if !getuid().is_root() {
            return Err(Stop::NotRun("only root installs packages".to_owned()));
        }
        let mmdebstrap = find("mmdebstrap")?;
        let release = read_to_string("/etc/os-release")?;
        let release = release
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
            .ok_or_else(|| Stop::NotRun("this is no release of Debian".to_owned()))?;
        let folder = TempDir::with_prefix("wansan-test-")?;
        run(
            Command::new(mmdebstrap)
                // With the lists of packages, for what ours depends on.
                .args(["--quiet", "--variant=minbase", "--skip=cleanup/apt"])
                .args((!packages.is_empty()).then(|| format!("--include={}", packages.join(","))))
                .arg(release)
                .arg(folder.path()),
            LIMIT,
        )?
        .success()?;
        Ok(Self { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script of the shell in it, as root. Its processes and mounts end with it; a script that is not to reach
    /// out has a network of its own.
    pub(crate) fn run(&self, own_network: bool, script: &str) -> Result<Finished, Stop> {
        let (net, up) = match own_network {
            true => (&["--net"][..], "ip link set lo up"),
            false => (&[][..], ":"),
        };
        let enter = format!(
            "{up}; mount -t proc proc \"$1/proc\"; mount -t sysfs sysfs \"$1/sys\"; exec chroot \"$1\" sh -c \"$2\""
        );
        let done = run(
            Command::new(find("unshare")?)
                .args(["--mount", "--pid", "--ipc", "--fork", "--kill-child"])
                .args(net)
                .args(["sh", "-euc", &enter, "sh"])
                .arg(self.path())
                .arg(script)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .env("LC_ALL", "C.UTF-8"),
            LIMIT,
        )?;
        Ok(done.success()?)
    }

    /// Boots it, in namespaces of its own without a way out, has systemd run a script of the shell as a unit, and fails
    /// unless that ends well.
    pub(crate) fn boot(&self, script: &str) -> Result<(), Stop> {
        let units = self.path().join("etc/systemd/system");
        write(units.join("script.service"), UNIT)?;
        write(self.path().join("script"), script)?;
        let booted = run(
            Command::new(find("systemd-nspawn")?)
                // Beside what systemd may do on the machine itself.
                .args(["--register=no", "--keep-unit", "--private-network"])
                // A machine of its own has all that services are granted.
                .args(["--capability=all", "--system-call-filter=bpf"])
                .args(["--quiet", "--boot", "--directory"])
                .arg(self.path())
                .arg("systemd.unit=script.service"),
            LIMIT,
        )?;
        let told = read_to_string(self.path().join("told"))
            .map_err(|_| Stop::Failed(format!("it did not boot: {}", booted.output())))?;
        require(self.path().join("done").exists(), || told)
    }

    /// Everything in it but what the kernel shows there, what packages leave in logs and caches, the lists of
    /// packages themselves, and the last versions of the lists of users (such as `/etc/passwd-`).
    pub(crate) fn files(&self) -> Result<BTreeSet<String>, Stop> {
        let mut command = Command::new(find("find")?);
        command.arg(self.path()).args(["-mindepth", "1", "("]);
        for folder in [
            "dev",
            "proc",
            "run",
            "sys",
            "tmp",
            "var/cache",
            "var/lib/apt",
            "var/lib/dpkg",
            "var/log",
        ] {
            command.arg("-path").arg(self.path().join(folder)).arg("-o");
        }
        command.args(["-false", ")", "-prune", "-o", "-printf", "%P\n"]);
        let listed = run(&mut command, LIMIT)?.success()?;
        let is_last = |name: &&str| name.starts_with("etc/") && name.ends_with('-');
        let names = listed.stdout.lines().filter(|name| !is_last(name));
        Ok(names.map(str::to_owned).collect())
    }

    /// Whether the package's user, or its group, is there.
    pub(crate) fn has_user(&self) -> Result<bool, Stop> {
        let mut lines = String::new();
        for list in ["etc/passwd", "etc/group"] {
            lines += &read_to_string(self.path().join(list))?;
        }
        Ok(lines.lines().any(|line| line.starts_with("wansan:")))
    }
}
