//! The packets of a cell, recorded or from a capture. Rows for a capture's packets are built on demand.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use wansan_trace::event::{Packet, Verdict};
use wansan_trace::file::{Dropped, Table};

use crate::capture::Sights;
use crate::traffic::{FlowDirection, Traffic};

/// Packets. Dereferencing to the table builds all rows in memory.
#[derive(Debug)]
pub struct Packets(Kept);

#[derive(Debug)]
enum Kept {
    Recorded(Table<Packet>),
    Captured(Sights, OnceLock<Table<Packet>>),
}

impl Packets {
    /// The packets of a capture.
    pub(crate) fn captured(sights: Sights) -> Packets {
        Packets(Kept::Captured(sights, OnceLock::new()))
    }

    /// Records that recorders lost, by host.
    pub(crate) fn dropped(&self) -> Option<&Dropped> {
        match &self.0 {
            Kept::Recorded(table) => Some(&table.dropped),
            Kept::Captured(..) => None,
        }
    }

    /// A capture's compact form of the packets; `None` for recorded packets.
    pub(crate) fn sights(&self) -> Option<&Sights> {
        match &self.0 {
            Kept::Recorded(_) => None,
            Kept::Captured(sights, _) => Some(sights),
        }
    }

    /// Calls `see` with each packet, in order.
    pub(crate) fn for_each(&self, mut see: impl FnMut(&Packet)) {
        match &self.0 {
            Kept::Recorded(table) => table.rows.iter().for_each(|row| see(&row.record)),
            Kept::Captured(sights, _) => sights.for_each(|_, packet| see(packet)),
        }
    }

    /// Calls `see` with each packet that belongs to a flow, with the packet's number among all packets (from 0), its
    /// flow and its direction.
    pub(crate) fn for_each_of_flows(
        &self,
        traffic: &Traffic,
        mut see: impl FnMut(usize, (usize, FlowDirection), &Packet),
    ) {
        let mut number = 0..;
        let mut see = |of: Option<(usize, FlowDirection)>, packet: &Packet| {
            if let (Some(number), Some(of)) = (number.next(), of) {
                see(number, of, packet);
            }
        };
        match &self.0 {
            Kept::Recorded(table) => {
                let packets = table.rows.iter().map(|row| &row.record);
                packets.for_each(|packet| see(traffic.flow(packet), packet));
            }
            Kept::Captured(sights, _) => {
                let ends = sights.ends();
                let flows: Vec<_> = ends
                    .map(|[one, other]| [(one, other), (other, one)])
                    .map(|ways| ways.map(|(from, to)| traffic.between(from, to)))
                    .collect();
                sights.for_each(|(connection, from), packet| see(flows[connection][from], packet));
            }
        }
    }

    /// The minimum transit time of each flow's delivered packets, to the target and to the initiator.
    pub(crate) fn least_transits_ns(&self, traffic: &Traffic) -> Vec<[Option<u64>; 2]> {
        let mut least_ns: Vec<[Option<u64>; 2]> = vec![[None; 2]; traffic.flows.len()];
        let mut see = |(flow, way): (usize, FlowDirection), transit_ns: u64| {
            let least_ns = least_ns[flow][way as usize].get_or_insert(transit_ns);
            *least_ns = transit_ns.min(*least_ns);
        };
        match &self.0 {
            Kept::Recorded(_) => self.for_each_of_flows(traffic, |_, of, packet| {
                if packet.verdict == Verdict::Delivered {
                    see(of, (packet.departed - packet.time).as_nanos() as u64);
                }
            }),
            Kept::Captured(sights, _) => {
                for ([one, other], transits_ns) in sights.least_transits_ns() {
                    for ((from, to), transit_ns) in
                        [(one, other), (other, one)].into_iter().zip(transits_ns)
                    {
                        if let (Some(of), Some(transit_ns)) =
                            (traffic.between(from, to), transit_ns)
                        {
                            see(of, transit_ns);
                        }
                    }
                }
            }
        }
        least_ns
    }
}

impl From<Table<Packet>> for Packets {
    fn from(table: Table<Packet>) -> Packets {
        Packets(Kept::Recorded(table))
    }
}

impl Deref for Packets {
    type Target = Table<Packet>;

    fn deref(&self) -> &Table<Packet> {
        match &self.0 {
            Kept::Recorded(table) => table,
            Kept::Captured(sights, rows) => rows.get_or_init(|| sights.table()),
        }
    }
}

/// Mutable access replaces a capture's compact form by rows, so that changes take effect.
impl DerefMut for Packets {
    fn deref_mut(&mut self) -> &mut Table<Packet> {
        if let Kept::Captured(sights, _) = &self.0 {
            self.0 = Kept::Recorded(sights.table());
        }
        match &mut self.0 {
            Kept::Recorded(table) => table,
            Kept::Captured(..) => unreachable!("its rows were made just now"),
        }
    }
}
