//! The sending end of measured streams.

use std::time::Duration;

use wansan_schema::{FlowReport, StreamReport};
use wansan_trace::congestion::SlowStarts;
use wansan_trace::event::{self, Role, Tcp};
use wansan_trace::{ConnectionId, Instant, NameId, Recorder, SessionId};
use wansan_workload::stream::{
    self, Clock, END_PATIENCE, Next, Nonsense, PIECE_BYTES, Sending, filling,
};

use super::socket::{ConnectionConfig, Owner, Sockets};

/// The clock, common to all hosts.
pub(super) const CLOCK: Clock = Clock([0; 24]);

/// The settings of a sender of streams.
#[derive(Debug)]
pub struct StreamConfig {
    /// The connection of each stream, at least one.
    pub connections: Vec<ConnectionConfig>,
    /// Distance between marks in bytes, within [`stream::MARK_EVERY_BYTES`].
    pub every_bytes: u32,
    /// Rate of each stream in bytes per second; `None` for as fast as possible.
    pub rate_bytes_per_s: Option<f64>,
    /// How long it sends before the measurement.
    pub warmup: Duration,
    /// Duration of the measurement.
    pub time: Duration,
    /// Where its records go.
    pub trace: Recorder,
}

/// Why a sender failed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The peer is not a receiver of streams.
    #[error("flow {flow}: protocol error by the receiver: {nonsense}")]
    Nonsense {
        /// The stream, from 0.
        flow: usize,
        /// The protocol error.
        nonsense: Nonsense,
    },
    /// No mark was echoed during the measurement.
    #[error("no mark was echoed during the measurement: measure longer, or lower `every`")]
    NoMark,
}

/// A stream.
#[derive(Debug)]
struct Flow {
    end: u32,
    sending: Sending,
    /// Bytes of its hello written so far.
    greeted: usize,
    /// The socket's send buffer is full.
    is_full: bool,
    has_ended: bool,
    starts: SlowStarts,
    retransmits: u32,
    /// Name of its addresses in records; `None` before its connection is recorded.
    name: Option<NameId>,
}

/// The stage it has reached.
#[derive(Debug)]
enum Stage {
    /// The streams connect, one after another.
    Connecting,
    /// Waits for the other loads.
    Ready,
    /// Sends, until that time.
    Sending(Instant),
    /// The measurement is over; the receivers may read what is in flight, until that time.
    Ending(Instant, Box<StreamReport>),
}

/// A sender of streams.
#[derive(Debug)]
pub(super) struct Sender {
    owner: Owner,
    config: StreamConfig,
    stage: Stage,
    flows: Vec<Flow>,
    filling: Box<[u8; PIECE_BYTES]>,
}

impl Sender {
    /// Starts a sender with that index, which connects at once.
    pub(super) fn start(place: usize, config: StreamConfig, sockets: &mut Sockets) -> Sender {
        let mut sender = Sender {
            owner: Owner::Sender(place),
            config,
            stage: Stage::Connecting,
            flows: Vec::new(),
            filling: filling(),
        };
        sender.connect(sockets);
        sender
    }

    /// Opens the next stream.
    fn connect(&mut self, sockets: &mut Sockets) {
        let connection = &self.config.connections[self.flows.len()];
        self.flows.push(Flow {
            end: sockets.connect(connection, self.owner),
            sending: Sending::new(self.config.every_bytes, CLOCK),
            greeted: 0,
            is_full: false,
            has_ended: false,
            starts: SlowStarts::default(),
            retransmits: 0,
            name: None,
        });
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self.stage {
            Stage::Ending(until, _) => now >= until || self.flows.iter().all(|flow| flow.has_ended),
            _ => false,
        }
    }

    /// What it is doing, in words.
    pub(super) fn stage(&self) -> String {
        match self.stage {
            Stage::Connecting => {
                let answered = self.flows.iter().filter(|flow| flow.sending.is_answered());
                let (answered, all) = (answered.count(), self.config.connections.len());
                format!("connecting: {answered} of {all} streams are answered")
            }
            Stage::Ready => "waiting for others".to_owned(),
            Stage::Sending(_) | Stage::Ending(..) => "sending".to_owned(),
        }
    }

    /// Progress, from 0 to 1.
    pub(super) fn progress(&self, now: Instant) -> f64 {
        match self.stage {
            Stage::Connecting | Stage::Ready => 0.0,
            Stage::Sending(to) => {
                let all = self.config.warmup + self.config.time;
                1.0 - to.since(now).as_secs_f64() / all.as_secs_f64().max(1e-9)
            }
            Stage::Ending(..) => 1.0,
        }
    }

    /// When its next timer is due.
    pub(super) fn wakes_at(&self, now: Instant) -> Instant {
        match self.stage {
            Stage::Connecting | Stage::Ready => Instant::FAR_FUTURE,
            Stage::Sending(to) => {
                let waiting = self.flows.iter().filter(|flow| !flow.is_full);
                let dues = waiting.filter_map(|flow| flow.sending.due());
                dues.fold(to, Instant::min)
            }
            Stage::Ending(until, _) if !self.is_over(now) => until,
            Stage::Ending(..) => Instant::FAR_FUTURE,
        }
    }

