//! Three hosts with servers of ssh, and a lab's computer, in namespaces with a path between each two of them.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use wansan_lab::emulator::{Config, Direction, Emulator, Route};
use wansan_lab::world::{Interface, Node, Process, TcpSettings, Topology, World};
use wansan_path::Effects;
use wansan_peers::program::find;
use wansan_trace::{Kinds, Recorder};

/// Longer than any machine takes for what these tests do.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// How soon what a lab has left must be gone.
const SOON: Duration = Duration::from_secs(20);
pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// One way between any two of them.
pub(crate) const DELAY: Duration = Duration::from_millis(4);
/// The hosts, and the lab's computer.
const NODES: [&str; 4] = ["storage", "client", "edge", "lab"];

/// It. The programs of the hosts end with it.
pub(crate) struct Stage {
    // Before the world, whose threads they are children of.
    servers: Vec<Process>,
    _emulator: Emulator,
    world: World,
    scratch: TempDir,
}

impl Stage {
    /// Builds it, with a server on each host.
    pub(crate) fn build() -> Result<Stage, String> {
        let tcp = TcpSettings {
            congestion_control: "cubic".to_owned(),
            rmem_bytes: [4_096, 131_072, 16 << 20],
            wmem_bytes: [4_096, 16_384, 16 << 20],
            ecn: false,
        };
        let world = World::build(&Topology::flat(&NODES, &tcp, 1500)).map_err(text)?;
        let emulator = emulate(&world)?;
        let scratch = tempfile::tempdir().map_err(text)?;
        let mut stage = Stage {
            servers: Vec::new(),
            _emulator: emulator,
            world,
            scratch,
        };
        stage.keys()?;
        for host in &NODES[..3] {
            let server = stage.serve(host, "", 22, "")?;
            stage.servers.push(server);
        }
        stage.configure()?;
        Ok(stage)
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        self.world.node(name).expect("one of the nodes")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn keys(&self) -> Result<(), String> {
        for key in ["host", "user", "stranger"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            let made = keygen.arg(self.path(key)).status().map_err(text)?;
            check(made.success(), || {
                format!("ssh-keygen makes no key: {made}")
            })?;
        }
        fs::copy(self.path("user.pub"), self.path("authorized")).map_err(text)?;
        let key = fs::read_to_string(self.path("host.pub")).map_err(text)?;
        fs::write(self.path("known"), format!("* {key}")).map_err(text)
    }

    /// Serves ssh on a host and a port, until it is dropped. Each server has a folder for temporary files of its own;
    /// `before` is run in its mount namespace, and may begin a command that starts it.
    pub(crate) fn serve(
        &self,
        host: &str,
        environment: &str,
        port: u16,
        before: &str,
    ) -> Result<Process, String> {
        let temporary = self.temporary(host, port);
        fs::create_dir(&temporary).map_err(text)?;
        let file = self.path(&format!("sshd-{host}-{port}"));
        let scratch = self.scratch.path().display();
        let text_of_it = format!(
            "Port {port}\nListenAddress {address}\nHostKey {scratch}/host\nPidFile none\nUsePAM no\n\
             AuthorizedKeysFile {scratch}/authorized\nStrictModes no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv TMPDIR={temporary} {environment}\n",
            address = self.node(host).address(),
            temporary = temporary.display(),
        );
        fs::write(&file, text_of_it).map_err(text)?;
        let sshd = find("sshd").map_err(text)?;
        let mut server = Command::new("unshare");
        // All that it starts ends with it.
        server.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]);
        // Where it drops its rights to has to be there.
        server.args(["sh", "-c"]).arg(format!(
            "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && {before} {} -D -e -f {}",
            sshd.display(),
            file.display()
        ));
        let title = format!("sshd on {host}");
        let mut server = self.node(host).start(&title, server).map_err(text)?;
        let address = format!("{}:{port}", self.node(host).address());
        let deadline = Instant::now() + LONG;
        loop {
            let address = address.clone();
            let reached = self
                .node(host)
                .namespace()
                .run(move || std::net::TcpStream::connect(address));
            if reached.is_ok() {
                return Ok(server);
            }
            let running = server.is_running().map_err(text)?;
            if !running {
                server.succeed(LONG).map_err(text)?;
                return Err(format!("{title} has ended"));
            }
            check(Instant::now() < deadline, || {
                format!("{title} does not listen")
            })?;
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where a server's users have their temporary files.
    pub(crate) fn temporary(&self, host: &str, port: u16) -> PathBuf {
        self.path(&format!("tmp-{host}-{port}"))
    }

    /// The configuration of the lab's ssh. It reaches `edge` by `storage`.
    fn configure(&self) -> Result<(), String> {
        let scratch = self.scratch.path().display();
        let mut config = String::new();
        for host in &NODES[..3] {
            config += &format!("Host {host}\n  HostName {}\n", self.node(host).address());
        }
        config += &format!(
            "Host edge\n  ProxyJump storage\n\
             Host *\n  User root\n  IdentityFile {scratch}/user\n  IdentitiesOnly yes\n\
             UserKnownHostsFile {scratch}/known\n  GlobalKnownHostsFile /dev/null\n"
        );
        fs::write(self.path("ssh_config"), config).map_err(text)
    }

    /// A plan's hosts, each with what ssh calls it.
    pub(crate) fn hosts(&self, named: &[(&str, &str)]) -> String {
        let hosts = named.iter().map(|(host, ssh)| {
            let address = self.node(host).address();
            format!("[[host]]\nname = \"{host}\"\nssh = \"{ssh}\"\naddress = \"{address}\"\n")
        });
        hosts.collect()
    }

    /// A plan with one initiator, which is loaded for so long; `more` stands at its end.
    pub(crate) fn plan(&self, ssh: &str, time: &str, more: &str) -> Result<PathBuf, String> {
        let hosts = self.hosts(&[("storage", ssh), ("client", "client")]);
        self.write(&format!(
            "title = \"Trial\"\n{hosts}\
             [world]\nkind = \"hosts\"\n\
             [[path]]\nname = \"lan\"\nbetween = [\"client\", \"storage\"]\n\
             [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n\
             [[initiator]]\nhost = \"client\"\n\
             [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"{time}\"\nwarmup = \"200ms\"\n{more}"
        ))
    }

    pub(crate) fn write(&self, plan: &str) -> Result<PathBuf, String> {
        let file = self.path("trial.toml");
        fs::write(&file, plan).map_err(text)?;
        Ok(file)
    }

    /// A lab that runs a plan.
    pub(crate) fn lab(&self, plan: &Path, arguments: &[&str]) -> Result<Process, String> {
        let mut lab = Command::new(WANSAN);
        lab.args(["lab", "run"])
            .arg(plan)
            .arg("--out")
            .arg(self.path("runs"));
        lab.arg("--ssh-config")
            .arg(self.path("ssh_config"))
            .args(arguments);
        self.node("lab").start("the lab", lab).map_err(text)
    }

    /// Runs a plan to its end, well; the folder of the run.
    pub(crate) fn run(&self, plan: &Path, arguments: &[&str]) -> Result<PathBuf, String> {
        self.lab(plan, arguments)?.succeed(LONG).map_err(text)?;
        let runs = self.path("runs/trial");
        let entries = fs::read_dir(runs).map_err(text)?;
        let newest = entries.flatten().map(|entry| entry.path()).max();
        newest.ok_or_else(|| "there is no run".to_owned())
    }

    /// Why a plan is not run: its exit status and the only line of standard error that says it.
    pub(crate) fn refusal(&self, plan: &Path, arguments: &[&str]) -> Result<String, String> {
        let ended = self.lab(plan, arguments)?.end(LONG).map_err(text)?;
        let said: Vec<&str> = ended
            .stderr
            .lines()
            .filter(|it| it.starts_with("wansan:"))
            .collect();
        match (ended.status.code(), &said[..]) {
            (Some(2), [line]) => Ok((*line).to_owned()),
            other => Err(format!("{other:?}: {}", ended.stderr)),
        }
    }

    /// The agents and programs that run on hosts, or are being copied there.
    pub(crate) fn left_running(&self) -> Vec<String> {
        let temporary = self.path("tmp-");
        let temporary = temporary.to_string_lossy();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let commands = processes.filter_map(|process| {
            let command = fs::read(process.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let is_left = command.contains(&*temporary) || command.contains("sh -c umask 077");
            is_left.then(|| format!("{}: {command}", process.file_name().to_string_lossy()))
        });
        commands.collect()
    }

    /// What is in the folders for temporary files of all servers.
    fn left_behind(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.scratch.path())
            .into_iter()
            .flatten()
            .flatten();
        let temporary = all.filter(|it| it.file_name().to_string_lossy().starts_with("tmp-"));
        let within =
            temporary.flat_map(|it| fs::read_dir(it.path()).into_iter().flatten().flatten());
        within.map(|it| it.path()).collect()
    }

    /// Waits until nothing is left on the hosts.
    pub(crate) fn is_clean(&self) -> Result<(), String> {
        let deadline = Instant::now() + SOON;
        loop {
            let (running, behind) = (self.left_running(), self.left_behind());
            if running.is_empty() && behind.is_empty() {
                return Ok(());
            }
            check(Instant::now() < deadline, || {
                format!("left on the hosts: {running:?}, {behind:?}")
            })?;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A path with the same delay each way between any two nodes.
fn emulate(world: &World) -> Result<Emulator, String> {
    let interfaces = world.nodes().iter().flat_map(Node::interfaces);
    let nodes = 0..world.nodes().len();
    let effects = Effects {
        delay: DELAY,
        ..Effects::default()
    };
    let mut directions = Vec::new();
    let mut routes = Vec::new();
    for (from, to) in nodes
        .clone()
        .flat_map(|from| nodes.clone().map(move |to| (from, to)))
    {
        if from == to {
            continue;
        }
        let chain = effects.chain(1).map_err(text)?;
        routes.push(Route {
            from,
            to,
            direction: directions.len(),
        });
        directions.push(Direction::new(format!("{from}-{to}"), chain));
    }
    let config = Config {
        ports: interfaces.filter_map(Interface::port).collect(),
        directions,
        routes,
        mtu_bytes: 1500,
        sample_interval: Duration::from_millis(100),
        recorder: Recorder::new(Kinds::NONE, 0),
    };
    Emulator::start(world.wan().handle(), config).map_err(text)
}

/// A file of a run, as JSON.
pub(crate) fn json(file: &Path) -> Result<Value, String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_slice(&bytes).map_err(text)
}

pub(crate) fn text(error: impl Display) -> String {
    error.to_string()
}

pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
