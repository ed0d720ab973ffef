//! Rounds of random faults, under every law: whatever happens at the ends of flows or to the relay, bytes arrive as
//! sent, or the stream does not end with a FIN. Each received byte is compared with the one sent, which shows more than
//! a hash. A round is determined by its seed, and the same under each law; a failing round prints it.
//! `WANSAN_FAULT_ROUNDS` is the number of rounds of each law, `WANSAN_FAULT_SEED` the first seed.
//!
//! Laws that signal ECE run in a network namespace whose clients offer ECN.

#[path = "flows/peer.rs"]
#[expect(dead_code, reason = "what only flows need stands there too")]
mod peer;

use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use wansan_peers::program::find;
use wansan_peers::trial::{self, Stop};
use wansan_relay::{Fallback, Law, ListenerConfig, Meter};
use wansan_settings::Text;
use wansan_settings::quantity::{Size, SomeTime};
use wansan_tcp::ebpf;

use peer::{Content, Received, receive_while, reset, world};

/// Rounds of each law in the ordinary suite: a hundred in total under the laws that need no privileges, and the same
/// under those that do.
const ROUNDS: u64 = 50;
const SIGNALLED_ROUNDS: u64 = 20;

/// A socket's buffer: smaller than many pieces, and larger than a segment of loopback.
const SMALL_BUFFER: Size = Size(96 << 10);

/// Parallel flows of a round.
const FLOWS: u64 = 6;

/// The first argument of this program when it runs the rounds of a law in a namespace.
const ROLE: &str = "--role";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, law] = &arguments[..]
        && role == ROLE
    {
        let signalled = rounds(law.parse().unwrap());
        println!("{signalled:?}");
        return ExitCode::SUCCESS;
    }
    let of_law = |law: Law| trial::trial(format!("faults_under_{law}"), move || under(law));
    trial::run(Law::ALL.into_iter().map(of_law).collect())
}

