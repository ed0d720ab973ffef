//! A target session with a memory store, and connections to it that may be cut.

use std::collections::BTreeSet;
use std::sync::Arc;

use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, Wanted};
use wansan_iscsi::login::{
    Admitted, Candidate, Found, InitiatorLogin, InitiatorSettings, Next, Refusal, Sessions,
};
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::target::{
    Close, Done, Handshake, Memory, Session, SessionConfig, UNSOLICITED_BYTES, Work,
};
use wansan_iscsi::wire::{BHS_BYTES, LoginResponse, Receiver, Stage, Transmitter};
use wansan_trace::{Instant, Kinds, Recorder, SessionId, TaskTag};

pub(crate) const BLOCK_BYTES: usize = 512;
pub(crate) const BLOCKS: usize = 4096;
const TARGET: &str = "iqn.2026-01.net.example:rig";
const ISID: [u8; 6] = [0x80, 9, 8, 7, 6, 5];
const TSIH: u16 = 0x0102;

/// The test initiator's end of a connection.
pub(crate) struct Line {
    pub(crate) cid: u16,
    /// Its index at the target.
    pub(crate) place: usize,
    pub(crate) transmitter: Transmitter,
    /// Bytes in flight to the target.
    pub(crate) out: Vec<u8>,
    pub(crate) receiver: Receiver,
    pub(crate) exp_stat_sn: Sn,
    /// StatSNs received after a missing one.
    early: BTreeSet<u32>,
    pub(crate) parameters: ConnectionParameters,
}

impl Line {
    /// A status was received; returns whether for the first time.
    pub(crate) fn take_status(&mut self, stat_sn: Sn) -> bool {
        let is_new = self.exp_stat_sn.le(stat_sn) && self.early.insert(stat_sn.0);
        while self.early.remove(&self.exp_stat_sn.0) {
            self.exp_stat_sn = self.exp_stat_sn.next();
        }
        is_new
    }
}

/// The target and its store.
pub(crate) struct Rig {
    pub(crate) session: Session,
    pub(crate) parameters: SessionParameters,
    pub(crate) store: Vec<u8>,
    pub(crate) trace: Recorder,
    /// Outstanding store operations.
    pub(crate) at_store: Vec<Work>,
    pub(crate) clock_ns: u64,
    wanted: Wanted,
}

/// Admits every connection, to the session if it exists.
struct Desk<'a> {
    session: Option<&'a Session>,
    config: &'a SessionConfig,
}

impl Sessions for Desk<'_> {
    fn find(&mut self, _: &Candidate<'_>) -> Result<Found, Refusal> {
        Ok(Found {
            portal_group_tag: 1,
            target_alias: None,
            chap: None,
            wanted: None,
            session: self.session.map(Session::announced),
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        parameters: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        let id = SessionId::new(candidate.isid, TSIH);
        let begins = self.config.begin(candidate, parameters, id);
        Ok(Admitted {
            window: self.session.map_or(begins.window, Session::window),
            ..begins
        })
    }
}

fn config(command_window: u32) -> SessionConfig {
    let unit = LogicalUnit {
        identity: Identity {
            target_name: TARGET.to_owned(),
            portal_group_tag: 1,
            number: 0,
        },
        geometry: Geometry::new((BLOCKS * BLOCK_BYTES) as u64, BLOCK_BYTES as u32, 0).unwrap(),
        write_cache: false,
        read_only: false,
        thin: false,
        keeps_reservations: false,
    };
    SessionConfig {
        device: Arc::new(TargetDevice::new(vec![unit]).unwrap()),
        command_window,
        unsolicited_bytes: UNSOLICITED_BYTES,
        memory: Memory::new(1 << 30),
        separate_status: false,
        join_sends: true,
    }
}

/// Moves as many bytes as fit.
pub(crate) fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let bytes = from.len().min(to.len());
    to[..bytes].copy_from_slice(&from[..bytes]);
    bytes
}

