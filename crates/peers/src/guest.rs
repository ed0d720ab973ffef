//! A virtual machine with Debian's kernel, which carries out commands: `qemu-system-x86_64`, by software where the
//! machine does not offer KVM.

mod cpio;
mod image;
mod packages;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Running;
use crate::program::find;
use crate::trial::Stop;
pub use cpio::Archive;
pub use image::{Image, image};

/// The computer outside, as its guests see it.
pub const OUTSIDE: &str = "10.0.2.2";

/// What runs guests.
const QEMU: &str = "qemu-system-x86_64";
/// Booting takes 2 seconds with KVM, and 10 without on an idle machine.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// What a kernel that KVM runs may take to boot before KVM counts as not working: some virtual
/// machines have the device, and guests that never come up.
const KVM_BOOT_LIMIT: Duration = Duration::from_secs(20);
/// What one command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);
/// More than any comparison needs, and no more than qemu has.
const MOST_PROCESSORS: usize = 16;
/// Lines of its console that are shown when something fails: a kernel's oops with all registers.
const LAST_WORDS: usize = 60;

/// A running guest. It ends when dropped.
pub struct Guest {
    // Ends before its folder goes: fields drop in order.
    _process: Running,
    commands: ChildStdin,
    lines: Receiver<String>,
    folder: TempDir,
}

impl Guest {
    /// Boots a guest of `image` with one processor, and with `drives` as `/dev/vda`, `/dev/vdb` and so on. Each of
    /// `ports` gives an address of this computer, and the port of the guest that it leads to.
    ///
    /// # Errors
    /// [`Stop::NotRun`] when the machine lacks a program that this needs.
    pub fn boot(
        image: &Image,
        drives: &[&Path],
        ports: &[(SocketAddr, u16)],
    ) -> Result<Self, Stop> {
        // Nothing has to outlive this computer.
        let drives = drives.iter().map(|drive| {
            let file = drive.to_string_lossy();
            format!("if=virtio,format=raw,cache=unsafe,file={file}")
        });
        let options: Vec<String> = drives
            .flat_map(|drive| ["-drive".to_owned(), drive])
            .collect();
        Self::boot_with(image, &options, ports)
    }

    /// Boots a guest of `image` with as many processors as this computer has for it, at most 16.
    ///
    /// # Errors
    /// [`Stop::NotRun`] when the machine lacks a program that this needs.
    pub fn boot_with_all_processors(image: &Image) -> Result<Self, Stop> {
        let processors = available_parallelism().map_or(1, usize::from);
        let processors = processors.min(MOST_PROCESSORS);
        Self::boot_with(image, &["-smp".to_owned(), processors.to_string()], &[])
    }

    fn boot_with(
        image: &Image,
        options: &[String],
        ports: &[(SocketAddr, u16)],
    ) -> Result<Self, Stop> {
        /// Whether KVM works here; one guest finds out.
        static KVM: OnceLock<bool> = OnceLock::new();
        let start = |accelerator| {
            let options = options.iter().map(String::as_str);
            let how: Vec<&str> = ["-accel", accelerator].into_iter().chain(options).collect();
            Self::start(image, &how, ports)
        };
        let with_kvm = || start("kvm").and_then(|guest| guest.up(KVM_BOOT_LIMIT));
        let mut first = None;
        let kvm = *KVM.get_or_init(|| {
            first = File::options()
                .read(true)
                .write(true)
                .open("/dev/kvm")
                .ok()
                .and_then(|_| with_kvm().ok());
            first.is_some()
        });
        match first {
            Some(guest) => Ok(guest),
            None if kvm => with_kvm(),
            None => start("tcg")?.up(BOOT_LIMIT),
        }
    }

    /// Boots a guest of `image` by software whose clock counts what it carries out, a nanosecond for
    /// each instruction, and leaps over the time for which it has nothing to do. So its times are the
    /// same however busy this computer is. It has no use for the computer outside, which has another
    /// time.
    ///
    /// # Errors
    /// [`Stop::NotRun`] when the machine lacks a program that this needs.
    pub fn boot_on_own_time(image: &Image) -> Result<Self, Stop> {
        let by_instructions = ["-accel", "tcg", "-icount", "shift=0,sleep=off"];
        Self::start(image, &by_instructions, &[])?.up(BOOT_LIMIT)
    }