fn under(law: Law) -> Result<(), Stop> {
    if matches!(law, Law::None | Law::Window) {
        rounds(law);
        return Ok(());
    }
    ebpf::available().map_err(|reason| Stop::NotRun(reason.to_string()))?;
    let ip = find("ip")?;
    let script = "\"$0\" link set lo up; echo 1 > /proc/sys/net/ipv4/tcp_ecn; exec \"$@\"";
    let output = Command::new(find("unshare")?)
        .args(["--net", "sh", "-ec", script])
        .arg(ip)
        .arg(std::env::current_exe()?)
        .args([ROLE, law.name()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    eprintln!("{law}: {}", String::from_utf8_lossy(&output.stdout).trim());
    trial::require(output.status.success(), || said)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// Runs rounds under a law; returns the sum of its signals.
fn rounds(law: Law) -> (u64, [u64; 2]) {
    let first = number("WANSAN_FAULT_SEED");
    let usual = match law {
        _ if first.is_some() => 1,
        Law::None | Law::Window => ROUNDS,
        Law::EceBound | Law::EceRed | Law::Arrival => SIGNALLED_ROUNDS,
    };
    let rounds = number("WANSAN_FAULT_ROUNDS").unwrap_or(usual);
    let first = first.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    let (mut signals, mut fallbacks) = (0, [0; 2]);
    for seed in first..first + rounds {
        let went = catch_unwind(AssertUnwindSafe(|| round(seed, law)));
        let Ok(meter) = went else {
            panic!(
                "again: WANSAN_FAULT_SEED={seed} cargo test -p wansan-relay --test faults {law}"
            );
        };
        signals += meter.ece_signals;
        for (sum, count) in fallbacks.iter_mut().zip(meter.fallbacks) {
            *sum += count;
        }
    }
    if rounds >= SIGNALLED_ROUNDS && law == Law::EceBound {
        assert!(signals > 0, "no signal in {rounds} rounds from {first} on");
    }
    assert_eq!(fallbacks[Fallback::NoEcn as usize], 0);
    (signals, fallbacks)
}

/// What happens to the relay after some flows have started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Nothing.
    Quiet,
    /// Its listener is reloaded with another latency and other buffers.
    Reload,
    /// It is stopped this many microseconds after all flows have started.
    Stop(u64),
}

impl Turn {
    fn draw(random: &mut Pcg64Mcg) -> Turn {
        match random.next_u64() % 4 {
            0 => Turn::Stop(1 << (random.next_u64() % 16)),
            1 => Turn::Reload,
            _ => Turn::Quiet,
        }
    }
}

/// How an end of a flow behaves.
#[derive(Debug, Clone, Copy)]
struct Behaviour {
    /// Bytes that it sends.
    length: usize,
    /// Largest write in bytes.
    piece: usize,
    /// It pauses after one piece in this many.
    pause_one_in: u64,
    /// It resets the connection after this many bytes.
    resets_at: Option<usize>,
    /// It reads nothing before this time has passed.
    reads_after: Duration,
    /// Its socket's buffers are small.
    small_buffers: bool,
}

impl Behaviour {
    fn draw(random: &mut Pcg64Mcg) -> Behaviour {
        let mut below = |bound: u64| random.next_u64() % bound;
        let length = 1 << below(22);
        let length = (length + below(length)) as usize;
        let most_of_piece = 1 << below(18);
        Behaviour {
            length,
            piece: 1 + below(most_of_piece) as usize + length / 200,
            pause_one_in: 1 + below(400),
            resets_at: (below(4) == 0).then(|| below(length as u64 + 1) as usize),
            reads_after: Duration::from_millis(if below(3) == 0 { below(200) } else { 0 }),
            small_buffers: below(3) == 0,
        }
    }

    /// Plays this end; returns whether it could send everything, and what it received.
    fn play(&self, stream: TcpStream, sends: u64, receives: u64) -> (bool, Received) {
        if self.small_buffers {
            set_socket_send_buffer_size(&stream, SMALL_BUFFER.bytes()).unwrap();
            set_socket_recv_buffer_size(&stream, SMALL_BUFFER.bytes()).unwrap();
        }
        let has_sent = AtomicBool::new(false);
        let played = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let sent = self.send(&stream, sends);
                has_sent.store(true, Ordering::Relaxed);
                if self.resets_at.is_some() {
                    // Wakes up the reader.
                    let _ = stream.shutdown(Shutdown::Read);
                }
                sent
            });
            std::thread::sleep(self.reads_after);
            let is_wanted = || self.resets_at.is_none() || !has_sent.load(Ordering::Relaxed);
            let received = receive_while(&stream, receives, is_wanted);
            (sender.join().unwrap(), received)
        });
        if self.resets_at.is_some() {
            reset(stream);
        }
        played
    }

    /// Sends its data, with a FIN unless a reset follows; returns whether it could.
    fn send(&self, mut to: &TcpStream, seed: u64) -> bool {
        let mut content = Content::new(seed);
        let mut random = Pcg64Mcg::seed_from_u64(!seed);
        let last = self.resets_at.unwrap_or(self.length);
        let mut bytes = vec![0; self.piece];
        let mut sent = 0;
        while sent < last {
            let piece = (1 + random.next_u64() as usize % self.piece).min(last - sent);
            content.fill(&mut bytes[..piece]);
            // The other end may have reset the connection.
            if to.write_all(&bytes[..piece]).is_err() {
                return false;
            }
            sent += piece;
            if random.next_u64().is_multiple_of(self.pause_one_in) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        self.resets_at.is_some() || to.shutdown(Shutdown::Write).is_ok()
    }
}

