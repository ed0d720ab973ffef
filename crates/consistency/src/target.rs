//! The target: its session state machines, and the decisions that the driver of `wansan_san::target` makes around them:
//! which session a login joins, which one it reinstates, and when sessions see each other's changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::Accepted;
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};
use wansan_iscsi::target::{
    self, Close, Connection, Desk, Handshake, HandshakeError, Memory, Period, Remains, Session,
    SessionConfig, SessionDirectory, Taken, Work,
};
use wansan_trace::{Instant, Recorder, SessionId};

use crate::block::BLOCK_BYTES;
use crate::history::Setup;
use crate::store_queue::{Asker, Done, Job, StoreQueue};

/// The target's iSCSI name.
pub(crate) const TARGET: &str = "iqn.2026-01.net.example:consistency";

/// Turns, over all sessions, between adjustments of the command windows.
const TURNS_PER_PERIOD: u64 = 16;

/// A connection's number in the world.
pub(crate) type LinkId = usize;

/// A session at the target.
pub(crate) struct Served {
    pub(crate) session: Session,
    /// The session's serial number.
    pub(crate) serial: u32,
    /// The connections, by index.
    links: Vec<Option<LinkId>>,
    at_stores: usize,
    owner: usize,
    /// Its turns in its thread's current period.
    turns: u64,
}

/// A session that ended while stores were working for it.
struct Lingering {
    id: SessionId,
    serial: u32,
    at_stores: usize,
    /// State that other sessions may wait for until then.
    _remains: Remains,
}

/// A message from one thread to another.
#[derive(PartialEq, Eq)]
enum Mail {
    /// Other sessions have changed the device.
    Review,
    EndSession(u32),
}

/// What the target reports to the world.
#[derive(Debug)]
pub(crate) enum Report {
    /// The target has closed the connection; these bytes are still in transit.
    Closed(LinkId, Vec<u8>, Option<Close>),
    /// The session has ended at the target.
    SessionOver(u32),
}

/// The target.
pub(crate) struct Target {
    config: SessionConfig,
    wanted: Wanted,
    pub(crate) sessions: Vec<Served>,
    lingering: Vec<Lingering>,
    /// Its sessions, with their serial numbers.
    directory: SessionDirectory<u32>,
    last_serial: u32,
    mailboxes: Vec<VecDeque<Mail>>,
    /// The device has signalled.
    bell: Arc<AtomicBool>,
    pub(crate) reports: VecDeque<Report>,
    next_owner: usize,
    /// Turns of all sessions.
    turns: u64,
}

/// A connection that has logged in at the target.
pub(crate) struct Seated {
    pub(crate) serial: u32,
    pub(crate) place: usize,
    pub(crate) leads: bool,
}

/// The logical units of a setup, for that target.
pub(crate) fn units(setup: &Setup, target: &str) -> Vec<LogicalUnit> {
    let units = setup.units.iter().zip(0..).map(|(unit, number)| {
        let size_bytes = u64::from(unit.blocks) * BLOCK_BYTES as u64;
        let geometry = Geometry::new(size_bytes, BLOCK_BYTES as u32, 0);
        LogicalUnit {
            identity: Identity {
                target_name: target.to_owned(),
                portal_group_tag: 1,
                number,
            },
            geometry: geometry.unwrap_or_else(|error| unreachable!("{error}")),
            write_cache: unit.write_cache,
            read_only: false,
            thin: unit.thin,
            keeps_reservations: unit.keeps_reservations,
        }
    });
    units.collect()
}

