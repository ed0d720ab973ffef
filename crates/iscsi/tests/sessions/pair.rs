//! An initiator and a target with a memory store, connected by two byte streams.

use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_iscsi::initiator::{self, Command, Completion, LoginSettings, Transfer};
use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, Wanted};
use wansan_iscsi::login::{Admitted, Candidate, Found, Refusal, Sessions};
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, MediumOperation, TargetDevice, cdb};
use wansan_iscsi::target::{self, Close, Done, Memory, SessionConfig, UNSOLICITED_BYTES, Work};
use wansan_iscsi::text::send_targets::TargetRecord;
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_trace::{Instant, Kinds, Recorder, SessionId};

pub(crate) const TARGET: &str = "iqn.2026-01.net.example:pair";
pub(crate) const BLOCK_BYTES: usize = 512;
const TASKS: usize = 64;
const STORE_BYTES: usize = 4 << 20;

struct Desk<'a> {
    config: &'a SessionConfig,
}

impl Sessions for Desk<'_> {
    fn find(&mut self, _: &Candidate<'_>) -> Result<Found, Refusal> {
        Ok(Found {
            portal_group_tag: 1,
            target_alias: None,
            session: None,
            chap: None,
            wanted: None,
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        let id = SessionId::new(candidate.isid, 7);
        Ok(self.config.begin(candidate, session, id))
    }
}

/// The targets that SendTargets lists.
fn targets() -> Arc<[TargetRecord]> {
    Arc::new([TargetRecord {
        name: TARGET.to_owned(),
        addresses: Vec::new(),
    }])
}

/// Both ends, and the bytes in flight.
pub(crate) struct Pair {
    pub(crate) initiator: initiator::Session,
    pub(crate) target: target::Session,
    pub(crate) store: Vec<u8>,
    pub(crate) trace: Recorder,
    /// Store operations that the test has not completed yet, when it holds the store back.
    pub(crate) held: Vec<Work>,
    pub(crate) hold_store: bool,
    config: SessionConfig,
    login: LoginSettings,
    theirs: Wanted,
    random: Pcg64Mcg,
    clock_ns: u64,
}

impl Pair {
    /// Logs in. Every transfer of bytes is split at random by `seed`.
    pub(crate) fn new(ours: Wanted, theirs: Wanted, command_window: u32, seed: u64) -> Pair {
        let plenty = Memory::new(1 << 30);
        Pair::sharing(&plenty, ours, theirs, command_window, seed)
    }

    /// The same, with a target session that shares `memory` with others.
    pub(crate) fn sharing(
        memory: &Arc<Memory>,
        ours: Wanted,
        theirs: Wanted,
        command_window: u32,
        seed: u64,
    ) -> Pair {
        Pair::joined(memory, Some(TARGET), (ours, theirs), command_window, seed)
    }

    /// A discovery session.
    pub(crate) fn discovering() -> Pair {
        let wanted = (Wanted::default(), Wanted::default());
        Pair::joined(&Memory::new(1 << 30), None, wanted, 16, 31)
    }

    fn joined(
        memory: &Arc<Memory>,
        target: Option<&str>,
        (ours, theirs): (Wanted, Wanted),
        command_window: u32,
        seed: u64,
    ) -> Pair {
        let unit = LogicalUnit {
            identity: Identity {
                target_name: TARGET.to_owned(),
                portal_group_tag: 1,
                number: 0,
            },
            geometry: Geometry::new(STORE_BYTES as u64, BLOCK_BYTES as u32, 0).unwrap(),
            write_cache: true,
            read_only: false,
            thin: false,
            keeps_reservations: false,
        };
        let device = Arc::new(TargetDevice::new(vec![unit]).unwrap());
        let config = SessionConfig {
            device,
            command_window,
            unsolicited_bytes: UNSOLICITED_BYTES,
            memory: Arc::clone(memory),
            separate_status: false,
            join_sends: true,
        };
        let login = LoginSettings {
            initiator: "iqn.2026-01.net.example:initiator".to_owned(),
            isid: [0x80, 1, 2, 3, 4, 5],
            target: target.map(str::to_owned),
            chap: None,
            wanted: ours,
        };
        Pair::of(login, theirs, config, seed)
    }

    fn of(login: LoginSettings, theirs: Wanted, config: SessionConfig, seed: u64) -> Pair {
        let near = initiator::Handshake::lead(&login).unwrap();
        let (near, session) = log_in(near, theirs.clone(), &config);
        Pair {
            initiator: near.into_session(TASKS).unwrap(),
            target: session,
            store: vec![0; STORE_BYTES],
            trace: Recorder::new(Kinds::ALL, 64 << 20),
            held: Vec::new(),
            hold_store: false,
            config,
            login,
            theirs,
            random: Pcg64Mcg::seed_from_u64(seed),
            clock_ns: 0,
        }
    }

    /// A session of another initiator port with the same device.
    pub(crate) fn beside(&self, initiator: &str, seed: u64) -> Pair {
        let login = LoginSettings {
            initiator: format!("iqn.2026-01.net.example:{initiator}"),
            isid: [0x80, 1, 2, 3, 4, seed as u8],
            target: Some(TARGET.to_owned()),
            ..self.login.clone()
        };
        Pair::of(login, self.theirs.clone(), self.config.clone(), seed)
    }

    /// Cuts the connection, and replaces this session with another one. The target's outstanding store operations are
    /// never completed.
    pub(crate) fn reinstate(&mut self) {
        let lost = self.lead_instead(0);
        self.go_on_as_led(lost);
    }

    /// Cuts the connection. Another session, for at most `tasks` tasks, replaces the lost one until that continues as
    /// it; the target's outstanding store operations are never completed.
    pub(crate) fn lead_instead(&mut self, tasks: usize) -> initiator::Session {
        let now = self.now();
        self.initiator.lose_all(now, &mut self.trace);
        self.held.clear();
        let near = self.initiator.reinstating(&self.login, 0).unwrap();
        let (near, session) = log_in(near, self.theirs.clone(), &self.config);
        let initiator::Entry::Leads(lead) = near.into_entry(tasks).unwrap() else {
            unreachable!("it joins none");
        };
        self.target = session;
        let now = self.now();
        self.target.review(now, &mut self.trace);
        std::mem::replace(&mut self.initiator, *lead)
    }

    /// Continues the lost session as the leading one.
    pub(crate) fn go_on_as_led(&mut self, lost: initiator::Session) {
        let now = self.now();
        let lead = std::mem::replace(&mut self.initiator, lost);
        let taken = self.initiator.reinstate(lead, now, &mut self.trace);
        assert!(taken.is_ok());
    }

    /// A login that leads another session at the target, which assigns it the same TSIH.
    pub(crate) fn lead_another(&self, cid: u16) -> initiator::Handshake {
        let near = self.initiator.reinstating(&self.login, cid).unwrap();
        log_in(near, self.theirs.clone(), &self.config).0
    }

    /// The login of a connection that joins, before the target has answered.
    pub(crate) fn begin_to_join(&self, cid: u16) -> initiator::Handshake {
        self.initiator.join(&self.login, cid).unwrap()
    }

    pub(crate) fn now(&mut self) -> Instant {
        self.clock_ns += 1;
        Instant::from_ns(self.clock_ns)
    }

    pub(crate) fn random_below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    pub(crate) fn submit(&mut self, cdb: [u8; 16], transfer: Transfer, user: u64) {
        let lun = Lun::single_level(0).unwrap();
        let attribute = TaskAttribute::Simple;
        let now = self.now();
        let command = Command {
            lun,
            cdb,
            attribute,
            transfer,
            user,
        };
        self.initiator
            .submit(command, now, &mut self.trace)
            .unwrap();
    }

    pub(crate) fn write(&mut self, lba: u64, data: Vec<u8>, user: u64) {
        let blocks = (data.len() / BLOCK_BYTES) as u32;
        self.submit(cdb::write(lba, blocks, false), Transfer::Write(data), user);
    }

    pub(crate) fn read(&mut self, lba: u64, blocks: u32, user: u64) {
        let buffer = vec![0xee; blocks as usize * BLOCK_BYTES];
        self.submit(cdb::read(lba, blocks, false), Transfer::Read(buffer), user);
    }

    /// Moves bytes from the initiator to the target, in pieces, and runs the target.
    pub(crate) fn towards_target(&mut self) -> Result<bool, Close> {
        let now = self.now();
        self.initiator.pump(now, &mut self.trace);
        let mut moved = false;
        loop {
            let pending = self.initiator.connections()[0].pending().len();
            if pending == 0 || !self.target.connection(0).unwrap().wants_input() {
                break;
            }
            let piece = 1 + self.random_below(pending);
            let from = &self.initiator.connections()[0].pending()[..piece];
            let bytes = copy(from, self.target.connection(0).unwrap().space());
            self.initiator.connections()[0].sent(bytes, now, &mut self.trace);
            self.target.connection(0).unwrap().filled(bytes);
            self.target_works()?;
            moved = true;
            self.initiator.pump(now, &mut self.trace);
        }
        Ok(self.target_works()? || moved)
    }

    /// Delivers the initiator's output to the target, which starts no store operation.
    pub(crate) fn bring(&mut self) {
        let now = self.now();
        self.initiator.pump(now, &mut self.trace);
        let from = self.initiator.connections()[0].pending();
        let bytes = copy(from, self.target.connection(0).unwrap().space());
        self.initiator.connections()[0].sent(bytes, now, &mut self.trace);
        self.target.connection(0).unwrap().filled(bytes);
        self.target.receive(0, now, &mut self.trace);
    }

    /// Lets the target handle its input and answer from the store.
    pub(crate) fn target_works(&mut self) -> Result<bool, Close> {
        let now = self.now();
        self.target.receive(0, now, &mut self.trace);
        if let Some((_, close)) = self.target.poll_end() {
            return Err(close);
        }
        let mut worked = false;
        while let Some(work) = self.target.poll_work(0, now, &mut self.trace) {
            worked = true;
            if self.hold_store {
                self.held.push(work);
            } else {
                self.answer(work);
            }
        }
        Ok(worked)
    }

    /// Executes a store operation.
    pub(crate) fn answer(&mut self, work: Work) {
        let now = self.now();
        match work {
            Work::Read {
                task,
                offset_bytes,
                len_bytes,
                ..
            } => {
                let from = &self.store[offset_bytes as usize..][..len_bytes];
                // Like a file whose pages are partly cached.
                let mut done = 0;
                while !self.random.next_u32().is_multiple_of(4)
                    && let Some(mut space) = self.target.read_space(task, now, &mut self.trace)
                {
                    let bytes = space.bytes();
                    bytes.copy_from_slice(&from[done..done + bytes.len()]);
                    done += bytes.len();
                    space.filled((now, now), &mut self.trace);
                }
                if done < len_bytes {
                    let rest = Ok(Done::Read(&from[done..]));
                    self.target
                        .complete(task, rest, (now, now), &mut self.trace);
                }
            }
            Work::Write {
                task,
                offset_bytes,
                data,
                ..
            } => {
                self.store[offset_bytes as usize..][..data.len()].copy_from_slice(&data);
                self.target
                    .complete(task, Ok(Done::Status), (now, now), &mut self.trace);
            }
            Work::Flush { task, .. } => {
                self.target
                    .complete(task, Ok(Done::Status), (now, now), &mut self.trace);
            }
            // The stores' tests cover the operation; here only its response matters.
            Work::Medium {
                task, operation, ..
            } => {
                if let MediumOperation::FlushFor(change) = *operation {
                    change.end(true);
                }
                let done = Ok(Done::Medium(Vec::new()));
                self.target
                    .complete(task, done, (now, now), &mut self.trace);
            }
        }
    }

    /// Moves bytes from the target to the initiator, in pieces.
    pub(crate) fn towards_initiator(&mut self) -> bool {
        let mut moved = false;
        loop {
            let pending = self.target.connection(0).unwrap().pending().len();
            if pending == 0 {
                return moved;
            }
            let piece = 1 + self.random_below(pending);
            let now = self.now();
            let from = &self.target.connection(0).unwrap().pending()[..piece];
            let bytes = copy(from, self.initiator.connections()[0].space());
            self.target.connection(0).unwrap().sent(bytes);
            self.initiator.connections()[0].filled(bytes, now);
            self.initiator.receive(0, now, &mut self.trace).unwrap();
            moved = true;
        }
    }

    /// Runs until nothing moves any more; returns the completions.
    pub(crate) fn settle(&mut self) -> Vec<Completion> {
        loop {
            let forth = self.towards_target().unwrap();
            let back = self.towards_initiator();
            if !forth && !back {
                break;
            }
        }
        let now = self.now();
        std::iter::from_fn(|| self.initiator.poll_completion(now, &mut self.trace)).collect()
    }

    /// [`Pair::settle`], until the initiator no longer retries at busy units.
    pub(crate) fn settle_for_good(&mut self) -> Vec<Completion> {
        let mut done = Vec::new();
        for _ in 0..30 {
            done.extend(self.settle());
            self.clock_ns += 5_000_000_000;
        }
        done
    }

    /// [`Pair::settle`]; every completion must be GOOD.
    pub(crate) fn settle_good(&mut self) -> Vec<Completion> {
        let done = self.settle();
        for completion in &done {
            let answer = completion.outcome.as_ref().unwrap();
            assert_eq!(answer.status, ScsiStatus::Good, "{completion:?}");
        }
        done
    }
}

pub(crate) fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let bytes = from.len().min(to.len());
    to[..bytes].copy_from_slice(&from[..bytes]);
    bytes
}

/// Logs in `near` to a session of its own.
fn log_in(
    mut near: initiator::Handshake,
    theirs: Wanted,
    config: &SessionConfig,
) -> (initiator::Handshake, target::Session) {
    let mut far = target::Handshake::new(theirs);
    let accepted = loop {
        let bytes = copy(near.pending(), far.space());
        far.filled(bytes);
        near.sent(bytes);
        let accepted = far.receive(&mut Desk { config }).unwrap();
        let bytes = copy(far.pending(), near.space());
        near.filled(bytes);
        far.sent(bytes);
        near.receive().unwrap();
        if let Some(accepted) = accepted {
            break accepted;
        }
    };
    assert!(near.is_done());
    (near, far.into_session(*accepted, config.clone(), targets()))
}
