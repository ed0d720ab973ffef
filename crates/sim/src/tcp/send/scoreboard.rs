//! What was sent and is not acknowledged, packet by packet (the retransmission queue).

use std::collections::VecDeque;

use crate::tcp::rate::Snapshot;

/// No packet.
const NONE: u32 = u32::MAX;

/// The name of a packet while it is in the scoreboard: how many were sent before it, wrapping.
pub(super) type Id = u32;

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    /// Its first sequence number.
    pub(super) seq: u64,
    /// Sequence numbers that it takes.
    pub(super) length: u32,
    /// Bytes of data.
    pub(super) bytes: u32,
    /// When it was sent last, in nanoseconds.
    pub(super) sent_ns: u64,
    /// What was known of delivery then.
    pub(super) snapshot: Snapshot,
    /// Whether a SACK covers it.
    pub(super) is_sacked: bool,
    /// Whether it counts as lost.
    pub(super) is_lost: bool,
    /// Whether it is on its way again.
    pub(super) is_resent: bool,
    /// Whether it was ever retransmitted.
    pub(super) was_resent: bool,
    /// Its neighbours in the order of sending.
    before: Id,
    after: Id,
}

impl Packet {
    /// A packet that is sent for the first time.
    #[must_use]
    pub(super) fn new(
        seq: u64,
        length: u32,
        bytes: u32,
        sent_ns: u64,
        snapshot: Snapshot,
    ) -> Packet {
        Packet {
            seq,
            length,
            bytes,
            sent_ns,
            snapshot,
            is_sacked: false,
            is_lost: false,
            is_resent: false,
            was_resent: false,
            before: NONE,
            after: NONE,
        }
    }

    /// The sequence number after it.
    #[must_use]
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.length)
    }
}

/// All packets between the first sequence number that is not acknowledged and the next to be sent.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    packets: VecDeque<Packet>,
    /// The id of the first.
    first: Id,
    /// In the order of sending, those that may still be found lost: neither sacked nor lost.
    oldest: Option<Id>,
    newest: Option<Id>,
    /// Packets that a SACK covers (`sacked_out`).
    pub(super) sacked: u32,
    /// Packets that count as lost (`lost_out`).
    pub(super) lost: u32,
    /// Packets that are on their way again (`retrans_out`).
    pub(super) resent: u32,
}

impl Scoreboard {
    /// Packets in it (`packets_out`).
    #[must_use]
    pub(super) fn packets_out(&self) -> u32 {
        self.packets.len() as u32
    }

    /// Packets on their way: neither sacked nor lost, and those that were retransmitted
    /// (`tcp_packets_in_flight`; RFC 6675 §4 calls it pipe).
    #[must_use]
    pub(super) fn in_flight(&self) -> u32 {
        self.packets_out() + self.resent - self.sacked - self.lost
    }

