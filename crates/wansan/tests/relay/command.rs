//! The command: its file, its signals, its counters and records, its ends.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use rustix::process::Signal;
use wansan_peers::wansan::{Target, bench};
use wansan_trace::event::Tcp;
use wansan_trace::file;

use crate::program::{LIMIT, Relay, WANSAN, check};

/// A target and its address.
fn target() -> Result<(TcpListener, String), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, address))
}

/// Both ends of a new flow.
fn flow(relay: &Relay, target: &TcpListener) -> Result<(TcpStream, TcpStream), Failed> {
    let client = TcpStream::connect(&relay.addresses[0])?;
    let (server, _) = target.accept()?;
    for end in [&client, &server] {
        end.set_read_timeout(Some(LIMIT))?;
    }
    Ok((client, server))
}

/// Sends bytes there and back.
fn exchange(client: &mut TcpStream, server: &mut TcpStream) -> Result<(), Failed> {
    let mut got = [0; 5];
    client.write_all(b"there")?;
    server.read_exact(&mut got)?;
    server.write_all(b"back!")?;
    client.read_exact(&mut got)?;
    check(&got == b"back!", || format!("{got:?}"))
}

/// What `wansan relay` says of arguments that cannot be used, in one line.
fn complaint(arguments: &[&str]) -> Result<String, Failed> {
    let output = Command::new(WANSAN).arg("relay").args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.status.code() == Some(2), || {
        format!("{arguments:?}: {}: {said}", output.status)
    })?;
    check(said.trim_end().lines().count() == 1, || said.clone())?;
    Ok(said)
}

pub(crate) fn mistakes() -> Result<(), Failed> {
    let of_arguments: [(&[&str], &str); 12] = [
        (&["--listen", "127.0.0.1", "--to", "a:1"], "127.0.0.1:3260"),
        (
            &["--listen", "127.0.0.1:0", "--to", "127.0.0.1"],
            "not a HOST:PORT",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--in-cc",
                "hstpc",
            ],
            "towards the client: congestion control 'hstpc' is not in this kernel",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--out-cc",
                "wansan_hstp",
            ],
            "did you mean `wansan_hstcp`",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--latency",
                "20ms",
                "--law",
                "window",
                "--ece-bound",
                "64KiB",
            ],
            "ece_bound is only for law 'ece-bound' and law 'ece-red'",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--out-cc",
                "wansan_none",
            ],
            "wansan_none' is not in this kernel",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--buffer",
                "1KiB",
            ],
            "must be 64KiB to 1GiB, not 1KiB",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--out-dscp",
                "af99",
            ],
            "af11 to af43",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "host:3260",
                "--transparent",
            ],
            "ADDRESS/PREFIX:PORT",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--law",
                "window",
            ],
            "needs a latency",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--to",
                "127.0.0.1:9",
                "--law",
                "windows",
            ],
            "give one of none, window, ece-bound, ece-red, arrival",
        ),
        (&["--config", "/nowhere/relay.toml"], "/nowhere/relay.toml"),
    ];
    for (arguments, part) in of_arguments {
        let said = complaint(arguments)?;
        check(said.contains(part), || format!("{arguments:?}: {said}"))?;
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("relay.toml");
    let name = path.to_str().ok_or("a path of bytes")?;
    let head = "[[listener]]\nlisten = \"127.0.0.1:0\"\nto = \"127.0.0.1:9\"\n";
    for (rest, parts) in [
        ("bufer = \"1MiB\"", [":4: ", "did you mean `buffer`?"]),
        ("buffer = \"1M\"", [":4: ", "KiB"]),
        ("law = \"red\"", [":4: ", "none, window"]),
        (
            "[listener.in]\ncc = \"reno\"",
            [":5: ", "congestion_control"],
        ),
        ("[listener.out]\nmss = 40000", [":5: ", "88 to 32767"]),
        ("[listener.out]\ndscp = \"high\"", [":5: ", "af11 to af43"]),
        ("[listener.out]\ndscp = 64", [":5: ", "0 to 63"]),
        (
            "[listener.out]\ndscp = 46\ncongestion_control = \"cubc\"",
            [
                ":6: `listener.out.congestion_control`: 127.0.0.1:0, towards the target",
                "did you mean `cubic`?",
            ],
        ),
        (
            "law = \"ece-bound\"\nece_ramp = \"64KiB\"",
            [
                ":5: `listener.ece_ramp`",
                "ece_ramp is only for law 'ece-red'",
            ],
        ),
        (
            "latency = \"20ms\"\nlaw = \"none\"",
            [":5: `listener.law`", "leave out the latency or the law"],
        ),
        (
            "[[listener]]\nlisten = \"127.0.0.1:1\"\nto = \"storage\"",
            [":6: `listener.to`: ", "storage:3260"],
        ),
        (
            "[[listener]]\nlisten = \"127.0.0.1:1\"\nto = \"127.0.0.1:9\"\n\
             [[listener]]\nlisten = \"127.0.0.1:1\"\nto = \"127.0.0.1:9\"",
            [":8: `listener.listen`: ", "give each its own address"],
        ),
        (
            "[[listener]]\nlisten = \"127.0.0.1\"\nto = \"127.0.0.1:9\"",
            [":5: `listener.listen`: ", "127.0.0.1:3260"],
        ),
        ("networks = [\"192.0.2.1/24\"]", [":4: ", "192.0.2.0/24"]),
        (
            "[[listener]]\nlisten = \"127.0.0.1:1\"",
            [":4: ", "lacks `to`"],
        ),
        ("[listener", [":4: ", "relay.toml"]),
    ] {
        std::fs::write(&path, format!("{head}{rest}\n"))?;
        let said = complaint(&["--config", name])?;
        for part in parts.iter().chain([&name]) {
            check(said.contains(part), || {
                format!("{rest}: no {part} in {said}")
            })?;
        }
    }
    Ok(())
}

