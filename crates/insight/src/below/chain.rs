//! The chain of PDUs that an I/O waited for.

use foldhash::HashMap;

use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::file::Row;
use wansan_trace::{ConnectionId, SessionId, TaskTag};

use super::streams::way;
use super::{DISORDER_NS, Recorded, Untold};
use crate::join::Task;
use crate::opcode::{DATA_IN, DATA_OUT, R2T, SCSI_COMMAND, SCSI_RESPONSE};
use crate::traffic::FlowDirection;

/// The Target Transfer Tag of unsolicited data (RFC 7143 §11.7.4).
const UNASKED: u32 = 0xffff_ffff;

/// A PDU of an I/O, as recorded by both ends or by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) session: SessionId,
    pub(super) connection: ConnectionId,
    pub(super) way: FlowDirection,
    pub(super) opcode: u8,
    pub(super) transfer_tag: u32,
    data_sn: u32,
    /// Its offset in its stream.
    pub(super) offset: u64,
    pub(super) data_bytes: u32,
    /// When its sender queued it; for a PDU recorded only by its receiver, when that had received all of it.
    pub(super) queued_ns: u64,
    /// When its receiver had received all of it; `None` if the receiver did not record it.
    parsed_ns: Option<u64>,
}

/// The PDUs of all I/Os.
#[derive(Debug, Default)]
pub(super) struct Chains {
    recorded: Recorded,
    /// The PDUs of each task, in the order in which they were queued.
    of_tasks: HashMap<(SessionId, TaskTag), Vec<Message>>,
}

impl Chains {
    /// Builds the chains from PDUs in time order; only those of the ends in `recorded` count.
    pub(super) fn of(pdus: &[Row<Pdu>], recorded: Recorded) -> Chains {
        let mut chains = Chains {
            recorded,
            ..Chains::default()
        };
        let pdus = pdus.iter().map(|row| &row.record);
        for pdu in pdus.filter(|pdu| recorded.is_told_by(pdu)) {
            let is_of_a_task = [SCSI_COMMAND, DATA_OUT, SCSI_RESPONSE, DATA_IN, R2T];
            if !is_of_a_task.contains(&pdu.opcode) {
                continue;
            }
            let way = way(pdu);
            let messages = chains.of_tasks.entry((pdu.session, pdu.task)).or_default();
            let is_received = pdu.direction == PduDirection::Received;
            if is_received && recorded == Recorded::Both {
                // The receiver's record completes the newest matching one of the sender. Times are not compared: threads
                // record slightly late what may be received at once.
                let is_it = |message: &&mut Message| {
                    message.offset == pdu.stream_offset
                        && message.way == way
                        && message.connection == pdu.connection
                        && message.parsed_ns.is_none()
                };
                if let Some(message) = messages.iter_mut().rev().find(is_it) {
                    message.parsed_ns = Some(pdu.time.ns());
                }
                continue;
            }
            messages.push(Message {
                session: pdu.session,
                connection: pdu.connection,
                way,
                opcode: pdu.opcode,
                transfer_tag: pdu.transfer_tag,
                data_sn: pdu.data_sn,
                offset: pdu.stream_offset,
                data_bytes: pdu.data_bytes,
                queued_ns: pdu.time.ns(),
                parsed_ns: is_received.then_some(pdu.time.ns()),
            });
        }
        chains
    }

    /// The messages of an I/O that were queued from `enter_ns` to `leave_ns`.
    pub(super) fn messages(&self, task: &Task, (enter_ns, leave_ns): (u64, u64)) -> &[Message] {
        let messages = self.of_tasks.get(&(task.session, task.tag));
        let messages = messages.map_or(&[][..], Vec::as_slice);
        // Other I/Os may use the tag before and after.
        let from = messages.partition_point(|message| message.queued_ns < enter_ns);
        let to = messages.partition_point(|message| message.queued_ns <= leave_ns);
        &messages[from..to.max(from)]
    }

    /// The same, but [`Untold::SentAgain`] if a PDU was sent twice.
    pub(super) fn once(&self, task: &Task, span_ns: (u64, u64)) -> Result<&[Message], Untold> {
        let messages = self.messages(task, span_ns);
        match is_repeated(messages) {
            true => Err(Untold::SentAgain),
            false => Ok(messages),
        }
    }

