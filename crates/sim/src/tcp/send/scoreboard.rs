//! The retransmission queue: packets sent and not yet acknowledged.

use std::collections::VecDeque;

use crate::tcp::rate::Snapshot;

/// No packet.
const NONE: u32 = u32::MAX;

/// The identifier of a packet while it is in the scoreboard: how many were sent before it, wrapping.
pub(super) type Id = u32;

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    /// Its first sequence number.
    pub(super) seq: u64,
    /// Sequence numbers that it occupies.
    pub(super) length: u32,
    /// Bytes of data.
    pub(super) bytes: u32,
    /// When it was last sent, in nanoseconds.
    pub(super) sent_ns: u64,
    /// The delivery state then.
    pub(super) snapshot: Snapshot,
    /// Whether it is SACKed.
    pub(super) is_sacked: bool,
    /// Whether it is marked as lost.
    pub(super) is_lost: bool,
    /// Whether its retransmission is in flight.
    pub(super) is_resent: bool,
    /// Whether it was ever retransmitted.
    pub(super) was_resent: bool,
    /// Its neighbours in transmission order.
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

    /// The sequence number after the packet.
    #[must_use]
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.length)
    }
}

/// All packets between SND.UNA and SND.NXT.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    packets: VecDeque<Packet>,
    /// The id of the first packet.
    first: Id,
    /// Ends of the list, in transmission order, of packets that may still be found lost: not SACKed, and not lost
    /// unless retransmitted.
    oldest: Option<Id>,
    newest: Option<Id>,
    /// SACKed packets (`sacked_out`).
    pub(super) sacked: u32,
    /// Packets marked as lost (`lost_out`).
    pub(super) lost: u32,
    /// Packets whose retransmission is in flight (`retrans_out`).
    pub(super) resent: u32,
}

impl Scoreboard {
    /// Packets in it (`packets_out`).
    #[must_use]
    pub(super) fn packets_out(&self) -> u32 {
        self.packets.len() as u32
    }

    /// Packets in flight: those neither SACKed nor lost, plus retransmissions (`tcp_packets_in_flight`; `pipe` in RFC
    /// 6675 §4).
    #[must_use]
    pub(super) fn in_flight(&self) -> u32 {
        self.packets_out() + self.resent - self.sacked - self.lost
    }

    /// Whether it is empty.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The ids of all packets.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        let first = self.first;
        (0..self.packets_out()).map(move |at| first.wrapping_add(at))
    }

    /// The id of the first packet; if there is none, that of the next one to be sent.
    #[must_use]
    pub(super) fn first_id(&self) -> Id {
        self.first
    }

    /// The id of the next packet to be sent.
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

    /// The packet that contains a sequence number, or the next one to be sent.
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

    /// Appends a packet to the transmission order.
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

    /// Removes a packet from the transmission order, if it is there.
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

    /// The earliest sent packet that may still be found lost.
    #[must_use]
    pub(super) fn oldest(&self) -> Option<Id> {
        self.oldest
    }

    /// The next such packet sent after `id`.
    #[must_use]
    pub(super) fn sent_after(&self, id: Id) -> Option<Id> {
        let after = self.get(id)?.after;
        (after != NONE).then_some(after)
    }

    /// Marks a packet as lost, or once more if its retransmission was lost as well. Returns whether this is a new loss.
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

    /// Marks a packet as SACKed.
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

    /// Unmarks a SACKed packet that the receiver has discarded (reneging, RFC 2018 §8).
    pub(super) fn forget_sack(&mut self, id: Id) {
        let packet = self.at(id);
        self.sacked -= u32::from(std::mem::take(&mut packet.is_sacked));
    }

    /// Unmarks all lost packets, as none was lost (`tcp_undo_cwnd_reduction`).
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

    /// Removes the first packet if `ack` covers it. Packets are acknowledged as a whole, since both ends cut data at
    /// the same places.
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