pub(crate) fn reload() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("relay.toml");
    let listener = |listen: &str, to: &str| {
        format!(
            "[[listener]]\nlisten = \"{listen}\"\nto = \"{to}\"\n[listener.out]\ncongestion_control = \"reno\"\n"
        )
    };
    let (first, first_at) = target()?;
    let (second, second_at) = target()?;
    std::fs::write(&path, listener("127.0.0.1:0", &first_at))?;
    let name = path.to_str().ok_or("a path of bytes")?;
    let mut relay = Relay::start(&["--config", name])?;
    let (mut client, mut server) = flow(&relay, &first)?;
    exchange(&mut client, &mut server)?;

    std::fs::write(&path, listener("127.0.0.1:0", &second_at) + "bufer = 1\n")?;
    relay.signal(Signal::HUP)?;
    let said = relay.remark()?;
    check(
        said.contains("not reloaded") && said.contains(":6: "),
        || said.clone(),
    )?;
    exchange(&mut client, &mut server)?;

    std::fs::write(
        &path,
        listener("127.0.0.1:0", &second_at) + &listener("127.0.0.2:0", &first_at),
    )?;
    relay.signal(Signal::HUP)?;
    let event = relay.event("reloaded")?;
    check(
        event["changed"][0] == "127.0.0.1:0" && event["added"][0] == "127.0.0.2:0",
        || event.to_string(),
    )?;
    exchange(&mut client, &mut server)?;
    // What comes from now on goes to the other target, once the thread that accepts has read its mail.
    relay.scrape()?;
    let (mut client, mut server) = flow(&relay, &second)?;
    exchange(&mut client, &mut server)
}

pub(crate) fn counters() -> Result<(), Failed> {
    let (listener, to) = target()?;
    let relay = Relay::start(&["--listen", "127.0.0.1:0", "--to", &to])?;
    let (mut client, mut server) = flow(&relay, &listener)?;
    exchange(&mut client, &mut server)?;
    // Nobody reads: a backlog builds up.
    client.set_nonblocking(true)?;
    while client.write(&[7; 65_536]).is_ok() {}
    let began = Instant::now();
    let text = loop {
        let text = relay.scrape()?;
        let backlog = |line: &str| {
            line.starts_with("wansan_relay_flow_backlog_bytes")
                && line.contains("onward")
                && !line.ends_with(" 0")
        };
        if text.lines().any(backlog) || began.elapsed() > LIMIT {
            break text;
        }
    };
    for part in [
        "wansan_relay_accepted_total 1",
        "wansan_relay_flows 1",
        "wansan_relay_connect_failures_total{reason=\"refused\"} 0",
        "wansan_relay_bytes_total{direction=\"back\"} 5",
        "wansan_relay_backlog_bytes{direction=\"back\"} 0",
        "wansan_relay_backlog_max_seconds{direction=\"onward\"} ",
        "wansan_relay_flow_backlog_seconds{",
        "wansan_relay_side_cwnd_packets{",
        "wansan_relay_side_round_trip_seconds{",
        "wansan_relay_side_rwnd_limited_seconds_total{",
        "side=\"in\"",
        "queue=\"send\"",
        "# EOF",
    ] {
        check(text.contains(part), || format!("no {part}: {text}"))?;
    }
    Ok(())
}

