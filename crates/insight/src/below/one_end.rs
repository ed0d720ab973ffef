//! The split of an I/O with records of one end only.
//!
//! An end knows when its data passed its own send buffer and device, and when received data reached its kernel and
//! its program. The time from the departure of a PDU to the arrival of its answer is *beyond*: on the path in both
//! directions, and at the other end with its buffers.
//!
//! The initiator sees all of an I/O's latency. The target sees it from the arrival of the command to the departure of
//! the last response; the time before and after is on the path and at the initiator, and is not recorded.

use super::chain::{Chains, Message};
use super::send_buffer::Senders;
use super::streams::{Came, Left, Soonest, Streams};
use super::{Cut, IoWaits, Untold, depart};
use crate::join::Task;
use crate::opcode::{R2T, SCSI_COMMAND};
use crate::traffic::FlowDirection;

/// Tolerance for a stamp of a nearby byte that left slightly later.
const LATE_NS: u64 = 200_000;

/// The records of one end.
pub(super) struct OneEnd<'a> {
    pub(super) streams: &'a Streams,
    pub(super) chains: &'a Chains,
    pub(super) senders: &'a Senders<'a>,
}

/// A request and its answer, as seen by the initiator.
struct Exchange<'a> {
    request: &'a Message,
    left: Left,
    came: Came,
}

