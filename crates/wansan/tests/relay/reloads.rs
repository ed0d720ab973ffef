//! Transparent flows while `wansan relay --setup` reads its file again.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use libtest_mimic::Failed;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::linear_topology::text;
use crate::namespaces::{World, address, listen, sh};
use crate::program::{LIMIT, Relay};

/// A listener that is always there, so that the others may go.
const EXPLICIT: &str = "[[listener]]\nlisten = \"127.0.0.1:0\"\nto = \"127.0.0.1:9\"\n";

fn taking(listen: &str, to: &str) -> String {
    format!("[[listener]]\nlisten = \"{listen}\"\nto = \"{to}\"\ntransparent = true\n")
}

fn said(error: &Failed) -> String {
    error.message().unwrap_or_default().to_owned()
}

/// A relay in the middle with a file.
struct Filed {
    relay: Relay,
    path: PathBuf,
    _folder: TempDir,
}

impl Filed {
    fn start(world: &World, listeners: &str) -> Result<Filed, String> {
        let folder = tempfile::tempdir().map_err(text)?;
        let path = folder.path().join("relay.toml");
        std::fs::write(&path, listeners).map_err(text)?;
        let name = path.to_string_lossy().into_owned();
        let start =
            move || Relay::start(&["--setup", "--config", &name]).map_err(|error| said(&error));
        Ok(Filed {
            relay: world.middle.run(start)?,
            path,
            _folder: folder,
        })
    }

    fn reload(&mut self, listeners: &str) -> Result<Value, String> {
        std::fs::write(&self.path, listeners).map_err(text)?;
        self.relay
            .signal(Signal::HUP)
            .map_err(|error| said(&error))?;
        self.relay.event("reloaded").map_err(|error| said(&error))
    }

    /// Connections that it has accepted.
    fn accepted(&self, world: &World) -> Result<u64, String> {
        self.counter(world, "wansan_relay_accepted_total ")
    }

    fn counter(&self, world: &World, name: &str) -> Result<u64, String> {
        let at = address(&self.relay.metrics);
        let scraped = world.middle.run(move || {
            let mut stream = TcpStream::connect(at)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        });
        let scraped = scraped.map_err(text)?;
        let value = scraped.lines().find_map(|line| line.strip_prefix(name));
        let value = value.ok_or_else(|| format!("no {name}: {scraped}"))?;
        value.trim().parse().map_err(text)
    }
}

/// Both ends of a new flow.
fn flow(world: &World, to: SocketAddr) -> Result<(TcpStream, TcpStream), String> {
    let server = listen(&world.target, to)?;
    let client = world.connect(to)?;
    let (accepted, _) = server.accept().map_err(text)?;
    accepted.set_read_timeout(Some(LIMIT)).map_err(text)?;
    for end in [&client, &accepted] {
        end.set_write_timeout(Some(LIMIT)).map_err(text)?;
    }
    Ok((client, accepted))
}

/// Sends bytes each way.
fn exchange(client: &TcpStream, server: &TcpStream) -> Result<(), String> {
    for (mut from, mut to) in [(client, server), (server, client)] {
        from.write_all(b"hello").map_err(text)?;
        to.read_exact(&mut [0; 5]).map_err(text)?;
    }
    Ok(())
}

pub(crate) fn listener_is_gone() -> Result<(), String> {
    let world = World::build()?;
    let all = [
        EXPLICIT,
        &taking("127.0.0.1:0", "10.9.2.0/24:3260"),
        &taking("[::1]:0", "[fd09:2::/64]:3260"),
    ];
    let mut relay = Filed::start(&world, &all.concat())?;
    let targets = ["10.9.2.2:3260", "[fd09:2::2]:3260"].map(address);
    let mut flows = Vec::new();
    for to in targets {
        let (client, server) = flow(&world, to)?;
        exchange(&client, &server)?;
        flows.push((client, server));
    }
    // Once more with nothing new: what is kept stays kept.
    for _ in 0..2 {
        relay.reload(EXPLICIT)?;
        for (client, server) in &flows {
            exchange(client, server)?;
        }
        let accepted = relay.accepted(&world)?;
        if accepted != 2 {
            return Err(format!("{accepted} accepted"));
        }
    }
    for to in targets {
        let (client, server) = flow(&world, to)?;
        exchange(&client, &server)?;
    }
    let accepted = relay.accepted(&world)?;
    let rules = sh(&world.middle, "nft list ruleset")?;
    if accepted != 2 || rules.contains("tproxy") {
        return Err(format!("{accepted} accepted: {rules}"));
    }
    drop(flows);
    while relay.counter(&world, "wansan_relay_flows ")? > 0 {
        thread::yield_now();
    }
    relay.reload(EXPLICIT)?;
    let left = sh(&world.middle, "nft list tables; ip rule; ip -6 rule")?;
    match left.contains("wansan") || left.contains("fwmark") {
        true => Err(left),
        false => Ok(()),
    }
}

