//! The bytes of data that each I/O transfers, from its PDUs.

use foldhash::HashSet;
use smallvec::SmallVec;
use wansan_trace::SessionId;
use wansan_trace::event::{Pdu, PduDirection};

use super::paths::Paths;
use crate::cell::Cell;
use crate::join::Task;
use crate::opcode;
use crate::traffic::FlowDirection;

/// A PDU with data: its time in ns, its direction and its data length in bytes.
type Moved = (u64, FlowDirection, u32);

/// Time on the links in each direction, in ns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LinksNs([u64; 2]);

impl LinksNs {
    pub(super) fn of(&self, way: FlowDirection) -> u64 {
        self.0[way as usize]
    }

    fn of_mut(&mut self, way: FlowDirection) -> &mut u64 {
        &mut self.0[way as usize]
    }
}

/// PDUs with data, by the tag of their I/O. Empty if no link rate is known.
#[derive(Debug, Default)]
pub(super) struct DataBytes {
    of: Vec<SmallVec<[Moved; 1]>>,
}

fn way(pdu: &Pdu) -> FlowDirection {
    match opcode::is_request(pdu.opcode) {
        true => FlowDirection::ToTarget,
        false => FlowDirection::ToInitiator,
    }
}

impl DataBytes {
    pub(super) fn of(cell: &Cell, paths: &Paths) -> DataBytes {
        let Some(pdus) = cell.pdu.as_ref().filter(|_| paths.has_rates()) else {
            return DataBytes::default();
        };
        let tags = &cell.joined.tags;
        let mut of = vec![SmallVec::new(); tags.count()];
        let pdus = || {
            pdus.rows
                .iter()
                .map(|row| &row.record)
                .filter(|pdu| pdu.data_bytes > 0)
        };
        let sent = pdus().filter(|pdu| pdu.direction == PduDirection::Sent);
        let sent: HashSet<(SessionId, FlowDirection)> =
            sent.map(|pdu| (pdu.session, way(pdu))).collect();
        for pdu in pdus() {
            // The sender's record of a PDU counts, and the receiver's only if the sender was not recorded.
            let is_sent = pdu.direction == PduDirection::Sent;
            if is_sent == sent.contains(&(pdu.session, way(pdu)))
                && let Some(place) = tags.place(pdu.session, pdu.task)
            {
                of[place].push((pdu.time.ns(), way(pdu), pdu.data_bytes));
            }
        }
        DataBytes { of }
    }

    /// How long an I/O's data takes at the rate of the links that carry it, in each direction.
    pub(super) fn transmissions(
        &self,
        task: &Task,
        (from_ns, to_ns): (u64, u64),
        paths: &Paths,
    ) -> LinksNs {
        let mut links_ns = LinksNs::default();
        let Some(pdus) = self.of.get(task.tag_place as usize) else {
            return links_ns;
        };
        let first = pdus.partition_point(|(at_ns, ..)| *at_ns < from_ns);
        let own = pdus[first..]
            .iter()
            .take_while(|(at_ns, ..)| *at_ns <= to_ns);
        for (_, way, bytes) in own {
            if let Some(bytes_per_s) = paths.bytes_per_s(task, *way) {
                let link_ns = links_ns.of_mut(*way);
                *link_ns = link_ns.saturating_add((f64::from(*bytes) * 1e9 / bytes_per_s) as u64);
            }
        }
        links_ns
    }
}
