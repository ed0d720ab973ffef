//! The simulated target: the product's session machines on simulated stores, in one thread and in virtual
//! time.

mod links;

use std::sync::Arc;

use wansan_iscsi::target;

use self::links::Wire;
use super::{Outcome, TURNS_PER_STEP, TargetSide, World, wanted};
use crate::history::{Disaster, Setup};
use crate::medium::Medium;
use crate::oracle::{Rule, View};
use crate::page_cache::Landing;
use crate::random::Random;
use crate::store_queue::StoreQueue;
use crate::target::{Report, Target};

/// The target, with its stores and their media.
pub(crate) struct Simulated {
    target: Option<Target>,
    stores: StoreQueue,
    mediums: Vec<Arc<Medium>>,
    /// How often each medium had lost data, as last reported to the oracle.
    losses: Vec<u64>,
    /// How many operations of each medium had failed by then.
    faults: Vec<u64>,
    /// The oracle's session, by serial number at the target.
    sessions: Vec<Option<u32>>,
    /// Sessions of the initiator that had ended when this one was admitted, by serial number.
    predecessors: Vec<Vec<u32>>,
    exp_cmd_sns: Vec<u32>,
    /// A thread reads its mail in one of this many mail turns.
    mail_pace: usize,
    landings: Vec<Landing>,
}

impl Simulated {
    pub(crate) fn new(setup: &Setup, random: &mut Random) -> Simulated {
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
        Simulated {
            target: Target::start(setup, wanted(&setup.keys), &stores.kept, 0).ok(),
            stores,
            losses: vec![0; mediums.len()],
            faults: vec![0; mediums.len()],
            mediums,
            sessions: vec![None],
            predecessors: vec![Vec::new()],
            exp_cmd_sns: vec![0],
            mail_pace: random.pick(&[1, 1, 8, 32]),
            landings: Vec::new(),
        }
    }
}

impl TargetSide for Simulated {
    type Wire = Wire;

    const VIEW: View = View {
        tears_blocks: false,
        rests_when_busy: true,
    };

    fn connect(world: &mut World<'_, Simulated>) -> Result<Wire, String> {
        let keys = &world.history.setup.keys;
        Ok(Wire::new(target::Handshake::new(wanted(keys))))
    }

    fn near_end_dropped(world: &mut World<'_, Simulated>, at: usize, pending: &[u8]) {
        world.keep_on_its_way(at, pending);
    }

    fn sessions_over(world: &World<'_, Simulated>, at: usize) -> Vec<u32> {
        let serial = world.links[at].wire.serial();
        serial
            .and_then(|serial| world.side.predecessors.get(serial as usize).cloned())
            .unwrap_or_default()
    }

    fn logged_in(world: &mut World<'_, Simulated>, at: usize, leads: Option<u32>) {
        if let (Some(serial), Some(session)) = (world.links[at].wire.serial(), leads) {
            world.side.sessions[serial as usize] = Some(session);
        }
    }

    fn logs_out(_: &mut World<'_, Simulated>, _: u32) {
        // The target reports the end of the session.
    }

    fn strike(world: &mut World<'_, Simulated>, disaster: Disaster) {
        world.restart(disaster);
    }

    fn pass(world: &mut World<'_, Simulated>, ns: u64) {
        world.let_time_pass(ns);
    }
}