pub(crate) fn watched() -> Result<(), Failed> {
    let (target, to) = target()?;
    let relay = Relay::start(&[
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to,
        "--latency",
        "20ms",
        "--law",
        "window",
    ])?;
    let (mut client, mut server) = flow(&relay, &target)?;
    exchange(&mut client, &mut server)?;
    let mut watch = Command::new(WANSAN)
        .args(["watch", "--relay", &relay.metrics, "--json"])
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = watch.stdout.take().ok_or("no pipe")?;
    let lines: Vec<_> = BufReader::new(stdout).lines().take(4).collect();
    watch.kill()?;
    watch.wait()?;
    let [line, total, later, _] = &lines.into_iter().collect::<Result<Vec<_>, _>>()?[..] else {
        return Err("it says too little".into());
    };
    let seen: serde_json::Value = serde_json::from_str(total)?;
    check(
        seen["kind"] == "total"
            && seen["flows"] == 1
            && seen["onward"]["bytes"] == 5
            && seen["back"]["backlog_bytes"] == 0,
        || total.clone(),
    )?;
    let seen: serde_json::Value = serde_json::from_str(line)?;
    let has_cwnd = |side: &str| seen[side]["cwnd_packets"].as_u64() > Some(0);
    check(
        seen["kind"] == "flow"
            && has_cwnd("in")
            && has_cwnd("out")
            && seen["target"] == to
            && seen["law"] == "window"
            && seen["onward"]["bytes"] == 5
            && seen["back"]["bytes"] == 5
            && seen["onward"]["backlog_bytes"] == 0
            && seen["onward"]["bytes_per_s"].is_null(),
        || line.clone(),
    )?;
    // Rates and shares are those since the answer before.
    let seen: serde_json::Value = serde_json::from_str(later)?;
    check(
        seen["onward"]["bytes_per_s"] == 0.0 && seen["out"]["busy_share"] == 0.0,
        || later.clone(),
    )?;
    let output = Command::new(WANSAN)
        .args(["watch", "--relay", &to])
        .output()?;
    check(output.status.code() == Some(2), || format!("{output:?}"))
}

pub(crate) fn records() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("records");
    let name = path.to_str().ok_or("a path of bytes")?;
    let (listener, to) = target()?;
    let mut relay = Relay::start(&[
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to,
        "--record",
        name,
        "--tcp-interval",
        "1ms",
        "--record-memory",
        "16MiB",
    ])?;
    let (mut client, mut server) = flow(&relay, &listener)?;
    for _ in 0..50 {
        exchange(&mut client, &mut server)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((client, server));
    relay.signal(Signal::TERM)?;
    relay.event("ended")?;
    check(relay.ended()? == Some(0), || "it fails".to_owned())?;
    let part = |entry: &std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("tcp.") && name.contains("relay")
    };
    let entries: Vec<_> = std::fs::read_dir(&path)?.flatten().collect();
    let part = entries.iter().find(|entry| part(entry)).ok_or("no part")?;
    let records = file::read::<Tcp>(Path::new(&part.path()))?;
    for side in [0, 1] {
        let of_side = records
            .rows
            .iter()
            .filter(|row| row.record.connection.0 == side);
        let of_side: Vec<&Tcp> = of_side.map(|row| &row.record).collect();
        check(of_side.len() >= 5, || format!("{} records", of_side.len()))?;
        let moved = of_side
            .iter()
            .any(|tcp| tcp.acked_bytes > 0 && tcp.cwnd_packets > 0);
        check(moved, || format!("{:?}", of_side.last()))?;
    }
    Ok(())
}

pub(crate) fn drain() -> Result<(), Failed> {
    let (listener, to) = target()?;
    let arguments = ["--listen", "127.0.0.1:0", "--to", &to, "--drain", "30s"];
    let mut relay = Relay::start(&arguments)?;
    let (mut client, mut server) = flow(&relay, &listener)?;
    // Flows that still begin end at once.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    relay.signal(Signal::TERM)?;
    let began = Instant::now();
    while TcpStream::connect(&relay.addresses[0]).is_ok() {
        check(began.elapsed() < LIMIT, || "it still listens".to_owned())?;
    }
    exchange(&mut client, &mut server)?;
    drop((client, server));
    let ended = relay.event("ended")?;
    check(ended["cut_off"] == 0 && ended["back_bytes"] == 5, || {
        ended.to_string()
    })?;
    check(relay.ended()? == Some(0), || "it fails".to_owned())?;

    // Who does not end is reset.
    let (listener, to) = target()?;
    let mut relay = Relay::start(&["--listen", "127.0.0.1:0", "--to", &to, "--drain", "0s"])?;
    let (mut client, _server) = flow(&relay, &listener)?;
    relay.signal(Signal::TERM)?;
    let ended = relay.event("ended")?;
    check(ended["cut_off"] == 1, || ended.to_string())?;
    let end = client.read(&mut [0]).map_err(|error| error.kind());
    check(end == Err(ErrorKind::ConnectionReset), || {
        format!("{end:?}")
    })
}

