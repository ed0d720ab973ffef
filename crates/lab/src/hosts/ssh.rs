//! How `ssh` is called: the user's own program and configuration.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::plan::RealHost;
use crate::world::stand_alone;

use super::protocol::GREETING;

/// Options of every connection. Everything else is left to ssh's own configuration: names, jump hosts, keys.
const OPTIONS: [&str; 7] = [
    // No one can answer prompts.
    "BatchMode=yes",
    "ConnectTimeout=20",
    // A dead network is detected within a quarter of a minute.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    // Nothing but the plan's programs may listen anywhere.
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "RequestTTY=no",
];

/// The `ssh` command that starts an agent on a host: of the installed `wansan`, or of one of `copied_bytes` that is
/// sent over the connection after the host's greeting.
pub(super) fn command(
    host: &RealHost,
    config: Option<&Path>,
    copied_bytes: Option<u64>,
) -> Command {
    let mut command = Command::new("ssh");
    if let Some(config) = config {
        command.arg("-F").arg(config);
    }
    for option in OPTIONS {
        command.args(["-o", option]);
    }
    command
        .args(["--", &host.ssh])
        // Whatever the user's login shell is, this runs in sh: one line without quotes.
        .arg(format!("exec sh -c '{}'", script(copied_bytes)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    stand_alone(&mut command);
    command
}

/// The shell script on the host. It waits until the agent has exited, and removes the folder in any case.
fn script(copied_bytes: Option<u64>) -> String {
    let begin = format!(
        "umask 077; echo \"{GREETING} $(uname -s) $(uname -m)\"; \
         d=$(mktemp -d \"${{TMPDIR:-/tmp}}/wansan-lab.XXXXXXXX\") || exit 1; \
         clean() {{ rm -rf \"$d\"; }}; trap clean EXIT; trap \"exit 1\" HUP INT TERM PIPE; "
    );
    begin
        + &match copied_bytes {
            None => "command -v wansan >/dev/null || { echo no wansan in PATH >&2; exit 127; }; \
                     wansan lab attend \"$d\""
                .to_owned(),
            // An incomplete copy from a broken connection is not run.
            Some(bytes) => format!(
                "head -c {bytes} >\"$d/wansan\" && test $(wc -c <\"$d/wansan\") -eq {bytes} && \
                 chmod 700 \"$d/wansan\" || {{ echo the copy of wansan is not whole >&2; exit 1; }}; \
                 \"$d/wansan\" lab attend \"$d\""
            ),
        }
}

/// A remedy for ssh's error message.
pub(super) fn remedy(said: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["Permission denied (", "Too many authentication failures"]) {
        "have it let you in without a password: an agent or a key that ssh's configuration names"
    } else if has(&["Host key verification failed", "REMOTE HOST IDENTIFICATION"]) {
        "log in once by hand to check and accept its host key"
    } else if has(&["Could not resolve hostname", "Name or service not known"]) {
        "correct `ssh` of the [[host]], or name it in ssh's configuration"
    } else if has(&["no wansan in PATH"]) {
        "install wansan there, or leave --no-copy out"
    } else if has(&["No space left", "is not whole", "mktemp"]) {
        "make room in its /tmp, or set TMPDIR there"
    } else if has(&["Permission denied", "noexec"]) {
        "programs may not be run from its /tmp: set TMPDIR there, or install wansan and add --no-copy"
    } else if has(&["not found", "Exec format error", "GLIBC"]) {
        "this wansan does not run there: install one that does and add --no-copy"
    } else {
        "see whether `ssh` reaches it by hand"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_line_without_a_quote() {
        for copied_bytes in [None, Some(1234)] {
            let script = script(copied_bytes);
            assert!(!script.contains(['\'', '\n', '!']), "{script}");
        }
    }

    #[test]
    fn a_destination_is_never_an_option() {
        let host = RealHost {
            name: "storage".to_owned(),
            ssh: "root@storage".to_owned(),
            address: [10, 0, 0, 1].into(),
        };
        let command = command(&host, Some(Path::new("/etc/lab")), None);
        let words: Vec<_> = command
            .get_args()
            .filter_map(|word| word.to_str())
            .collect();
        let end = words.iter().position(|word| *word == "--").unwrap();
        assert_eq!(
            (words[0], words[1], words[end + 1]),
            ("-F", "/etc/lab", "root@storage")
        );
        assert!(words.contains(&"BatchMode=yes"));
    }
}
