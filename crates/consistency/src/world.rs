//! Initiators and their target, in one thread: what the initiators do and what the oracle hears of it.
//! The target, and the way to it, is on a side of its own: [`Simulated`] in virtual time, or
//! [`Sockets`] to one in a process of its own.

mod links;
mod ports;
mod seen;
mod simulated;
mod sockets;

use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_iscsi::scsi::Identity;
use wansan_trace::{Instant, Recorder};

use self::links::Link;
use self::ports::Port;
pub(crate) use self::ports::{out_of, port_of};
use self::simulated::Simulated;
use self::sockets::Sockets;
pub use self::sockets::{Ending, Served};
use crate::history::{Disaster, History, Keys};
use crate::observer::Event;
use crate::oracle::kept::Ledger;
use crate::oracle::{Oracle, View, Violation};
use crate::random::Random;
use crate::target::{TARGET, units};

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// SCSI commands and task management functions that were sent.
    pub commands: u64,
    /// What broke a rule, if anything did.
    pub violation: Option<Violation>,
    /// What happened, when it was asked for.
    pub told: Vec<String>,
    /// A number that all that happened determines.
    pub fingerprint: u64,
}

/// Turns that a run may take, for each step of its history.
const TURNS_PER_STEP: usize = 20_000;

/// A target, and what carries bytes to it.
trait TargetSide: Sized {
    /// What leads from an initiator's end of a connection to the target.
    type Wire;

    /// How much of it is seen.
    const VIEW: View;

    /// Begins a connection.
    fn connect(world: &mut World<'_, Self>) -> Result<Self::Wire, String>;

    /// The initiator's end of a connection is gone, with `pending` yet to be sent.
    fn near_end_dropped(world: &mut World<'_, Self>, at: usize, pending: &[u8]);

    /// Sessions of the initiator that were surely over when the target let in the one that the
    /// connection leads.
    fn sessions_over(world: &World<'_, Self>, at: usize) -> Vec<u32>;

    /// The initiator has ended the login of a connection, which `leads` that session of the oracle.
    fn logged_in(world: &mut World<'_, Self>, at: usize, leads: Option<u32>);

    /// The initiator asks for the logout of that session of the oracle.
    fn logs_out(world: &mut World<'_, Self>, session: u32);

    /// Something happens to the target.
    fn strike(world: &mut World<'_, Self>, disaster: Disaster);

    /// Time passes without any bytes.
    fn pass(world: &mut World<'_, Self>, ns: u64);
}

/// A run.
struct World<'a, T: TargetSide> {
    history: &'a History,
    random: Random,
    clock_ns: u64,
    /// Counts what happens, for the oracle.
    now: u64,
    trace: Recorder,
    links: Vec<Link<T::Wire>>,
    next_link: usize,
    ports: Vec<Port>,
    identities: Vec<Identity>,
    /// What was last seen in each block of each unit.
    seen: Vec<Vec<u64>>,
    bits: Vec<u32>,
    oracle: Oracle,
    steps: u32,
    next_incident: usize,
    commands: u64,
    /// How much was seen on connections and done by scripts.
    heard: u64,
    events: Vec<Event>,
    told: Option<Vec<String>>,
    fingerprint: u64,
    side: T,
}

/// What `keys` are to negotiation.
fn wanted(keys: &Keys) -> Wanted {
    let digest = || match keys.digests {
        true => vec![DigestKind::Crc32c, DigestKind::None],
        false => vec![DigestKind::None],
    };
    Wanted {
        header_digest: digest(),
        data_digest: match keys.digests {
            true => digest(),
            false => vec![DigestKind::None, DigestKind::Crc32c],
        },
        max_connections: keys.connections,
        initial_r2t: keys.initial_r2t,
        immediate_data: keys.immediate,
        max_recv_data_bytes: keys.segment,
        max_burst_bytes: keys.max_burst,
        first_burst_bytes: keys.first_burst,
        max_outstanding_r2t: keys.r2ts,
        error_recovery_level: keys.recovery,
        ..Wanted::default()
    }
}

impl History {
    /// Runs it in virtual time.
    #[must_use]
    pub fn run(&self) -> Outcome {
        self.simulate(false)
    }

    /// Runs it in virtual time, and tells what happens.
    #[must_use]
    pub fn tell(&self) -> Outcome {
        self.simulate(true)
    }

    fn simulate(&self, tells: bool) -> Outcome {
        let mut random = Random::new(self.schedule);
        let side = Simulated::new(&self.setup, &mut random);
        World::new(self, TARGET, side, random, tells).run()
    }

    /// Runs it against a target in another process, over sockets, and tells what happens. The target
    /// has just been started, and its units are blank. Gives what was written where, too.
    ///
    /// # Errors
    /// When the target cannot be stopped, started or looked at.
    pub fn run_against(&self, served: &mut dyn Served) -> Result<(Outcome, Ledger), String> {
        let target = served.name().to_owned();
        let random = Random::new(self.schedule);
        World::new(self, &target, Sockets::new(served), random, true).run()
    }
}

impl<'a, T: TargetSide> World<'a, T> {
    fn new(
        history: &'a History,
        target: &str,
        side: T,
        random: Random,
        tells: bool,
    ) -> World<'a, T> {
        let setup = &history.setup;
        let scripts = history.sessions.iter().zip(0..);
        World {
            history,
            random,
            clock_ns: 1,
            now: 1,
            trace: Recorder::off(),
            links: Vec::new(),
            next_link: 0,
            ports: scripts
                .map(|(script, number)| Port::new(script, number, target))
                .collect(),
            identities: units(setup, target)
                .into_iter()
                .map(|unit| unit.identity)
                .collect(),
            seen: (setup.units.iter())
                .map(|unit| vec![0; usize::from(unit.blocks)])
                .collect(),
            bits: vec![0; setup.units.len()],
            oracle: Oracle::new(setup, T::VIEW),
            steps: 0,
            next_incident: 0,
            commands: 0,
            heard: 0,
            events: Vec::new(),
            told: tells.then(Vec::new),
            fingerprint: 0,
            side,
        }
    }

    /// The time for the machines.
    fn instant(&self) -> Instant {
        Instant::from_ns(self.clock_ns)
    }

    /// Something happens: no two things happen at once.
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.clock_ns += 1_000;
        self.now
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(told) = &mut self.told {
            told.push(format!("{now:>7} {}", line()));
        }
    }

    fn note(&mut self, what: u64) {
        self.fingerprint =
            (self.fingerprint.rotate_left(5) ^ what ^ self.now).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Steps have been taken: something may happen to the target now.
    fn incidents(&mut self) {
        while let Some(incident) = self.history.incidents.get(self.next_incident)
            && incident.after <= self.steps
        {
            self.next_incident += 1;
            T::strike(self, incident.what);
        }
    }
}
