//! The packets of captured connections, whose records are made on demand.

use std::net::SocketAddr;

use wansan_trace::event::{Packet, Verdict};
use wansan_trace::file::{Row, Table};
use wansan_trace::{Instant, NameId};

use super::ends::{Passed, Segment};
use super::records::{HOSTS, table};

/// Packets in the order in which they were sent, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Sights {
    connections: Vec<Watched>,
    /// For each packet, the indices of its connection and of its segment there.
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

    /// Sorts the packets, once all connections have been added.
    pub(super) fn finish(&mut self) {
        let connections = &self.connections;
        if connections.len() > 1 {
            let sent_ns = |(of, place): &(u32, u32)| {
                let passed = &connections[*of as usize].passed;
                passed.segment(*place as usize).sent_ns
            };
            // Those of one connection are sorted already, so that sorting merges them.
            self.order.sort_by_cached_key(sent_ns);
        }
    }

    /// The number of a packet's frame, from 1; 0 for a packet that the capture has missed.
    pub(super) fn frame(&self, packet: usize) -> Option<u64> {
        let (of, place) = *self.order.get(packet)?;
        let passed = &self.connections[of as usize].passed;
        Some(passed.segment(place as usize).seen.frame)
    }

    /// The ends of the connections.
    pub(crate) fn ends(&self) -> impl Iterator<Item = [SocketAddr; 2]> {
        self.connections.iter().map(|of| of.ends)
    }

    /// Number of packets of each connection.
    pub(crate) fn counts(&self) -> impl Iterator<Item = usize> {
        self.connections.iter().map(|of| of.passed.len())
    }

    /// The ends of each connection, and the minimum transit times of what each of them sent.
    pub(crate) fn least_transits_ns(
        &self,
    ) -> impl Iterator<Item = ([SocketAddr; 2], [Option<u64>; 2])> {
        let connections = self.connections.iter();
        connections.map(|of| (of.ends, of.passed.least_transits_ns()))
    }

    /// Calls `see` with each packet's record, and with the indices of its connection and of its sending end.
    pub(crate) fn for_each(&self, mut see: impl FnMut((usize, usize), &Packet)) {
        for (of, place) in &self.order {
            let (connection, place) = (*of as usize, *place as usize);
            let Watched { ends, passed } = &self.connections[connection];
            let segment = passed.segment(place);
            see((connection, segment.seen.from()), &packet(*ends, &segment));
        }
    }

    /// The packets' records as rows of both hosts.
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
