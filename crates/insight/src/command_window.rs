//! How a session used the command window that its target granted (RFC 7143 §4.2.2.1), from PDUs
//! only.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::{ConnectionId, Layer, NameId, SessionId, TaskTag};

use crate::cell::Cell;
use crate::opcode::{DATA_IN, SCSI_COMMAND, SCSI_RESPONSE, STATUS_BIT};
use crate::pdus::Pdus;
use crate::population::Population;
use crate::window::Window;

/// The first target opcode; initiator opcodes are lower.
const FIRST_TARGET_OPCODE: u8 = 0x20;

/// The command window of one session in the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CommandWindowUse {
    /// Maximum number of commands that the target allowed outstanding at once: unanswered commands plus MaxCmdSN −
    /// CmdSN of the newest command, evaluated at each response. From a sample of the I/Os, the mean of MaxCmdSN in a
    /// response − CmdSN of its command: as many commands complete before their turn as after it.
    pub slots: u64,
    /// The share of the time in which the window was closed: the newest command's CmdSN was
    /// MaxCmdSN. Unknown from a sample.
    pub closed_share: Option<f64>,
    /// Of the time in which commands waited for it, the share in which it was closed; 0 if none waited. Unknown from a
    /// sample.
    pub closed_while_waiting_share: Option<f64>,
    /// Whether commands without a CmdSN are waiting for this window: it is closed for at least half of the time in which
    /// they wait. In a sample, this shows only if many commands wait, and nearly all slots are in use if they may be writes.
    pub is_waited_for: bool,
}

/// Commands wait for the window if it was closed for at least this share of the time in which they waited.
const CLOSED_WHILE_WAITING_SHARE: f64 = 0.5;
/// In a sample, they wait for it if as many commands wait on average as this share of its slots: more than a program holds
/// between two calls ...
const WAITING_RATIO: f64 = 0.1;
/// ... and, as commands of writes may also wait for room in TCP, at least this share of the slots of a session that writes is
/// in use on average.
const USED_RATIO: f64 = 0.9;

/// The command window use of all sessions of a cell whose commands were recorded; `writes` are the sessions that write.
pub(crate) fn command_window_uses(
    cell: &Cell,
    window: Window,
    writes: &HashSet<SessionId>,
) -> BTreeMap<SessionId, CommandWindowUse> {
    let Some(pdus) = &cell.pdu else {
        return BTreeMap::new();
    };
    let joined = &cell.joined;
    let sessions = joined.by_session().into_iter();
    if joined.is_complete() {
        let waiting = sessions.map(|(session, tasks)| {
            let spans = joined.way_in_spans(&tasks, Layer::Window);
            (session, Population::of(spans))
        });
        return command_window_use(pdus, window, &waiting.collect());
    }
    let slots = sampled_slots(pdus);
    let uses = sessions.filter_map(|(session, tasks)| {
        let slots = *slots.get(&session)?;
        let weight = joined.weights.of_session(session);
        let mean = |spans: Population| spans.mean(window) * weight;
        let inside = tasks
            .iter()
            .filter_map(|task| task.span_ns(Layer::Window, joined.records));
        let inside = mean(Population::of(inside));
        let waiting = mean(Population::of(joined.way_in_spans(&tasks, Layer::Window)));
        let used = CommandWindowUse {
            slots: slots.round() as u64,
            closed_share: None,
            closed_while_waiting_share: None,
            is_waited_for: waiting >= WAITING_RATIO * slots
                && (inside >= USED_RATIO * slots || !writes.contains(&session)),
        };
        Some((session, used))
    });
    uses.collect()
}

/// The slots of each session's command window, from the commands of a sample and their responses.
fn sampled_slots(pdus: &Pdus) -> BTreeMap<SessionId, f64> {
    let mut outstanding: HashMap<(SessionId, NameId, TaskTag), u32> = HashMap::default();
    let mut ahead: BTreeMap<SessionId, (f64, f64)> = BTreeMap::new();
    pdus.for_each(|host, pdu| {
        let key = (pdu.session, host, pdu.task);
        if pdu.opcode == SCSI_COMMAND {
            outstanding.insert(key, pdu.cmd_sn);
        } else if has_status(pdu)
            && let Some(cmd_sn) = outstanding.remove(&key)
        {
            // Negative if the command completes long before its turn, or the target has lowered its window.
            let by = pdu.max_cmd_sn.wrapping_sub(cmd_sn).cast_signed();
            let (sum, count) = ahead.entry(pdu.session).or_default();
            *sum += f64::from(by);
            *count += 1.0;
        }
    });
    let means = ahead.into_iter();
    means
        .map(|(session, (sum, count))| (session, f64::max(sum / count, 0.0)))
        .collect()
}

fn has_status(pdu: &Pdu) -> bool {
    pdu.opcode == SCSI_RESPONSE || pdu.opcode == DATA_IN && pdu.flags & STATUS_BIT != 0
}