impl Target {
    /// A freshly started target, whose sessions' serial numbers continue after `last_serial`.
    pub(crate) fn start(
        setup: &Setup,
        wanted: Wanted,
        kept: &[String],
        last_serial: u32,
    ) -> Result<Target, String> {
        let device = TargetDevice::new(units(setup, TARGET)).map_err(|error| error.to_string())?;
        for (place, text) in kept.iter().enumerate() {
            if !device.restore(place, text) {
                return Err(format!(
                    "what was kept of unit {place} cannot be read: {text}"
                ));
            }
        }
        let bell = Arc::new(AtomicBool::new(false));
        let rung = Arc::clone(&bell);
        device.set_bell(move || rung.store(true, Ordering::Relaxed));
        let device = Arc::new(device);
        Ok(Target {
            config: SessionConfig {
                device,
                command_window: setup.command_window,
                unsolicited_bytes: setup.unsolicited_bytes,
                memory: Memory::new(1 << 30),
                separate_status: false,
                join_sends: true,
            },
            bell,
            wanted,
            sessions: Vec::new(),
            lingering: Vec::new(),
            directory: SessionDirectory::after(last_serial as u16),
            last_serial,
            mailboxes: (0..setup.threads.max(1)).map(|_| VecDeque::new()).collect(),
            reports: VecDeque::new(),
            next_owner: 0,
            turns: 0,
        })
    }

    pub(crate) fn last_serial(&self) -> u32 {
        self.last_serial
    }

    fn at(&mut self, serial: u32) -> Option<usize> {
        self.sessions
            .iter()
            .position(|served| served.serial == serial)
    }

    /// The session with that serial number.
    pub(crate) fn session(&mut self, serial: u32) -> Option<&mut Session> {
        let mut sessions = self.sessions.iter_mut();
        let served = sessions.find(|served| served.serial == serial)?;
        Some(&mut served.session)
    }

    pub(crate) fn connection(&mut self, serial: u32, place: usize) -> Option<&mut Connection> {
        self.session(serial)?.connection(place)
    }

