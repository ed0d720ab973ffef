//! Many connections, and what becomes of a watch when things go away.

use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use wansan_tcp::watch::{Ending, Namespace, Next, Process, Watch, WatchConfig};
use wansan_trace::event::TcpEvent;

use crate::world::{LONG, Observed, PORT, Sight, build, check, emulate, path, under_way};

const PAIRS: usize = 200;

/// Makes pairs of connections over the loopback device of the calling thread's namespace.
struct Pairs {
    listener: TcpListener,
}

impl Pairs {
    fn listen() -> Result<Pairs, String> {
        let loopback = ["link", "set", "lo", "up"];
        let loopback = Command::new("ip").args(loopback).status();
        check(loopback.is_ok_and(|status| status.success()), "ip link")?;
        let listener = TcpListener::bind(("127.0.0.1", PORT)).map_err(|e| e.to_string())?;
        Ok(Pairs { listener })
    }

    fn connect(&self, pairs: usize) -> Result<Vec<(TcpStream, TcpStream)>, String> {
        let connect = |_| -> std::io::Result<(TcpStream, TcpStream)> {
            let client = TcpStream::connect(("127.0.0.1", PORT))?;
            Ok((client, self.listener.accept()?.0))
        };
        let pairs: Result<Vec<_>, _> = (0..pairs).map(connect).collect();
        pairs.map_err(|error| error.to_string())
    }
}

pub(crate) fn events_without_room(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    world.nodes()[1].namespace().run(move || {
        let pairs = Pairs::listen()?;
        let watch = sight.watch(WatchConfig {
            event_bytes: Some(4096),
            ..sight.config()
        })?;
        let mut told = Observed::default();
        while told.unseen.events == 0 {
            // Two begins each: far more than a page of them before the watch looks again.
            drop(pairs.connect(PAIRS)?);
            let before = told.records.len();
            told.until(&watch, |told| told.records.len() > before)?;
        }
        Ok(())
    })
}

/// What nobody took in time is counted, to the last record, when the watch ends.
pub(crate) fn records_without_takers(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    world.nodes()[1].namespace().run(move || {
        let pairs = Pairs::listen()?;
        let _pairs = pairs.connect(1)?;
        // Longer each time, until as many batches wait as may.
        for seconds in [2, 4, 8, 16, 32] {
            let watch = sight.watch(WatchConfig {
                interval: Duration::from_millis(1),
                ..sight.config()
            })?;
            std::thread::sleep(Duration::from_secs(seconds));
            let last = watch.rest().last().ok_or("nothing was seen")?;
            if last.unseen.records > 0 {
                return Ok(());
            }
        }
        Err(
            "there was room for a minute of milliseconds, or nobody says that there was none"
                .to_owned(),
        )
    })
}

pub(crate) fn two_hundred(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    world.nodes()[1].namespace().run(move || {
        let pairs = Pairs::listen()?;
        // Some before the watch begins, the others after.
        let before = pairs.connect(PAIRS / 2)?;
        let watch = sight.watch(WatchConfig {
            interval: Duration::from_millis(20),
            ..sight.config()
        })?;
        let after = pairs.connect(PAIRS - PAIRS / 2)?;
        let mut told = Observed::default();
        told.until(&watch, |told| told.begun.len() == 2 * PAIRS)?;
        let mut cookies: Vec<u64> = told.begun.iter().map(|(cookie, _)| *cookie).collect();
        cookies.sort_unstable();
        cookies.dedup();
        check(cookies.len() == 2 * PAIRS, "a connection began twice")?;
        drop((before, after));
        told.until(&watch, |told| told.count(TcpEvent::End) == 2 * PAIRS)?;
        check(told.count(TcpEvent::Begin) == 2 * PAIRS, told.summary())?;
        check(told.unseen.connections == 0, told.summary())
    })
}

pub(crate) fn a_device_goes(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    let _emulator = emulate(&world, &path())?;
    let (watch, mut told, sender) = under_way(&world, sight)?;
    let gone = world.nodes()[1].namespace().run(|| {
        let delete = ["link", "del", "wan"];
        Command::new("ip").args(delete).status()
    });
    check(gone.is_ok_and(|status| status.success()), "ip link del")?;
    told.until(&watch, |told| told.devices_gone == ["wan"])?;
    let samples = told.count(TcpEvent::Sample);
    told.until(&watch, |told| told.count(TcpEvent::Sample) > samples + 5)?;
    // It tries without effect until the kernel gives up; nobody waits for that.
    drop(sender);
    Ok(())
}

pub(crate) fn a_process_ends(sight: Sight) -> Result<(), String> {
    // Nothing is sent by it: that its end is seen is what counts.
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let watch = sight.watch(WatchConfig {
        filter: None,
        process: Some(Process { id: child.id() }),
        ..sight.config()
    })?;
    drop(child.stdin.take());
    child.wait().map_err(|error| error.to_string())?;
    match ending(&watch)? {
        Ending::ProcessEnded { id } => check(id == child.id(), format!("process {id}")),
        other => Err(other.to_string()),
    }
}

/// A name for a namespace is a file; `ip netns` makes mounts, and a link does as well.
pub(crate) fn a_namespace_goes(sight: Sight) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("blue");
    std::os::unix::fs::symlink("/proc/thread-self/ns/net", &path).map_err(|e| e.to_string())?;
    let name = path.to_str().ok_or("no name for the namespace")?;
    let watch = sight.watch(WatchConfig {
        namespace: Some(Namespace::named(name)),
        ..sight.config()
    })?;
    std::fs::remove_file(&path).map_err(|error| error.to_string())?;
    match ending(&watch)? {
        Ending::NamespaceGone { path: gone } => check(gone == path, gone.display().to_string()),
        other => Err(other.to_string()),
    }
}

/// Why the watch ends by itself.
fn ending(watch: &Watch) -> Result<Ending, String> {
    let began = std::time::Instant::now();
    while began.elapsed() < LONG {
        if let Next::Over(ending) = watch.next(Duration::from_millis(50)) {
            return Ok(ending);
        }
    }
    Err("the watch goes on".to_owned())
}
