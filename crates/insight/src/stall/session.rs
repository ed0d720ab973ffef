//! Waits above TCP, derived from PDUs: for R2Ts, for the command window, and for commands on other
//! connections.

use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};

use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::file::Row;
use wansan_trace::{Layer, NameId, SessionId, TaskTag};

use crate::cell::Cell;
use crate::command_window::at_or_after;
use crate::join::Task;
use crate::opcode::{self, BHS_BYTES, DATA_OUT, FINAL_BIT, R2T, SCSI_COMMAND};
use crate::traffic::FlowDirection;

use super::conversation::{Conversation, Segment};
use super::{Cause, Role, Shown, Stall};

/// Shorter waits cannot be distinguished from scheduling delays on a busy computer.
const LEAST_STALL_NS: u64 = 500_000;

/// The waits of all sessions of a cell.
#[must_use]
pub fn stalls(cell: &Cell, conversations: &[Conversation]) -> Vec<Stall> {
    let Some(pdus) = &cell.pdu else {
        return Vec::new();
    };
    let tasks = &cell.joined.tasks;
    // Captures do not show when a command was ready.
    let has_queue = tasks.iter().any(|task| task.passed(Layer::Queue));
    if !has_queue && !pdus.has(R2T) && !pdus.may_be_of_several_connections() {
        return Vec::new();
    }
    let sendings: Vec<Sendings<'_>> = conversations.iter().map(Sendings::of).collect();
    let mut found = r2t_waits(&pdus.rows, &sendings);
    // These waits end with the PDUs of other I/Os, which a sample may lack.
    if cell.joined.is_complete() {
        found.extend(command_window_waits(&pdus.rows, tasks));
        found.extend(lockstep_waits(&pdus.rows, tasks, &sendings));
    }
    found
}

/// The segments that first carried each byte of an initiator's stream.
#[derive(Debug)]
pub struct Sendings<'a> {
    conversation: &'a Conversation,
    /// The indices of segments with first transmissions, in stream order.
    first: Vec<usize>,
}

impl<'a> Sendings<'a> {
    /// From the segments that the initiator sent in a conversation.
    #[must_use]
    pub fn of(conversation: &'a Conversation) -> Self {
        let mut end = 0;
        let segments = conversation.segments.iter().enumerate();
        let first = segments.filter_map(|(place, segment)| {
            let is_new = segment.way == FlowDirection::ToTarget && segment.end() > end;
            end = end.max(if is_new { segment.end() } else { 0 });
            is_new.then_some(place)
        });
        Sendings {
            conversation,
            first: first.collect(),
        }
    }

    /// The segment that first carried a byte.
    fn segment(&self, byte: u64) -> Option<&'a Segment> {
        let segments = &self.conversation.segments;
        let place = self
            .first
            .partition_point(|&place| segments[place].end() <= byte);
        Some(&segments[*self.first.get(place)?])
    }
}

/// The segment that first carried the last byte of an initiator's PDU, if packets were recorded.
fn last_segment<'a>(sendings: &[Sendings<'a>], pdu: &Pdu) -> Option<&'a Segment> {
    let of_connection = |sending: &&Sendings<'_>| {
        let conversation = sending.conversation;
        conversation.session == pdu.session && conversation.connection == pdu.connection
    };
    let last_byte = pdu.stream_offset + BHS_BYTES + u64::from(pdu.data_bytes) - 1;
    sendings.iter().find(of_connection)?.segment(last_byte)
}

/// The hosts that send each session's commands.
fn initiators(pdus: &[Row<Pdu>]) -> BTreeSet<(SessionId, NameId)> {
    let commands = pdus.iter().filter(|row| {
        row.record.opcode == SCSI_COMMAND && row.record.direction == PduDirection::Sent
    });
    commands.map(|row| (row.record.session, row.host)).collect()
}

/// Intervals in which a write had sent all that it was allowed to, until an R2T arrived (RFC 7143 §11.8).
#[must_use]
pub fn r2t_waits(pdus: &[Row<Pdu>], sendings: &[Sendings<'_>]) -> Vec<Stall> {
    /// An outstanding write.
    struct Write<'a> {
        /// The last PDU that it sent.
        last: &'a Pdu,
        /// The Target Transfer Tags of R2Ts whose data was not all sent yet.
        asked: BTreeSet<u32>,
    }
    // Reads have no R2Ts.
    if !pdus.iter().any(|row| row.record.opcode == R2T) {
        return Vec::new();
    }
    let initiators = initiators(pdus);
    let mut writes: HashMap<(SessionId, TaskTag), Write<'_>> = HashMap::default();
    let mut found = Vec::new();
    for row in pdus {
        let pdu = &row.record;
        if !initiators.contains(&(pdu.session, row.host)) {
            continue;
        }
        let key = (pdu.session, pdu.task);
        match (pdu.opcode, pdu.direction) {
            (SCSI_COMMAND, PduDirection::Sent) => {
                let asked = BTreeSet::new();
                writes.insert(key, Write { last: pdu, asked });
            }
            (DATA_OUT, PduDirection::Sent) => {
                if let Some(write) = writes.get_mut(&key) {
                    write.last = pdu;
                    if pdu.flags & FINAL_BIT != 0 {
                        write.asked.remove(&pdu.transfer_tag);
                    }
                }
            }
            (R2T, PduDirection::Received) => {
                let Some(write) = writes.get_mut(&key) else {
                    continue;
                };
                let has_nothing_to_send = write.asked.is_empty();
                write.asked.insert(pdu.transfer_tag);
                let sent = last_segment(sendings, write.last);
                let queued_ns = write.last.time.ns();
                let from_ns = sent.map_or(queued_ns, |sent| sent.sent_ns.max(queued_ns));
                let to_ns = pdu.time.ns();
                if !has_nothing_to_send || to_ns.saturating_sub(from_ns) < LEAST_STALL_NS {
                    continue;
                }
                found.push(Stall {
                    cause: Cause::R2tWait,
                    session: pdu.session,
                    task: pdu.task,
                    way: FlowDirection::ToTarget,
                    from_ns,
                    to_ns,
                    evidence: sent
                        .map(|sent| Shown::of(Role::WaitedFor, sent))
                        .into_iter()
                        .collect(),
                });
            }
            _ => {}
        }
    }
    found
}