impl World<'_, Simulated> {
    /// Executes the history.
    pub(crate) fn run(mut self) -> Outcome {
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
            // Data acknowledged as durable must survive a power loss.
            self.restart(Disaster::PowerLoss);
        }
        Outcome {
            commands: self.commands,
            violation: self.oracle.violation.take(),
            log: self.log.take().unwrap_or_default(),
            fingerprint: self.fingerprint,
        }
    }

    /// Takes one action that the schedule chooses; returns whether anything moved.
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
            15 if self.random.one_in(self.side.mail_pace) => self.read_mail(),
            _ => false,
        }
    }

    /// Tries every action; returns whether anything moved.
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

    /// Nothing moves: lets time pass, then gives up waiting sessions. Returns whether to continue.
    fn rest(&mut self, rests: usize) -> bool {
        if rests < 3 {
            // Initiators retry commands that were answered with BUSY within that time.
            self.let_time_pass(4_000_000_000);
            return true;
        }
        let mut any = false;
        for port in 0..self.ports.len() {
            any |= self.give_up(port);
        }
        any && rests < 40
    }

    fn stores_work(&mut self) -> bool {
        let worked = self.side.stores.work(&mut self.random);
        if worked {
            self.look_at_mediums();
        }
        worked
    }

    /// Reports changes and failures of the media to the oracle.
    fn look_at_mediums(&mut self) {
        for unit in 0..self.side.mediums.len() {
            self.side.mediums[unit].take_landings(&mut self.side.landings);
            for landing in std::mem::take(&mut self.side.landings) {
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
            let losses = self.side.mediums[unit].losses();
            if losses > self.side.losses[unit] {
                self.say(|| format!("unit {unit} has lost data"));
                let now = self.now;
                self.oracle.data_lost(unit as u8, now);
            }
            self.side.losses[unit] = losses;
            let (faults, has_lost) = self.side.mediums[unit].faults();
            if faults > self.side.faults[unit] {
                let now = self.now;
                self.oracle.medium_failed(unit as u8, now);
            }
            self.side.faults[unit] = faults;
            self.oracle.medium_has_lost(unit as u8, has_lost);
        }
    }

    fn stores_answer(&mut self) -> bool {
        let Some((asker, done)) = self.side.stores.answer(&mut self.random) else {
            return false;
        };
        let now = self.instant();
        let Some(target) = &mut self.side.target else {
            return false;
        };
        let session = target.answered(asker, done, now, &mut self.trace);
        target.settle(&mut self.side.stores);
        if let Some(serial) = session {
            self.serve(serial, None);
        }
        true
    }

    fn read_mail(&mut self) -> bool {
        let now = self.instant();
        let Some(target) = &mut self.side.target else {
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
        self.take_reports();
        true
    }

    /// Serves a session at the target.
    fn serve(&mut self, serial: u32, place: Option<usize>) {
        let now = self.instant();
        let Some(target) = &mut self.side.target else {
            return;
        };
        target.serve(serial, place, &mut self.side.stores, now, &mut self.trace);
        target.settle(&mut self.side.stores);
        if place.is_some()
            && let Some(session) = target.session(serial)
            && let Some(Some(number)) = self.side.sessions.get(serial as usize)
        {
            let exp_cmd_sn = session.window().exp_cmd_sn.0;
            let known = &mut self.side.exp_cmd_sns[serial as usize];
            if *known != exp_cmd_sn {
                *known = exp_cmd_sn;
                self.oracle.arrived(*number, exp_cmd_sn, self.now);
            }
        }
        self.take_reports();
    }

    /// Handles the target's reports of its connections and sessions.
    fn take_reports(&mut self) {
        while let Some(report) = self
            .side
            .target
            .as_mut()
            .and_then(|target| target.reports.pop_front())
        {
            match report {
                Report::Closed(id, rest, why) => self.closed_by_target(id, &rest, why),
                Report::SessionOver(serial) => {
                    if let Some(Some(session)) = self.side.sessions.get(serial as usize).copied() {
                        let now = self.now;
                        self.say(|| format!("session {session} has ended at the target"));
                        self.oracle.session_gone(session, now);
                    }
                }
            }
        }
        if let Some(target) = &mut self.side.target {
            target.settle(&mut self.side.stores);
        }
    }

    /// Checks every block of the media as if a read had returned it.
    fn audit(&mut self) {
        self.tick();
        self.look_at_mediums();
        let sent = self.tick();
        let now = self.tick();
        let mut block = [0; crate::block::BLOCK_BYTES];
        for unit in 0..self.side.mediums.len() {
            for lba in 0..self.seen[unit].len() {
                self.side.mediums[unit].fetch(lba, &mut block);
                self.oracle
                    .audited(unit as u8, lba as u32, &block, sent, now);
            }
        }
    }

    /// Kills the target, or cuts power to it and its stores, and restarts it.
    fn restart(&mut self, disaster: Disaster) {
        let power_lost = disaster == Disaster::PowerLoss;
        self.tick();
        self.look_at_mediums();
        self.say(|| format!("{disaster:?}"));
        self.side.stores.clear();
        let last_serial = self.side.target.as_ref().map_or(0, Target::last_serial);
        self.side.target = None;
        for medium in &self.side.mediums {
            medium.restart(power_lost);
        }
        for port in 0..self.ports.len() {
            self.port_lost(port);
        }
        let now = self.tick();
        self.oracle.restarted(power_lost, now);
        self.links.clear();
        let setup = &self.history.setup;
        let kept = &self.side.stores.kept;
        match Target::start(setup, wanted(&setup.keys), kept, last_serial) {
            Ok(target) => self.side.target = Some(target),
            Err(why) => self.oracle.violate(Rule::Outcome, || why),
        }
        self.tick();
        self.audit();
    }

    /// Virtual time passes while the target's timers run.
    fn let_time_pass(&mut self, ns: u64) {
        self.tick();
        self.clock_ns += ns;
        let now = self.instant();
        if let Some(target) = &mut self.side.target {
            target.tick(now, &mut self.trace);
        }
        self.take_reports();
        for port in 0..self.ports.len() {
            self.pump(port);
        }
    }
}
