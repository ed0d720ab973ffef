//! The packets of captured connections, of which records are made while they are looked at.

use std::net::SocketAddr;

use wansan_trace::event::{Packet, Verdict};
use wansan_trace::file::{Row, Table};
use wansan_trace::{Instant, NameId};

use super::ends::{Passed, Segment};
use super::records::{HOSTS, table};

/// Packets, from 0, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Sights {
    connections: Vec<Watched>,
    /// Of which connection each is, and its place among that one's segments.
    order: Vec<(u32, u32)>,
}

/// A connection.
#[derive(Debug)]
struct Watched {
    ends: [SocketAddr; 2],
    passed: Passed,
}

impl Sights {
    /// Adds a connection.
    pub(super) fn add(&mut self, ends: [SocketAddr; 2], passed: Passed) {
        let number = self.connections.len() as u32;
        let places = passed.by_sent().map(|(place, _)| (number, place));
        self.order.reserve(passed.len());
        self.order.extend(places);
        self.connections.push(Watched { ends, passed });
    }

    /// All connections have been added.
    pub(super) fn finish(&mut self) {
        let connections = &self.connections;
        if connections.len() > 1 {
            let sent_ns = |(of, place): &(u32, u32)| {
                let passed = &connections[*of as usize].passed;
                passed.segment(*place as usize).sent_ns
            };
            // Those of one connection are in order already: to sort them is to merge.
            self.order.sort_by_cached_key(sent_ns);
        }
    }

    /// The number of a packet's frame, from 1; 0 of one that passed unseen.
    pub(super) fn frame(&self, packet: usize) -> Option<u64> {
        let (of, place) = *self.order.get(packet)?;
        let passed = &self.connections[of as usize].passed;
        Some(passed.segment(place as usize).seen.frame)
    }

    /// The ends of the connections.
    pub(crate) fn ends(&self) -> impl Iterator<Item = [SocketAddr; 2]> {
        self.connections.iter().map(|of| of.ends)
    }

    /// How many packets each connection has.
    pub(crate) fn counts(&self) -> impl Iterator<Item = usize> {
        self.connections.iter().map(|of| of.passed.len())
    }

    /// Shows the record of each packet, with the places of its connection and of the end that has sent it.
    pub(crate) fn for_each(&self, mut see: impl FnMut((usize, usize), &Packet)) {
        for (of, place) in &self.order {
            let (connection, place) = (*of as usize, *place as usize);
            let Watched { ends, passed } = &self.connections[connection];
            let segment = passed.segment(place);
            see((connection, segment.seen.from()), &packet(*ends, &segment));
        }
    }

    /// Their records in rows of both hosts.
    pub(crate) fn table(&self) -> Table<Packet> {
        let mut rows = Vec::with_capacity(self.order.len());
        self.for_each(|(_, from), packet| {
            rows.push(Row {
                host: HOSTS[usize::from(from != 0)],
                record: *packet,
            });
        });
        table(rows)
    }
}

fn packet(ends: [SocketAddr; 2], of: &Segment<'_>) -> Packet {
    let seen = of.seen;
    let from = seen.from();
    Packet {
        time: Instant::from_ns(of.sent_ns),
        departed: Instant::from_ns(of.arrived_ns.unwrap_or(of.sent_ns)),
        path: NameId::NONE,
        source: ends[from],
        destination: ends[1 - from],
        seq: seen.seq,
        ack: seen.ack,
        payload_bytes: u16::try_from(seen.payload_bytes()).unwrap_or(u16::MAX),
        ip_bytes: seen.ip_bytes,
        window: seen.window,
        flags: seen.flags,
        ecn: seen.ecn,
        verdict: match of.arrived_ns {
            Some(_) => Verdict::Delivered,
            None => Verdict::DroppedByLoss,
        },
    }
}
