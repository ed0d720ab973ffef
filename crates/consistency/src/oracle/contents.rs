//! Checks the data of PERSISTENT RESERVE IN and MODE SENSE: one of the states that were possible while they were
//! outstanding (SPC-4 6.13 and 7.5, SBC-3 6.5.5).

use super::*;
use crate::initiator_port;

/// READ KEYS, READ RESERVATION, REPORT CAPABILITIES and READ FULL STATUS.
const READ_KEYS: u8 = 0;
const READ_RESERVATION: u8 = 1;
const REPORT_CAPABILITIES: u8 = 2;

/// The list after PRGENERATION and ADDITIONAL LENGTH, if it is complete.
fn body(data: &[u8]) -> Option<(u32, &[u8])> {
    let generation = be32(data, 0)?;
    let length = be32(data, 4)? as usize;
    Some((generation, data.get(8..8 + length)?))
}

fn be32(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn be64(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at + 8)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// A registration in READ FULL STATUS: key, TYPE for a holder, and the port.
type Described = (u64, Option<u8>, Port);

/// The full status descriptors (SPC-4 6.13.5); `None` if they are malformed.
fn descriptors(mut body: &[u8]) -> Option<Vec<Described>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let (key, flags) = (be64(body, 0)?, *body.get(12)?);
        let kind = (flags & 0x01 != 0).then_some(*body.get(13)?);
        let length = be32(body, 20)? as usize;
        let port = initiator_port::of_transport_id(body.get(24..24 + length)?)?;
        found.push((key, kind, port));
        body = &body[24 + length..];
    }
    found.sort_unstable();
    Some(found)
}

impl Rights {
    /// Whether PERSISTENT RESERVE IN with that service action may have returned `data`.
    fn reads_as(&self, action: u8, keeps: bool, data: &[u8]) -> bool {
        if action == REPORT_CAPABILITIES {
            // LENGTH, PTPL_C and PTPL_A.
            let persists = self.persists;
            return data.get(..2) == Some(&[0, 8])
                && data
                    .get(2)
                    .is_some_and(|flags| (flags & 0x01 != 0) == keeps)
                && data
                    .get(3)
                    .is_some_and(|flags| (flags & 0x01 != 0) == persists);
        }
        let Some((generation, body)) = body(data) else {
            return false;
        };
        if generation != self.generation {
            return false;
        }
        match action {
            READ_KEYS => {
                let mut keys: Vec<u64> = self.registrations.iter().map(|(_, key)| *key).collect();
                let found = body.chunks(8).map(|key| be64(key, 0));
                let mut found: Vec<u64> = found.map(Option::unwrap_or_default).collect();
                keys.sort_unstable();
                found.sort_unstable();
                keys == found
            }
            READ_RESERVATION => match self.reservation {
                None => body.is_empty(),
                Some((kind, holder)) => {
                    let key = match rights::is_all_registrants(kind) {
                        true => 0,
                        false => self.key_of(holder).unwrap_or_default(),
                    };
                    body.len() == 16 && be64(body, 0) == Some(key) && body[13] == kind
                }
            },
            _ => {
                let described = self.registrations.iter().map(|(port, key)| {
                    let kind = self.reservation.filter(|_| self.holds(*port));
                    (*key, kind.map(|(kind, _)| kind), *port)
                });
                let mut described: Vec<Described> = described.collect();
                described.sort_unstable();
                descriptors(body) == Some(described)
            }
        }
    }

    /// Whether MODE SENSE (6) of all pages without block descriptors may have returned `data`: WP,
    /// WCE and SWP.
    fn senses_as(&self, data: &[u8]) -> bool {
        let Some(&[length, _, device, 0]) = data.first_chunk() else {
            return false;
        };
        let mut pages = data.get(4..=usize::from(length)).unwrap_or_default();
        let (mut write_cache, mut protected) = (None, None);
        while let &[code, length, ..] = pages
            && let Some((page, rest)) = pages.split_at_checked(2 + usize::from(length))
        {
            match code & 0x3f {
                0x08 => write_cache = page.get(2).map(|byte| byte & 0x04 != 0),
                0x0a => protected = page.get(4).map(|byte| byte & 0x08 != 0),
                _ => {}
            }
            pages = rest;
        }
        (device & 0x80 != 0) == self.protected
            && write_cache == Some(self.write_cache)
            && protected == Some(self.protected)
    }
}

impl Oracle {
    /// Checks the data of a command that ended with GOOD against the states possible while it was outstanding.
    pub(super) fn judge_contents(&mut self, attempt: &Attempt, data: &[u8]) {
        let Attempt {
            command,
            unit,
            sent,
            ..
        } = *attempt;
        let view = &self.units[usize::from(unit)];
        let keeps = view.keeps_reservations;
        let explained = match self.commands.get(command).scsi {
            // A truncated list cannot be checked.
            Scsi::ReserveIn { action } => {
                let is_cut = action != REPORT_CAPABILITIES && body(data).is_none();
                let mut reads = |rights: &Rights| rights.reads_as(action, keeps, data);
                is_cut || view.possible.ever(sent, &mut reads)
            }
            Scsi::ModeSense => view.possible.ever(sent, |rights| rights.senses_as(data)),
            _ => true,
        };
        if !explained {
            self.violate_command(Rule::Contents, command, || {
                format!("returned {data:02x?}, which its unit's state never explained")
            });
        }
    }
}
