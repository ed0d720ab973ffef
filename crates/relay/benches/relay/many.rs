//! Many flows at once: most of them idle, a thousand busy.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use wansan_peers::compare::{Bound, Comparison, Side};
use wansan_peers::process::PeerError;
use wansan_server::descriptors;
use wansan_server::poller::{Poller, Ready};
use wansan_trace::clock;

use crate::memory::{Memory, in_words};
use crate::questions::{self, Own, system};

/// Promised: this many flows ...
const IDLE: usize = 20_000;
const BUSY: usize = 1_000;

/// ... in so much memory.
const PROMISED_BYTES: u64 = 1 << 30;

/// How long the busy flows are measured, after a warm-up of the same length.
const TIME: Duration = Duration::from_secs(5);

/// How often memory use is sampled meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// Time limit for opening flows.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first argument of this program when it plays both ends of flows.
pub(crate) const ROLE: &str = "--ends";

/// Descriptors of a process other than flows.
const OTHER_DESCRIPTORS: usize = 200;

const BLOCK_BYTES: usize = 64 << 10;
const LISTENER: u64 = u64::MAX;

/// Memory of the relay and of the kernel for it. Where the limit of descriptors (two per flow, in a relay as at its
/// ends) allows a process fewer flows, several relays share them: they use no less than one would.
pub(crate) fn many() -> Result<Vec<Comparison>, PeerError> {
    let allowed = descriptors::raise().saturating_sub(OTHER_DESCRIPTORS) / 2;
    let count = (IDLE + BUSY).div_ceil(allowed.max(1));
    let share = |whole: usize, place: usize| whole / count + usize::from(place < whole % count);
    let mut groups = Vec::new();
    let (mut empty, mut with_idle) = (Memory::default(), Memory::default());
    for place in 0..count {
        let mut group = Group::start()?;
        empty = empty + group.relay.memory()?;
        group.open(share(IDLE, place))?;
        with_idle = with_idle + group.relay.memory()?;
        groups.push(group);
    }
    for (place, group) in groups.iter_mut().enumerate() {
        group.open_busy(share(BUSY, place))?;
    }
    thread::sleep(TIME);
    moved(&mut groups)?;
    let mut most = Memory::default();
    let began = Instant::now();
    while began.elapsed() < TIME {
        thread::sleep(LOOK);
        let mut all = Memory::default();
        for group in &mut groups {
            all = all + group.relay.memory()?;
        }
        most = most.max(all);
    }
    let (bytes, movers) = moved(&mut groups)?;
    if movers < BUSY as u64 {
        let what = format!("only {movers} of {BUSY} flows moved anything in {TIME:?}");
        return Err(PeerError::Noise(what));
    }
    for group in &mut groups {
        group.ends.ask("touch")?;
    }
    thread::sleep(TIME);
    let (_, stand) = moved(&mut groups)?;
    if stand < (IDLE + BUSY) as u64 {
        let what = format!("only {stand} of {} flows stood at the end", IDLE + BUSY);
        return Err(system(io::Error::other(what)));
    }
    let for_idle = (with_idle.bytes() - empty.bytes()) / IDLE as u64;
    let gib = bytes as f64 / f64::from(1 << 30);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Ok(vec![Comparison {
        question: format!(
            "memory of {IDLE} idle flows ({for_idle} B each) and {BUSY} busy ones ({:.2} GiB/s through them), \
             in {count} process(es) as the limit of descriptors has it: {}",
            gib / TIME.as_secs_f64(),
            in_words(most)
        ),
        unit: "MiB",
        ours: Side {
            name: "wansan relay",
            samples: vec![mib(most.bytes())],
        },
        others: vec![Side {
            name: "promised",
            samples: vec![mib(PROMISED_BYTES)],
        }],
        bound: Bound::AtMost(1.0),
    }])
}

impl Memory {
    fn max(self, other: Memory) -> Memory {
        if other.bytes() > self.bytes() {
            other
        } else {
            self
        }
    }
}

/// A relay, and a process with both ends of its flows.
struct Group {
    relay: Own,
    ends: Own,
}

impl Group {
    fn start() -> Result<Group, PeerError> {
        let mut ends = Own::start(&[ROLE])?;
        let relay = Own::start(&[questions::ROLE, "relay", &ends.address.to_string()])?;
        ends.ask(&relay.address.to_string())?;
        Ok(Group { relay, ends })
    }

    /// Opens idle flows. They are established when it returns.
    fn open(&mut self, count: usize) -> Result<(), PeerError> {
        self.ends.ask(&format!("idle {count}")).map(drop)
    }

    /// Flows that send as fast as possible.
    fn open_busy(&mut self, count: usize) -> Result<(), PeerError> {
        self.ends.ask(&format!("busy {count}")).map(drop)
    }
}

/// Bytes forwarded since the last call, and the number of flows they came through.
fn moved(groups: &mut [Group]) -> Result<(u64, u64), PeerError> {
    let mut sum = (0, 0);
    for group in groups {
        let answer = group.ends.ask("moved")?;
        let (bytes, movers) = answer
            .split_once(' ')
            .ok_or_else(|| wrong_answer(&answer))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong_answer(&answer));
        sum = (sum.0 + number(bytes)?, sum.1 + number(movers)?);
    }
    Ok(sum)
}

