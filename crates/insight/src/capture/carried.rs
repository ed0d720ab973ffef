//! The PDUs of captured connections, whose records are made on demand.

use wansan_trace::Instant;
use wansan_trace::event::{Crossing, Pdu, PduDirection};
use wansan_trace::file::{Row, Table};
use wansan_trace::{Direction, Layer};

use super::records::{HOSTS, table};
use crate::opcode;

/// PDUs as their senders would have recorded them, and when each end had each of them.
#[derive(Debug)]
pub(crate) struct Carried {
    pdus: Vec<Pdu>,
    /// In order of time.
    at: Vec<At>,
    connections: usize,
    /// The opcodes of all PDUs, as bits.
    opcodes: u64,
}

/// One of the PDUs, at one end.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) time_ns: u64,
    pub(super) pdu: u32,
    /// Whether this end sent it.
    pub(super) is_sent: bool,
}

/// A crossing of a layer by the task of one of the PDUs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crosses {
    pub(super) time_ns: u64,
    pub(super) pdu: u32,
    pub(super) layer: Layer,
    pub(super) direction: Direction,
}

impl Carried {
    /// The PDUs of this many connections.
    pub(super) fn of(pdus: Vec<Pdu>, mut at: Vec<At>, connections: usize) -> Carried {
        // At equal times, a received PDU causes the one sent: an R2T its Data-Out.
        at.sort_by_key(|at| (at.time_ns, at.is_sent));
        Carried {
            opcodes: { pdus.iter() }.fold(0, |known, pdu| known | bit(pdu.opcode)),
            pdus,
            at,
            connections,
        }
    }

    /// A crossing's record.
    pub(super) fn crossing(&self, of: &Crosses) -> Crossing {
        let pdu = &self.pdus[of.pdu as usize];
        Crossing {
            time: Instant::from_ns(of.time_ns),
            session: pdu.session,
            task: pdu.task,
            connection: pdu.connection,
            layer: of.layer,
            direction: of.direction,
        }
    }

    /// Number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections
    }

    /// Whether there is a PDU with this opcode.
    pub(crate) fn has(&self, opcode: u8) -> bool {
        self.opcodes & bit(opcode) != 0
    }

    /// The records of both ends, in order of time.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<Pdu>> {
        self.at.iter().map(|at| {
            let sent = &self.pdus[at.pdu as usize];
            let is_initiator = opcode::is_request(sent.opcode) == at.is_sent;
            let record = Pdu {
                time: Instant::from_ns(at.time_ns),
                direction: match at.is_sent {
                    true => PduDirection::Sent,
                    false => PduDirection::Received,
                },
                ..*sent
            };
            Row {
                host: HOSTS[usize::from(!is_initiator)],
                record,
            }
        })
    }

    /// The same as a table.
    pub(crate) fn table(&self) -> Table<Pdu> {
        table(self.rows().collect())
    }
}

fn bit(opcode: u8) -> u64 {
    1 << (opcode & 0x3f)
}
