//! A client, the relay's host and a target, each in a network namespace, and the target behind the
//! relay's host.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_timeout};
use rustix::process::Signal;
use wansan_lab::world::Namespace;
use wansan_relay::{
    Installed, ListenerConfig, ProcessSettings, Relay, RelayFile, RelaySettings, Rules,
};
use wansan_settings::quantity::{Size, Span};
use wansan_settings::usual;

use crate::program::{LIMIT, Relay as Program};

pub(crate) const PORT: u16 = 3260;

/// What a side may be silent for, or leave unacknowledged.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct World {
    pub(crate) client: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) target: Namespace,
    /// Keep the namespaces' names for ip(8): their process ids.
    holders: Vec<Child>,
}

impl Drop for World {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            // One that has ended cannot be killed.
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// Runs a command of a shell in a namespace.
pub(crate) fn sh(place: &Namespace, command: &str) -> Result<String, String> {
    let words = command.to_owned();
    let output = place.run(move || {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("sh")
            .args(["-ec", &words])
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .output()
    });
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// An end of a [`World`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Client,
    Target,
}

const FORWARD: &str = "echo 1 > /proc/sys/net/ipv4/ip_forward
                       echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";

/// A process that keeps its namespace's name for ip(8).
fn hold() -> Result<Child, String> {
    let mut holder = Command::new("sleep");
    let holder = holder.arg("600").stdin(Stdio::null()).spawn();
    holder.map_err(|error| error.to_string())
}

/// Joins two hosts by a network, the first by that device, and leads all that the other one (named by a
/// process in it) sends to the first.
fn wire(
    host: &Namespace,
    device: &str,
    (end, id): (&Namespace, u32),
    network: usize,
) -> Result<(), String> {
    sh(
        host,
        &format!(
            "ip link add {device} type veth peer name eth netns {id}
             ip address add 10.9.{network}.1/24 dev {device}
             ip address add fd09:{network}::1/64 dev {device} nodad
             ip link set {device} up; ip link set lo up"
        ),
    )?;
    sh(
        end,
        &format!(
            "ip link set lo up; ip link set eth up
             ip address add 10.9.{network}.2/24 dev eth
             ip address add fd09:{network}::2/64 dev eth nodad
             ip route add default via 10.9.{network}.1
             ip -6 route add default via fd09:{network}::1"
        ),
    )
    .map(drop)
}

pub(crate) fn listen(host: &Namespace, at: SocketAddr) -> Result<TcpListener, String> {
    let listener = host.run(move || {
        let listener = TcpListener::bind(at)?;
        // accept(2) ends with it, too: a flow may be lost before it is here.
        set_socket_timeout(&listener, Timeout::Recv, Some(LIMIT))?;
        Ok::<_, io::Error>(listener)
    });
    listener.map_err(|error| format!("listen at {at}: {error}"))
}

pub(crate) fn connect(host: &Namespace, to: SocketAddr) -> Result<TcpStream, String> {
    let stream = host.run(move || TcpStream::connect_timeout(&to, LIMIT));
    let stream = stream.map_err(|error| format!("connect to {to}: {error}"))?;
    stream
        .set_read_timeout(Some(LIMIT))
        .map_err(|error| error.to_string())?;
    Ok(stream)
}

impl World {
    pub(crate) fn build() -> Result<World, String> {
        let new = |name| Namespace::new(name).map_err(|error| error.to_string());
        let mut world = World {
            client: new("client")?,
            middle: new("middle")?,
            target: new("target")?,
            holders: Vec::new(),
        };
        for (place, device) in ["in", "out"].into_iter().enumerate() {
            let holder = [&world.client, &world.target][place].run(hold)?;
            let id = holder.id();
            world.holders.push(holder);
            let end = [&world.client, &world.target][place];
            wire(&world.middle, device, (end, id), place + 1)?;
        }
        sh(&world.middle, FORWARD)?;
        Ok(world)
    }

    /// A host behind the client or the target, which forwards to it; network 3 joins them.
    pub(crate) fn behind(&mut self, end: End) -> Result<Namespace, String> {
        let far = Namespace::new("far").map_err(|error| error.to_string())?;
        let holder = far.run(hold)?;
        let id = holder.id();
        self.holders.push(holder);
        let (router, network) = match end {
            End::Client => (&self.client, 1),
            End::Target => (&self.target, 2),
        };
        wire(router, "far", (&far, id), 3)?;
        sh(router, FORWARD)?;
        self.lead(3, network)?;
        Ok(far)
    }

