//! Runs a history: the initiators, and the events that the oracle checks, in one thread. The target and
//! its connections are behind [`TargetSide`]: [`Simulated`] in virtual time, or [`Sockets`] to a target
//! process.

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
use self::simulated::Simulated;
use self::sockets::Sockets;
pub use self::sockets::{Ending, Served};
use crate::history::{Disaster, History, Keys};
use crate::observer::Event;
use crate::oracle::kept::Ledger;
use crate::oracle::{Oracle, View, Violation};
use crate::random::Random;
use crate::target::{TARGET, units};

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// SCSI commands and task management functions sent.
    pub commands: u64,
    /// The first violation of a rule.
    pub violation: Option<Violation>,
    /// The log of a logged run.
    pub log: Vec<String>,
    /// A hash of all events: equal runs have equal hashes.
    pub fingerprint: u64,
}

/// Maximum number of turns of a run per step of its history.
const TURNS_PER_STEP: usize = 20_000;

/// A target, and the connections to it.
trait TargetSide: Sized {
    /// The path of a connection from the initiator's end to the target.
    type Wire;

    /// How much of the target the oracle can observe.
    const VIEW: View;

    /// Opens a connection.
    fn connect(world: &mut World<'_, Self>) -> Result<Self::Wire, String>;

    /// The initiator's end of a connection is closed, with `pending` unsent.
    fn near_end_dropped(world: &mut World<'_, Self>, at: usize, pending: &[u8]);

    /// Sessions of the initiator that had certainly ended when the target admitted the session that this connection
    /// leads.
    fn sessions_over(world: &World<'_, Self>, at: usize) -> Vec<u32>;

    /// The initiator has completed the login of a connection; `leads` is the oracle's session if it is the
    /// leading connection.
    fn logged_in(world: &mut World<'_, Self>, at: usize, leads: Option<u32>);

    /// The initiator requests the logout of that session of the oracle.
    fn logs_out(world: &mut World<'_, Self>, session: u32);

    /// Kills the target, or cuts its power, and restarts it.
    fn strike(world: &mut World<'_, Self>, disaster: Disaster);

    /// Virtual time passes while no bytes move.
    fn pass(world: &mut World<'_, Self>, ns: u64);
}

/// A run.
struct World<'a, T: TargetSide> {
    history: &'a History,
    random: Random,
    clock_ns: u64,
    /// The number of the current event, the oracle's time.
    now: u64,
    trace: Recorder,
    links: Vec<Link<T::Wire>>,
    next_link: usize,
    ports: Vec<Port>,
    identities: Vec<Identity>,
    /// The last word read from each block of each unit.
    seen: Vec<Vec<u64>>,
    bits: Vec<u32>,
    oracle: Oracle,
    steps: u32,
    next_incident: usize,
    commands: u64,
    /// Events on connections and steps of scripts so far.
    progress: u64,
    events: Vec<Event>,
    log: Option<Vec<String>>,
    fingerprint: u64,
    side: T,
}

/// `keys` as login parameters.
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
    /// Runs the history in virtual time.
    #[must_use]
    pub fn run(&self) -> Outcome {
        self.simulate(false)
    }

    /// Runs the history in virtual time and logs every event.
    #[must_use]
    pub fn run_logged(&self) -> Outcome {
        self.simulate(true)
    }

    fn simulate(&self, logs: bool) -> Outcome {
        let mut random = Random::new(self.schedule);
        let side = Simulated::new(&self.setup, &mut random);
        World::new(self, TARGET, side, random, logs).run()
    }

    /// Runs the history against a target process over sockets and logs every event. The target must be freshly started,
    /// with blank units. Also returns which commands wrote which blocks.
    ///
    /// # Errors
    /// The target cannot be stopped or started, or its units cannot be read.
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
        logs: bool,
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
            progress: 0,
            events: Vec::new(),
            log: logs.then(Vec::new),
            fingerprint: 0,
            side,
        }
    }

    /// The virtual time of the state machines.
    fn instant(&self) -> Instant {
        Instant::from_ns(self.clock_ns)
    }

    /// Advances to the next event: no two events have the same number.
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.clock_ns += 1_000;
        self.now
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.push(format!("{now:>7} {}", line()));
        }
    }

    fn note(&mut self, what: u64) {
        self.fingerprint =
            (self.fingerprint.rotate_left(5) ^ what ^ self.now).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Triggers an incident once enough steps have been taken.
    fn incidents(&mut self) {
        while let Some(incident) = self.history.incidents.get(self.next_incident)
            && incident.after <= self.steps
        {
            self.next_incident += 1;
            T::strike(self, incident.what);
        }
    }
}