/// The command window use of all sessions whose commands were recorded. `waiting` gives, per session, the commands
/// between [`wansan_trace::Layer::Queue`] and [`wansan_trace::Layer::Window`].
#[must_use]
pub fn command_window_use(
    pdus: &Pdus,
    window: Window,
    waiting: &BTreeMap<SessionId, Population>,
) -> BTreeMap<SessionId, CommandWindowUse> {
    let mut watches: BTreeMap<SessionId, BTreeMap<NameId, Watch>> = BTreeMap::new();
    pdus.for_each(|host, pdu| {
        let ends = watches.entry(pdu.session).or_default();
        ends.entry(host).or_default().see(pdu);
    });
    let mut uses = BTreeMap::new();
    for (session, ends) in watches {
        // Uses the initiator's view, or the target's for a foreign initiator. With several connections, the slots come
        // from the target if recorded: responses on other connections may not have reached the initiator.
        let views = || ends.values().filter(|watch| watch.commands > 0);
        let at_target = views().find(|watch| watch.has_several && !watch.sent_commands);
        let at_target = at_target.map(Watch::slots);
        let view = ends
            .into_values()
            .filter(|watch| watch.commands > 0)
            .max_by_key(|watch| watch.sent_commands);
        if let Some(view) = view {
            let slots = at_target.unwrap_or_else(|| view.slots());
            uses.insert(session, view.finish(slots, window, waiting.get(&session)));
        }
    }
    uses
}

/// Tracks CmdSN and MaxCmdSN as seen by one end.
#[derive(Default)]
struct Watch {
    commands: u64,
    sent_commands: bool,
    newest_cmd_sn: u32,
    max_cmd_sn: Option<u32>,
    /// Unanswered commands. Those sent before the recording began are unknown, so their responses are ignored.
    outstanding: HashSet<TaskTag>,
    answers: u64,
    /// The maximum and the minimum window in the target's responses.
    slots: u64,
    least_slots: Option<u64>,
    /// The connection of the first command, and whether there were others.
    connection: Option<ConnectionId>,
    has_several: bool,
    closed_since_ns: Option<u64>,
    closed_ns: Vec<(u64, u64)>,
}

/// Whether `a` is at or after `b` in serial number arithmetic (RFC 1982, SERIAL_BITS 32).
pub(crate) fn at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) < 1 << 31
}

impl Watch {
    fn see(&mut self, pdu: &Pdu) {
        let is_answer = has_status(pdu) && self.outstanding.remove(&pdu.task);
        if pdu.opcode == SCSI_COMMAND {
            if self.commands == 0 || at_or_after(pdu.cmd_sn, self.newest_cmd_sn) {
                self.newest_cmd_sn = pdu.cmd_sn;
            }
            self.commands += 1;
            self.outstanding.insert(pdu.task);
            let first = *self.connection.get_or_insert(pdu.connection);
            self.has_several |= first != pdu.connection;
            self.sent_commands |= pdu.direction == PduDirection::Sent;
        } else if pdu.opcode >= FIRST_TARGET_OPCODE {
            self.answers += u64::from(is_answer);
            if self
                .max_cmd_sn
                .is_none_or(|known| at_or_after(pdu.max_cmd_sn, known))
            {
                self.max_cmd_sn = Some(pdu.max_cmd_sn);
            }
        } else {
            return;
        }
        let Some(max_cmd_sn) = self.max_cmd_sn.filter(|_| self.commands > 0) else {
            return;
        };
        let free = max_cmd_sn.wrapping_sub(self.newest_cmd_sn);
        let closed = free == 0 || free >= 1 << 31;
        // A command's data PDUs may advance MaxCmdSN before its response arrives, so only responses count once there
        // are any.
        if is_answer || self.answers == 0 {
            let free = if closed { 0 } else { u64::from(free) };
            let now = self.outstanding.len() as u64 + free;
            if self.answers == 1 {
                (self.least_slots, self.slots) = (None, 0);
            }
            self.least_slots = Some(self.least_slots.map_or(now, |least| least.min(now)));
            self.slots = self.slots.max(now);
        }
        let now_ns = pdu.time.ns();
        match (closed, self.closed_since_ns) {
            (true, None) => self.closed_since_ns = Some(now_ns),
            (false, Some(since_ns)) => {
                self.closed_ns.push((since_ns, now_ns));
                self.closed_since_ns = None;
            }
            _ => {}
        }
    }

    /// Maximum number of commands that the target allowed outstanding. With several connections, an initiator also
    /// counts commands whose responses are still in flight on the others: its minimum is the closest.
    fn slots(&self) -> u64 {
        match self.has_several && self.sent_commands {
            true => self.least_slots.unwrap_or(self.slots),
            false => self.slots,
        }
    }

