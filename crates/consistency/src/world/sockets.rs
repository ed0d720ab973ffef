//! A target process over TCP. The oracle processes PDUs to the target before they are written to a socket, and PDUs
//! from it after they were read from one. So no command is outstanding for longer than the oracle assumes, however the
//! machine is loaded.
//!
//! The oracle does not see blocks change on these media. A late write shows in a later read, or in the units' content,
//! which is checked whenever the target is down. Nor does the target report the end of a session here; the next session
//! of the same port implies it.
//!
//! The initiators keep virtual time: a wait after BUSY takes no real time, and [`Step::Sleep`] does not run
//! the target's timers. Stores fail in the simulation only.
//!
//! [`Step::Sleep`]: crate::history::Step::Sleep

mod links;

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use self::links::{Leftover, Wire};
use super::links::Near;
use super::ports::State;
use super::{Outcome, TargetSide, World};
use crate::block::BLOCK_BYTES;
use crate::history::Disaster;
use crate::oracle::kept::{Kept, Ledger};
use crate::oracle::{Rule, View};

/// How a target process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By SIGTERM.
    Terminated,
    /// By SIGKILL.
    Killed,
}

/// A target process.
///
/// It serves a history's [`Setup`](crate::history::Setup), in units that keep their content while it is
/// down.
pub trait Served {
    /// Its iSCSI name.
    fn name(&self) -> &str;

    /// Its listening address, which stays the same across a restart.
    fn address(&self) -> SocketAddr;

    /// Ends it, and waits until it has exited.
    ///
    /// # Errors
    /// It does not exit.
    fn stop(&mut self, ending: Ending) -> Result<(), String>;

    /// Starts it again, and waits until it listens.
    ///
    /// # Errors
    /// It does not start.
    fn start(&mut self) -> Result<(), String>;

    /// The whole content of a unit, while the target is down.
    ///
    /// # Errors
    /// It cannot be read.
    fn content(&mut self, unit: usize) -> Result<Vec<u8>, String>;

    /// Events between two calls of [`Served::mark`]; `None` for no calls.
    fn events_between_marks(&self) -> Option<u64> {
        None
    }

    /// From now on the media must hold `kept`, even after a power loss.
    ///
    /// # Errors
    /// The mark cannot be recorded.
    fn mark(&mut self, kept: Kept) -> Result<(), String> {
        drop(kept);
        Ok(())
    }
}

/// How long nothing must move before virtual time passes.
const QUIET: Duration = Duration::from_millis(10);

/// Timeout for a pending response or a connection attempt.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(180);

/// The process, and connections to it that the initiators have abandoned.
pub(super) struct Sockets<'s> {
    served: &'s mut dyn Served,
    leftovers: Vec<Leftover>,
    /// Time and count of the last event. Bytes alone do not count: the target sends NOP-Ins on idle connections.
    last_progress: (Instant, u64),
    /// The number of events at the last mark.
    marked: u64,
    /// Why the process could not be started or stopped, or a unit not read.
    failure: Option<String>,
}

impl<'s> Sockets<'s> {
    pub(super) fn new(served: &'s mut dyn Served) -> Sockets<'s> {
        Sockets {
            served,
            leftovers: Vec::new(),
            last_progress: (Instant::now(), 0),
            marked: 0,
            failure: None,
        }
    }

    fn fail(&mut self, result: Result<(), String>) {
        if let Err(why) = result {
            self.failure.get_or_insert(why);
        }
    }
}

impl TargetSide for Sockets<'_> {
    type Wire = Wire;

    const VIEW: View = View {
        // Linux copies out of the page cache while another thread copies into it.
        tears_blocks: true,
        // The waits take no real time, but the stores' work does.
        rests_when_busy: false,
    };

    fn connect(world: &mut World<'_, Self>) -> Result<Wire, String> {
        let address = world.side.served.address();
        TcpStream::connect_timeout(&address, PATIENCE)
            .and_then(Wire::new)
            .map_err(|error| error.to_string())
    }

    fn near_end_dropped(world: &mut World<'_, Self>, at: usize, pending: &[u8]) {
        world.leave_behind(at, pending);
    }

    fn sessions_over(_: &World<'_, Self>, _: usize) -> Vec<u32> {
        Vec::new()
    }

    fn logged_in(world: &mut World<'_, Self>, at: usize, _: Option<u32>) {
        let link = &mut world.links[at];
        let Near::Session(cid) = link.near else {
            return;
        };
        let port = &mut world.ports[link.port];
        let place = port.place(cid);
        if let (Some(session), Some(place)) = (&port.session, place)
            && let Some(parameters) = session.connection_parameters(place)
        {
            link.observer.digests = (parameters.header_digest, parameters.data_digest);
            link.observer.recovery = session.parameters().error_recovery_level;
        }
    }

    fn logs_out(world: &mut World<'_, Self>, session: u32) {
        // Other sessions may see its end before its own response is received.
        let now = world.now;
        world.oracle.session_ends(session, now);
    }

    fn strike(world: &mut World<'_, Self>, disaster: Disaster) {
        // Only a virtual machine can lose power: here all writes stay in the page cache.
        let ending = match disaster {
            Disaster::Kill if world.random.one_in(3) => Ending::Terminated,
            Disaster::Kill | Disaster::PowerLoss => Ending::Killed,
        };
        world.stop(ending);
        let started = world.side.served.start();
        world.side.fail(started);
    }