fn round(seed: u64, law: Law) -> Meter {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let buffer_bytes = (64 << 10) << (random.next_u64() % 6);
    let memory_bytes = [0, 64 << 10, 1 << 20, 64 << 20][random.next_u64() as usize % 4];
    let small = random.next_u64().is_multiple_of(3);
    // From far less than a byte's delay here to far more.
    let latency = Duration::from_micros(100 << (random.next_u64() % 10));
    let bound_bytes = (4 << 10) << (random.next_u64() % 8);
    let turn = Turn::draw(&mut random);
    let asks_target = random.next_u64().is_multiple_of(2);
    let settle = |listener: &mut ListenerConfig, latency: Duration| {
        let flow = &mut listener.flow;
        flow.buffer = Size(buffer_bytes as u64);
        flow.law = Some(Text(law));
        flow.latency = (law != Law::None).then_some(SomeTime(latency));
        let goes_by_bytes = matches!(law, Law::EceBound | Law::EceRed);
        flow.ece.ece_bound = goes_by_bytes.then_some(Size(bound_bytes));
        if asks_target {
            flow.r#in.congestion_control = Some("cubic".to_owned());
            flow.out.congestion_control = Some("reno".to_owned());
        }
        if small {
            flow.r#in.receive_buffer = Some(SMALL_BUFFER);
            flow.out.send_buffer = Some(SMALL_BUFFER);
        }
    };
    let mut world = world(|config| {
        config.process.memory = Size(memory_bytes as u64);
        settle(&mut config.file.listener[0], latency);
    });
    std::thread::scope(|scope| {
        for flow in 0..FLOWS {
            let ends = [Behaviour::draw(&mut random), Behaviour::draw(&mut random)];
            let flow_seed = seed ^ (flow << 48);
            // Sequentially, so that each target's end matches its client's.
            let streams = world.flow();
            scope.spawn(move || play(flow_seed, ends, turn, streams));
            if turn == Turn::Reload {
                let to = world.target.local_addr().unwrap().to_string();
                let mut listener = ListenerConfig::new("127.0.0.1:0", &to);
                settle(&mut listener, latency * (1 + flow as u32 % 3));
                listener.flow.r#in.send_buffer = Some(Size(SMALL_BUFFER.0 << (flow % 3)));
                world.relay.reload(&[listener]).unwrap();
            }
        }
        if let Turn::Stop(after_us) = turn {
            std::thread::sleep(Duration::from_micros(after_us));
            let snapshot = world.snapshot();
            let _ = world.relay.stop();
            return snapshot.meter;
        }
        let snapshot = world.until(|snapshot| snapshot.flows_now == 0);
        assert!(snapshot.memory_bytes_max <= memory_bytes, "{snapshot:?}");
        assert!(
            snapshot.meter.held_bytes_max <= buffer_bytes,
            "{snapshot:?}"
        );
        snapshot.meter
    })
}

/// Plays both ends of a flow.
fn play(seed: u64, ends: [Behaviour; 2], turn: Turn, streams: (TcpStream, TcpStream)) {
    let [of_client, of_target] = ends;
    let (client, target) = streams;
    let stops = matches!(turn, Turn::Stop(_));
    let resets = stops || ends.iter().any(|end| end.resets_at.is_some());
    std::thread::scope(|scope| {
        let at_client = scope.spawn(move || of_client.play(client, seed, seed + 1));
        let at_target = scope.spawn(move || of_target.play(target, seed + 1, seed));
        let both = [(at_client, ends), (at_target, [of_target, of_client])];
        for (played, [own, other]) in both {
            let (sent, received) = played.join().unwrap();
            assert!(sent || resets, "a write fails without a reset: {ends:?}");
            if own.resets_at.is_some() {
                continue;
            }
            match received.end {
                // The failed write has reported the reset, which is reported once.
                Ok(()) if !sent => {}
                Ok(()) => assert!(
                    other.resets_at.is_none() && received.bytes == other.length,
                    "a FIN after {} bytes of {other:?}",
                    received.bytes
                ),
                Err(error) => {
                    let stands = error.kind() == ErrorKind::WouldBlock;
                    assert!(
                        resets && !stands,
                        "{error} after {} bytes: {ends:?}",
                        received.bytes
                    );
                }
            }
        }
    });
}
