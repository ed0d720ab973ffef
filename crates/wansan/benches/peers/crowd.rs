//! Many initiators on one thread: sessions of our state machines, each over a connection of its own.
//!
//! Each gets as much of the thread's time as it has to do at once, in the order in which the kernel reports them, so
//! that what differs between sessions is the target's doing.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_iscsi::initiator::{Command, Handshake, Session, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::cdb;
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_peers::process::PeerError;
use wansan_server::poller::{Poller, Ready};
use wansan_trace::{Instant, Recorder, clock};

/// Bytes of each read.
const BLOCK_BYTES: usize = 4096;
/// Those of the unit.
const LOGICAL_BLOCK_BYTES: usize = 512;
/// Logins under way at once: fewer than a target takes from one address before it pushes any out.
const AT_ONCE: usize = 64;
/// The most reads in flight that are asked of a session.
const MOST_TASKS: usize = 1024;
/// How long nothing may happen while something is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sessions with one target.
pub(crate) struct Crowd {
    poller: Poller,
    members: Vec<Member>,
    ready: Vec<Ready>,
    trace: Recorder,
    random: Pcg64Mcg,
    blocks: u64,
}

/// One session.
struct Member {
    stream: TcpStream,
    phase: Phase,
    /// The socket has refused bytes, and is waited for.
    waits_for_room: bool,
    /// When each of its reads was asked for, by the number that the command has.
    asked: Vec<Instant>,
    /// Buffers of reads, and their numbers, to ask with again.
    spare: VecDeque<(u64, Vec<u8>)>,
    /// Reads since the measurement began.
    done: u64,
}

enum Phase {
    Login(Box<Handshake>),
    Session(Box<Session>),
    /// Its login could not be made a session of.
    Over,
}

/// What all sessions together have done in a measured time.
pub(crate) struct Reached {
    /// Reads of each session.
    pub(crate) reads: Vec<u64>,
    /// Those before the measurement and after it, too.
    pub(crate) all_reads: u64,
    /// How long each took that was measured, in µs, in ascending order.
    latencies_us: Vec<u32>,
    time: Duration,
}

impl Reached {
    /// Reads a second of all sessions.
    pub(crate) fn iops(&self) -> f64 {
        self.reads.iter().sum::<u64>() as f64 / self.time.as_secs_f64()
    }

    /// What so much of all reads, from 0 to 1, took at most, in µs.
    pub(crate) fn latency_us(&self, fraction: f64) -> f64 {
        let last = self.latencies_us.len().saturating_sub(1);
        let place = (fraction * last as f64) as usize;
        self.latencies_us
            .get(place)
            .copied()
            .map_or(f64::NAN, f64::from)
    }

    /// Jain's index of the sessions' rates: 1 where all are equal, 1/n where one has everything (Jain, Chiu and Hawe,
    /// DEC TR-301, 1984).
    pub(crate) fn fairness(&self) -> f64 {
        let (sum, squares) = self
            .reads
            .iter()
            .fold((0.0, 0.0), |(sum, squares), &reads| {
                (sum + reads as f64, squares + (reads as f64).powi(2))
            });
        sum * sum / (self.reads.len() as f64 * squares)
    }
}