/// Intervals in which a command was ready but MaxCmdSN did not allow it (RFC 7143 §4.2.2.1).
#[must_use]
pub fn command_window_waits(pdus: &[Row<Pdu>], tasks: &[Task]) -> Vec<Stall> {
    // Captures do not show when a command was ready.
    if !tasks.iter().any(|task| task.passed(Layer::Queue)) {
        return Vec::new();
    }
    let initiators = initiators(pdus);
    // Each session's MaxCmdSN as it grew, and the CmdSNs of its commands.
    let mut opened: HashMap<SessionId, Vec<(u32, u64)>> = HashMap::default();
    let mut numbers: HashMap<(SessionId, TaskTag), u32> = HashMap::default();
    for row in pdus {
        let pdu = &row.record;
        if !initiators.contains(&(pdu.session, row.host)) {
            continue;
        }
        if pdu.opcode == SCSI_COMMAND {
            numbers.insert((pdu.session, pdu.task), pdu.cmd_sn);
        } else if !opcode::is_request(pdu.opcode) {
            let steps = opened.entry(pdu.session).or_default();
            let grows = |&(most, _): &(u32, u64)| !at_or_after(most, pdu.max_cmd_sn);
            if steps.last().is_none_or(grows) {
                steps.push((pdu.max_cmd_sn, pdu.time.ns()));
            }
        }
    }
    let waits = tasks.iter().filter_map(|task| {
        let (from_ns, to_ns) = (task.enter_ns(Layer::Queue)?, task.enter_ns(Layer::Window)?);
        let number = *numbers.get(&(task.session, task.tag))?;
        let steps = opened.get(&task.session)?;
        let step = steps.partition_point(|(most, _)| !at_or_after(*most, number));
        let (_, opened_ns) = steps.get(step)?;
        let was_closed = *opened_ns > from_ns && step > 0;
        (was_closed && to_ns.saturating_sub(from_ns) >= LEAST_STALL_NS).then(|| Stall {
            cause: Cause::CommandWindow,
            session: task.session,
            task: task.tag,
            way: FlowDirection::ToTarget,
            from_ns,
            to_ns,
            evidence: Vec::new(),
        })
    });
    waits.collect()
}

/// Intervals in which a command had reached the target, but one with a lower CmdSN on another connection had not (RFC
/// 7143 §4.2.2.1).
#[must_use]
pub fn lockstep_waits(pdus: &[Row<Pdu>], tasks: &[Task], sendings: &[Sendings<'_>]) -> Vec<Stall> {
    let commands = pdus
        .iter()
        .map(|row| &row.record)
        .filter(|pdu| pdu.opcode == SCSI_COMMAND && pdu.direction == PduDirection::Received);
    let mut came: BTreeMap<SessionId, Vec<&Pdu>> = BTreeMap::new();
    for command in commands {
        came.entry(command.session).or_default().push(command);
    }
    let has_several = |commands: &Vec<&Pdu>| {
        let first = commands[0].connection;
        commands.iter().any(|pdu| pdu.connection != first)
    };
    came.retain(|_, commands| has_several(commands));
    if came.is_empty() {
        return Vec::new();
    }
    let mut entered: HashMap<(SessionId, TaskTag), u64> = HashMap::default();
    for task in tasks {
        if let Some(at_ns) = task.enter_ns(Layer::Target) {
            entered.insert((task.session, task.tag), at_ns);
        }
    }
    let mut found = Vec::new();
    for (session, commands) in &came {
        for (place, command) in commands.iter().enumerate() {
            let Some(&to_ns) = entered.get(&(*session, command.task)) else {
                continue;
            };
            let from_ns = command.time.ns();
            if to_ns.saturating_sub(from_ns) < LEAST_STALL_NS {
                continue;
            }
            let later = commands[place + 1..].iter();
            let meanwhile = later.take_while(|other| other.time.ns() <= to_ns);
            let missing = meanwhile.filter(|other| {
                other.connection != command.connection && !at_or_after(other.cmd_sn, command.cmd_sn)
            });
            let Some(last) = missing.last() else { continue };
            let packets = [(Role::Held, command), (Role::Released, last)];
            let evidence = packets
                .into_iter()
                .filter_map(|(role, pdu)| Some(Shown::of(role, last_segment(sendings, pdu)?)));
            found.push(Stall {
                cause: Cause::RouteLockstep,
                session: *session,
                task: command.task,
                way: FlowDirection::ToTarget,
                from_ns,
                to_ns,
                evidence: evidence.collect(),
            });
        }
    }
    found
}