/// Logs in a connection; returns both ends, with the handshake not yet part of a session.
fn log_in(
    wanted: &Wanted,
    cid: u16,
    exp_stat_sn: Sn,
    joined: Option<(&Session, SessionParameters)>,
    config: &SessionConfig,
) -> (
    Line,
    Handshake,
    Box<wansan_iscsi::login::Accepted>,
    SessionParameters,
) {
    let mut login = InitiatorLogin::new(InitiatorSettings {
        initiator_name: "iqn.2026-01.net.example:initiator".to_owned(),
        initiator_alias: None,
        target_name: Some(TARGET.to_owned()),
        isid: ISID,
        joins: joined.map(|(_, parameters)| (TSIH, parameters)),
        cid,
        cmd_sn: joined.map_or(Sn(1), |(session, _)| session.window().exp_cmd_sn),
        task_tag: TaskTag(0),
        begins_in: Stage::OperationalNegotiation,
        wanted: wanted.clone(),
        chap: None,
    })
    .unwrap();
    let mut far = Handshake::new(wanted.clone());
    let mut receiver = Receiver::new();
    let mut transmitter = Transmitter::new();
    let mut request = login.start();
    let mut is_first = true;
    loop {
        if is_first {
            request.request.exp_stat_sn = exp_stat_sn;
        }
        is_first = false;
        let mut bhs = [0; BHS_BYTES];
        request.request.emit(&mut bhs);
        transmitter.push(&bhs, &request.data);
        let bytes = copy(transmitter.pending(), far.space());
        far.filled(bytes);
        transmitter.sent(bytes);
        assert_eq!(far.joins().is_some(), joined.is_some());
        let session = joined.map(|(session, _)| session);
        let accepted = far.receive(&mut Desk { session, config }).unwrap();
        let bytes = copy(far.pending(), receiver.space());
        far.sent(bytes);
        receiver.filled(bytes);
        let pdu = receiver.next().unwrap().unwrap();
        let response = LoginResponse::parse(pdu.bhs).unwrap();
        match login.handle(&response, pdu.data) {
            Next::Send(next) => request = next,
            Next::Done(established) => {
                let digests = established.connection;
                receiver.set_digests(digests.header_digest, digests.data_digest);
                receiver.set_max_data_bytes(1 << 20);
                transmitter.set_digests(digests.header_digest, digests.data_digest);
                let line = Line {
                    cid,
                    place: 0,
                    transmitter,
                    out: Vec::new(),
                    receiver,
                    exp_stat_sn: established.exp_stat_sn,
                    early: BTreeSet::new(),
                    parameters: established.connection,
                };
                return (line, far, accepted.unwrap(), established.session);
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Rig {
    /// A session with its first connection.
    pub(crate) fn new(wanted: Wanted, command_window: u32) -> (Rig, Line) {
        let config = config(command_window);
        let (line, handshake, accepted, parameters) = log_in(&wanted, 0, Sn(0), None, &config);
        let session = handshake.into_session(*accepted, config, Arc::new([]));
        let rig = Rig {
            session,
            parameters,
            store: vec![0; BLOCKS * BLOCK_BYTES],
            trace: Recorder::new(Kinds::ALL, 64 << 20),
            at_store: Vec::new(),
            clock_ns: 0,
            wanted,
        };
        (rig, line)
    }

    pub(crate) fn now(&mut self) -> Instant {
        self.clock_ns += 1;
        Instant::from_ns(self.clock_ns)
    }

    /// Adds a connection, which replaces one with the same CID and ExpStatSN `exp_stat_sn` there.
    pub(crate) fn join(&mut self, cid: u16, exp_stat_sn: Sn) -> Line {
        let old = self.session.place_of(cid);
        let joined = Some((&self.session, self.parameters));
        let config = config(1);
        let (mut line, handshake, accepted, _) =
            log_in(&self.wanted, cid, exp_stat_sn, joined, &config);
        line.place = self.session.join(handshake.into_connection(&accepted));
        if let Some(old) = old {
            self.session.reinstated(old);
            self.cut(old);
        }
        line
    }

    /// The socket of the connection at `place` is dead.
    pub(crate) fn cut(&mut self, place: usize) {
        let now = self.now();
        self.session.leave(place, now, &mut self.trace);
    }

    /// Delivers up to `bytes` from the initiator's end to the target's, and lets it handle them.
    pub(crate) fn forth(&mut self, line: &mut Line, bytes: usize) {
        let now = self.now();
        let pending = &line.out[..line.out.len().min(bytes)];
        let connection = self.session.connection(line.place).unwrap();
        if !connection.wants_input() {
            return;
        }
        let moved = copy(pending, connection.space());
        connection.filled(moved);
        line.out.drain(..moved);
        self.session.receive(line.place, now, &mut self.trace);
    }

    /// Delivers up to `bytes` from the target's end to the initiator's.
    pub(crate) fn back(&mut self, line: &mut Line, bytes: usize) {
        let Some(connection) = self.session.connection(line.place) else {
            return;
        };
        let pending = connection.pending();
        let pending = &pending[..pending.len().min(bytes)];
        let moved = copy(pending, line.receiver.space());
        line.receiver.filled(moved);
        connection.sent(moved);
        let now = self.now();
        self.session.receive(line.place, now, &mut self.trace);
    }

    /// Collects new store operations.
    pub(crate) fn ask_store(&mut self, line: &Line) {
        let now = self.now();
        while let Some(work) = self.session.poll_work(line.place, now, &mut self.trace) {
            self.at_store.push(work);
        }
    }

    /// The store completes one operation.
    pub(crate) fn store_works(&mut self, piece: usize) {
        let now = self.now();
        match self.at_store.swap_remove(piece) {
            Work::Read {
                task,
                offset_bytes,
                len_bytes,
                ..
            } => {
                let data = self.store[offset_bytes as usize..][..len_bytes].to_vec();
                let done = Ok(Done::Read(&data));
                self.session
                    .complete(task, done, (now, now), &mut self.trace);
            }
            Work::Write {
                task,
                offset_bytes,
                data,
                ..
            } => {
                self.store[offset_bytes as usize..][..data.len()].copy_from_slice(&data);
                self.session
                    .complete(task, Ok(Done::Status), (now, now), &mut self.trace);
            }
            Work::Flush { task, .. } => {
                self.session
                    .complete(task, Ok(Done::Status), (now, now), &mut self.trace);
            }
            other @ Work::Medium { .. } => panic!("nobody asked for {other:?}"),
        }
    }

    /// The next connection that the target closes.
    pub(crate) fn end(&mut self) -> Option<(usize, Close)> {
        self.session.poll_end()
    }
}