impl Crowd {
    /// `count` sessions with the target `name` at `address`, called `who`-0, `who`-1 and so on, for a unit of
    /// `unit_bytes`. All have logged in.
    ///
    /// # Errors
    /// When one cannot.
    pub(crate) fn log_in(
        (address, name): (&str, &str),
        who: &str,
        count: usize,
        unit_bytes: u64,
    ) -> Result<Crowd, PeerError> {
        let mut crowd = Crowd {
            poller: Poller::new().map_err(failed)?,
            members: Vec::new(),
            ready: Vec::new(),
            trace: Recorder::off(),
            random: Pcg64Mcg::seed_from_u64(1),
            blocks: unit_bytes / BLOCK_BYTES as u64,
        };
        let mut under_way = 0;
        while crowd.members.len() < count || under_way > 0 {
            while crowd.members.len() < count && under_way < AT_ONCE {
                let who = format!("iqn.2026-11.net.example:{who}-{}", crowd.members.len());
                let login =
                    Handshake::begin(&who, [0x80, 0, 0, 0, 0, 1], Some(name), Wanted::default());
                let login = login.map_err(failed)?;
                crowd.dial(address, login).map_err(failed)?;
                under_way += 1;
            }
            for place in crowd.wait()? {
                under_way -= usize::from(crowd.members[place].go_on_logging_in().map_err(failed)?);
            }
        }
        Ok(crowd)
    }

    fn dial(&mut self, address: &str, login: Handshake) -> io::Result<()> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.poller.add(&stream, self.members.len() as u64)?;
        let mut member = Member {
            stream,
            phase: Phase::Login(Box::new(login)),
            waits_for_room: false,
            asked: Vec::new(),
            spare: VecDeque::new(),
            done: 0,
        };
        member.go_on_logging_in()?;
        self.members.push(member);
        Ok(())
    }

    /// The members whose sockets are ready.
    fn wait(&mut self) -> Result<Vec<usize>, PeerError> {
        let now = clock::now();
        let waited = self.poller.wait(now, Some(now + PATIENCE), &mut self.ready);
        waited.map_err(failed)?;
        if self.ready.is_empty() {
            return Err(failed(io::Error::from(ErrorKind::TimedOut)));
        }
        Ok(self
            .ready
            .iter()
            .map(|event| event.source as usize)
            .collect())
    }

    /// Reads at random for `time`, after a quarter of that which does not count; each session has as many reads in
    /// flight as `in_flight` says of its number.
    ///
    /// # Errors
    /// When a session or a read fails.
    pub(crate) fn read(
        &mut self,
        in_flight: impl Fn(usize) -> usize,
        time: Duration,
    ) -> Result<Reached, PeerError> {
        let begins = clock::now() + time / 4;
        let ends = begins + time;
        for place in 0..self.members.len() {
            self.members[place].prepare(in_flight(place));
            self.ask(place, clock::now())?;
        }
        let mut latencies_us = Vec::new();
        let mut all_reads = 0;
        loop {
            let ready = self.wait()?;
            let now = clock::now();
            for place in ready {
                let took = self.members[place].receive(now, &mut self.trace)?;
                all_reads += took.len() as u64;
                if now >= begins && now < ends {
                    self.members[place].done += took.len() as u64;
                    latencies_us.extend(took);
                }
                if now < ends {
                    self.ask(place, now)?;
                } else {
                    // What waits in the session for the command window.
                    self.send(place, now)?;
                }
            }
            if now >= ends {
                all_reads += self.settle()?;
                break;
            }
        }
        latencies_us.sort_unstable();
        Ok(Reached {
            reads: self.members.iter().map(|member| member.done).collect(),
            all_reads,
            latencies_us,
            time,
        })
    }

    /// Waits until nothing is in flight; how many reads that took.
    fn settle(&mut self) -> Result<u64, PeerError> {
        let mut reads = 0;
        while self.members.iter().any(Member::is_busy) {
            for place in self.wait()? {
                let now = clock::now();
                let took = self.members[place].receive(now, &mut self.trace)?;
                reads += took.len() as u64;
                self.send(place, now)?;
            }
        }
        Ok(reads)
    }

    /// Has a session ask again with all that it has spare.
    fn ask(&mut self, place: usize, now: Instant) -> Result<(), PeerError> {
        let member = &mut self.members[place];
        let Phase::Session(session) = &mut member.phase else {
            return Ok(());
        };
        while let Some((user, buffer)) = member.spare.pop_front() {
            let block = self.random.next_u64() % self.blocks;
            let blocks = BLOCK_BYTES / LOGICAL_BLOCK_BYTES;
            let command = Command {
                lun: Lun::default(),
                cdb: cdb::read(block * blocks as u64, blocks as u32, false),
                attribute: TaskAttribute::Simple,
                transfer: Transfer::Read(buffer),
                user,
            };
            member.asked[user as usize] = now;
            let submitted = session.submit(command, now, &mut self.trace);
            submitted.map_err(failed)?;
        }
        self.send(place, now)
    }

    /// Sends what a session has to send, as far as its socket takes it.
    fn send(&mut self, place: usize, now: Instant) -> Result<(), PeerError> {
        let member = &mut self.members[place];
        let waits = !member.send(now, &mut self.trace).map_err(failed)?;
        if waits != member.waits_for_room {
            member.waits_for_room = waits;
            let interest = self
                .poller
                .interest(&member.stream, place as u64, true, waits);
            interest.map_err(failed)?;
        }
        Ok(())
    }
}