    fn finish(
        mut self,
        slots: u64,
        window: Window,
        waiting: Option<&Population>,
    ) -> CommandWindowUse {
        if let Some(since_ns) = self.closed_since_ns {
            self.closed_ns.push((since_ns, window.to_ns));
        }
        let overlap = |window: Window| -> u64 {
            let first = self
                .closed_ns
                .partition_point(|&(_, to_ns)| to_ns <= window.from_ns);
            self.closed_ns[first..]
                .iter()
                .take_while(|(from_ns, _)| *from_ns < window.to_ns)
                .map(|&(from_ns, to_ns)| window.overlap_ns(from_ns, to_ns))
                .sum()
        };
        let mut waited_ns = 0;
        let mut closed_then_ns = 0;
        if let Some(waiting) = waiting {
            for step in waiting.steps(window).filter(|step| step.count > 0) {
                waited_ns += step.to_ns - step.from_ns;
                closed_then_ns += overlap(Window {
                    from_ns: step.from_ns,
                    to_ns: step.to_ns,
                });
            }
        }
        let closed_while_waiting_share = closed_then_ns as f64 / waited_ns.max(1) as f64;
        CommandWindowUse {
            slots,
            closed_share: Some(overlap(window) as f64 / window.length_ns().max(1) as f64),
            closed_while_waiting_share: Some(closed_while_waiting_share),
            is_waited_for: closed_while_waiting_share >= CLOSED_WHILE_WAITING_SHARE,
        }
    }
}

#[cfg(test)]
mod tests {
    use wansan_trace::Instant;
    use wansan_trace::event::PduDirection::{Received, Sent};
    use wansan_trace::file::{Names, Row, Table};

    use super::*;

    fn pdu(
        at: u64,
        direction: PduDirection,
        opcode: u8,
        (connection, task): (u16, u32),
        (cmd_sn, max_cmd_sn): (u32, u32),
    ) -> Pdu {
        Pdu {
            time: Instant::from_ns(at),
            session: SessionId(1),
            connection: ConnectionId(connection),
            direction,
            opcode,
            flags: 0,
            task: TaskTag(task),
            transfer_tag: 0,
            cmd_sn,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn,
            data_sn: 0,
            buffer_offset: 0,
            data_bytes: 0,
            stream_offset: 0,
        }
    }

    /// An initiator's view of a window of two: commands on both connections, and one late response.
    fn seen() -> Vec<Pdu> {
        let command =
            |at, connection, number| pdu(at, Sent, SCSI_COMMAND, (connection, number), (number, 0));
        let answer = |at, connection, task, max| {
            pdu(at, Received, SCSI_RESPONSE, (connection, task), (0, max))
        };
        vec![
            command(1, 0, 1),
            command(2, 1, 2),
            // Response to the second command while that to the first is in flight: the target has completed both.
            answer(10, 1, 2, 4),
            command(11, 1, 3),
            command(12, 1, 4),
            answer(20, 0, 1, 3),
            answer(30, 1, 3, 5),
            answer(31, 1, 4, 6),
        ]
    }

    fn uses(of: impl Iterator<Item = (u16, Pdu)>) -> CommandWindowUse {
        let rows: Vec<Row<Pdu>> = of
            .map(|(host, record)| Row {
                host: NameId(host),
                record,
            })
            .collect();
        let window = Window {
            from_ns: 0,
            to_ns: 100,
        };
        let pdus = Pdus::from(Table {
            rows,
            names: Names::of([]),
            dropped: BTreeMap::new(),
        });
        command_window_use(&pdus, window, &BTreeMap::new())[&SessionId(1)]
    }

    #[test]
    fn answers_that_are_late_on_another_connection_are_no_slots() {
        assert_eq!(uses(seen().into_iter().map(|pdu| (0, pdu))).slots, 2);
    }

    #[test]
    fn answers_to_commands_from_before_the_recording_leave_the_others_outstanding() {
        // Eight in flight; each response releases the next command.
        let each = (0..100_u32).flat_map(|number| {
            let (at, max_cmd_sn) = (2 * u64::from(number), number + 108);
            let answered = (0, number + 100);
            let sent = (number + 108, 0);
            [
                pdu(at, Received, SCSI_RESPONSE, answered, (0, max_cmd_sn)),
                pdu(at + 1, Sent, SCSI_COMMAND, (0, number + 108), sent),
            ]
        });
        assert_eq!(uses(each.map(|pdu| (0, pdu))).slots, 8);
    }

    #[test]
    fn the_target_knows_what_it_has_answered() {
        let at_target = [(3, 1, 1), (4, 2, 2), (5, 0, 1), (6, 0, 2)].into_iter();
        let mut all: Vec<(u16, Pdu)> = seen().into_iter().map(|pdu| (0, pdu)).collect();
        let [command, _, answer, ..] = seen()[..] else {
            panic!("commands and answers");
        };
        for (at, cmd_sn, task) in at_target {
            let time = Instant::from_ns(at);
            let direction = if cmd_sn > 0 { Received } else { Sent };
            let of = if cmd_sn > 0 { command } else { answer };
            let max_cmd_sn = if at == 5 { 3 } else { 4 };
            all.push((
                1,
                Pdu {
                    time,
                    direction,
                    task: TaskTag(task),
                    cmd_sn,
                    max_cmd_sn,
                    ..of
                },
            ));
        }
        assert_eq!(uses(all.into_iter()).slots, 2);
    }
}