    /// Continues a login, and seats the connection once it has logged in.
    pub(crate) fn log_in(
        &mut self,
        handshake: &mut Option<Box<Handshake>>,
        link: LinkId,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<Option<(Seated, Accepted)>, HandshakeError> {
        let Some(machine) = handshake else {
            return Ok(None);
        };
        let sessions = &self.sessions;
        let session = |id: SessionId| {
            let served = sessions.iter().find(|served| served.session.id() == id)?;
            Some(&served.session)
        };
        let serial = self.last_serial + 1;
        let mut desk = Desk {
            directory: &mut self.directory,
            session: &session,
            config: &self.config,
            wanted: &self.wanted,
            owner: serial,
            entered: None,
            replaced: None,
        };
        let accepted = machine.receive(&mut desk);
        let (entered, replaced) = (desk.entered, desk.replaced);
        if entered.is_some() {
            self.last_serial = serial;
        }
        if let Some(replaced) = replaced {
            self.post_end(replaced.owner);
        }
        let Some(accepted) = accepted? else {
            return Ok(None);
        };
        let Some(machine) = handshake.take() else {
            return Ok(None);
        };
        let seated = self.seat(*machine, &accepted, entered, link, now, trace);
        Ok(Some((seated, *accepted)))
    }

    /// Makes the owner of a reinstated session end it.
    fn post_end(&mut self, serial: u32) {
        if let Some(at) = self.at(serial) {
            let owner = self.sessions[at].owner;
            self.mailboxes[owner].push_back(Mail::EndSession(serial));
        }
    }

    fn seat(
        &mut self,
        handshake: Handshake,
        accepted: &Accepted,
        entered: Option<SessionId>,
        link: LinkId,
        now: Instant,
        trace: &mut Recorder,
    ) -> Seated {
        let id = SessionId::new(accepted.isid, accepted.tsih);
        if entered.is_none()
            && let Some(at) = self.sessions.iter().position(|one| one.session.id() == id)
        {
            let served = &mut self.sessions[at];
            let old = served.session.place_of(accepted.cid);
            if let Some(old) = old {
                served.session.reinstated(old);
            }
            let place = served.session.join(handshake.into_connection(accepted));
            served.links.resize(served.links.len().max(place + 1), None);
            let pushed = old.map(|old| served.links[old]);
            served.links[place] = Some(link);
            let serial = served.serial;
            if let (Some(Some(_)), Some(old)) = (pushed, old) {
                self.close(serial, old, None, now, trace);
            }
            return Seated {
                serial,
                place,
                leads: false,
            };
        }
        let session = handshake.into_session(accepted.clone(), self.config.clone(), Arc::new([]));
        let serial = self.last_serial;
        let owner = self.next_owner;
        self.next_owner = (owner + 1) % self.mailboxes.len();
        self.sessions.push(Served {
            session,
            serial,
            links: vec![Some(link)],
            at_stores: 0,
            owner,
            turns: 0,
        });
        Seated {
            serial,
            place: 0,
            leads: true,
        }
    }

    /// Serves a session: processes what `place` has received, and submits work to the stores.
    pub(crate) fn serve(
        &mut self,
        serial: u32,
        place: Option<usize>,
        stores: &mut StoreQueue,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(at) = self.at(serial) else { return };
        self.count_turn(at);
        let served = &mut self.sessions[at];
        if let Some(place) = place {
            served.session.receive(place, now, trace);
        }
        for other in 0..served.links.len() {
            if Some(other) != place && served.session.is_busy(other) {
                served.session.receive(other, now, trace);
            }
            while let Some(work) = served.session.poll_work(other, now, trace) {
                served.at_stores += 1;
                let (task, unit, job) = job_of(work);
                let session = serial;
                stores.submit(Asker { session, task }, unit, job);
            }
        }
        while let Some((place, close)) = self.sessions[at].session.poll_end() {
            self.close(serial, place, Some(close), now, trace);
            if self.at(serial) != Some(at) {
                return;
            }
        }
    }

    /// Counts a turn of the session at `at`, and periodically adapts the command windows of all sessions on its thread,
    /// which counts as busy in three periods of four.
    fn count_turn(&mut self, at: usize) {
        self.turns += 1;
        self.sessions[at].turns += 1;
        if !self.turns.is_multiple_of(TURNS_PER_PERIOD) {
            return;
        }
        let owner = self.sessions[at].owner;
        let of_thread = self.sessions.iter_mut().filter(|one| one.owner == owner);
        let taken = of_thread.map(|served| {
            let turns = std::mem::take(&mut served.turns);
            let taken = served.session.take_stock(turns);
            (served, taken)
        });
        let taken: Vec<(&mut Served, Taken)> = taken.collect();
        let is_busy = !self.turns.is_multiple_of(4 * TURNS_PER_PERIOD);
        let period = Period::of(taken.iter().map(|(_, taken)| *taken), is_busy);
        for (served, taken) in taken {
            served.session.adapt_window(period, taken);
        }
    }

    /// Removes the connection at `place` from its session, which may end with it.
    fn close(
        &mut self,
        serial: u32,
        place: usize,
        why: Option<Close>,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(at) = self.at(serial) else { return };
        let served = &mut self.sessions[at];
        let rest = served.session.leave(place, now, trace);
        let link = served.links.get_mut(place).and_then(Option::take);
        if let Some(link) = link {
            self.reports.push_back(Report::Closed(link, rest, why));
        }
        if self.sessions[at].session.is_over() {
            self.end(at);
        }
    }

    /// The socket of the connection at `place` is dead.
    pub(crate) fn hang_up(
        &mut self,
        serial: u32,
        place: usize,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(at) = self.at(serial) else { return };
        let served = &mut self.sessions[at];
        served.session.leave(place, now, trace);
        if let Some(link) = served.links.get_mut(place) {
            *link = None;
        }
        if served.session.is_over() {
            self.end(at);
        }
    }

    /// Ends the session at that index.
    fn end(&mut self, at: usize) {
        let served = self.sessions.swap_remove(at);
        let id = served.session.id();
        self.reports.push_back(Report::SessionOver(served.serial));
        self.directory.leave(id);
        self.lingering.push(Lingering {
            id,
            serial: served.serial,
            at_stores: served.at_stores,
            _remains: served.session.end(),
        });
    }

    /// Withdraws the operations of ended sessions that the stores have not begun, and forgets sessions with none left
    /// there. Posts a review to all threads if the device has signalled.
    pub(crate) fn settle(&mut self, stores: &mut StoreQueue) {
        let mut place = 0;
        while place < self.lingering.len() {
            let serial = self.lingering[place].serial;
            if self.lingering[place].at_stores > 0 {
                self.lingering[place].at_stores -= stores.withdraw(serial);
            }
            if self.lingering[place].at_stores > 0 {
                place += 1;
                continue;
            }
            let quiet = self.lingering.swap_remove(place);
            self.directory.quiet(quiet.id);
        }
        if self.bell.swap(false, Ordering::Relaxed) {
            for mailbox in &mut self.mailboxes {
                if !mailbox.contains(&Mail::Review) {
                    mailbox.push_back(Mail::Review);
                }
            }
        }
    }

    /// A store has answered; returns the session concerned.
    pub(crate) fn answered(
        &mut self,
        asker: Asker,
        done: Done,
        now: Instant,
        trace: &mut Recorder,
    ) -> Option<u32> {
        let Some(at) = self.at(asker.session) else {
            let mut lingering = self.lingering.iter_mut();
            if let Some(one) = lingering.find(|one| one.serial == asker.session) {
                one.at_stores -= 1;
            }
            return None;
        };
        let served = &mut self.sessions[at];
        served.at_stores -= 1;
        let times = (now, now);
        let read;
        let result = match done {
            Done::Read(result) => {
                read = result;
                let bytes = read.as_deref().map_err(|sense| *sense);
                bytes.map(target::Done::Read)
            }
            Done::Status(result) => result.map(|()| target::Done::Status),
            Done::Medium(result) => result.map(target::Done::Medium),
        };
        served.session.complete(asker.task, result, times, trace);
        Some(asker.session)
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.mailboxes.len()
    }

    /// Whether any thread has mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.mailboxes.iter().any(|mailbox| !mailbox.is_empty())
    }