    fn pass(world: &mut World<'_, Self>, ns: u64) {
        world.tick();
        world.clock_ns += ns;
        for port in 0..world.ports.len() {
            world.pump(port);
        }
    }
}

impl World<'_, Sockets<'_>> {
    /// Executes the history.
    pub(super) fn run(mut self) -> Result<(Outcome, Ledger), String> {
        let began = Instant::now();
        let mut fruitless = 0;
        let mut has_passed = false;
        while self.oracle.violation.is_none() && self.side.failure.is_none() {
            if began.elapsed() > LIMIT {
                self.oracle
                    .violate(Rule::Answer, || "the run never comes to rest".to_owned());
                break;
            }
            self.mark();
            let tries = 8 + 2 * self.links.len();
            if self.turn() || fruitless >= tries && self.sweep() {
                fruitless = 0;
                has_passed = false;
                continue;
            }
            fruitless += 1;
            if fruitless <= tries || self.bytes_come(QUIET)? {
                continue;
            }
            if !std::mem::replace(&mut has_passed, true) {
                // Initiators retry commands that were answered with BUSY within that time.
                Sockets::pass(&mut self, 12_000_000_000);
                fruitless = tries;
            } else if !self.rest() {
                break;
            }
        }
        self.stop(Ending::Terminated);
        match self.side.failure {
            Some(failure) => Err(failure),
            None => {
                let outcome = Outcome {
                    commands: self.commands,
                    violation: self.oracle.violation.take(),
                    log: self.log.take().unwrap_or_default(),
                    fingerprint: self.fingerprint,
                };
                Ok((outcome, Ledger::new(self.oracle)))
            }
        }
    }

    /// If a mark is due, marks what the media must hold.
    fn mark(&mut self) {
        let between = self.side.served.events_between_marks();
        if between.is_some_and(|events| self.progress >= self.side.marked + events) {
            self.side.marked = self.progress;
            let now = self.tick();
            let marked = self.side.served.mark(self.oracle.kept(now));
            self.side.fail(marked);
        }
    }

    /// Takes one action that the schedule chooses; returns whether anything moved.
    fn turn(&mut self) -> bool {
        self.tick();
        self.links.retain(|link| !matches!(link.near, Near::Gone));
        match self.random.below(16) {
            0..6 if !self.links.is_empty() => {
                let link = self.random.below(self.links.len());
                self.forth(link)
            }
            6..12 if !self.links.is_empty() => {
                let link = self.random.below(self.links.len());
                self.back(link)
            }
            12..15 => {
                let port = self.random.below(self.ports.len());
                self.advance(port)
            }
            _ => self.send_leftovers(false),
        }
    }

    /// Tries every action; returns whether anything moved.
    fn sweep(&mut self) -> bool {
        let mut any = self.send_leftovers(true);
        for port in 0..self.ports.len() {
            self.tick();
            any |= self.advance(port);
        }
        for link in 0..self.links.len() {
            self.tick();
            any |= self.forth(link);
            any |= self.back(link);
        }
        any
    }

    /// Nothing moves: gives up waiting sessions, once no response is owed or it is overdue. Returns whether to
    /// continue.
    fn rest(&mut self) -> bool {
        if self.side.last_progress.1 != self.progress {
            self.side.last_progress = (Instant::now(), self.progress);
        }
        let awaits = (0..self.ports.len()).any(|port| self.awaits(port));
        if awaits && self.side.last_progress.0.elapsed() < PATIENCE {
            return true;
        }
        let mut any = false;
        for port in 0..self.ports.len() {
            any |= self.give_up(port);
        }
        any
    }

    /// Whether the target owes the port a response.
    fn awaits(&self, port: usize) -> bool {
        let this = &self.ports[port];
        match this.state {
            State::Down => false,
            State::Leading | State::LoggingOut(_) => true,
            State::Up => {
                let owes = |link: &super::Link<Wire>| {
                    // A function whose connection is lost gets no response.
                    let manages = |(_, _, on): &(u32, u32, usize)| *on == link.id;
                    link.port == port
                        && (matches!(link.near, Near::Login { .. })
                            || this.managing.iter().any(manages))
                };
                self.links.iter().any(owes) || self.oracle.is_owed(this.oracle_session)
            }
        }
    }

    /// Ends the process, and checks every block of the units as if a read had returned it.
    fn stop(&mut self, ending: Ending) {
        self.tick();
        self.say(|| format!("the target is {ending:?}"));
        let stopped = self.side.served.stop(ending);
        self.side.fail(stopped);
        self.side.leftovers.clear();
        for port in 0..self.ports.len() {
            self.port_lost(port);
        }
        self.links.clear();
        self.side.leftovers.clear();
        let now = self.tick();
        self.oracle.restarted(false, now);
        let sent = self.tick();
        let now = self.tick();
        for unit in 0..self.seen.len() {
            match self.side.served.content(unit) {
                Ok(content) => {
                    for (lba, block) in (0..).zip(content.chunks(BLOCK_BYTES)) {
                        self.oracle.audited(unit as u8, lba, block, sent, now);
                    }
                }
                Err(why) => self.side.fail(Err(why)),
            }
        }
    }
}
