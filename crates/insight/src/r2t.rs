//! How long writes wait for the data requested by R2Ts (RFC 7143 §11.8), from the target's PDU records.

use foldhash::HashMap;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::file::Row;
use wansan_trace::{SessionId, TaskTag};

use crate::opcode::{DATA_IN, DATA_OUT, FINAL_BIT, R2T, SCSI_COMMAND, SCSI_RESPONSE, STATUS_BIT};
use crate::window::Window;

/// The Target Transfer Tag of unsolicited data (RFC 7143 §11.7.4).
const UNASKED: u32 = u32::MAX;

/// The cost of R2Ts for one session's commands that were answered in the measured window. All fields but `asked_share`
/// cover only commands for which the target sent an R2T.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct R2tUse {
    /// The share of commands for which the target sent an R2T, 0 to 1.
    pub asked_share: f64,
    /// Mean time per command with an R2T outstanding and no data arriving: none of the requested data had begun to
    /// arrive, nor was unsolicited data arriving.
    pub waited_ns: f64,
    /// Mean number of R2Ts per command.
    pub r2ts: f64,
    /// Mean number of consecutive round trips that they took.
    pub rounds: f64,
    /// Maximum number of R2Ts outstanding at once for one command.
    pub outstanding_max: u64,
    /// Maximum data received for one R2T.
    pub sequence_bytes_max: u64,
    /// Maximum immediate data of one command.
    pub immediate_bytes_max: u64,
    /// Maximum unsolicited data of one command in Data-Out PDUs.
    pub unsolicited_bytes_max: u64,
    /// Maximum data of one command.
    pub transfer_bytes_max: u64,
}

/// A time in which a target had R2Ts of a command outstanding and no data was arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct R2tWait {
    pub(crate) session: SessionId,
    pub(crate) task: TaskTag,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// The R2T use of all sessions with R2Ts, as recorded by their targets.
#[must_use]
pub fn r2t_use(pdus: &[Row<Pdu>], window: Window) -> BTreeMap<SessionId, R2tUse> {
    let mut totals: BTreeMap<SessionId, Totals> = BTreeMap::new();
    each_command(pdus, window, |key, command| {
        totals.entry(key.0).or_default().add(command);
    });
    totals
        .into_iter()
        .filter(|(_, totals)| totals.asked > 0)
        .map(|(session, totals)| (session, totals.finish()))
        .collect()
}

/// The waits of all commands, as recorded by their targets.
pub(crate) fn waits(pdus: &[Row<Pdu>]) -> Vec<R2tWait> {
    let always = Window {
        from_ns: 0,
        to_ns: u64::MAX,
    };
    let mut found = Vec::new();
    each_command(pdus, always, |(session, task), command| {
        found.extend(command.waits_ns.iter().map(|&(from_ns, to_ns)| R2tWait {
            session,
            task,
            from_ns,
            to_ns,
        }));
    });
    found
}

/// Calls `done` with each command of a session with R2Ts that is answered in the window.
fn each_command(
    pdus: &[Row<Pdu>],
    window: Window,
    mut done: impl FnMut((SessionId, TaskTag), &Command),
) {
    let asks = |pdu: &Pdu| pdu.opcode == R2T && pdu.direction == PduDirection::Sent;
    let targets: BTreeMap<SessionId, _> = pdus
        .iter()
        .filter(|row| asks(&row.record))
        .map(|row| (row.record.session, row.host))
        .collect();
    let mut commands: HashMap<(SessionId, TaskTag), Command> = HashMap::default();
    if targets.is_empty() {
        return;
    }
    for row in pdus {
        let pdu = &row.record;
        if targets.get(&pdu.session) != Some(&row.host) {
            continue;
        }
        let key = (pdu.session, pdu.task);
        match pdu.opcode {
            // A reused tag starts a new command.
            SCSI_COMMAND => {
                commands.insert(key, Command::with(u64::from(pdu.data_bytes)));
            }
            SCSI_RESPONSE | DATA_IN
                if pdu.opcode == SCSI_RESPONSE || pdu.flags & STATUS_BIT != 0 =>
            {
                let command = commands.remove(&key);
                if let Some(command) = command.filter(|_| window.contains(pdu.time.ns())) {
                    done(key, &command);
                }
            }
            R2T | DATA_OUT => {
                if let Some(command) = commands.get_mut(&key) {
                    command.see(pdu);
                }
            }
            _ => {}
        }
    }
}

/// The data sequence that an R2T requests.
struct Sequence {
    /// Number of round trips up to and including this one.
    round: u64,
    begun: bool,
    bytes: u64,
}