    /// The span of an I/O that was with the target's program from `enter_ns` to `leave_ns`, extended back to when its
    /// command had been received: a command waits there until its turn by CmdSN (RFC 7143 §4.2.2.1).
    pub(super) fn since_received(
        &self,
        task: &Task,
        (enter_ns, leave_ns): (u64, u64),
    ) -> Result<(u64, u64), Untold> {
        let messages = self.messages(task, (0, enter_ns));
        let is_command = |message: &&Message| message.opcode == SCSI_COMMAND;
        let mut before = messages.iter().rev().skip_while(|it| !is_command(it));
        let command = before.next().ok_or(Untold::NoPdu)?;
        match before.next().is_some_and(|before| is_command(&before)) {
            true => Err(Untold::SentAgain),
            false => Ok((command.queued_ns, leave_ns)),
        }
    }

    /// The messages that an I/O waited for, in order: the command, R2Ts and their data, and the last answer.
    pub(super) fn of_task(
        &self,
        task: &Task,
        span_ns: (u64, u64),
    ) -> Result<Vec<&Message>, Untold> {
        let messages = self.once(task, span_ns)?;
        let is_answer = |message: &&Message| message.way == FlowDirection::ToInitiator;
        let mut answer = messages
            .iter()
            .rfind(|message| is_answer(message) && message.opcode != R2T)
            .ok_or(Untold::NoPdu)?;
        let mut chain = Vec::new();
        loop {
            // Only the initiator knows what it received.
            if self.recorded == Recorded::Both {
                answer.parsed_ns.ok_or(Untold::NoPdu)?;
            }
            // It waited for the last PDU that arrived before it.
            let came = |message: &&Message| {
                let is_request = message.way == FlowDirection::ToTarget;
                let parsed_ns = message.parsed_ns.filter(|_| is_request);
                parsed_ns.is_some_and(|ns| ns <= answer.queued_ns + DISORDER_NS / 100)
            };
            let request = messages.iter().filter(came);
            let request = request.max_by_key(|message| (message.parsed_ns, message.offset));
            let request = request.ok_or(Untold::NoPdu)?;
            chain.extend([answer, request]);
            if !request.was_asked_for() {
                break;
            }
            let asked = |message: &&Message| {
                message.opcode == R2T
                    && message.transfer_tag == request.transfer_tag
                    && message.queued_ns < answer.queued_ns
            };
            answer = messages.iter().rfind(asked).ok_or(Untold::NoPdu)?;
        }
        chain.reverse();
        Ok(chain)
    }
}

impl Message {
    /// Whether an R2T asked for it, with its transfer tag.
    pub(super) fn was_asked_for(&self) -> bool {
        self.opcode == DATA_OUT && self.transfer_tag != UNASKED
    }
}

/// Whether any PDU of an I/O was sent twice: its command, response, an R2T or a piece of data.
fn is_repeated(messages: &[Message]) -> bool {
    for once in [SCSI_COMMAND, SCSI_RESPONSE] {
        let of_kind = messages.iter().filter(|message| message.opcode == once);
        if of_kind.count() > 1 {
            return true;
        }
    }
    let connection = messages.first().map(|message| message.connection);
    let mut highest: HashMap<(u8, u32), u32> = HashMap::default();
    messages.iter().any(|message| {
        if Some(message.connection) != connection {
            return true;
        }
        // Each Data-Out sequence has its own numbering, as have the R2Ts and the Data-In of a command
        // (RFC 7143 §11.7.5, §11.8.3).
        let sequence = match message.opcode {
            DATA_OUT => (DATA_OUT, message.transfer_tag),
            opcode @ (DATA_IN | R2T) => (opcode, 0),
            _ => return false,
        };
        if message.opcode == R2T {
            // A later R2T may reuse the tag.
            highest.remove(&(DATA_OUT, message.transfer_tag));
        }
        let before = highest.insert(sequence, message.data_sn);
        before.is_some_and(|before| before >= message.data_sn)
    })
}

