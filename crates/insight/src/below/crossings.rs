//! Crossings of the layers `tcp_initiator` and `tcp_target`, derived from stamps and PDUs together.
//!
//! As the vocabulary defines them, the request is the last byte of its command's header, and the response the first
//! byte of the first Data-In or SCSI Response. An R2T does not count as a response.

use wansan_trace::Layer;
use wansan_trace::event::{Pdu, Stamp};
use wansan_trace::file::Table;

use super::chain::{Chains, Message};
use super::streams::{Ends, Streams};
use super::{DISORDER_NS, Recorded};
use crate::join::{Joined, Task};
use crate::opcode::{DATA_IN, SCSI_COMMAND, SCSI_RESPONSE};

/// Adds the crossings of the TCP layers to each I/O of which all four are known. If one is unknown, or contradicts
/// those above and below, the I/O gets none: half a layer would be taken for the whole.
pub(crate) fn derive(joined: &mut Joined, stamps: &Table<Stamp>, pdus: &Table<Pdu>) {
    let ends = Ends::of(pdus);
    let streams = Streams::of(stamps, pdus, &ends, Recorded::Both);
    let chains = Chains::of(&pdus.rows, Recorded::Both);
    let Some(top) = joined.top() else { return };
    for task in &mut joined.tasks {
        let Some(span_ns) = task.both_ns(top) else {
            continue;
        };
        let messages = chains.messages(task, span_ns);
        if let Some(found) = crossings(task, messages, &streams) {
            let [[out_ns, back_ns], [came_ns, left_ns]] = found;
            task.set(Layer::TcpInitiator, Some(out_ns), Some(back_ns));
            task.set(Layer::TcpTarget, Some(came_ns), Some(left_ns));
        }
    }
    joined.take_stock();
}

/// Entry and exit of `tcp_initiator`, then of `tcp_target`.
fn crossings(task: &Task, messages: &[Message], streams: &Streams) -> Option<[[u64; 2]; 2]> {
    let mut commands = messages
        .iter()
        .filter(|message| message.opcode == SCSI_COMMAND);
    let command = commands.next().filter(|_| commands.next().is_none())?;
    let answer = messages
        .iter()
        .find(|message| [SCSI_RESPONSE, DATA_IN].contains(&message.opcode))?;
    let (request, answer) = (streams.header_times(command)?, streams.first_times(answer)?);
    let mut last_ns = task.enter_ns(Layer::Socket)?;
    let mut next = |at_ns: u64| {
        let inside_ns = at_ns.max(last_ns);
        last_ns = inside_ns;
        (inside_ns - at_ns <= DISORDER_NS).then_some(inside_ns)
    };
    // If both are known, the packet's time at the observation point bounds the stamp: it is of this very byte.
    let (passed_ns, returned_ns) = (task.enter_ns(Layer::Wire), task.leave_ns(Layer::Wire));
    let before = |ns: u64, wire_ns: Option<u64>| wire_ns.map_or(ns, |wire_ns| ns.min(wire_ns));
    let after = |ns: u64, wire_ns: Option<u64>| wire_ns.map_or(ns, |wire_ns| ns.max(wire_ns));
    let out_ns = next(before(request.left.departed_ns, passed_ns))?;
    let came_ns = next(after(request.came.arrived_ns, passed_ns))?;
    let left_ns = next(before(answer.left.departed_ns, returned_ns))?;
    let back_ns = next(after(answer.came.arrived_ns, returned_ns))?;
    let read_ns = task.leave_ns(Layer::Socket)?;
    let is_in_order = back_ns <= read_ns + DISORDER_NS;
    is_in_order.then_some([
        [out_ns, back_ns.min(read_ns)],
        [came_ns, left_ns.min(read_ns)],
    ])
}
