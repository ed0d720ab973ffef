//! The identity of a logical unit.

use wansan_iscsi::initiator::{Command, Completion, Transfer};
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::vpd::{self, Identification};
use wansan_iscsi::scsi::{Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, ScsiStatus};
use wansan_workload::failure;

use crate::initiator::InitiatorError;
use crate::load::{command, data};
use crate::sessions::Execute;

/// Room for the longest known page, in bytes.
const PAGE_BYTES: u16 = 1024;

/// The VPD pages to request; the page code identifies the command.
const PAGES: [u8; 2] = [vpd::IDENTIFICATION, vpd::SERIAL_NUMBER];

/// More unit attentions than a target queues.
pub(crate) const MOST_ATTENTIONS: usize = 8;

/// The tag of the command that reads the capacity.
const CAPACITY: u64 = u64::MAX;
/// Bytes of its response.
const CAPACITY_BYTES: u32 = 32;

/// The identity of a logical unit: its designators (VPD page 83h), serial number (80h) and size. A unit may lack either
/// of the first two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitIdentity {
    names: Vec<Vec<u8>>,
    serial: Option<Vec<u8>>,
    capacity: Capacity,
}

impl UnitIdentity {
    /// Reads the identity of the unit at `lun`, whose capacity is known.
    ///
    /// # Errors
    /// The session failed.
    pub fn ask(
        session: &mut impl Execute,
        lun: Lun,
        capacity: Capacity,
    ) -> Result<UnitIdentity, InitiatorError> {
        Ok(Answers::ask(session, lun)?.of(capacity))
    }

    /// Whether the unit has a designator or a serial number.
    #[must_use]
    pub fn has_name(&self) -> bool {
        !self.names.is_empty() || self.serial.is_some()
    }

    /// The serial number, if the unit has one.
    #[must_use]
    pub fn serial(&self) -> &[u8] {
        self.serial.as_deref().unwrap_or_default()
    }

    /// Whether it is the same unit as the `known` one, which may have grown meanwhile: they share a designator, and one
    /// of each type that both have; where one has none because it did not answer, the serial number. A T10 vendor ID
    /// alone may be common to all units of a vendor.
    #[must_use]
    pub fn is(&self, known: &UnitIdentity) -> bool {
        let is_called_so = match (self.names.is_empty(), known.names.is_empty()) {
            (false, false) => self.shares_names(known),
            (true, true) => self.serial == known.serial,
            _ => self.serial.is_some() && self.serial == known.serial,
        };
        is_called_so
            && self.capacity.block_bytes == known.capacity.block_bytes
            && self.capacity.blocks >= known.capacity.blocks
    }

    fn shares_names(&self, known: &UnitIdentity) -> bool {
        let is_shared = |name: &Vec<u8>| known.names.contains(name);
        let differs = |name: &Vec<u8>| {
            let same_type = |it: &&Vec<u8>| it.first() == name.first();
            let mut own = self.names.iter().filter(same_type);
            known.names.iter().any(|it| same_type(&it)) && !own.any(is_shared)
        };
        self.names.iter().any(is_shared) && !self.names.iter().any(differs)
    }
}

/// A unit's answers about itself and about the port used.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    names: Vec<Vec<u8>>,
    serial: Option<Vec<u8>>,
    capacity: Option<Capacity>,
    /// Why the capacity is unknown.
    problem: Option<String>,
    /// The target port group of the port.
    pub(crate) port_group: Option<u16>,
}

impl Answers {
    /// Number of commands that read all of it.
    pub(crate) const COMMANDS: usize = PAGES.len() + 1;

    /// Those commands; they may execute in any order.
    pub(crate) fn commands(lun: Lun) -> impl Iterator<Item = Command> {
        let capacity = command(
            lun,
            cdb::read_capacity_16(CAPACITY_BYTES),
            Transfer::Read(vec![0; CAPACITY_BYTES as usize]),
            CAPACITY,
        );
        let pages = PAGES.into_iter().map(move |page| Answers::page(lun, page));
        pages.chain([capacity])
    }

    fn page(lun: Lun, page: u8) -> Command {
        let cdb = cdb::inquiry_page(page, PAGE_BYTES);
        let transfer = Transfer::Read(vec![0; PAGE_BYTES.into()]);
        command(lun, cdb, transfer, page.into())
    }