fn wrong_answer(answer: &str) -> PeerError {
    system(io::Error::other(format!("answers {answer:?}")))
}

/// Plays both ends of a relay's flows: prints the address of their target, reads that of the relay, and executes one
/// command per line, until standard input ends.
pub(crate) fn ends() -> io::Result<()> {
    let _ = descriptors::raise();
    let sink = Sink::start()?;
    let answer = |text: String| {
        println!("{text}");
        io::stdout().flush()
    };
    answer(sink.address.to_string())?;
    let over = Arc::new(AtomicBool::new(false));
    let mut senders = Vec::new();
    let mut idle: Vec<TcpStream> = Vec::new();
    let mut relay = None;
    let mut before = Vec::new();
    for line in io::stdin().lines() {
        let line = line?;
        let unknown = || io::Error::new(io::ErrorKind::InvalidInput, line.clone());
        match (relay, line.split_once(' ')) {
            (None, _) => {
                relay = Some(line.parse().map_err(|_| unknown())?);
                answer(String::new())?;
            }
            (Some(_), None) if line == "touch" => {
                for mut stream in &idle {
                    stream.write_all(b"x")?;
                }
                answer(String::new())?;
            }
            (Some(_), None) => {
                let after = sink.taken();
                before.resize(after.len(), 0);
                let moved: Vec<u64> = after.iter().zip(&before).map(|(b, a)| b - a).collect();
                let movers = moved.iter().filter(|bytes| **bytes > 0).count();
                before = after;
                answer(format!("{} {movers}", moved.iter().sum::<u64>()))?;
            }
            (Some(relay), Some((kind, count))) => {
                let flows = sink.flows(relay, count.parse().map_err(|_| unknown())?)?;
                match kind {
                    "idle" => idle.extend(flows),
                    _ => senders.push(send_until(flows, Arc::clone(&over))?),
                }
                answer(String::new())?;
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    for sender in senders {
        sender
            .join()
            .map_err(|_| io::Error::from(io::ErrorKind::Other))??;
    }
    Ok(())
}

/// A sink with one thread for all connections.
struct Sink {
    address: SocketAddr,
    /// Bytes received on each connection, in order of accepting.
    taken: Arc<Mutex<Vec<u64>>>,
}

impl Sink {
    /// Its thread ends with the process.
    fn start() -> io::Result<Sink> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let taken = Arc::<Mutex<Vec<u64>>>::default();
        let counters = Arc::clone(&taken);
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER)?;
        thread::spawn(move || take(&listener, &poller, &counters));
        Ok(Sink { address, taken })
    }

    fn taken(&self) -> Vec<u64> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.clone()
    }

    /// Opens `count` flows through the relay at `relay`.
    fn flows(&self, relay: SocketAddr, count: usize) -> io::Result<Vec<TcpStream>> {
        /// Connections in progress that overflow no queue.
        const AT_ONCE: usize = 100;
        let before = self.taken().len();
        let mut streams = Vec::new();
        for number in 1..=count {
            streams.push(TcpStream::connect(relay)?);
            if number % AT_ONCE == 0 || number == count {
                let began = Instant::now();
                while self.taken().len() < before + number {
                    if began.elapsed() > PATIENCE {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(streams)
    }
}

fn take(listener: &TcpListener, poller: &Poller, taken: &Mutex<Vec<u64>>) -> io::Result<()> {
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut ready: Vec<Ready> = Vec::new();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        poller.wait(clock::now(), None, &mut ready)?;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        for event in &ready {
            if event.source == LISTENER {
                let (stream, _) = listener.accept()?;
                poller.add(&stream, streams.len() as u64)?;
                streams.push(stream);
                taken.push(0);
                continue;
            }
            let place = event.source as usize;
            // TCP discards the bytes without copying.
            match recv(
                &streams[place],
                &mut block,
                RecvFlags::TRUNC | RecvFlags::DONTWAIT,
            ) {
                Ok((_, bytes @ 1..)) => taken[place] += bytes as u64,
                Err(rustix::io::Errno::AGAIN) => {}
                Ok((_, 0)) | Err(_) => poller.remove(&streams[place])?,
            }
        }
    }
}

/// Sends as fast as possible on each of `streams`, until it is `over`.
fn send_until(
    streams: Vec<TcpStream>,
    over: Arc<AtomicBool>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let poller = Poller::new()?;
    for (stream, source) in streams.iter().zip(0..) {
        stream.set_nonblocking(true)?;
        poller.add(stream, source)?;
        poller.interest(stream, source, false, true)?;
    }
    Ok(thread::spawn(move || {
        let mut ready: Vec<Ready> = Vec::new();
        let block = vec![0x5a; BLOCK_BYTES];
        while !over.load(Ordering::Relaxed) {
            let now = clock::now();
            poller.wait(now, Some(now + LOOK), &mut ready)?;
            for event in &ready {
                match (&streams[event.source as usize]).write(&block) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }))
}
