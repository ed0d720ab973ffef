//! A target, its initiators and what is between them, in one thread and in virtual time.

mod links;
mod ports;
mod seen;

use std::sync::Arc;

use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_iscsi::scsi::Identity;
use wansan_trace::{Instant, Recorder};

use self::links::{Far, Link, Near};
use self::ports::Port;
pub(crate) use self::ports::{out_of, port_of};
use crate::history::{Disaster, History, Keys};
use crate::medium::{Landing, Medium};
use crate::observer::Event;
use crate::oracle::{Oracle, Rule, Violation};
use crate::random::Random;
use crate::store_queue::StoreQueue;
use crate::target::{Target, Told, units};

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

/// A run.
pub(crate) struct World<'a> {
    history: &'a History,
    random: Random,
    clock_ns: u64,
    /// Counts what happens, for the oracle.
    now: u64,
    trace: Recorder,
    target: Option<Target>,
    stores: StoreQueue,
    mediums: Vec<Arc<Medium>>,
    /// How often each medium had lost data when the oracle heard of it last.
    losses: Vec<u64>,
    links: Vec<Link>,
    next_link: usize,
    ports: Vec<Port>,
    identities: Vec<Identity>,
    /// The session of the oracle for each serial number at the target.
    sessions: Vec<Option<u32>>,
    /// Sessions of the initiator that were over when that one was let in, by serial number.
    predecessors: Vec<Vec<u32>>,
    exp_cmd_sns: Vec<u32>,
    /// What was last seen in each block of each unit.
    seen: Vec<Vec<u64>>,
    bits: Vec<u32>,
    oracle: Oracle,
    steps: u32,
    next_incident: usize,
    commands: u64,
    /// One turn in so many of those for mail has a thread read it.
    mail_pace: usize,
    events: Vec<Event>,
    landings: Vec<Landing>,
    told: Option<Vec<String>>,
    fingerprint: u64,
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
    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Outcome {
        World::new(self, false).run()
    }

    /// Runs it, and tells what happens.
    #[must_use]
    pub fn tell(&self) -> Outcome {
        World::new(self, true).run()
    }
}