/// One unanswered command.
#[derive(Default)]
struct Command {
    immediate_bytes: u64,
    unsolicited_bytes: u64,
    asked_bytes: u64,
    sequence_bytes_max: u64,
    /// The outstanding R2Ts, by Target Transfer Tag, and the number of those with data received.
    outstanding: HashMap<u32, Sequence>,
    begun: u64,
    outstanding_max: u64,
    r2ts: u64,
    /// The highest round of a complete sequence: an R2T sent after it takes one more.
    rounds_done: u64,
    /// Since when R2Ts are outstanding with no data arriving.
    starved_since_ns: Option<u64>,
    /// Earlier such intervals.
    waits_ns: Vec<(u64, u64)>,
}

impl Command {
    fn with(immediate_bytes: u64) -> Command {
        Command {
            immediate_bytes,
            ..Command::default()
        }
    }

    fn see(&mut self, pdu: &Pdu) {
        let now_ns = pdu.time.ns();
        if pdu.opcode == R2T {
            self.r2ts += 1;
            let sequence = Sequence {
                round: self.rounds_done + 1,
                begun: false,
                bytes: 0,
            };
            let replaced = self.outstanding.insert(pdu.transfer_tag, sequence);
            self.begun -= u64::from(replaced.is_some_and(|sequence| sequence.begun));
            self.outstanding_max = self.outstanding_max.max(self.outstanding.len() as u64);
        } else if pdu.transfer_tag == UNASKED {
            self.unsolicited_bytes += u64::from(pdu.data_bytes);
            // Data was arriving all the time.
            self.starved_since_ns = None;
        } else {
            self.take(pdu);
        }
        if self.begun == 0 && !self.outstanding.is_empty() {
            self.starved_since_ns.get_or_insert(now_ns);
        }
    }

    /// Handles solicited data.
    fn take(&mut self, pdu: &Pdu) {
        let Some(sequence) = self.outstanding.get_mut(&pdu.transfer_tag) else {
            return;
        };
        if let Some(since_ns) = self.starved_since_ns.take() {
            self.waits_ns.push((since_ns, pdu.time.ns().max(since_ns)));
        }
        self.begun += u64::from(!std::mem::replace(&mut sequence.begun, true));
        sequence.bytes += u64::from(pdu.data_bytes);
        self.asked_bytes += u64::from(pdu.data_bytes);
        self.sequence_bytes_max = self.sequence_bytes_max.max(sequence.bytes);
        if pdu.flags & FINAL_BIT != 0 {
            self.rounds_done = self.rounds_done.max(sequence.round);
            self.begun -= 1;
            self.outstanding.remove(&pdu.transfer_tag);
        }
    }
}

/// Sums over the commands of one session.
#[derive(Default)]
struct Totals {
    answered: u64,
    asked: u64,
    waited_ns: u64,
    r2ts: u64,
    rounds: u64,
    outstanding_max: u64,
    sequence_bytes_max: u64,
    immediate_bytes_max: u64,
    unsolicited_bytes_max: u64,
    transfer_bytes_max: u64,
}

impl Totals {
    fn add(&mut self, command: &Command) {
        self.answered += 1;
        if command.r2ts == 0 {
            return;
        }
        let transfer_bytes =
            command.immediate_bytes + command.unsolicited_bytes + command.asked_bytes;
        self.asked += 1;
        let waits_ns = command.waits_ns.iter();
        self.waited_ns += waits_ns
            .map(|(from_ns, to_ns)| to_ns - from_ns)
            .sum::<u64>();
        self.r2ts += command.r2ts;
        self.rounds += command.rounds_done;
        self.outstanding_max = self.outstanding_max.max(command.outstanding_max);
        self.sequence_bytes_max = self.sequence_bytes_max.max(command.sequence_bytes_max);
        self.immediate_bytes_max = self.immediate_bytes_max.max(command.immediate_bytes);
        self.unsolicited_bytes_max = self.unsolicited_bytes_max.max(command.unsolicited_bytes);
        self.transfer_bytes_max = self.transfer_bytes_max.max(transfer_bytes);
    }

    fn finish(self) -> R2tUse {
        let mean = |sum: u64| sum as f64 / self.asked.max(1) as f64;
        R2tUse {
            asked_share: self.asked as f64 / self.answered.max(1) as f64,
            waited_ns: mean(self.waited_ns),
            r2ts: mean(self.r2ts),
            rounds: mean(self.rounds),
            outstanding_max: self.outstanding_max,
            sequence_bytes_max: self.sequence_bytes_max,
            immediate_bytes_max: self.immediate_bytes_max,
            unsolicited_bytes_max: self.unsolicited_bytes_max,
            transfer_bytes_max: self.transfer_bytes_max,
        }
    }
}