pub(crate) fn killed() -> Result<(), Failed> {
    let (listener, to) = target()?;
    let relay = Relay::start(&["--listen", "127.0.0.1:0", "--to", &to])?;
    let (mut client, mut server) = flow(&relay, &listener)?;
    exchange(&mut client, &mut server)?;
    drop(relay);
    for end in [&mut client, &mut server] {
        let end = end.read(&mut [0]).map_err(|error| error.kind());
        check(end == Err(ErrorKind::ConnectionReset), || {
            format!("{end:?}")
        })?;
    }
    Ok(())
}

/// What the relay has passed on to the target, in bytes.
fn onward_bytes(relay: &Relay) -> Result<u64, Failed> {
    const SUM: &str = "wansan_relay_bytes_total{direction=\"onward\"} ";
    let text = relay.scrape()?;
    let sum = text.lines().find_map(|line| line.strip_prefix(SUM));
    Ok(sum.ok_or("no sum of bytes")?.parse()?)
}

pub(crate) fn recovery() -> Result<(), Failed> {
    let error = |error: wansan_peers::process::PeerError| Failed::from(error.to_string());
    let disk = Target::start(Path::new(WANSAN), &["--lun", "memory:16MiB"]).map_err(error)?;
    let first = Relay::start(&["--listen", "127.0.0.1:0", "--to", disk.address()])?;
    let at = first.addresses[0].clone();
    let url = disk.url(0).replace(disk.address(), &at);
    // All of the disk, twice, and then all of it is read and compared.
    let load = [
        "--verify",
        "--parallel",
        "16",
        "--replacement-timeout",
        "30s",
        "--op",
        "write",
        "--pattern",
        "sequential",
        "--count",
        "8192",
    ];
    let went = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            // Under load, twice.
            let mut relay = first;
            for _ in 0..2 {
                let began = Instant::now();
                while onward_bytes(&relay)? < 4 << 20 {
                    check(began.elapsed() < LIMIT, || "there is no load".to_owned())?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                drop(relay);
                relay = Relay::start(&["--listen", &at, "--to", disk.address()])?;
            }
            Ok::<Relay, Failed>(relay)
        });
        let went = bench(Path::new(WANSAN), &url, &load, LIMIT).map_err(error);
        Ok::<_, Failed>((went?, killer.join().map_err(|_| "the killer panicked")??))
    });
    let (written, _relay) = went?;
    check(
        written["errors"] == 0
            && written["corrupt"] == 0
            && written["verified"] == 16 << 20 >> 12
            && written["recoveries"].as_u64() >= Some(2),
        || written.to_string(),
    )
}

pub(crate) fn descriptors() -> Result<(), Failed> {
    const CLIENTS: usize = 100;
    let (listener, to) = target()?;
    let mut command = Command::new("sh");
    let limited = "ulimit -n 60; exec \"$0\" \"$@\"";
    command.args([
        "-c",
        limited,
        WANSAN,
        "relay",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to,
    ]);
    let relay = Relay::of(command)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut byte = [0];
                while let Ok(1) = (&stream).read(&mut byte) {
                    if (&stream).write_all(&byte).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        match TcpStream::connect(&relay.addresses[0]) {
            Ok(client) => clients.push(client),
            // It was reset before connecting was over.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error.into()),
        }
    }
    for client in &clients {
        client.set_nonblocking(true)?;
        // Those that are not served may have been reset.
        let _ = (&mut &*client).write_all(b"x");
    }
    // Some are served, and the others are reset or wait; nobody is served wrongly.
    let began = Instant::now();
    let mut is_served = false;
    while !is_served {
        check(began.elapsed() < LIMIT, || "nobody is served".to_owned())?;
        for mut client in &clients {
            let mut byte = [0];
            if matches!(client.read(&mut byte), Ok(1)) {
                is_served = true;
                check(byte == *b"x", || format!("{byte:?}"))?;
            }
        }
    }
    drop(clients);
    // All have gone: when the relay has heard of it there are descriptors again.
    let served = || {
        let mut client = TcpStream::connect(&relay.addresses[0])?;
        client.set_read_timeout(Some(LIMIT))?;
        client.write_all(b"x")?;
        client.read_exact(&mut [0])
    };
    while let Err(error) = served() {
        check(began.elapsed() < LIMIT, || error.to_string())?;
        std::thread::sleep(Duration::from_millis(10));
    }
    // And it did lack some: it paused, or flows had none for the target's side.
    let text = relay.scrape()?;
    let lacked = [
        "wansan_relay_pauses_total ",
        "wansan_relay_connect_failures_total{reason=\"other\"} ",
    ];
    let counts = text.lines().filter_map(|line| {
        let count = lacked.iter().find_map(|name| line.strip_prefix(name));
        count?.parse::<u64>().ok()
    });
    check(counts.sum::<u64>() > 0, || text.clone())
}
