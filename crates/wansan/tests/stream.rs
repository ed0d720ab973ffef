//! `wansan stream` as a user runs it, over loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn wansan(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wansan"))
        .arg("stream")
        .args(arguments)
        .output()
        .unwrap()
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A receiver, and where it listens.
fn receiver() -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wansan"))
        .args(["stream", "receive", "--listen", "127.0.0.1:0", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.as_mut().unwrap());
    out.read_line(&mut line).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["event"], "listening");
    let address = event["address"].as_str().unwrap().to_owned();
    (child, address)
}

fn terminate(child: Child) -> Output {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn advice_on_too_few_marks_fits_what_ends_the_measurement() {
    let said = |arguments: &[&str]| {
        let output = wansan(&[&["--both", "--every", "1GiB"][..], arguments].concat());
        // Whether one mark was echoed or none.
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let of_bytes = said(&["--bytes", "10kB"]);
    assert!(of_bytes.contains("raise `bytes`"), "{of_bytes}");
    let of_time = said(&["--time", "100ms", "--rate", "1Mbit/s"]);
    assert!(of_time.contains("measure longer"), "{of_time}");
}

#[test]
fn sender_and_receiver_agree() {
    let (child, address) = receiver();
    let sent = wansan(&[
        "send", &address, "--flows", "2", "--bytes", "5MB", "--every", "100kB", "--cc", "reno",
        "--json",
    ]);
    let report = report(&sent);
    assert_eq!(report["flows"].as_array().unwrap().len(), 2);
    assert_eq!(report["latency_ns"]["count"], 100);
    assert_eq!(report["flows"][1]["congestion_control"], "reno");
    assert!(report["bytes_per_s"].as_f64().unwrap() > 0.0);
    let fairness = report["fairness"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&fairness), "{fairness}");
    let ended = terminate(child);
    assert!(ended.status.success());
    let ended: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(ended["event"], "ended");
    assert_eq!(
        (&ended["streams"], &ended["marks"]),
        (&2.into(), &100.into())
    );
}

#[test]
fn both_ends_can_be_one_process() {
    let text = wansan(&["--both", "--bytes", "5MB", "--flows", "2"]);
    assert!(text.status.success(), "{text:?}");
    let text = String::from_utf8(text.stdout).unwrap();
    for word in ["throughput", "latency", "one way", "fairness", "p99"] {
        assert!(text.contains(word), "{text}");
    }
    let json = report(&wansan(&["--both", "--bytes", "5MB", "--json"]));
    assert_eq!(json["mark_every_bytes"], 1_000_000);
    assert_eq!(json["latency_ns"]["count"], 5);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = gone.local_addr().unwrap().to_string();
    drop(gone);
    let cases: [(&[&str], &str); 9] = [
        (&["send", &nobody], "is `wansan stream receive` running?"),
        (&["send", "127.0.0.1"], "is not a HOST:PORT"),
        (&["receive", "--listen", "here"], "is not a HOST:PORT"),
        (
            &["send", &nobody, "--every", "100B"],
            "must be 1KiB to 1GiB",
        ),
        (&["send", &nobody, "--flows", "0"], "--flows"),
        (&["send", &nobody, "--rate", "1bit/s"], "8kbit/s"),
        (&["send", &nobody, "--time", "0s"], "above 0"),
        (
            &["send", &nobody, "--time", "1s", "--bytes", "1MB"],
            "cannot be used with",
        ),
        (
            &["--both", "--cc", "nonsense"],
            "'nonsense' is not in this kernel",
        ),
    ];
    for (arguments, said) in cases {
        let output = wansan(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(said), "{arguments:?}: {text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    }
}
