//! `wansan target --config`: several targets from a file, which SIGHUP has it read again.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::process::Finished;
use wansan_peers::session::log_in;
use wansan_peers::wansan::command;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);
const A: &str = "iqn.2026-01.net.example:a";
const B: &str = "iqn.2026-01.net.example:b";
const C: &str = "iqn.2026-01.net.example:c";

/// A target that is started from a file; it ends when dropped.
struct Server {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
    portals: Vec<String>,
    metrics: String,
    file: PathBuf,
    _folder: TempDir,
}

fn text(targets: &str) -> String {
    format!("listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]\n{targets}")
}

fn target(name: &str, more: &str) -> String {
    format!("[[target]]\nname = \"{name}\"\n[[target.lun]]\nstore = \"memory:16MiB\"\n{more}\n")
}

impl Server {
    fn start(targets: &str) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("target.toml");
        std::fs::write(&file, text(targets)).unwrap();
        let mut child = Command::new(WANSAN)
            .args(["target", "--json", "--metrics", "127.0.0.1:0", "--config"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let line: Value = serde_json::from_str(&stdout.next().unwrap().unwrap()).unwrap();
        let portals = line["addresses"].as_array().unwrap();
        let portals = portals.iter().map(|p| p.as_str().unwrap().to_owned());
        Server {
            portals: portals.collect(),
            metrics: line["metrics"].as_str().unwrap().to_owned(),
            child,
            stdout,
            stderr,
            file,
            _folder: folder,
        }
    }

    fn write_and_hang_up(&self, content: &str) {
        std::fs::write(&self.file, content).unwrap();
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
    }

    /// What it says of a new file that it has taken on.
    fn reloads(&mut self, targets: &str) -> Value {
        self.write_and_hang_up(&text(targets));
        serde_json::from_str(&self.stdout.next().unwrap().unwrap()).unwrap()
    }

    /// What it says of a new file that it has not taken on.
    fn refuses(&mut self, content: &str) -> String {
        self.write_and_hang_up(content);
        let said = self
            .stderr
            .find(|line| line.as_ref().unwrap().contains("not reloaded"));
        said.unwrap().unwrap()
    }

    fn url(&self, name: &str, lun: u16) -> String {
        format!("iscsi://{}/{name}/{lun}", self.portals[0])
    }

    fn bench(&self, name: &str, lun: u16, arguments: &[&str]) -> Finished {
        let url = self.url(name, lun);
        let arguments = [&["bench", url.as_str(), "--count", "20"][..], arguments].concat();
        command(Path::new(WANSAN), &arguments, LIMIT).unwrap()
    }

    /// How many sessions `name` has.
    fn sessions(&self, name: &str) -> usize {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let of_target = format!("target=\"{name}\"");
        let sessions = answer.lines().filter(|line| {
            line.starts_with("wansan_session_connections{") && line.contains(&of_target)
        });
        sessions.count()
    }

    /// Waits until `name` has so many sessions.
    fn wait_for_sessions(&self, name: &str, count: usize) {
        let began = Instant::now();
        while self.sessions(name) != count {
            assert!(began.elapsed() < LIMIT, "{name} has other sessions");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// `wansan initiator-check` with so many connections and error recovery level 2.
    fn check(&self, name: &str, connections: &str) -> Finished {
        let url = self.url(name, 0);
        let wants = ["--connections", connections, "--error-recovery-level", "2"];
        let arguments = [&["initiator-check", url.as_str(), "--json"][..], &wants].concat();
        command(Path::new(WANSAN), &arguments, LIMIT).unwrap()
    }

    /// What is in force for a key after that.
    fn negotiated(&self, name: &str, connections: &str) -> impl Fn(&str) -> Value {
        let finished = self.check(name, connections);
        assert!(finished.status.success(), "{}", finished.output());
        let checked: Value = serde_json::from_str(&finished.stdout).unwrap();
        move |key| {
            let mut keys = checked["keys"].as_array().unwrap().iter();
            let row = keys.find(|row| row["key"] == key);
            row.unwrap_or_else(|| panic!("no {key} in {checked}"))["in_force"].clone()
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn several_targets_with_settings_of_their_own() {
    let more = "[[target.lun]]\nnumber = 7\nstore = \"memory:32MiB\"\n\
                [target.negotiation]\nheader_digest = \"always\"\nmax_burst = \"64KiB\"\n\
                first_burst = \"64KiB\"";
    let access = "[target.access]\ninitiators = [\"iqn.2026-01.net.example:*\"]\n\
                  networks = [\"127.0.0.0/8\"]";
    let server = Server::start(&(target(A, more) + &target(B, access)));
    assert_eq!(server.portals.len(), 2);
    for lun in [0, 7] {
        let finished = server.bench(A, lun, &[]);
        assert!(finished.status.success(), "{}", finished.output());
    }
    let never = server.bench(A, 0, &["--header-digest", "never"]);
    assert!(!never.status.success());
    // The name that the load generator has is not one of B's.
    let refused = server.bench(B, 0, &[]);
    assert!(
        refused
            .output()
            .contains("is not allowed to use the target"),
        "{}",
        refused.output()
    );
    let own_name = ["--initiator-name", "iqn.2026-01.net.example:host"];
    let allowed = server.bench(B, 0, &own_name);
    assert!(allowed.status.success(), "{}", allowed.output());
    // Whoever asks for a target that is not there hears of those that he may use.
    let missing = server.bench(C, 0, &[]);
    assert!(
        missing
            .output()
            .contains(&format!("its only target is {A}")),
        "{}",
        missing.output()
    );
    let missing = server.bench(C, 0, &own_name);
    assert!(
        missing.output().contains("of its 2"),
        "{}",
        missing.output()
    );
}

#[test]
fn a_file_that_says_nothing_of_it_has_all_that_the_arguments_have() {
    let less = "max_connections = 3\nerror_recovery_level = 1\n";
    let b = target(B, "").replacen("[[target.lun]]", &format!("{less}[[target.lun]]"), 1);
    let server = Server::start(&(target(A, "") + &b));
    let usual = server.negotiated(A, "32");
    assert_eq!(usual("ErrorRecoveryLevel"), "2");
    // Otherwise one R2T at a time would be all (RFC 7143 §13.19).
    assert_eq!(usual("DataSequenceInOrder"), "No");
    assert_ne!(usual("MaxOutstandingR2T"), "1");
    let set = server.negotiated(B, "3");
    assert_eq!(set("ErrorRecoveryLevel"), "1");
    for (name, connections, most) in [(A, "33", "allows 32"), (B, "4", "allows 3 ")] {
        let refused = server.check(name, connections);
        assert!(refused.stderr.contains(most), "{}", refused.stderr);
    }
}

#[test]
fn a_new_file_changes_what_is_found_and_ends_no_session() {
    let mut server = Server::start(&(target(A, "") + &target(B, "")));
    // Has B in use as long as that is asked for below.
    let idle = log_in(&server.portals[0], B, "iqn.2026-01.net.example:idle").unwrap();
    let url = server.url(B, 0);
    let mut load = Command::new(WANSAN)
        .args([
            "bench", &url, "--op", "mix", "--verify", "--time", "4s", "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    server.wait_for_sessions(B, 2);

    // B is in use: its LUNs stay as they are.
    let more = "[[target.lun]]\nstore = \"memory:16MiB\"";
    let said = server.refuses(&text(&(target(A, "") + &target(B, more))));
    assert!(
        said.contains("LUNs cannot change while initiators are logged in"),
        "{said}"
    );
    // Mistakes change nothing.
    for (wrong, word) in [
        (text(&target(A, "[target.acess]")), "did you mean `access`?"),
        (
            text("[[target]]\nname = \"disk\"\nlun = []"),
            "target.toml:3: `target.name`: 'disk' is not an iSCSI name",
        ),
        (
            text(&target(A, "").replacen(
                "[[target.lun]]",
                "error_recovery_level = 3\n[[target.lun]]",
                1,
            )),
            "target.toml:4: `target.error_recovery_level`: must be 0 to 2, not 3",
        ),
        (
            "listen = [\"127.0.0.1:1\"]\n".to_owned() + &target(A, ""),
            "target.toml:1: `listen`: cannot change",
        ),
        ("listen = ".to_owned(), "target.toml:1: "),
    ] {
        let said = server.refuses(&wrong);
        assert!(
            said.contains(word) && said.contains("nothing has changed"),
            "{said}"
        );
    }
    assert!(server.bench(A, 0, &[]).status.success());

    // A may grow, as nobody uses it now; B goes, and C comes.
    drop(idle);
    server.wait_for_sessions(A, 0);
    let said = server.reloads(&(target(A, more) + &target(C, "")));
    assert_eq!(said["event"], "reloaded");
    assert_eq!(said["added"], serde_json::json!([C]));
    assert_eq!(said["removed"], serde_json::json!([B]));
    assert_eq!(said["changed"], serde_json::json!([A]));
    for (name, lun) in [(A, 1), (C, 0)] {
        let finished = server.bench(name, lun, &[]);
        assert!(finished.status.success(), "{}", finished.output());
    }
    assert!(server.bench(B, 0, &[]).output().contains("has no target"));

    // The session with B has not felt anything.
    let status = load.wait().unwrap();
    let mut printed = String::new();
    let mut stdout = load.stdout.take().unwrap();
    stdout.read_to_string(&mut printed).unwrap();
    assert!(status.success(), "{printed}");
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&report["errors"], &report["corrupt"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn a_lun_beside_one_in_a_file_is_added_and_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.img");
    let lun = format!(
        "[[target.lun]]\nstore = \"file:{},size=16MiB\"\n",
        file.display()
    );
    let more = "[[target.lun]]\nstore = \"memory:16MiB\"";
    let with = |luns: &str| format!("[[target]]\nname = \"{A}\"\n{luns}\n");
    let mut server = Server::start(&with(&lun));
    assert!(server.bench(A, 0, &["--op", "write"]).status.success());
    server.wait_for_sessions(A, 0);
    let said = server.reloads(&with(&(lun.clone() + more)));
    assert_eq!(said["changed"], serde_json::json!([A]));
    for at in [0, 1] {
        let finished = server.bench(A, at, &[]);
        assert!(finished.status.success(), "{}", finished.output());
    }
    server.wait_for_sessions(A, 0);
    server.reloads(&with(&lun));
    assert!(!server.bench(A, 1, &[]).status.success());
    assert!(server.bench(A, 0, &[]).status.success());
}

#[test]
fn secrets_take_effect_for_new_logins() {
    let mut server = Server::start(&target(A, ""));
    assert!(server.bench(A, 0, &[]).status.success());
    let secret = server.file.with_file_name("secret");
    std::fs::write(&secret, "a-secret-of-24-characters").unwrap();
    let chap = format!(
        "[target.chap]\nuser = \"me\"\nsecret_file = \"{}\"\nalgorithms = [\"sha-256\"]",
        secret.display()
    );
    // Whatever the umask, a file that others can read is refused.
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&secret, mode).unwrap();
    };
    mode(0o644);
    let said = server.refuses(&text(&target(A, &chap)));
    assert!(said.contains("chmod 600"), "{said}");
    mode(0o600);
    server.reloads(&target(A, &chap));
    assert!(server.bench(A, 0, &[]).output().contains("CHAP"));
    let secret = secret.to_str().unwrap();
    let finished = server.bench(A, 0, &["--chap-user", "me", "--chap-secret-file", secret]);
    assert!(finished.status.success(), "{}", finished.output());
}

#[test]
fn the_file_and_the_arguments_exclude_each_other() {
    for more in [
        ["--name", A],
        ["--lun", "memory:16MiB"],
        ["--chap-user", "me"],
        ["--first-burst", "4KiB"],
        ["--error-recovery-level", "0"],
        ["--allow-network", "::1"],
    ] {
        let arguments = [&["target", "--config", "target.toml"][..], &more].concat();
        let finished = command(Path::new(WANSAN), &arguments, LIMIT).unwrap();
        assert_eq!(finished.status.code(), Some(2));
        assert!(
            finished.stderr.contains("cannot be used with"),
            "{}",
            finished.stderr
        );
    }
}
