//! What each law makes of a flow over an emulated path: the backlog, the throughput, and every byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use wansan_path::{Effects, Limit, Rate};
use wansan_relay::{
    DirectionSnapshot, EceSnapshot, Fallback, FlowSnapshot, Law, ListenerConfig, Relay,
};
use wansan_settings::Text;
use wansan_settings::quantity::{Size, SomeTime};
use wansan_tcp::TcpInfo;
use wansan_trace::congestion::SlowStarts;
use wansan_trace::event::Tcp;
use wansan_trace::{ConnectionId, SessionId, clock};

use crate::linear_topology::{LinearTopology, text};
use crate::machine::{Machine, Trouble, lateness};
use crate::program::LIMIT;

/// How often a flow is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// A client that sends, a relay near it, and a target far away; or a target that sends, a relay near that, and
/// a client far away.
pub(crate) struct Scene {
    /// Between the sender and the relay, one way; without it they share a wire.
    pub(crate) near: Option<Duration>,
    /// Between the relay and the receiver, one way.
    pub(crate) far: Duration,
    /// Whether the target sends.
    pub(crate) target_sends: bool,
    pub(crate) mbit_per_s: u64,
    /// What the far link's queue holds.
    pub(crate) queue_bytes: u64,
    /// Whether ECN is offered.
    pub(crate) ecn: bool,
    /// How long the flow runs before it is looked at, and how long it is looked at.
    pub(crate) times: [Duration; 2],
}

impl Default for Scene {
    fn default() -> Scene {
        Scene {
            near: None,
            far: Duration::from_millis(20),
            target_sends: false,
            mbit_per_s: 20,
            // Nothing is lost: what TCP makes of a loss is no law's doing.
            queue_bytes: 16 << 20,
            ecn: true,
            times: [Duration::from_secs(2), Duration::from_secs(2)],
        }
    }
}

/// What was seen of a flow.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) bytes_per_s: f64,
    /// Of the backlog at the far link's rate.
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// The share of the time in which the side that the relay sends to had something to send, or on its way
    /// (the kernel's busy time).
    pub(crate) busy: f64,
    /// The share of the looks at which nothing waited.
    pub(crate) dry: f64,
    /// How the sender's congestion window went, and what its TCP said first and last.
    pub(crate) starts: SlowStarts,
    pub(crate) sender: [Tcp; 2],
    pub(crate) last: FlowSnapshot,
    /// What the machine did to it, where that was much.
    pub(crate) disturbance: Option<String>,
    /// How often it was told that signals are of no use.
    pub(crate) fallbacks: u64,
}

fn effects(delay: Duration, rate: Option<u64>, queue_bytes: u64) -> Effects {
    let mut effects = Effects {
        delay,
        queue_limit: Limit::bytes(queue_bytes),
        ..Effects::default()
    };
    if let Some(rate) = rate.and_then(|mbit| Rate::from_bits_per_s(mbit * 1_000_000)) {
        effects.capacity = rate.into();
    }
    effects
}

impl Scene {
    fn build(&self) -> Result<LinearTopology, String> {
        let near = self.near.map(|delay| effects(delay, None, 16 << 20));
        let far = effects(self.far, Some(self.mbit_per_s), self.queue_bytes);
        let paths = match self.target_sends {
            true => [Some(far), near],
            false => [near, Some(far)],
        };
        LinearTopology::build(&["client", "relay", "target"], &paths, self.ecn)
    }