pub(crate) fn others_are_taken() -> Result<(), String> {
    const TIMES: usize = 20;
    let world = World::build()?;
    sh(&world.target, "ip address add 10.9.2.3/24 dev eth")?;
    let files = ["10.9.2.0/24:3260", "10.9.2.2:3260"].map(|to| taking("127.0.0.1:0", to));
    let mut relay = Filed::start(&world, &files[0])?;
    // The second one is not among those that are taken later.
    let targets = ["10.9.2.2:3260", "10.9.2.3:3260"].map(address);
    let flows = [flow(&world, targets[0])?, flow(&world, targets[1])?];
    let ends = AtomicBool::new(false);
    let (reloaded, carried) = thread::scope(|scope| {
        let ends = &ends;
        let ways = flows.iter();
        let ways = ways.flat_map(|(client, server)| [(client, server), (server, client)]);
        let threads = ways.map(|(mut from, mut to)| {
            let sent = scope.spawn(move || {
                let mut sent = 0;
                while !ends.load(Ordering::Relaxed) {
                    from.write_all(&[7; 10_000])?;
                    sent += 10_000;
                }
                from.shutdown(Shutdown::Write).map(|()| sent)
            });
            let got = scope.spawn(move || io::copy(&mut to, &mut io::sink()));
            (sent, got)
        });
        let threads: Vec<_> = threads.collect();
        let reloaded = (1..=TIMES).try_for_each(|time| relay.reload(&files[time % 2]).map(drop));
        ends.store(true, Ordering::Relaxed);
        let carried: Vec<_> = threads
            .into_iter()
            .map(|(sent, got)| (sent.join(), got.join()))
            .collect();
        (reloaded, carried)
    });
    reloaded?;
    for outcome in carried {
        match &outcome {
            (Ok(Ok(sent)), Ok(Ok(got))) if sent == got => {}
            other => return Err(format!("sent and got: {other:?}")),
        }
    }
    match relay.accepted(&world)? {
        2 => Ok(()),
        accepted => Err(format!("{accepted} accepted")),
    }
}

pub(crate) fn rules_fail() -> Result<(), String> {
    let world = World::build()?;
    let mut relay = Filed::start(&world, &taking("127.0.0.1:0", "10.9.2.0/24:3260"))?;
    let port = address(&relay.relay.addresses[0]).port();
    // A table of that name into which the rules do not fit.
    let table = format!("inet wansan_relay_127.0.0.1_{port}");
    sh(
        &world.middle,
        &format!(
            "nft delete table {table}; nft add table {table}
             nft 'add chain {table} take {{ type filter hook output priority 0; }}'"
        ),
    )?;
    let before = sh(&world.middle, "nft list ruleset; ip rule")?;
    let event = relay.reload(&taking("127.0.0.1:0", "10.9.2.2:3260"))?;
    let remark = relay.relay.remark().map_err(|error| said(&error))?;
    let after = sh(&world.middle, "nft list ruleset; ip rule")?;
    if event["changed"][0] != "127.0.0.1:0" || !remark.contains(" reloaded, but not all rules") {
        return Err(format!("{event}: {remark}"));
    }
    match after == before {
        true => Ok(()),
        false => Err(format!("{after}\n--- and before:\n{before}")),
    }
}