    fn start(image: &Image, how: &[&str], ports: &[(SocketAddr, u16)]) -> Result<Self, Stop> {
        let qemu = find(QEMU)?;
        let folder = TempDir::with_prefix("wansan-guest-")?;
        let forwards: String = ports
            .iter()
            .map(|(outside, port)| format!(",hostfwd=tcp:{outside}-:{port}"))
            .collect();
        // Without this, a test that is killed leaves its guest running.
        let mut command = Command::new(find("setpriv")?);
        command
            .args(["--pdeathsig", "KILL"])
            .arg(qemu)
            .args(how)
            .args(["-cpu", "max", "-m", "1024"])
            .args([
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-no-reboot",
            ])
            .arg("-kernel")
            .arg(&image.kernel)
            .arg("-initrd")
            .arg(&image.file_system)
            .args(["-append", "console=ttyS0 panic=-1"])
            .args(["-nic", &format!("user,model=virtio-net-pci{forwards}")])
            .args([
                "-serial",
                &format!("file:{}", console(folder.path()).display()),
            ])
            .args(["-serial", "stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("qemu"))?);
        let mut process = Running::start(&mut command)?;
        let commands = process.take_stdin().expect("the command was given a pipe");
        let stdout = process.take_stdout().expect("the command was given a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // Ends with the guest, or when nobody listens any more.
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            _process: process,
            commands,
            lines,
            folder,
        })
    }

    /// This guest, once it takes commands.
    fn up(self, limit: Duration) -> Result<Self, Stop> {
        let until = Instant::now() + limit;
        let mut printed = String::new();
        while let Some(line) = self.line("boot", until, &printed)? {
            if line == "ready" {
                return Ok(self);
            }
            printed.push_str(&line);
            printed.push('\n');
        }
        Err(self.failure("boot", "qemu ended", &printed))
    }

    /// Carries out one line of shell, and returns what it printed.
    ///
    /// # Errors
    /// When it does not exit with status 0, or takes longer than [`COMMAND_LIMIT`].
    pub fn run(&mut self, command: &str) -> Result<String, Stop> {
        writeln!(self.commands, "{command}")?;
        let until = Instant::now() + COMMAND_LIMIT;
        let mut printed = String::new();
        while let Some(line) = self.line(command, until, &printed)? {
            match line.strip_prefix("done ") {
                Some("0") => return Ok(printed),
                Some(status) => {
                    return Err(self.failure(command, &format!("status {status}"), &printed));
                }
                None => {
                    printed.push_str(&line);
                    printed.push('\n');
                }
            }
        }
        Err(self.failure(command, "the guest ended", &printed))
    }

    /// The next line that the guest prints; `None` after its end.
    fn line(&self, command: &str, until: Instant, printed: &str) -> Result<Option<String>, Stop> {
        match self
            .lines
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.failure(command, "not done in time", printed))
            }
        }
    }

    /// A failure that came while this guest was the other end, with what its kernel printed last.
    #[must_use]
    pub fn beside(&self, stop: Stop) -> Stop {
        match stop {
            Stop::Failed(what) => Stop::Failed(format!("{what}\n{}", self.last_words())),
            other => other,
        }
    }

    fn failure(&self, command: &str, what: &str, printed: &str) -> Stop {
        let words = self.last_words();
        Stop::Failed(format!(
            "guest: {command}: {what}; it printed:\n{printed}{words}"
        ))
    }

    fn last_words(&self) -> String {
        let read = |name: &Path| std::fs::read_to_string(name).unwrap_or_default();
        let console = read(&console(self.folder.path()));
        let lines: Vec<&str> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n");
        let qemu = read(&self.folder.path().join("qemu"));
        format!("the guest's kernel at the end:\n{last}\n{qemu}")
    }
}

/// What the kernel prints.
fn console(folder: &Path) -> PathBuf {
    folder.join("console")
}