impl OneEnd<'_> {
    /// Splits an I/O that was with its caller's program from `enter_ns` to `leave_ns`, by the initiator's
    /// records.
    pub(super) fn at_initiator(
        &self,
        task: &Task,
        (enter_ns, leave_ns): (u64, u64),
    ) -> Result<IoWaits, Untold> {
        let messages = self.chains.once(task, (enter_ns, leave_ns))?;
        let mut cut = Cut::new(enter_ns, leave_ns);
        for exchange in self.exchanges(messages)? {
            let (left, came) = (&exchange.left, &exchange.came);
            cut.io.round_trips += 1;
            cut.initiator(exchange.request.queued_ns)?;
            depart(&mut cut, exchange.request, left, self.senders)?;
            cut.beyond(came.arrived_ns)?;
            cut.is_uncertain_by(left.uncertain_ns + came.uncertain_ns);
            cut.read(came.read_ns, FlowDirection::ToInitiator)?;
        }
        cut.initiator(leave_ns)?;
        Ok(cut.io)
    }

    /// When the last byte of a message left: by `latest_ns`, and at least a round trip before it was acknowledged.
    /// After a spurious retransmission, its stamp may be of the retransmission.
    fn left(&self, message: &Message, latest_ns: u64) -> Option<Left> {
        let acknowledged_ns = self.streams.acknowledged_ns(message).unwrap_or(u64::MAX);
        let round_trip_ns = self.senders.round_trip_ns(message, message.way);
        let latest_ns = latest_ns.min(acknowledged_ns.saturating_sub(round_trip_ns));
        self.streams.left(message, latest_ns)
    }

    /// The exchanges that an I/O waited for, derived from back to front. An answer waited for the newest request that
    /// can have caused it, having left at least a round trip earlier; if that is solicited data, it waited for
    /// the R2T.
    fn exchanges<'m>(&self, messages: &'m [Message]) -> Result<Vec<Exchange<'m>>, Untold> {
        let is_answer = |message: &&Message| message.way == FlowDirection::ToInitiator;
        let mut answer = messages
            .iter()
            .rfind(|message| is_answer(message) && message.opcode != R2T)
            .ok_or(Untold::NoPdu)?;
        let mut exchanges = Vec::new();
        loop {
            let came = self
                .streams
                .came(answer, Soonest::default())
                .ok_or(Untold::NoStamp)?;
            let round_trip_ns = self.senders.round_trip_ns(answer, FlowDirection::ToTarget);
            let latest_ns = came.arrived_ns.saturating_sub(round_trip_ns);
            let is_older =
                |message: &&Message| !is_answer(message) && message.queued_ns <= answer.queued_ns;
            let mut found = None;
            for request in messages.iter().filter(is_older).rev() {
                let left = self.streams.left(request, u64::MAX);
                let left = left.ok_or(Untold::NoStamp)?;
                if left.departed_ns <= latest_ns + LATE_NS || request.opcode == SCSI_COMMAND {
                    found = Some(request);
                    break;
                }
            }
            let request = found.ok_or(Untold::NoPdu)?;
            let left = self.left(request, latest_ns);
            let left = left.ok_or(Untold::NoStamp)?;
            // The answer arrived at least a round trip later.
            let soonest = Soonest::of(left.departed_ns + round_trip_ns, round_trip_ns);
            let came = self.streams.came(answer, soonest);
            let came = came.ok_or(Untold::NoStamp)?;
            exchanges.push(Exchange {
                request,
                left,
                came,
            });
            if !request.was_asked_for() {
                break;
            }
            let asked = |message: &&Message| {
                message.opcode == R2T
                    && message.transfer_tag == request.transfer_tag
                    && message.queued_ns <= request.queued_ns
            };
            answer = messages.iter().rfind(asked).ok_or(Untold::NoPdu)?;
        }
        exchanges.reverse();
        Ok(exchanges)
    }

    /// Splits an I/O that was with the target's program from `enter_ns` to `leave_ns`, by the target's
    /// records: from the arrival of its command to the departure of its last answer.
    pub(super) fn at_target(&self, task: &Task, span_ns: (u64, u64)) -> Result<IoWaits, Untold> {
        let span_ns = self.chains.since_received(task, span_ns)?;
        let mut chain = self.chains.of_task(task, span_ns)?;
        let is_command = |message: &&Message| message.opcode == SCSI_COMMAND;
        if !chain.first().is_some_and(is_command) {
            // The response waited for unsolicited data; the command arrived earlier.
            let messages = self.chains.messages(task, span_ns);
            chain.insert(0, messages.iter().find(is_command).ok_or(Untold::NoPdu)?);
        }
        let first = chain.first().ok_or(Untold::NoPdu)?;
        let began_ns = self
            .streams
            .came(first, Soonest::default())
            .ok_or(Untold::NoStamp)?
            .arrived_ns;
        let mut cut = Cut::new(began_ns, u64::MAX);
        for (place, message) in chain.iter().enumerate() {
            match message.way {
                FlowDirection::ToTarget => {
                    let came = self
                        .streams
                        .came(message, Soonest::default())
                        .ok_or(Untold::NoStamp)?;
                    // It may have arrived before an earlier message was read.
                    cut.beyond(came.arrived_ns.max(cut.last_ns))?;
                    cut.is_uncertain_by(came.uncertain_ns);
                    cut.read(came.read_ns, FlowDirection::ToTarget)?;
                }
                FlowDirection::ToInitiator => {
                    cut.io.round_trips += 1;
                    cut.target(message.queued_ns)?;
                    let latest_ns = match chain.get(place + 1) {
                        Some(data) => {
                            let came = self
                                .streams
                                .came(data, Soonest::default())
                                .ok_or(Untold::NoStamp)?;
                            let round_trip =
                                self.senders.round_trip_ns(data, FlowDirection::ToInitiator);
                            came.arrived_ns.saturating_sub(round_trip)
                        }
                        None => u64::MAX,
                    };
                    let left = self.left(message, latest_ns);
                    let left = left.ok_or(Untold::NoStamp)?;
                    depart(&mut cut, message, &left, self.senders)?;
                    cut.is_uncertain_by(left.uncertain_ns);
                }
            }
        }
        Ok(cut.io)
    }
}

#[cfg(test)]
mod tests {
    use wansan_trace::event::{Crossing, Pdu, PduDirection, Stamp, Tcp};
    use wansan_trace::file::{Dropped, Names, Row, Table};
    use wansan_trace::{ConnectionId, Direction, Instant, Layer, NameId, SessionId, TaskTag};

