//! The PDUs of a cell, recorded or from a capture. Rows for a capture's PDUs are built on demand.

use std::ops::Deref;
use std::sync::OnceLock;

use wansan_trace::event::Pdu;
use wansan_trace::file::{Dropped, Table};
use wansan_trace::{NameId, Sample};

use crate::capture::Carried;

/// PDUs. Dereferencing to the table builds all rows in memory.
#[derive(Debug)]
pub struct Pdus(Kept);

#[derive(Debug)]
enum Kept {
    Recorded(Table<Pdu>),
    Captured(Carried, OnceLock<Table<Pdu>>),
}

impl Pdus {
    /// The PDUs of a capture.
    pub(crate) fn captured(carried: Carried) -> Pdus {
        Pdus(Kept::Captured(carried, OnceLock::new()))
    }

    /// Records that recorders lost, by host.
    pub(crate) fn dropped(&self) -> Option<&Dropped> {
        match &self.0 {
            Kept::Recorded(table) => Some(&table.dropped),
            Kept::Captured(..) => None,
        }
    }

    /// Keeps the PDUs of a sample of the I/Os, and those that are of none. Captures are complete.
    pub(crate) fn thin(&mut self, sample: Sample) {
        if let Kept::Recorded(table) = &mut self.0 {
            let rows = &mut table.rows;
            rows.retain(|row| sample.has_pdu(row.record.task, row.record.opcode));
        }
    }

    /// Calls `see` with each PDU's host and record, in order.
    pub(crate) fn for_each(&self, mut see: impl FnMut(NameId, &Pdu)) {
        match &self.0 {
            Kept::Recorded(table) => {
                let rows = table.rows.iter();
                rows.for_each(|row| see(row.host, &row.record));
            }
            Kept::Captured(carried, _) => {
                carried.rows().for_each(|row| see(row.host, &row.record));
            }
        }
    }

    /// Whether there is a PDU with this opcode.
    pub(crate) fn has(&self, opcode: u8) -> bool {
        match &self.0 {
            Kept::Recorded(table) => table.rows.iter().any(|row| row.record.opcode == opcode),
            Kept::Captured(carried, _) => carried.has(opcode),
        }
    }

    /// Whether they may be of several connections.
    pub(crate) fn may_be_of_several_connections(&self) -> bool {
        match &self.0 {
            Kept::Recorded(_) => true,
            Kept::Captured(carried, _) => carried.connections() > 1,
        }
    }
}

impl From<Table<Pdu>> for Pdus {
    fn from(table: Table<Pdu>) -> Pdus {
        Pdus(Kept::Recorded(table))
    }
}

impl Deref for Pdus {
    type Target = Table<Pdu>;

    fn deref(&self) -> &Table<Pdu> {
        match &self.0 {
            Kept::Recorded(table) => table,
            Kept::Captured(carried, rows) => rows.get_or_init(|| carried.table()),
        }
    }
}