    /// Sends through a relay with that law, and looks at its flow.
    pub(crate) fn run(&self, change: impl FnOnce(&mut ListenerConfig)) -> Result<Seen, String> {
        let line = self.build()?;
        let machine = Machine::watch();
        let (relay, target) = line.relay(Size(64 << 20), |listener| {
            listener.flow.buffer = Size(4 << 20);
            let [far, near] = match self.target_sends {
                true => [&mut listener.flow.r#in, &mut listener.flow.out],
                false => [&mut listener.flow.out, &mut listener.flow.r#in],
            };
            far.congestion_control = Some("cubic".to_owned());
            near.congestion_control = Some("reno".to_owned());
            change(listener);
        })?;
        let address = relay.addresses()[0];
        let client = line.node(0);
        let client = client.run(move || TcpStream::connect_timeout(&address, LIMIT));
        let client = client.map_err(text)?;
        let (target, _) = target.accept().map_err(text)?;
        let (sender, receiver) = match self.target_sends {
            true => (target, client),
            false => (client, target),
        };
        let reader = thread::spawn(move || receive(receiver));
        let stream = sender.try_clone().map_err(text)?;
        let time = self.times[0] + self.times[1];
        let writer = thread::spawn(move || send(stream, time));
        let seen = self.look(&relay, &sender);
        let waiting = machine.waiting();
        let sent = writer.join().map_err(|_| "the writer panicked")?;
        let received = reader.join().map_err(|_| "the reader panicked")?;
        let (sent, received) = (sent.map_err(text)?, received?);
        drop(relay);
        let statistics = line.end()?;
        if sent != received {
            return Err(format!("{sent} bytes were sent, {received} came"));
        }
        Ok(Seen {
            disturbance: waiting.or_else(|| lateness(&statistics, self.far)),
            ..seen?
        })
    }

    /// What the relay sends to, and what waits for it.
    fn way<'a>(&self, flow: &'a FlowSnapshot) -> (&'a Tcp, &'a DirectionSnapshot) {
        match self.target_sends {
            true => (&flow.inward, &flow.back),
            false => (&flow.outward, &flow.onward),
        }
    }

    fn look(&self, relay: &Relay, sender: &TcpStream) -> Result<Seen, String> {
        let observer = relay.observer();
        let flow = || observer.snapshot().flows.into_iter().next();
        let mut starts = SlowStarts::default();
        let mut see_sender = |counts| {
            let info = TcpInfo::of(sender).map_err(text)?;
            let record = info.record(clock::now(), SessionId(0), ConnectionId(0));
            starts.see(&record, counts);
            Ok::<_, String>(record)
        };
        let began = Instant::now();
        while began.elapsed() < self.times[0] {
            thread::sleep(LOOK);
            see_sender(false)?;
        }
        let before = see_sender(false)?;
        let mut after = before;
        let first = flow().ok_or("no flow")?;
        let began = Instant::now();
        let mut last = first.clone();
        let mut waits = Vec::new();
        while began.elapsed() < self.times[1] {
            thread::sleep(LOOK);
            after = see_sender(true)?;
            last = flow().ok_or("the flow has ended")?;
            waits.push(self.way(&last).1.backlog.bytes());
        }
        let time = last.age.saturating_sub(first.age).as_secs_f64();
        let moved = |flow: &FlowSnapshot| self.way(flow).0.acked_bytes as f64;
        let busy_ns = self.way(&last).0.busy_ns - self.way(&first).0.busy_ns;
        waits.sort_unstable();
        let at = |share: f64| {
            let bytes = waits[((waits.len() - 1) as f64 * share) as usize] as f64;
            Duration::from_secs_f64(bytes * 8.0 / (self.mbit_per_s as f64 * 1e6))
        };
        let dry = waits.iter().filter(|bytes| **bytes == 0).count();
        Ok(Seen {
            bytes_per_s: (moved(&last) - moved(&first)) / time,
            p50: at(0.5),
            p99: at(0.99),
            busy: busy_ns as f64 / (time * 1e9),
            dry: dry as f64 / waits.len() as f64,
            starts,
            sender: [before, after],
            last,
            disturbance: None,
            fallbacks: observer.snapshot().meter.fallbacks.iter().sum(),
        })
    }
}

/// The byte at that place of the stream.
fn byte_at(place: u64) -> u8 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Sends a stream for so long, waits until the other end has closed, and says how long it was.
fn send(mut stream: TcpStream, time: Duration) -> std::io::Result<u64> {
    let began = Instant::now();
    let mut place = 0;
    let mut piece = vec![0; 64 << 10];
    while began.elapsed() < time {
        for (byte, place) in piece.iter_mut().zip(place..) {
            *byte = byte_at(place);
        }
        stream.write_all(&piece)?;
        place += piece.len() as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(place)
}

/// Reads one stream, and says how long it was.
fn receive(mut stream: TcpStream) -> Result<u64, String> {
    stream.set_read_timeout(Some(LIMIT)).map_err(text)?;
    let mut piece = vec![0; 256 << 10];
    let mut place = 0;
    loop {
        let read = stream.read(&mut piece).map_err(text)?;
        if read == 0 {
            return Ok(place);
        }
        for (byte, at) in piece[..read].iter().zip(place..) {
            if *byte != byte_at(at) {
                return Err(format!("byte {at} is another one"));
            }
        }
        place += read as u64;
    }
}

/// Without a law, and with one at [`LATENCY`]; both are told.
fn compared(scene: &Scene, law: Option<Law>) -> Result<(Seen, Seen), String> {
    let none = scene.run(|_| {})?;
    let held = scene.run(|listener| {
        listener.flow.latency = Some(SomeTime(LATENCY));
        listener.flow.law = law.map(Text);
    })?;
    let way = |seen: &Seen| *scene.way(&seen.last).1;
    for seen in [&none, &held] {
        eprintln!(
            "{}: {:.1} Mbit/s, backlog {:?} at the median, {:?} at 99 %, none in {:.1} % of the looks, \
             busy in {:.1} % of the time, {:?} {:?} {:?} {:?}, disturbed: {:?}",
            seen.last.law,
            seen.bytes_per_s * 8e-6,
            seen.p50,
            seen.p99,
            seen.dry * 100.0,
            seen.busy * 100.0,
            seen.starts,
            way(seen).backlog,
            way(seen).shares,
            seen.last.ece,
            seen.disturbance,
        );
    }
    Ok((none, held))
}

/// Fails where it does not hold: the relay, or the machine where that disturbed any of what was seen.
fn check(holds: bool, what: &str, seen: &[&Seen]) -> Result<(), Trouble> {
    if holds {
        return Ok(());
    }
    let what = format!("{what}: {seen:?}");
    let mut disturbances = seen.iter().filter_map(|seen| seen.disturbance.clone());
    Err(match disturbances.next() {
        Some(disturbance) => Trouble::Disturbed(what, disturbance),
        None => Trouble::Failed(what),
    })
}

/// The backlog is held to the time, the throughput is what it was, and the side that the relay sends to always
/// has something to send.
fn is_held(none: &Seen, held: &Seen) -> Result<(), Trouble> {
    let both = &[none, held];
    let kept = held.bytes_per_s > 0.97 * none.bytes_per_s;
    check(kept, "throughput falls", both)?;
    check(held.p99 <= LATENCY * 3 / 2, "the backlog is not held", both)?;
    check(held.p50 < none.p50 / 4, "it was small already", both)?;
    let is_busy = held.busy > 0.98 && held.dry < 0.01;
    check(is_busy, "it runs dry", both)
}

/// At 20 Mbit/s the backlog of 170 segments.
const LATENCY: Duration = Duration::from_millis(100);

/// A sender whose round trip has room for ten segments and more: ECE has power over it.
fn with_power() -> Scene {
    Scene {
        near: Some(Duration::from_millis(5)),
        ..Scene::default()
    }
}

pub(crate) fn window() -> Result<(), Trouble> {
    for scene in [Scene::default(), with_power()] {
        let (none, held) = compared(&scene, Some(Law::Window))?;
        is_held(&none, &held)?;
    }
    Ok(())
}

fn ece(seen: &Seen) -> Result<EceSnapshot, String> {
    seen.last.ece.ok_or("no law that signals".to_owned())
}

pub(crate) fn arrival() -> Result<(), Trouble> {
    asked(&with_power())
}

/// A relay at the target's edge: what it holds back is what the target sends.
pub(crate) fn arrival_from_the_target() -> Result<(), Trouble> {
    asked(&Scene {
        target_sends: true,
        ..with_power()
    })
}

fn asked(scene: &Scene) -> Result<(), Trouble> {
    let (none, held) = compared(scene, None)?;
    is_held(&none, &held)?;
    let EceSnapshot {
        signals, fallback, ..
    } = ece(&held)?;
    let works = signals.signals > 0 && signals.answers > 0 && fallback.is_none();
    check(works, "it does not signal", &[&held])?;
    // A round trip of the sender is 10 ms, and a cut takes two of them.
    let most = (held.last.age.as_millis() / 20) as u64;
    check(signals.signals <= most, "it signals too often", &[&held])?;
    // So it was cut, lost nothing, and did not fall below the threshold that the cut left.
    check(held.starts.has_left(), "it was not cut", &[&held])?;
    let [before, after] = held.sender;
    let lost = after.retransmits > before.retransmits;
    let stays = held.starts.returns() == 0 && !lost;
    check(stays, "the sender is back in slow start", &[&held])
}

pub(crate) fn fallbacks() -> Result<(), Trouble> {
    let without_ecn = Scene {
        ecn: false,
        ..with_power()
    };
    for (scene, reason) in [
        (without_ecn, Fallback::NoEcn),
        (Scene::default(), Fallback::Powerless),
    ] {
        let (none, held) = compared(&scene, Some(Law::Arrival))?;
        is_held(&none, &held)?;
        let ece = ece(&held)?;
        check(ece.fallback == Some(reason), reason.name(), &[&held])?;
        check(ece.signals.signals == 0, "it signals", &[&held])?;
    }
    Ok(())
}

/// A client so near that the rate of slow start is less than its least window, and that of the path is not.
pub(crate) fn slow_start() -> Result<(), Trouble> {
    let scene = Scene {
        near: Some(Duration::from_millis(2)),
        far: Duration::from_millis(50),
        ..Scene::default()
    };
    let held = scene.run(|listener| {
        listener.flow.latency = Some(SomeTime(LATENCY));
        listener.flow.law = Some(Text(Law::Arrival));
    })?;
    eprintln!("{:?}, {} fallbacks", held.last.ece, held.fallbacks);
    let EceSnapshot {
        signals, fallback, ..
    } = ece(&held)?;
    check(signals.powerless > 0, "it has power at once", &[&held])?;
    check(signals.signals > 0, "it does not signal", &[&held])?;
    let is_quiet = held.fallbacks == 0 && fallback.is_none();
    check(is_quiet, "told before it is known", &[&held])
}

/// P5's laws bound what they look at, whatever becomes of the throughput.
pub(crate) fn of_p5() -> Result<(), Trouble> {
    let none = with_power().run(|_| {})?;
    for law in [Law::EceBound, Law::EceRed] {
        let held = with_power().run(|listener| {
            listener.flow.law = Some(Text(law));
            listener.flow.ece.ece_bound = Some(Size(250_000));
        })?;
        eprintln!("{law}: {held:?}");
        let both = &[&none, &held];
        let signals = ece(&held)?.signals;
        check(signals.answers > 0, "it does not signal", both)?;
        check(held.p50 < none.p50 / 4, "the backlog is not held", both)?;
    }
    Ok(())
}