    use super::super::{Recorded, Splits, splits};
    use super::*;
    use crate::cell::Cell;
    use crate::join::join;
    use crate::opcode::{DATA_OUT, SCSI_RESPONSE};
    use crate::window::Window;

    const MS: u64 = 1_000_000;
    const UNASKED: u32 = 0xffff_ffff;

    fn table<T>(records: Vec<T>) -> Table<T> {
        let host = NameId::NONE;
        let rows = records.into_iter().map(|record| Row { host, record });
        Table {
            rows: rows.collect(),
            names: Names::default(),
            dropped: Dropped::new(),
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * MS)
    }

    fn pdu(ms: u64, direction: PduDirection, opcode: u8, transfer_tag: u32, offset: u64) -> Pdu {
        Pdu {
            time: at(ms),
            direction,
            opcode,
            transfer_tag,
            task: TaskTag(1),
            stream_offset: offset,
            ..Pdu::BLANK
        }
    }

    /// A send call that ends at `end`, and when its bytes left.
    fn gave(ms: u64, end: u64, bytes: u32, departed_ms: u64) -> Stamp {
        Stamp {
            time: at(ms),
            stream_end: end,
            bytes,
            scheduled: at(departed_ms),
            departed: at(departed_ms),
            ..Stamp::BLANK
        }
    }

    /// A receive call that ends at `end`, and when its bytes had arrived.
    fn took(ms: u64, end: u64, arrived_ms: u64) -> Stamp {
        Stamp {
            time: at(ms),
            stream_end: end,
            direction: PduDirection::Received,
            arrived: at(arrived_ms),
            ..Stamp::BLANK
        }
    }

    /// Splits an I/O that was in `layer` during `span_ms`, by these records of one end.
    fn told(layer: Layer, span_ms: [u64; 2], pdus: Vec<Pdu>, stamps: Vec<Stamp>) -> Splits {
        let crossing = |direction, ms| Crossing {
            time: at(ms),
            session: SessionId(0),
            task: TaskTag(1),
            connection: ConnectionId(0),
            layer,
            direction,
        };
        let crossings = [
            crossing(Direction::Enter, span_ms[0]),
            crossing(Direction::Leave, span_ms[1]),
        ];
        let sample = Tcp {
            min_rtt_ns: 10 * MS,
            ..Tcp::BLANK
        };
        let cell = Cell {
            joined: join(&table(crossings.to_vec()).rows),
            io_dropped: Dropped::new(),
            pdu: Some(table(pdus).into()),
            connection: None,
            tcp: Some(table(vec![sample])),
            stamp: Some(table(stamps)),
            packet: None,
            carriers: Vec::new(),
            path: None,
            thread: None,
            request: None,
        };
        let window = Window {
            from_ns: 0,
            to_ns: 100 * MS,
        };
        splits(&cell, window).unwrap()
    }

    #[test]
    fn an_initiator_tells_its_own_waiting_and_what_an_r2t_answered() {
        use PduDirection::{Received, Sent};
        let pdus = vec![
            pdu(1, Sent, SCSI_COMMAND, 0, 0),
            // Nothing waits for this: the R2T comes less than a round trip after it has left.
            pdu(3, Sent, DATA_OUT, UNASKED, 48),
            pdu(13, Received, R2T, 7, 0),
            pdu(14, Sent, DATA_OUT, 7, 96),
            pdu(26, Received, SCSI_RESPONSE, 0, 48),
        ];
        let stamps = vec![
            gave(1, 48, 48, 2),
            gave(4, 96, 48, 5),
            took(13, 48, 12),
            gave(15, 144, 48, 15),
            took(26, 96, 25),
        ];
        let told = told(Layer::App, [0, 27], pdus, stamps);
        assert_eq!(told.recorded, Recorded::Initiator);
        let [split] = told.told[..] else {
            panic!("{told:?}");
        };
        assert_eq!((split.latency_ns, split.total_ns()), (27 * MS, 27 * MS));
        assert_eq!((split.round_trips, split.initiator_ns), (2, 3 * MS));
        let leg = split.to_target;
        assert_eq!((leg.no_room_ns, leg.other_ns), (MS, MS));
        assert_eq!(split.beyond_ns, 20 * MS);
        assert_eq!(split.to_initiator.receive_buffer_ns, 2 * MS);
    }