    /// Takes the response to one of them; returns whether it is a unit attention, and the command must be repeated.
    /// Unanswered properties stay unknown.
    pub(crate) fn take(&mut self, done: Completion) -> bool {
        let sense = done.outcome.as_ref().ok();
        let sense = sense.and_then(|answer| Sense::parse(&answer.sense).ok());
        let asked = done.user;
        let problem = failure(&done);
        let is_capacity = asked == CAPACITY;
        self.problem = problem.filter(|_| is_capacity).or(self.problem.take());
        if sense.is_some_and(|sense| sense.key == SenseKey::UnitAttention) {
            return true;
        }
        let data = answer(done);
        if is_capacity {
            self.capacity = data.and_then(|data| Capacity::parse_16(&data).ok());
        } else if asked == u64::from(vpd::IDENTIFICATION) {
            let parsed = data.and_then(|data| Identification::parse(&data).ok());
            let Identification { names, port_group } = parsed.unwrap_or_default();
            (self.names, self.port_group) = (names, port_group);
        } else {
            self.serial = data;
        }
        false
    }

    /// Reads the names of the unit at `lun`. Clears pending unit attentions first.
    ///
    /// # Errors
    /// The session failed.
    pub(crate) fn ask(session: &mut impl Execute, lun: Lun) -> Result<Answers, InitiatorError> {
        let mut answers = Answers::default();
        for page in PAGES {
            let mut tries = 0;
            while answers.take(session.execute(Answers::page(lun, page))?)
                && tries < MOST_ATTENTIONS
            {
                tries += 1;
            }
        }
        Ok(answers)
    }

    /// The identity of a unit of that size.
    pub(crate) fn of(self, capacity: Capacity) -> UnitIdentity {
        UnitIdentity {
            names: self.names,
            serial: self.serial,
            capacity,
        }
    }

    /// The identity.
    ///
    /// # Errors
    /// Why the unit does not report its size.
    pub(crate) fn identity(mut self) -> Result<UnitIdentity, String> {
        match (self.capacity, self.problem.take()) {
            (Some(capacity), _) => Ok(self.of(capacity)),
            (None, problem) => {
                Err(problem.unwrap_or_else(|| "its capacity is malformed".to_owned()))
            }
        }
    }
}

/// The received data of a successful read.
fn answer(done: Completion) -> Option<Vec<u8>> {
    let status = done.outcome.as_ref().ok()?.status;
    (status == ScsiStatus::Good).then(|| data(done))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Designators, each preceded by its type.
    fn unit(names: &[&[u8]], serial: &[u8], blocks: u64) -> UnitIdentity {
        let names = names.iter().map(|name| name.to_vec()).collect();
        let serial = (!serial.is_empty()).then(|| serial.to_vec());
        let capacity = Capacity {
            blocks,
            block_bytes: 512,
            physical_block_exponent: 0,
        };
        UnitIdentity {
            names,
            serial,
            capacity,
        }
    }

    #[test]
    fn a_designator_of_each_common_type_is_shared_or_the_serial_number_where_there_is_none() {
        let disk = unit(&[b"\x01VENDOR", b"\x03naa.1", b"\x03naa.2"], b"", 8);
        assert!(unit(&[b"\x03naa.2"], b"other port's", 8).is(&disk));
        assert!(unit(&[b"\x08iqn", b"\x03naa.1"], b"", 8).is(&disk));
        assert!(!unit(&[b"\x01VENDOR", b"\x03naa.3"], b"", 8).is(&disk));
        assert!(!unit(&[b"\x08iqn"], b"", 8).is(&disk));
        assert!(!unit(&[], b"", 8).is(&disk));
        let named = unit(&[b"\x03naa.1"], b"1", 8);
        assert!(unit(&[], b"1", 8).is(&named) && named.is(&unit(&[], b"1", 8)));
        assert!(!unit(&[], b"2", 8).is(&named));
        assert!(unit(&[], b"1", 8).is(&unit(&[], b"1", 8)));
        assert!(!unit(&[], b"1", 8).is(&unit(&[], b"2", 8)));
        assert!(!unit(&[], b"", 8).has_name() && unit(&[], b"1", 8).has_name());
    }

    #[test]
    fn a_smaller_unit_is_another_one() {
        let known = unit(&[b"\x03naa.1"], b"", 8);
        assert!(unit(&[b"\x03naa.1"], b"", 9).is(&known));
        assert!(!unit(&[b"\x03naa.1"], b"", 7).is(&known));
    }
}