impl<'a> World<'a> {
    fn new(history: &'a History, tells: bool) -> World<'a> {
        let setup = &history.setup;
        let mut random = Random::new(history.schedule);
        let mediums: Vec<Arc<Medium>> = setup
            .units
            .iter()
            .map(|unit| {
                let blocks = usize::from(unit.blocks);
                let (seed, through) = (random.bits(), !unit.write_cache);
                Arc::new(Medium::new(blocks, setup.failures, through, seed))
            })
            .collect();
        let workers = usize::from(setup.workers.max(1));
        let stores = StoreQueue::new(mediums.clone(), workers, setup.slow);
        let units = units(setup);
        let mail_pace = random.pick(&[1, 1, 8, 32]);
        World {
            history,
            random,
            clock_ns: 1,
            now: 1,
            trace: Recorder::off(),
            target: Target::start(setup, wanted(&setup.keys), &stores.kept, 0).ok(),
            stores,
            losses: vec![0; mediums.len()],
            mediums,
            links: Vec::new(),
            next_link: 0,
            ports: (0..history.sessions.len())
                .map(|number| Port::new(&history.sessions[number], number))
                .collect(),
            identities: units.into_iter().map(|unit| unit.identity).collect(),
            sessions: vec![None],
            predecessors: vec![Vec::new()],
            exp_cmd_sns: vec![0],
            seen: (setup.units.iter())
                .map(|unit| vec![0; usize::from(unit.blocks)])
                .collect(),
            bits: vec![0; setup.units.len()],
            oracle: Oracle::new(setup),
            steps: 0,
            next_incident: 0,
            commands: 0,
            mail_pace,
            events: Vec::new(),
            landings: Vec::new(),
            told: tells.then(Vec::new),
            fingerprint: 0,
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

    fn run(mut self) -> Outcome {
        let bound = TURNS_PER_STEP * (self.history.steps() + 20);
        let mut fruitless = 0;
        let mut rests = 0;
        for turn in 0.. {
            if self.oracle.violation.is_some() {
                break;
            }
            if turn > bound {
                self.oracle
                    .violate(Rule::Answer, || "the run never comes to rest".to_owned());
                break;
            }
            if self.turn() {
                fruitless = 0;
                rests = 0;
                continue;
            }
            fruitless += 1;
            if fruitless < 8 + 4 * self.links.len() {
                continue;
            }
            fruitless = 0;
            if self.sweep() {
                rests = 0;
                continue;
            }
            if !self.rest(rests) {
                break;
            }
            rests += 1;
        }
        self.audit();
        if self.oracle.violation.is_none() {
            // What was said to be on the medium outlives the power.
            self.strike(Disaster::PowerLoss);
        }
        Outcome {
            commands: self.commands,
            violation: self.oracle.violation.take(),
            told: self.told.take().unwrap_or_default(),
            fingerprint: self.fingerprint,
        }
    }

    /// Does one thing, chosen by the schedule; says whether there was anything to do.
    fn turn(&mut self) -> bool {
        self.tick();
        let choice = self.random.below(16);
        match choice {
            0..5 if !self.links.is_empty() => {
                let link = self.random.below(self.links.len());
                self.forth(link)
            }
            5..10 if !self.links.is_empty() => {
                let link = self.random.below(self.links.len());
                self.back(link)
            }
            10..13 => self.stores_work(),
            13 => self.stores_answer(),
            14 => {
                let port = self.random.below(self.ports.len());
                self.advance(port)
            }
            15 if self.random.one_in(self.mail_pace) => self.read_mail(),
            _ => false,
        }
    }

    /// Tries everything; says whether there was anything to do.
    fn sweep(&mut self) -> bool {
        let mut any = self.read_mail();
        for port in 0..self.ports.len() {
            self.tick();
            any |= self.advance(port);
        }
        for link in (0..self.links.len()).rev() {
            if link < self.links.len() {
                self.tick();
                any |= self.forth(link);
            }
            if link < self.links.len() {
                self.tick();
                any |= self.back(link);
            }
        }
        self.tick();
        any |= self.stores_work();
        any | self.stores_answer()
    }

    /// Nothing moves: lets time pass, then gives up what hangs. Says whether to go on.
    fn rest(&mut self, rests: usize) -> bool {
        if rests < 3 {
            // Commands that were told BUSY are tried again within that time.
            self.pass(4_000_000_000);
            return true;
        }
        let mut any = false;
        for port in 0..self.ports.len() {
            any |= self.give_up(port);
        }
        any && rests < 40
    }

    /// Time passes, in which the target's timers run.
    fn pass(&mut self, ns: u64) {
        self.tick();
        self.clock_ns += ns;
        let now = self.instant();
        if let Some(target) = &mut self.target {
            target.tick(now, &mut self.trace);
        }
        self.hear_target();
        for port in 0..self.ports.len() {
            self.pump(port);
        }
    }

    fn stores_work(&mut self) -> bool {
        let worked = self.stores.work(&mut self.random);
        if worked {
            self.look_at_mediums();
        }
        worked
    }

    /// Tells the oracle what has changed on the mediums.
    fn look_at_mediums(&mut self) {
        for unit in 0..self.mediums.len() {
            self.mediums[unit].take_landings(&mut self.landings);
            for landing in std::mem::take(&mut self.landings) {
                let now = self.now;
                self.note(landing.word);
                self.say(|| {
                    format!(
                        "unit {unit} block {} lands {:#x}",
                        landing.lba, landing.word
                    )
                });
                self.oracle
                    .landed(unit as u8, landing.lba, landing.word, now);
            }
            let losses = self.mediums[unit].losses();
            if losses > self.losses[unit] {
                self.say(|| format!("unit {unit} has lost data"));
                let now = self.now;
                self.oracle.data_lost(unit as u8, now);
            }
            self.losses[unit] = losses;
        }
    }

    fn stores_answer(&mut self) -> bool {
        let Some((asker, done)) = self.stores.answer(&mut self.random) else {
            return false;
        };
        let now = self.instant();
        let Some(target) = &mut self.target else {
            return false;
        };
        let session = target.answered(asker, done, now, &mut self.trace);
        target.settle(&mut self.stores);
        if let Some(serial) = session {
            self.serve(serial, None);
        }
        true
    }

    fn read_mail(&mut self) -> bool {
        let now = self.instant();
        let Some(target) = &mut self.target else {
            return false;
        };
        if !target.has_mail() {
            return false;
        }
        let thread = self.random.below(target.threads());
        let woken = target.read_mail(thread, now, &mut self.trace);
        for serial in woken {
            self.serve(serial, None);
        }
        self.hear_target();
        true
    }

    /// Lets a session at the target work.
    fn serve(&mut self, serial: u32, place: Option<usize>) {
        let now = self.instant();
        let Some(target) = &mut self.target else {
            return;
        };
        target.serve(serial, place, &mut self.stores, now, &mut self.trace);
        target.settle(&mut self.stores);
        if place.is_some()
            && let Some(session) = target.session(serial)
            && let Some(Some(number)) = self.sessions.get(serial as usize)
        {
            let exp_cmd_sn = session.window().exp_cmd_sn.0;
            let known = &mut self.exp_cmd_sns[serial as usize];
            if *known != exp_cmd_sn {
                *known = exp_cmd_sn;
                self.oracle.arrived(*number, exp_cmd_sn, self.now);
            }
        }
        self.hear_target();
    }

    /// Takes note of what the target says of its connections and sessions.
    fn hear_target(&mut self) {
        while let Some(told) = self
            .target
            .as_mut()
            .and_then(|target| target.told.pop_front())
        {
            match told {
                Told::Closed(id, rest, why) => self.closed_by_target(id, &rest, why),
                Told::SessionOver(serial) => {
                    if let Some(Some(session)) = self.sessions.get(serial as usize).copied() {
                        let now = self.now;
                        self.say(|| format!("session {session} is over at the target"));
                        self.oracle.session_gone(session, now);
                    }
                }
            }
        }
        if let Some(target) = &mut self.target {
            target.settle(&mut self.stores);
        }
    }

    /// Steps have been taken: something may happen to the target now.
    fn incidents(&mut self) {
        while let Some(incident) = self.history.incidents.get(self.next_incident)
            && incident.after <= self.steps
        {
            self.next_incident += 1;
            self.strike(incident.what);
        }
    }

    fn strike(&mut self, disaster: Disaster) {
        let power_lost = disaster == Disaster::PowerLoss;
        self.tick();
        self.look_at_mediums();
        self.say(|| format!("{disaster:?}"));
        self.stores.clear();
        let last_serial = self.target.as_ref().map_or(0, Target::last_serial);
        self.target = None;
        for medium in &self.mediums {
            medium.restart(power_lost);
        }
        for port in 0..self.ports.len() {
            self.port_lost(port);
        }
        let now = self.tick();
        self.oracle.restarted(power_lost, now);
        for link in &mut self.links {
            link.far = Far::Gone;
            link.near = Near::Gone;
        }
        self.links.clear();
        let setup = &self.history.setup;
        let kept = &self.stores.kept;
        match Target::start(setup, wanted(&setup.keys), kept, last_serial) {
            Ok(target) => self.target = Some(target),
            Err(why) => self.oracle.violate(Rule::Outcome, || why),
        }
        self.tick();
        self.audit();
    }

    /// Holds the mediums to what a read of every block may return.
    fn audit(&mut self) {
        self.tick();
        self.look_at_mediums();
        let sent = self.tick();
        let now = self.tick();
        let mut block = [0; crate::medium::BLOCK_BYTES];
        for unit in 0..self.mediums.len() {
            for lba in 0..self.seen[unit].len() {
                self.mediums[unit].fetch(lba, &mut block);
                self.oracle
                    .audited(unit as u8, lba as u32, &block, sent, now);
            }
        }
    }
}
