//! The packets of a cell, recorded or from a capture. Rows for a capture's packets are built on demand.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use wansan_trace::event::Packet;
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