    /// A thread reads its mail; returns the sessions that have work.
    pub(crate) fn read_mail(
        &mut self,
        thread: usize,
        now: Instant,
        trace: &mut Recorder,
    ) -> Vec<u32> {
        let mut woken = Vec::new();
        for mail in std::mem::take(&mut self.mailboxes[thread]) {
            match mail {
                Mail::Review => {
                    let own = |served: &&mut Served| served.owner == thread;
                    for served in self.sessions.iter_mut().filter(own) {
                        served.session.review(now, trace);
                        woken.push(served.serial);
                    }
                }
                Mail::EndSession(serial) => {
                    if let Some(at) = self.at(serial) {
                        for place in 0..self.sessions[at].links.len() {
                            if self.sessions[at].links[place].is_some() {
                                let rest = self.sessions[at].session.leave(place, now, trace);
                                if let Some(link) = self.sessions[at].links[place].take() {
                                    self.reports.push_back(Report::Closed(link, rest, None));
                                }
                            }
                        }
                        self.end(at);
                    }
                }
            }
        }
        woken
    }

    /// Runs the timers, about once a second.
    pub(crate) fn tick(&mut self, now: Instant, trace: &mut Recorder) {
        for served in &mut self.sessions {
            served.session.rest();
            served.session.expire(now, trace);
        }
        while let Some(at) = self.sessions.iter().position(|one| one.session.is_over()) {
            self.end(at);
        }
    }
}

fn job_of(work: Work) -> (wansan_trace::TaskTag, usize, Job) {
    let lba = |offset_bytes: u64| offset_bytes as usize / BLOCK_BYTES;
    match work {
        Work::Read {
            task,
            unit,
            offset_bytes,
            len_bytes,
        } => {
            let job = Job::Read {
                lba: lba(offset_bytes),
                buffer: vec![0; len_bytes],
            };
            (task, unit, job)
        }
        Work::Write {
            task,
            unit,
            offset_bytes,
            data,
            fua,
        } => {
            let lba = lba(offset_bytes);
            (task, unit, Job::Write { lba, data, fua })
        }
        Work::Flush { task, unit } => (task, unit, Job::Flush),
        Work::Medium {
            task,
            unit,
            operation,
            fua,
        } => (task, unit, Job::Medium { operation, fua }),
    }
}