    /// Has the middle send what is for a network to the end that is in another one.
    pub(crate) fn lead(&self, to: usize, by: usize) -> Result<(), String> {
        let routes = format!(
            "ip route add 10.9.{to}.0/24 via 10.9.{by}.2
             ip -6 route add fd09:{to}::/64 via fd09:{by}::2"
        );
        sh(&self.middle, &routes).map(drop)
    }

    /// A transparent relay in the middle, and its rules.
    pub(crate) fn transparent(
        &self,
        mut listener: ListenerConfig,
    ) -> Result<(Relay, Installed), String> {
        listener.transparent = true;
        let to = listener.to.clone();
        let relay = self.relay(listener)?;
        let rules = Rules::new(relay.addresses()[0], &to).map_err(|error| error.to_string())?;
        let installed = self.middle.run(move || rules.install());
        Ok((relay, installed.map_err(|error| error.to_string())?))
    }

    /// A relay in the middle.
    fn relay(&self, listener: ListenerConfig) -> Result<Relay, String> {
        let settings = RelaySettings {
            file: RelayFile {
                listener: vec![listener],
            },
            process: ProcessSettings {
                threads: Some(2),
                flows: 100,
                memory: Size(16 << 20),
                ..usual()
            },
        };
        let report: fn(&str) = |line| eprintln!("relay: {line}");
        let relay = self.middle.run(move || Relay::start(&settings, report));
        relay.map_err(|error| error.to_string())
    }