    /// Begins to send.
    pub(super) fn begin(&mut self, now: Instant) {
        let from = now + self.config.warmup;
        let to = from + self.config.time;
        self.stage = Stage::Sending(to);
        for flow in &mut self.flows {
            let rate = self.config.rate_bytes_per_s;
            flow.sending.release((from, to), rate, u64::MAX, now);
        }
    }

    /// Does everything that can be done now.
    pub(super) fn turn(&mut self, sockets: &mut Sockets) -> Result<(), StreamError> {
        let now = sockets.now();
        for (number, flow) in self.flows.iter_mut().enumerate() {
            let read = flow.read(sockets);
            read.map_err(|nonsense| StreamError::Nonsense {
                flow: number,
                nonsense,
            })?;
        }
        match self.stage {
            Stage::Connecting => {
                for flow in &mut self.flows {
                    flow.greet(sockets);
                }
                if self.flows.iter().all(|flow| flow.sending.is_answered()) {
                    match self.flows.len() < self.config.connections.len() {
                        true => self.connect(sockets),
                        false => self.stage = Stage::Ready,
                    }
                }
            }
            Stage::Sending(to) if now >= to => {
                self.observe(sockets);
                let report = self.report(to, sockets).ok_or(StreamError::NoMark)?;
                self.stage = Stage::Ending(now + END_PATIENCE, Box::new(report));
                for flow in &self.flows {
                    sockets.shut(flow.end);
                }
            }
            Stage::Sending(_) => {
                for flow in &mut self.flows {
                    flow.write(&self.filling, sockets);
                }
            }
            Stage::Ready | Stage::Ending(..) => {}
        }
        Ok(())
    }

    /// Reads and records the state of TCP.
    pub(super) fn observe(&mut self, sockets: &Sockets) {
        let trace = &mut self.config.trace;
        let has_begun = matches!(self.stage, Stage::Sending(_));
        for flow in self.flows.iter_mut().filter(|_| has_begun) {
            let ids = (SessionId(u64::from(flow.end) + 1), ConnectionId(0));
            let record = sockets.tcp(flow.end, ids);
            let (from, to) = flow.sending.window();
            flow.starts.see(&record, (from..=to).contains(&record.time));
            flow.retransmits = record.retransmits;
            if !trace.tcp.is_kept() {
                continue;
            }
            let name = *flow.name.get_or_insert_with(|| {
                let [local, peer] = sockets.addresses(flow.end);
                let known = event::Connection {
                    session: ids.0,
                    connection: ids.1,
                    role: Role::Stream,
                    ..event::Connection::BLANK
                };
                sockets.record_connection(flow.end, known, trace);
                trace.name(&Tcp::ends_name(local, peer))
            });
            trace.tcp(Tcp {
                ends: name,
                ..record
            });
        }
    }

    fn report(&self, to: Instant, sockets: &Sockets) -> Option<StreamReport> {
        let flows = self.flows.iter().zip(0..);
        let flows = flows.map(|(flow, number)| {
            let [local, peer] = sockets.addresses(flow.end);
            FlowReport {
                flow: number,
                local: local.to_string(),
                peer: peer.to_string(),
                congestion_control: sockets.law_name(flow.end).to_owned(),
                retransmits: u64::from(flow.retransmits),
                slow_start_returns: flow.starts.returns(),
                ..flow.sending.report()
            }
        });
        let streams = self.flows.iter().map(|flow| &flow.sending);
        stream::report(streams, flows.collect(), to)
    }

    /// Its report, and its records.
    pub(super) fn end(self) -> (StreamReport, Recorder) {
        let report = match self.stage {
            Stage::Ending(_, report) => *report,
            _ => StreamReport::default(),
        };
        (report, self.config.trace)
    }
}

impl Flow {
    /// Sends the hello.
    fn greet(&mut self, sockets: &mut Sockets) {
        let hello = self.sending.hello();
        if self.greeted < hello.len() {
            self.greeted += sockets.write(self.end, &hello[self.greeted..]);
        }
    }

    /// Reads echoes.
    fn read(&mut self, sockets: &mut Sockets) -> Result<(), Nonsense> {
        let mut bytes = [0; 4096];
        let now = sockets.now();
        loop {
            match sockets.read(self.end, &mut bytes) {
                0 => break,
                read => self.sending.take(&bytes[..read], now)?,
            }
        }
        self.has_ended |= sockets.has_ended(self.end);
        Ok(())
    }

    /// Writes as much as the socket takes and the rate allows.
    fn write(&mut self, filling: &[u8; PIECE_BYTES], sockets: &mut Sockets) {
        let now = sockets.now();
        self.is_full = false;
        while let Next::Piece { bytes, has_more } = self.sending.next(filling, now) {
            let written = match has_more {
                true => sockets.write_more(self.end, bytes),
                false => sockets.write(self.end, bytes),
            };
            self.is_full = written < bytes.len();
            self.sending.wrote(written);
            if self.is_full {
                return;
            }
        }
    }
}