#[cfg(test)]
impl Message {
    pub(super) fn blank(way: FlowDirection) -> Message {
        Message {
            session: SessionId(0),
            connection: ConnectionId(0),
            way,
            opcode: SCSI_COMMAND,
            transfer_tag: 0,
            data_sn: 0,
            offset: 0,
            data_bytes: 0,
            queued_ns: 0,
            parsed_ns: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_trace::{Instant, NameId};

    const INITIATOR: NameId = NameId(0);
    const TARGET: NameId = NameId(1);

    fn both(rows: &mut Vec<Row<Pdu>>, sent_ns: u64, parsed_ns: u64, pdu: Pdu) {
        let (from, to) = match way(&pdu) {
            FlowDirection::ToTarget => (INITIATOR, TARGET),
            FlowDirection::ToInitiator => (TARGET, INITIATOR),
        };
        let ends = [
            (from, PduDirection::Sent, sent_ns),
            (to, PduDirection::Received, parsed_ns),
        ];
        for (host, direction, ns) in ends {
            let time = Instant::from_ns(ns);
            let record = Pdu {
                time,
                direction,
                stream_offset: sent_ns,
                task: TaskTag(1),
                ..pdu
            };
            rows.push(Row { host, record });
        }
        rows.sort_by_key(|row| row.record.time);
    }

    fn pdu(opcode: u8, transfer_tag: u32, data_sn: u32) -> Pdu {
        Pdu {
            opcode,
            transfer_tag,
            data_sn,
            ..Pdu::BLANK
        }
    }

    fn chain(rows: &[Row<Pdu>]) -> Result<Vec<(u8, u64)>, Untold> {
        let joined = crate::join::join(&[Row {
            host: INITIATOR,
            record: wansan_trace::event::Crossing {
                time: Instant::from_ns(5),
                session: SessionId(0),
                task: TaskTag(1),
                connection: ConnectionId(0),
                layer: wansan_trace::Layer::App,
                direction: wansan_trace::Direction::Enter,
            },
        }]);
        let chains = Chains::of(rows, Recorded::Both);
        let chain = chains.of_task(&joined.tasks[0], (5, 1_000_000_000))?;
        Ok(chain.iter().map(|m| (m.opcode, m.queued_ns)).collect())
    }

    #[test]
    fn a_read_waits_for_its_last_answer() {
        let mut rows = Vec::new();
        both(&mut rows, 10, 110, pdu(SCSI_COMMAND, 0, 0));
        both(&mut rows, 120, 220, pdu(DATA_IN, UNASKED, 0));
        both(&mut rows, 130, 230, pdu(DATA_IN, UNASKED, 1));
        assert_eq!(chain(&rows), Ok(vec![(SCSI_COMMAND, 10), (DATA_IN, 130)]));
        both(&mut rows, 140, 240, pdu(DATA_IN, UNASKED, 1));
        assert_eq!(chain(&rows), Err(Untold::SentAgain));
    }

    #[test]
    fn a_write_waits_for_each_r2t_whose_data_came_last() {
        let ms = 1_000_000;
        let mut rows = Vec::new();
        both(&mut rows, 10, 10 * ms, pdu(SCSI_COMMAND, 0, 0));
        both(&mut rows, 20, 11 * ms, pdu(DATA_OUT, UNASKED, 0));
        both(&mut rows, 12 * ms, 22 * ms, pdu(R2T, 7, 0));
        both(&mut rows, 23 * ms, 33 * ms, pdu(DATA_OUT, 7, 0));
        both(&mut rows, 34 * ms, 44 * ms, pdu(R2T, 8, 1));
        both(&mut rows, 45 * ms, 55 * ms, pdu(DATA_OUT, 8, 0));
        both(&mut rows, 46 * ms, 56 * ms, pdu(DATA_OUT, 8, 1));
        both(&mut rows, 57 * ms, 67 * ms, pdu(SCSI_RESPONSE, 0, 0));
        let expected = vec![
            (DATA_OUT, 20),
            (R2T, 12 * ms),
            (DATA_OUT, 23 * ms),
            (R2T, 34 * ms),
            (DATA_OUT, 46 * ms),
            (SCSI_RESPONSE, 57 * ms),
        ];
        assert_eq!(chain(&rows), Ok(expected));
        // Without the target's record of the data, it is unknown what the response waited for.
        rows.retain(|row| row.host != TARGET || row.record.opcode != SCSI_COMMAND);
        assert!(chain(&rows).is_ok());
        rows.retain(|row| row.host != TARGET);
        assert_eq!(chain(&rows), Err(Untold::NoPdu));
    }

    #[test]
    fn a_command_that_was_sent_again_is_not_told() {
        let mut rows = Vec::new();
        both(&mut rows, 10, 110, pdu(SCSI_COMMAND, 0, 0));
        both(&mut rows, 20, 120, pdu(SCSI_COMMAND, 0, 0));
        both(&mut rows, 130, 230, pdu(SCSI_RESPONSE, 0, 0));
        assert_eq!(chain(&rows), Err(Untold::SentAgain));
    }
}