    #[test]
    fn a_target_tells_from_the_command_s_arrival_to_the_answer_s_departure() {
        use PduDirection::{Received, Sent};
        let pdus = vec![
            // Its turn by CmdSN comes slightly later.
            pdu(8, Received, SCSI_COMMAND, 0, 0),
            pdu(10, Sent, R2T, 7, 0),
            pdu(20, Received, DATA_OUT, 7, 48),
            pdu(22, Sent, SCSI_RESPONSE, 0, 48),
        ];
        let stamps = vec![
            took(8, 48, 7),
            gave(10, 48, 48, 10),
            took(20, 96, 20),
            gave(22, 96, 48, 23),
        ];
        let told = told(Layer::Target, [9, 22], pdus, stamps);
        assert_eq!(told.recorded, Recorded::Target);
        let [split] = told.told[..] else {
            panic!("{told:?}");
        };
        assert_eq!((split.latency_ns, split.total_ns()), (16 * MS, 16 * MS));
        assert_eq!((split.round_trips, split.target_ns), (2, 4 * MS));
        assert_eq!(split.to_target.receive_buffer_ns, MS);
        assert_eq!(split.beyond_ns, 10 * MS);
        assert_eq!(split.to_initiator.other_ns, MS);
    }

    #[test]
    fn an_answer_that_was_sent_again_left_a_round_trip_before_it_was_acknowledged() {
        use PduDirection::{Received, Sent};
        let pdus = vec![
            pdu(8, Received, SCSI_COMMAND, 0, 0),
            pdu(9, Sent, SCSI_RESPONSE, 0, 0),
        ];
        let acknowledged = |at_ms, stamp| Stamp {
            acknowledged: at(at_ms),
            ..stamp
        };
        // The round trip is 10 ms: what was acknowledged at 22 ms had left by 12 ms, and its stamp is later.
        let stamps = vec![took(8, 48, 8), acknowledged(22, gave(9, 48, 48, 20))];
        let late = told(Layer::Target, [8, 9], pdus.clone(), stamps);
        let [split] = late.told[..] else {
            panic!("{late:?}");
        };
        assert_eq!(split.to_initiator.total_ns() + split.target_ns, 4 * MS);
        assert_eq!(split.uncertain_ns, 3 * MS);
        let stamps = vec![took(8, 48, 8), acknowledged(30, gave(9, 48, 48, 20))];
        let known = told(Layer::Target, [8, 9], pdus, stamps);
        assert_eq!(known.told[0].latency_ns, 12 * MS);
        assert_eq!(known.told[0].uncertain_ns, 0);
    }

    #[test]
    fn data_that_nobody_asked_for_comes_from_beyond_after_its_command() {
        use PduDirection::{Received, Sent};
        let pdus = vec![
            pdu(8, Received, SCSI_COMMAND, 0, 0),
            pdu(12, Received, DATA_OUT, UNASKED, 48),
            pdu(13, Sent, SCSI_RESPONSE, 0, 0),
        ];
        let stamps = vec![took(8, 48, 8), took(12, 96, 11), gave(13, 48, 48, 13)];
        let told = told(Layer::Target, [8, 13], pdus, stamps);
        let [split] = told.told[..] else {
            panic!("{told:?}");
        };
        assert_eq!((split.latency_ns, split.total_ns()), (5 * MS, 5 * MS));
        assert_eq!((split.beyond_ns, split.target_ns), (3 * MS, MS));
        assert_eq!(split.to_target.receive_buffer_ns, MS);
    }
}
