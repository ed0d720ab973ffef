//! The packets of a cell: recorded ones, or those of a capture. Rows for a capture's packets are built on demand.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use wansan_trace::event::Packet;
use wansan_trace::file::{Dropped, Table};

use crate::capture::Sights;
use crate::traffic::{FlowDirection, Traffic};

/// Packets. Whoever looks into the table has all of them in memory as rows.
#[derive(Debug)]
pub struct Packets(Kept);

#[derive(Debug)]
enum Kept {
    Recorded(Table<Packet>),
    Captured(Sights, OnceLock<Table<Packet>>),
}

impl Packets {
    /// Those of a capture.
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

    /// What a capture keeps of them.
    pub(crate) fn sights(&self) -> Option<&Sights> {
        match &self.0 {
            Kept::Recorded(_) => None,
            Kept::Captured(sights, _) => Some(sights),
        }
    }

    /// Shows all of them, in their order.
    pub(crate) fn for_each(&self, mut see: impl FnMut(&Packet)) {
        match &self.0 {
            Kept::Recorded(table) => table.rows.iter().for_each(|row| see(&row.record)),
            Kept::Captured(sights, _) => sights.for_each(|_, packet| see(packet)),
        }
    }

    /// Shows those of flows: their numbers, from 0, flows and ways.
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

/// Rows that are changed count in place of what a capture has kept.
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
