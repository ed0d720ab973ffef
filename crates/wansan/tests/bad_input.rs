//! Wrong arguments, URLs, units, plans and run folders: one line that says what is wrong, exit
//! status 2, and nothing left behind.

mod bench;
mod plan;
mod runs;
mod target;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use wansan_peers::process::{Finished, run};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);
const URL: &str = "iscsi://127.0.0.1:3260/iqn.2026-11.net.example:x/0";

/// Runs wansan in a folder that holds only `files`.
fn run_beside(files: &[(&str, &[u8])], arguments: &[&str]) -> (Finished, TempDir) {
    let folder = TempDir::with_prefix("wansan-bad-input-").unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut command = Command::new(WANSAN);
    (
        run(command.current_dir(folder.path()).args(arguments), LIMIT).unwrap(),
        folder,
    )
}

/// Fails unless wansan refuses `arguments` with one line that holds every one of `words`, status 2,
/// and no file but those it was given.
#[track_caller]
fn refused_beside(files: &[(&str, &[u8])], arguments: &[&str], words: &[&str]) {
    let (finished, folder) = run_beside(files, arguments);
    let said = finished.stderr.trim_end();
    assert_eq!(
        finished.status.code(),
        Some(2),
        "{arguments:?}: {}",
        finished.output()
    );
    assert_eq!(
        said.lines().count(),
        1,
        "{arguments:?} does not give one line:\n{said}"
    );
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    assert_eq!(
        finished.stdout, "",
        "{arguments:?} printed something besides"
    );
    for word in words {
        assert!(said.contains(word), "{arguments:?}: no '{word}' in: {said}");
    }
    let mut left: Vec<OsString> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    let mut given: Vec<OsString> = files.iter().map(|(name, _)| (*name).into()).collect();
    given.sort();
    assert_eq!(
        left, given,
        "{arguments:?} left something behind or took something away"
    );
}

#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    refused_beside(&[], arguments, words);
}

#[track_caller]
fn bench_refused(url: &str, more: &[&str], words: &[&str]) {
    refused(&[&["bench", url, "--count", "1"], more].concat(), words);
}

#[track_caller]
fn target_refused(files: &[(&str, &[u8])], more: &[&str], words: &[&str]) {
    let name = "iqn.2026-11.net.example:x";
    let whole = ["target", "--listen", "127.0.0.1:0", "--name", name];
    refused_beside(files, &[&whole[..], more].concat(), words);
}

#[test]
fn an_unknown_command_names_the_nearest() {
    refused(&["targt"], &["targt", "target"]);
}

#[test]
fn an_unknown_argument_is_named() {
    bench_refused(URL, &["--blok", "4KiB"], &["--blok", "--block"]);
}

#[test]
fn control_characters_are_shown_and_not_obeyed() {
    let hostile = "runs\u{1b}[2J\u{7}";
    refused(&["explain", hostile], &["runs\\u{1b}[2J\\u{7}"]);
    let plan = include_str!("../../../plans/limits/nothing-binds.toml");
    let plan = plan.replace(
        "\"Nothing binds\"",
        "\"Nothing \\u001b]0;owned\\u0007 binds\"",
    );
    let (finished, _folder) = run_beside(
        &[("plan.toml", plan.as_bytes())],
        &["lab", "check", "plan.toml"],
    );
    assert!(finished.status.success(), "{}", finished.output());
    assert!(
        finished
            .stdout
            .contains("Nothing \\u{1b}]0;owned\\u{7} binds"),
        "{}",
        finished.stdout
    );
    let wrong = plan.replace("delay = \"5ms\"", "delay = \"5\\u001b[31mms\"");
    refused_beside(
        &[("plan.toml", wrong.as_bytes())],
        &["lab", "check", "plan.toml"],
        &["\\u{1b}[31m"],
    );
}