    pub(crate) fn listen(&self, address: IpAddr) -> Result<TcpListener, String> {
        listen(&self.target, SocketAddr::new(address, PORT))
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> Result<TcpStream, String> {
        connect(&self.client, to)
    }

    /// Both ends of a flow through an explicit relay with those settings.
    fn flow(&self, listener: ListenerConfig) -> Result<(Relay, TcpStream, TcpStream), String> {
        let target = self.listen("10.9.2.2".parse().expect("an address"))?;
        let relay = self.relay(listener)?;
        let client = self.connect(relay.addresses()[0])?;
        let (mut server, _) = target.accept().map_err(|error| error.to_string())?;
        let error = |error: std::io::Error| error.to_string();
        server.set_read_timeout(Some(LIMIT)).map_err(error)?;
        (&client).write_all(b"hello").map_err(error)?;
        server.read_exact(&mut [0; 5]).map_err(error)?;
        Ok((relay, client, server))
    }

    /// From now on what comes in or goes out by a device is swallowed.
    fn swallow(&self, device: &str, hole: Hole) -> Result<(), String> {
        let mut rules = "nft add table inet hole\n".to_owned();
        for (swallows, hook, matching) in [
            (hole != Hole::Outward, "input", "iifname"),
            (hole != Hole::Inward, "output", "oifname"),
        ] {
            if swallows {
                rules += &format!(
                    "nft 'add chain inet hole {hook} {{ type filter hook {hook} priority 0; }}'
                     nft add rule inet hole {hook} {matching} {device} drop\n"
                );
            }
        }
        sh(&self.middle, &rules).map(drop)
    }

    /// Nothing is swallowed any more.
    fn heal(&self) -> Result<(), String> {
        sh(&self.middle, "nft delete table inet hole").map(drop)
    }
}

/// What a device swallows, as its host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hole {
    Inward,
    Outward,
    Both,
}

/// The relay's devices towards the target and the client, whether it is the client that is left when one
/// is a hole, and what that may swallow.
fn holes() -> impl Iterator<Item = (&'static str, bool, Hole)> {
    let devices = [("out", true), ("in", false)];
    let all = [Hole::Inward, Hole::Outward, Hole::Both];
    devices
        .into_iter()
        .flat_map(move |(device, client_is_left)| all.map(|hole| (device, client_is_left, hole)))
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A relay never carries flows to itself: not to an own address, the first or another one of a network,
/// and not where the target's address becomes its own only later.
pub(crate) fn circle() -> Result<(), String> {
    let world = World::build()?;
    let leading =
        |to: &str| ListenerConfig::new(&format!("0.0.0.0:{PORT}"), &format!("{to}:{PORT}"));
    sh(&world.middle, "ip address add 10.9.2.9/24 dev out")?;
    for own in ["10.9.2.1", "10.9.2.9", "127.0.0.5"] {
        match world.relay(leading(own)) {
            Err(error) if error.contains("which is the relay itself") => {}
            other => return Err(format!("{own}: {other:?}")),
        }
    }
    let relay = world.relay(leading("10.9.2.2"))?;
    sh(&world.middle, "ip address add 10.9.2.2/32 dev lo")?;
    let to = SocketAddr::new(address("10.9.1.1:0").ip(), PORT);
    let seen = world.client.run(move || {
        // The reset may come before the connection is used, or while it is.
        TcpStream::connect_timeout(&to, LIMIT).and_then(|mut stream| stream.read(&mut [0]))
    });
    if let Ok(bytes) = seen {
        return Err(format!("the client sees an end after {bytes} bytes"));
    }
    let began = Instant::now();
    loop {
        let snapshot = relay.observer().snapshot();
        if snapshot.flows_now == 0 && snapshot.meter.looped > 0 {
            return Ok(());
        }
        if began.elapsed() > LIMIT {
            return Err(format!("still: {snapshot:?}"));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn transparent() -> Result<(), String> {
    let world = World::build()?;
    for (listen, to, target, client) in [
        (
            "127.0.0.1:0",
            "10.9.2.0/24:3260",
            "10.9.2.2:3260",
            "10.9.1.2",
        ),
        ("0.0.0.0:0", "10.9.2.2:3260", "10.9.2.2:3260", "10.9.1.2"),
        (
            "[::1]:0",
            "[fd09:2::/64]:3260",
            "[fd09:2::2]:3260",
            "fd09:1::2",
        ),
    ] {
        let (relay, installed) = world.transparent(ListenerConfig::new(listen, to))?;
        let target = address(target);
        let server = world.listen(target.ip())?;
        let mut stream = world.connect(target)?;
        let (mut accepted, from) = server.accept().map_err(|error| error.to_string())?;
        if from.ip() != client.parse::<IpAddr>().expect("an address") {
            return Err(format!("{listen}: the target sees {from}"));
        }
        let mut got = vec![0; 300_000];
        let sent: Vec<u8> = (0..got.len()).map(|at| (at / 7) as u8).collect();
        stream.write_all(&sent).map_err(|error| error.to_string())?;
        accepted
            .read_exact(&mut got)
            .map_err(|error| error.to_string())?;
        accepted
            .write_all(b"back")
            .map_err(|error| error.to_string())?;
        stream
            .read_exact(&mut [0; 4])
            .map_err(|error| error.to_string())?;
        if got != sent {
            return Err("bytes have changed".to_owned());
        }
        let meter = relay.observer().snapshot().meter;
        if (meter.onward_bytes, meter.back_bytes) != (300_000, 4) {
            return Err(format!("not through the relay: {meter:?}"));
        }
        world.middle.run(move || drop(installed));
    }
    // Whoever connects to the relay itself is not carried to it again.
    let mut listener = ListenerConfig::new("10.9.1.1:0", "10.9.2.2:3260");
    listener.transparent = true;
    let relay = world.relay(listener)?;
    let to = relay.addresses()[0];
    let seen = world.client.run(move || {
        // The reset may come before the connection is used, or while it is.
        TcpStream::connect_timeout(&to, LIMIT).and_then(|mut stream| stream.read(&mut [0]))
    });
    match seen {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// A relay that ends takes its rules along, and no last bytes of its flows.
pub(crate) fn last_bytes() -> Result<(), String> {
    const BYTES: usize = 600_000;
    /// For a relay that would end too early.
    const HEAD_START: Duration = Duration::from_millis(300);
    let world = World::build()?;
    for (listen, to, at) in [
        ("127.0.0.1:0", "10.9.2.0/24:3260", "10.9.2.2:3260"),
        ("[::1]:0", "[fd09:2::/64]:3260", "[fd09:2::2]:3260"),
    ] {
        let error = |error: std::io::Error| error.to_string();
        let mut listener = ListenerConfig::new(listen, to);
        // All of it has room in the kernel before the client reads any.
        listener.flow.r#in.send_buffer = Some(Size(2 * BYTES as u64));
        let (mut relay, installed) = world.transparent(listener)?;
        let server = world.listen(address(at).ip())?;
        let mut client = world.connect(address(at))?;
        let (mut accepted, _) = server.accept().map_err(error)?;
        accepted.write_all(&[7; BYTES]).map_err(error)?;
        for end in [&accepted, &client] {
            end.shutdown(Shutdown::Write).map_err(error)?;
        }
        accepted.read_to_end(&mut Vec::new()).map_err(error)?;
        let mut got = Vec::new();
        let (drained, read) = thread::scope(|scope| {
            let (middle, relay) = (&world.middle, &mut relay);
            let draining = scope.spawn(move || {
                let drained = relay.drain(LIMIT, || false);
                middle.run(move || drop(installed));
                drained
            });
            thread::sleep(HEAD_START);
            let read = client.read_to_end(&mut got);
            (draining.join(), read)
        });
        read.map_err(|error| format!("{at}: after {} bytes: {error}", got.len()))?;
        let finished = relay.observer().meter().finished;
        if (got.len(), drained.ok(), finished) != (BYTES, Some(true), 1) {
            return Err(format!("{at}: {} bytes, {finished} finished", got.len()));
        }
    }
    Ok(())
}

/// What goes to the relay's own port, but on another host, is not for it, also where it listens at all
/// addresses.
pub(crate) fn nothing_else() -> Result<(), String> {
    let world = World::build()?;
    for (listener, to, target) in [
        ("0.0.0.0:0", "10.9.2.0/24:3260", "10.9.2.2"),
        ("[::]:0", "[fd09:2::/64]:3260", "fd09:2::2"),
    ] {
        let (relay, installed) = world.transparent(ListenerConfig::new(listener, to))?;
        let target: IpAddr = target.parse().expect("an address");
        let at = SocketAddr::new(target, relay.addresses()[0].port());
        let server = listen(&world.target, at)?;
        let _client = world.connect(at)?;
        let accepted = relay.observer().snapshot().meter.accepted;
        if accepted != 0 {
            return Err(format!("{at}: {accepted} taken"));
        }
        server.accept().map_err(|error| error.to_string())?;
        world.middle.run(move || drop(installed));
    }
    Ok(())
}

pub(crate) fn rules() -> Result<(), String> {
    let world = World::build()?;
    // Link-local addresses come in their own time.
    let all = "nft list ruleset; ip rule; ip -4 route show table all; ip -6 rule
               ip -6 route show table all | grep -v -e fe80 -e ff00";
    let mut stand = Vec::new();
    // Of one port, each with those of the others beside it.
    for (listen, to) in [
        ("127.0.0.1:4000", "10.9.2.0/24:3260"),
        ("[::1]:4000", "[fd09:2::/64]:3260"),
        ("127.0.0.2:4000", "10.9.3.0/24:3260"),
        ("[::]:4000", "[fd09:3::/64]:3260"),
    ] {
        let before = sh(&world.middle, all)?;
        let rules = Rules::new(address(listen), to).map_err(|error| error.to_string())?;
        let again = rules.clone();
        let error = |error: wansan_relay::RulesError| error.to_string();
        let installed = world.middle.run(move || rules.install()).map_err(error)?;
        let during = sh(&world.middle, all)?;
        let lines = |text: &str| text.lines().count();
        if lines(&during) <= lines(&before) {
            return Err(format!("{listen}: {during}\n--- and before:\n{before}"));
        }
        // A relay that was killed leaves its rules; those of the next one take their place.
        std::mem::forget(installed);
        let installed = world.middle.run(move || again.install()).map_err(error)?;
        let once = sh(&world.middle, all)?;
        if once != during {
            return Err(format!("{listen}: {once}\n--- and before:\n{during}"));
        }
        stand.push((listen, installed, before));
    }
    for (listen, installed, before) in stand.into_iter().rev() {
        world.middle.run(move || drop(installed));
        let after = sh(&world.middle, all)?;
        if after != before {
            return Err(format!("{listen}: {after}\n--- and before:\n{before}"));
        }
    }
    Ok(())
}

pub(crate) fn no_longer_transparent() -> Result<(), String> {
    let world = World::build()?;
    let to = address("10.9.2.2:3260");
    let listener = ListenerConfig::new("0.0.0.0:0", &to.to_string());
    let (mut relay, installed) = world.transparent(listener.clone())?;
    let relay = world
        .middle
        .run(move || relay.reload(&[listener]).map(|_| relay));
    let relay = relay.map_err(|error| error.to_string())?;
    // The rules stand still, but nobody is there to take what they lead to.
    let server = world.listen(to.ip())?;
    let _client = world.connect(to)?;
    let (_, from) = server.accept().map_err(|error| error.to_string())?;
    let accepted = relay.observer().snapshot().meter.accepted;
    world.middle.run(move || drop(installed));
    match (from.ip().to_string().as_str(), accepted) {
        ("10.9.1.2", 0) => Ok(()),
        _ => Err(format!("{accepted} taken; the target sees {from}")),
    }
}

pub(crate) fn told_again() -> Result<(), String> {
    let error = |error: Failed| error.message().unwrap_or_default().to_owned();
    let place = Namespace::new("relay").map_err(|error| error.to_string())?;
    sh(&place, "ip link set lo up")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("relay.toml");
    let write = |text: String| std::fs::write(&path, text).map_err(|error| error.to_string());
    let first = "[[listener]]\nlisten = \"127.0.0.1:0\"\nto = \"127.0.0.1:9\"\n".to_owned();
    write(first.clone())?;
    let name = path.to_string_lossy().into_owned();
    let relay = place.run(move || Program::start(&["--setup", "--config", &name]).map_err(error));
    let mut relay = relay?;
    let transparent = "[[listener]]\nlisten = \"127.0.0.2:0\"\nto = \"192.0.2.0/24:3260\"\n\
                       transparent = true\n";
    write(first.clone() + transparent)?;
    relay.signal(Signal::HUP).map_err(error)?;
    let event = relay.event("reloaded").map_err(error)?;
    let added = event["addresses"][1].as_str().unwrap_or_default();
    let said = event["rules"][0].as_str().unwrap_or_default();
    if event["addresses"][0] != relay.addresses[0].as_str()
        || !added.starts_with("127.0.0.2:")
        || !said.contains(&format!("tproxy ip to {added} "))
    {
        return Err(event.to_string());
    }
    let tables = sh(&place, "nft list tables")?;
    if !tables.contains("wansan_relay_127.0.0.2_") {
        return Err(tables);
    }
    // What is gone from the file takes its rules along, as soon as no flow can need them.
    write(first)?;
    relay.signal(Signal::HUP).map_err(error)?;
    let gone = relay.event("reloaded").map_err(error)?;
    if !gone["rules"].is_null() {
        return Err(gone.to_string());
    }
    relay.signal(Signal::HUP).map_err(error)?;
    let event = relay.event("reloaded").map_err(error)?;
    let tables = sh(&place, "nft list tables")?;
    match event["rules"].is_null() && tables.is_empty() {
        true => Ok(()),
        false => Err(format!("{event} {tables}")),
    }
}

/// That end of the flow is reset in time.
fn is_reset(mut end: &TcpStream) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match end.read(&mut [0; 1000]) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            other => return Err(format!("{other:?} after {:?}", began.elapsed())),
        }
    }
}

pub(crate) fn black_hole() -> Result<(), String> {
    for (device, client_is_left, hole) in holes() {
        let place = |what: String| format!("{device}, {hole:?}: {what}");
        let world = World::build()?;
        let mut listener = ListenerConfig::new("10.9.1.1:0", "10.9.2.2:3260");
        listener.flow.r#in.user_timeout = Some(Span(PATIENCE));
        listener.flow.out.user_timeout = Some(Span(PATIENCE));
        let (relay, client, server) = world.flow(listener)?;
        world.swallow(device, hole)?;
        let (left, mut lost) = match client_is_left {
            true => (&client, &server),
            false => (&server, &client),
        };
        // What it sends now is never acknowledged on the other side.
        let mut sender = left;
        sender
            .write_all(&[7; 20_000])
            .map_err(|error| error.to_string())?;
        is_reset(left).map_err(place)?;
        let meter = relay.observer().snapshot().meter;
        if meter.lost != 1 {
            return Err(place(format!("{meter:?}")));
        }
        // The side behind the hole has heard of no end.
        lost.set_nonblocking(true)
            .map_err(|error| error.to_string())?;
        let mut heard = 0;
        let end = loop {
            match lost.read(&mut [0; 1000]) {
                Ok(0) => return Err(place("what was cut off looks complete".to_owned())),
                Ok(read) => heard += read,
                Err(error) => break error.kind(),
            }
        };
        // Without acknowledgements it has no more than a window of it.
        let is_possible = heard == 0 || hole == Hole::Inward;
        let is_told = end == ErrorKind::ConnectionReset && hole == Hole::Inward;
        if !is_possible || !(is_told || end == ErrorKind::WouldBlock) {
            return Err(place(format!(
                "the side behind it sees {heard} bytes, {end}"
            )));
        }
    }
    Ok(())
}

pub(crate) fn silence() -> Result<(), String> {
    for (device, client_is_left, hole) in holes() {
        let world = World::build()?;
        let mut listener = ListenerConfig::new("10.9.1.1:0", "10.9.2.2:3260");
        listener.flow.r#in.keep_alive = Span(PATIENCE);
        listener.flow.out.keep_alive = Span(PATIENCE);
        let (_relay, client, server) = world.flow(listener)?;
        world.swallow(device, hole)?;
        // Nobody sends anything.
        let left = if client_is_left { &client } else { &server };
        is_reset(left).map_err(|error| format!("{device}, {hole:?}: {error}"))?;
    }
    Ok(())
}

/// One end has forgotten the flow, as a host does that was started anew, and did not say so: the other
/// end is told as soon as that shows, when something is sent or the relay asks.
pub(crate) fn half_open() -> Result<(), String> {
    for (device, client_is_left) in [("out", true), ("in", false)] {
        for sends in [true, false] {
            let world = World::build()?;
            let mut listener = ListenerConfig::new("10.9.1.1:0", "10.9.2.2:3260");
            let keep_alive = if sends { Duration::ZERO } else { PATIENCE };
            let keep_alive = Span(keep_alive);
            listener.flow.r#in.keep_alive = keep_alive;
            listener.flow.out.keep_alive = keep_alive;
            let (relay, client, server) = world.flow(listener)?;
            let (left, forgets) = match client_is_left {
                true => (client, server),
                false => (server, client),
            };
            world.swallow(device, Hole::Inward)?;
            // Its reset does not arrive.
            set_socket_linger(&forgets, Some(Duration::ZERO)).map_err(|error| error.to_string())?;
            drop(forgets);
            world.heal()?;
            if sends {
                (&left)
                    .write_all(b"still there?")
                    .map_err(|error| error.to_string())?;
            }
            is_reset(&left).map_err(|error| format!("{device}, sends {sends}: {error}"))?;
            let meter = relay.observer().snapshot().meter;
            if meter.lost != 1 {
                return Err(format!("{device}, sends {sends}: {meter:?}"));
            }
        }
    }
    Ok(())
}

/// The target's host is gone with its cable; a flow that is silent, one that sends, and one that begins
/// end all the same.
pub(crate) fn vanished() -> Result<(), String> {
    let world = World::build()?;
    let mut listener = ListenerConfig::new("10.9.1.1:0", "10.9.2.2:3260");
    listener.flow.out.keep_alive = Span(PATIENCE);
    listener.flow.out.user_timeout = Some(Span(PATIENCE));
    let target = world.listen("10.9.2.2".parse().expect("an address"))?;
    let relay = world.relay(listener)?;
    let at = relay.addresses()[0];
    let begin = || {
        let client = world.connect(at)?;
        let (server, _) = target.accept().map_err(|error| error.to_string())?;
        Ok::<_, String>((client, server))
    };
    let (silent, _its_server) = begin()?;
    let (sending, _its_server) = begin()?;
    sh(&world.middle, "ip link delete out")?;
    (&sending)
        .write_all(&[7; 20_000])
        .map_err(|error| error.to_string())?;
    for (name, client) in [("silent", silent), ("sending", sending)] {
        is_reset(&client).map_err(|error| format!("{name}: {error}"))?;
    }
    // There is no way any more: that may show before its connection is used.
    let begun = world.client.run(move || {
        TcpStream::connect_timeout(&at, LIMIT).and_then(|mut client| client.read(&mut [0]))
    });
    match begun {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
        other => Err(format!("new: {other:?}")),
    }
}
