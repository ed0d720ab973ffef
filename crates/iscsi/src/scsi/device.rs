//! A SCSI target device: its logical units, and which of them a command is for (SAM-5 4.5, 5.11).

use super::answer::Reply;
use super::unit::check_control;
use super::{
    AdditionalSense, Answer, Cdb, Decoded, LogicalUnit, Sense, UnitAttention, UnitAttentions,
    inquiry, opcode, report_luns, request_sense,
};
use crate::wire::Lun;

/// Logical units that cannot make a target device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Two have the same number.
    #[error("two logical units have number {0}")]
    Duplicate(u16),
    /// A number is too large for one level of LUN.
    #[error("logical unit number {0} is above 16383, the largest there is")]
    Number(u16),
}

/// The logical units behind one target name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetDevice {
    /// In ascending order of their numbers.
    units: Vec<LogicalUnit>,
    /// Their LUNs, in the same order.
    luns: Vec<Lun>,
}

impl TargetDevice {
    /// A device of these units, each with a number of its own.
    pub fn new(mut units: Vec<LogicalUnit>) -> Result<TargetDevice, DeviceError> {
        units.sort_by_key(|unit| unit.identity.number);
        for pair in units.windows(2) {
            if pair[0].identity.number == pair[1].identity.number {
                return Err(DeviceError::Duplicate(pair[0].identity.number));
            }
        }
        let luns = units
            .iter()
            .map(|unit| unit.identity.number)
            .map(|number| Lun::single_level(number).ok_or(DeviceError::Number(number)))
            .collect::<Result<_, _>>()?;
        Ok(TargetDevice { units, luns })
    }

    /// Its logical units, in ascending order of their numbers.
    #[must_use]
    pub fn units(&self) -> &[LogicalUnit] {
        &self.units
    }

    /// The place in [`units`](TargetDevice::units) of the unit at that LUN.
    #[must_use]
    pub fn place(&self, lun: Lun) -> Option<usize> {
        let number = lun.number()?;
        let at = |place: usize| self.units.get(place).map(|unit| unit.identity.number);
        // Units are numbered from 0 without a gap as a rule: the number is the place.
        if at(usize::from(number)) == Some(number) {
            return Some(usize::from(number));
        }
        self.units
            .binary_search_by_key(&number, |unit| unit.identity.number)
            .ok()
    }

    /// What this device keeps for an I_T nexus that has just come up: nothing pending.
    #[must_use]
    pub fn nexus(&self) -> Nexus {
        Nexus {
            attentions: vec![UnitAttentions::default(); self.units.len()],
        }
    }

    /// Decodes a command for the unit at `lun` that came over `nexus`. A unit attention that is
    /// pending there goes out instead of the answer, but for INQUIRY and REPORT LUNS, and REQUEST
    /// SENSE reports it as its data (SAM-5 5.14.1).
    pub fn decode(&self, lun: Lun, cdb: &Cdb, nexus: &mut Nexus) -> Decoded {
        let Some(unit) = self.place(lun) else {
            return Decoded::Answer(match self.decode_without_unit(cdb) {
                Ok(data) => Answer::good(data),
                Err(sense) => Answer::check_condition(sense),
            });
        };
        match self.decode_at(unit, cdb, nexus) {
            Ok(Reply::Store(operation)) => Decoded::Store { unit, operation },
            Ok(Reply::Data(data)) => Decoded::Answer(Answer::good(data)),
            Err(sense) => Decoded::Answer(Answer::check_condition(sense)),
        }
    }

    fn decode_at(&self, place: usize, cdb: &Cdb, nexus: &mut Nexus) -> Result<Reply, Sense> {
        // A nexus of another device may know fewer units: nothing is pending for the rest.
        let mut none = UnitAttentions::default();
        let attentions = nexus.attentions.get_mut(place).unwrap_or(&mut none);
        match cdb[0] {
            opcode::REPORT_LUNS => self.report_luns(cdb).map(Reply::Data),
            opcode::REQUEST_SENSE => {
                check_control(cdb)?;
                let sense = attentions.take().map_or(Sense::NONE, UnitAttention::sense);
                Ok(Reply::Data(request_sense::report(&sense, cdb)))
            }
            opcode::INQUIRY => self.units[place].decode(cdb),
            _ => match attentions.take() {
                Some(attention) => Err(attention.sense()),
                None => self.units[place].decode(cdb),
            },
        }
    }

    /// An incorrect LUN (SAM-5 5.11): the device still says so, and lists the right ones.
    fn decode_without_unit(&self, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
        let unsupported = Sense::illegal(AdditionalSense::UNIT_NOT_SUPPORTED);
        match cdb[0] {
            opcode::REPORT_LUNS => self.report_luns(cdb),
            opcode::INQUIRY if cdb[1] & super::cdb::EVPD == 0 => {
                check_control(cdb)?;
                inquiry::no_unit(cdb)
            }
            opcode::REQUEST_SENSE => {
                check_control(cdb)?;
                Ok(request_sense::report(&unsupported, cdb))
            }
            _ => Err(unsupported),
        }
    }

    fn report_luns(&self, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
        check_control(cdb)?;
        report_luns::report(&self.luns, cdb)
    }
}

/// What a [`TargetDevice`] keeps for one I_T nexus (one iSCSI session): its unit attentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nexus {
    attentions: Vec<UnitAttentions>,
}

impl Nexus {
    /// The initiator is to be told of `attention` before its next command to the unit at `place`
    /// in [`TargetDevice::units`]. A place that does not exist is passed over.
    pub fn establish(&mut self, place: usize, attention: UnitAttention) {
        if let Some(attentions) = self.attentions.get_mut(place) {
            attentions.establish(attention);
        }
    }
}