    /// Whether nothing is in it.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The ids of all.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        let first = self.first;
        (0..self.packets_out()).map(move |at| first.wrapping_add(at))
    }

    /// The first id, also of a packet that is yet to be sent.
    #[must_use]
    pub(super) fn first_id(&self) -> Id {
        self.first
    }

    /// The id that the next packet gets.
    #[must_use]
    pub(super) fn next_id(&self) -> Id {
        self.first.wrapping_add(self.packets_out())
    }

    /// A packet, while it is in the scoreboard.
    #[must_use]
    pub(super) fn get(&self, id: Id) -> Option<&Packet> {
        self.packets.get(id.wrapping_sub(self.first) as usize)
    }

    fn at(&mut self, id: Id) -> &mut Packet {
        let place = id.wrapping_sub(self.first) as usize;
        &mut self.packets[place]
    }

    /// The first packet.
    #[must_use]
    pub(super) fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    /// The packet that has a sequence number, or the next one to be sent.
    #[must_use]
    pub(super) fn find(&self, seq: u64) -> Id {
        let place = self.packets.partition_point(|packet| packet.end() <= seq);
        self.first.wrapping_add(place as u32)
    }

    /// Adds a packet that was sent for the first time.
    pub(super) fn push(&mut self, packet: Packet) {
        let id = self.next_id();
        self.packets.push_back(packet);
        self.link(id);
    }

    /// Puts a packet at the end of the order of sending.
    fn link(&mut self, id: Id) {
        let newest = self.newest.replace(id);
        let packet = self.at(id);
        packet.before = newest.unwrap_or(NONE);
        packet.after = NONE;
        match newest {
            Some(before) => self.at(before).after = id,
            None => self.oldest = Some(id),
        }
    }

    /// Takes a packet out of the order of sending, if it is there.
    fn unlink(&mut self, id: Id) {
        let packet = self.at(id);
        let (before, after) = (packet.before, packet.after);
        (packet.before, packet.after) = (NONE, NONE);
        let some = |id| (id != NONE).then_some(id);
        if before != NONE {
            self.at(before).after = after;
        } else if self.oldest == Some(id) {
            self.oldest = some(after);
        } else {
            return;
        }
        if after != NONE {
            self.at(after).before = before;
        } else if self.newest == Some(id) {
            self.newest = some(before);
        }
    }

    /// Of those that may be found lost, the one that was sent first.
    #[must_use]
    pub(super) fn oldest(&self) -> Option<Id> {
        self.oldest
    }

    /// Of those, the one that was sent next after `id`.
    #[must_use]
    pub(super) fn sent_after(&self, id: Id) -> Option<Id> {
        let after = self.get(id)?.after;
        (after != NONE).then_some(after)
    }

    /// Marks a packet as lost: also once more, when it was retransmitted and that was lost as well. Whether it
    /// was not before.
    pub(super) fn lose(&mut self, id: Id) -> bool {
        let packet = *self.at(id);
        if packet.is_sacked {
            return false;
        }
        self.unlink(id);
        let packet = self.at(id);
        let is_new = !packet.is_lost;
        let was_on_its_way = packet.is_resent;
        packet.is_lost = true;
        packet.is_resent = false;
        self.lost += u32::from(is_new);
        self.resent -= u32::from(was_on_its_way);
        is_new || was_on_its_way
    }

    /// Marks a packet as retransmitted.
    pub(super) fn resend(&mut self, id: Id, sent_ns: u64, snapshot: Snapshot) {
        self.unlink(id);
        let packet = self.at(id);
        packet.sent_ns = sent_ns;
        packet.snapshot = snapshot;
        packet.was_resent = true;
        let is_new = !packet.is_resent;
        packet.is_resent = true;
        self.resent += u32::from(is_new);
        self.link(id);
    }

    /// Marks a packet as covered by a SACK.
    pub(super) fn sack(&mut self, id: Id) {
        self.unlink(id);
        let packet = self.at(id);
        packet.is_sacked = true;
        let (was_lost, was_resent) = (packet.is_lost, packet.is_resent);
        packet.is_lost = false;
        packet.is_resent = false;
        self.sacked += 1;
        self.lost -= u32::from(was_lost);
        self.resent -= u32::from(was_resent);
    }

    /// Takes back that a SACK covers a packet: the receiver has thrown it away (RFC 2018 §8).
    pub(super) fn forget_sack(&mut self, id: Id) {
        let packet = self.at(id);
        self.sacked -= u32::from(std::mem::take(&mut packet.is_sacked));
    }

    /// Takes back that packets are lost: none was (`tcp_undo_cwnd_reduction`).
    pub(super) fn lose_nothing(&mut self) {
        for id in self.ids() {
            let packet = self.at(id);
            if packet.is_lost {
                packet.is_lost = false;
                if !packet.is_resent {
                    self.link(id);
                }
            }
        }
        self.lost = 0;
    }

    /// Takes the first packet out where it is acknowledged up to `ack`; a packet is acknowledged whole, since both
    /// ends cut at the same places.
    pub(super) fn pop(&mut self, ack: u64) -> Option<Packet> {
        if self.packets.front()?.end() > ack {
            return None;
        }
        self.unlink(self.first);
        let packet = self.packets.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.sacked -= u32::from(packet.is_sacked);
        self.lost -= u32::from(packet.is_lost);
        self.resent -= u32::from(packet.is_resent);
        Some(packet)
    }
}