#[test]
fn settings_on_standard_input_are_checked_like_a_file() {
    let listener = r#""listener": [{"listen": "127.0.0.1:0", "to": "127.0.0.1:9""#;
    for (command, line, words) in [
        (&["relay"][..], "", &["no JSON object"][..]),
        (&["relay"], "{}", &["lacks `listener`"]),
        (
            &["relay"],
            &format!("{{{listener}, \"bufer\": \"1MiB\"}}]}}"),
            &[
                "unknown key `bufer` in `listener[0]`",
                "did you mean `buffer`?",
            ],
        ),
        (
            &["relay"],
            &format!("{{{listener}}}], \"drain\": \"soon\"}}"),
            &["`drain`", "soon", "ms"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "parallel": 0}"#,
            &["`parallel`: must be 1 to 65536, not 0"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "connections": 2, "route": ["0.0.0.0→127.0.0.1:1"]}"#,
            &["`connections` cannot be used with `route`"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "connections": 1, "route": ["0.0.0.0→127.0.0.1:1"]}"#,
            &["`connections` cannot be used with `route`"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "op": 5}"#,
            &["`op`: found integer `5`, expected one of read, write"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "batch": true, "rate": 5}"#,
            &["`batch` cannot be used with `rate`"],
        ),
        (
            &["stream", "send"],
            r#"{"to": "127.0.0.1:1", "time": "1s", "bytes": "1MB"}"#,
            &["`time` cannot be used with `bytes`"],
        ),
        (
            &["target"],
            r#"{"listen": ["127.0.0.1:0"], "target": [{"name": "iqn.x", "lun": ["memory:1MiB", "memory:1"]}]}"#,
            &["`target[0].lun[1]`: ", "KiB"],
        ),
        // What shows only once they are put to use.
        (
            &["target"],
            r#"{"listen": ["127.0.0.1:0"], "target": [{"name": "iqn.2026-01.net.example:x", "lun": ["memory:1MiB"]}, {"name": "iqn.2026-01.net.example:x", "lun": ["memory:1MiB"]}]}"#,
            &["`target[1].name`: "],
        ),
        (
            &["target"],
            r#"{"listen": ["127.0.0.1:0"], "target": [{"name": "iqn.x", "lun": ["memory:1MiB", {"number": 0, "store": "memory:1MiB"}]}]}"#,
            &["`target[0].lun[1].number`: ", "two LUNs"],
        ),
        (
            &["relay"],
            &format!("{{{listener}}}, {{\"listen\": \"127.0.0.1:0\", \"to\": \"nobody\"}}]}}"),
            &["`listener[1].to`: ", "nobody"],
        ),
        (&["stream", "send"], "{}", &["lacks `to`"]),
    ] {
        let mut child = Command::new(WANSAN)
            .args(command)
            .args(["--settings", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // In one write: the program ends at the mistake, and leaves unread what follows.
        let mut settings = child.stdin.take().unwrap();
        settings.write_all(format!("{line}\n").as_bytes()).unwrap();
        drop(settings);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for word in [&["standard input"][..], words].concat() {
            assert!(said.contains(word), "{line}: no '{word}' in: {said}");
        }
    }
    let beside = ["relay", "--settings", "-", "--flows", "2"];
    refused(&beside, &["--settings", "cannot be used with"]);
}

#[test]
fn a_watch_of_nothing_that_there_is() {
    for (arguments, words) in [
        (&["dst", "10.0.0.0/33"][..], &["character 5", "0 to 32"][..]),
        (&["dport", "=", "http"], &["character 9", "port"]),
        (&["sport", "=", "1", "and"], &["character 14"]),
        (&["dprt = 1"], &["character 1, ", "did you mean `dport`?"]),
        (&["--port", "65536"], &["--port", "65536"]),
        (&["--pid", "4194305"], &["no process 4194305"]),
        (
            &["--netns", "no-such"],
            &["/run/netns/no-such", "ip netns list"],
        ),
        (&["--netns", "/dev/null"], &["/dev/null"]),
        (&["--interval", "999us"], &["at least 1ms"]),
        (&["--web", "nowhere:80"], &["give a port"]),
        (&["--web", "192.0.2.1:80"], &["192.0.2.1:80"]),
        (&["--prometheus", "nowhere:80"], &["give a port"]),
        (&["--web", "0", "--json"], &["--web", "--json"]),
    ] {
        let json = arguments
            .iter()
            .all(|a| !["--web", "--prometheus"].contains(a));
        let more: &[&str] = if json { &["--json"] } else { &[] };
        refused(&[&["watch"], arguments, more].concat(), words);
    }
    // Nothing to show it on.
    refused(&["watch"], &["not a terminal", "--json"]);
}