impl Member {
    /// Says whether the login is over with this.
    fn go_on_logging_in(&mut self) -> io::Result<bool> {
        let Phase::Login(login) = &mut self.phase else {
            return Ok(false);
        };
        match self.stream.read(login.space()) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => login.filled(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        login.receive().map_err(io::Error::other)?;
        // Less than any socket has room for.
        while !login.pending().is_empty() {
            let bytes = self.stream.write(login.pending())?;
            login.sent(bytes);
        }
        if !login.is_done() {
            return Ok(false);
        }
        let done = std::mem::replace(&mut self.phase, Phase::Over);
        if let Phase::Login(login) = done {
            let session = login.into_session(MOST_TASKS).map_err(io::Error::other)?;
            self.phase = Phase::Session(Box::new(session));
        }
        Ok(true)
    }

    /// Has room for so many reads in flight.
    fn prepare(&mut self, in_flight: usize) {
        self.done = 0;
        self.asked = vec![Instant::ZERO; in_flight];
        self.spare = (0..in_flight as u64)
            .map(|user| (user, vec![0; BLOCK_BYTES]))
            .collect();
    }

    fn is_busy(&self) -> bool {
        self.spare.len() < self.asked.len()
    }

    /// Reads what has come, once; how long each read took that is done with it, in µs.
    fn receive(&mut self, now: Instant, trace: &mut Recorder) -> Result<Vec<u32>, PeerError> {
        let Phase::Session(session) = &mut self.phase else {
            return Ok(Vec::new());
        };
        let connection = &mut session.connections()[0];
        match self.stream.read(connection.space()) {
            Ok(0) => return Err(failed(io::Error::from(ErrorKind::UnexpectedEof))),
            Ok(bytes) => connection.filled(bytes, now),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        }
        session.receive(0, now, trace).map_err(failed)?;
        let mut took_us = Vec::new();
        while let Some(done) = session.poll_completion(now, trace) {
            let answer = done.outcome.map_err(failed)?;
            if answer.status != ScsiStatus::Good {
                let what = format!("a read ended with {:?}", answer.status);
                return Err(failed(io::Error::other(what)));
            }
            let took = now.since(self.asked[done.user as usize]);
            took_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
            self.spare
                .push_back((done.user, done.transfer.into_buffer()));
        }
        Ok(took_us)
    }

    /// Says whether the socket has taken everything.
    fn send(&mut self, now: Instant, trace: &mut Recorder) -> io::Result<bool> {
        let Phase::Session(session) = &mut self.phase else {
            return Ok(true);
        };
        loop {
            session.pump(now, trace);
            let connection = &mut session.connections()[0];
            if connection.pending().is_empty() {
                return Ok(true);
            }
            match self.stream.write(connection.pending()) {
                Ok(bytes) => connection.sent(bytes, now, trace),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> PeerError {
    PeerError::System {
        program: "crowd of initiators".to_owned(),
        source: io::Error::other(error),
    }
}
