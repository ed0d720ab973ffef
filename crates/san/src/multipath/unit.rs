//! What a session says of the unit that it leads to: whether it is the one of the other routes, and how well it is
//! reached.

use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::inquiry::Inquiry;
use wansan_iscsi::scsi::vpd::{self, Identification};
use wansan_iscsi::scsi::{AccessState, cdb, parse_port_groups};
use wansan_iscsi::wire::Lun;

use crate::initiator::{Initiator, InitiatorError};
use crate::load::{LoadError, address, ask, capacity, page};

/// A unit, as one route leads to it.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    capacity: Capacity,
    /// Its names, from VPD page 83h.
    names: Vec<Vec<u8>>,
    /// Its serial number, from page 80h.
    serial: Option<Vec<u8>>,
    /// Of routes that are up, those with the lowest are taken.
    pub(super) rank: u8,
}

impl Unit {
    /// Asks a session about unit `lun`.
    ///
    /// # Errors
    /// The session has failed, or the unit cannot be used through it.
    pub(super) fn ask(initiator: &mut Initiator, lun: u16) -> Result<Unit, InitiatorError> {
        let portal = initiator.destination().portal();
        let unusable = |problem: String| InitiatorError::Unusable {
            lun,
            portal: portal.clone(),
            problem,
        };
        let refused = |error| match error {
            LoadError::Session(error) => error,
            error => unusable(error.to_string()),
        };
        let capacity = capacity(initiator, lun).map_err(refused)?;
        let at = address(lun).map_err(refused)?;
        let identification = page(initiator, at, vpd::IDENTIFICATION)?;
        let identification = identification.and_then(|data| Identification::parse(&data).ok());
        let identification = identification.unwrap_or_default();
        let serial = page(initiator, at, vpd::SERIAL_NUMBER)?;
        let rank = match access_state(initiator, at, identification.port_group)? {
            AccessState::Optimized => 0,
            AccessState::NonOptimized | AccessState::BlockDependent => 1,
            AccessState::Inaccessible => {
                let problem = "its target port group is in standby, offline or in transition";
                return Err(unusable(problem.to_owned()));
            }
        };
        Ok(Unit {
            capacity,
            names: identification.names,
            serial,
            rank,
        })
    }

    /// Whether another route leads to the same unit: they share a name or, where units have none, the serial number.
    pub(super) fn is(&self, other: &Unit) -> bool {
        let is_shared = |name| other.names.contains(name);
        let is_called_so = match self.names.is_empty() && other.names.is_empty() {
            true => self.serial == other.serial,
            false => self.names.iter().any(is_shared),
        };
        is_called_so && self.capacity == other.capacity
    }
}

/// The state of the target port group that the session is with; optimized where the unit does not tell.
fn access_state(
    initiator: &mut Initiator,
    at: Lun,
    port_group: Option<u16>,
) -> Result<AccessState, InitiatorError> {
    const INQUIRY_BYTES: u16 = 96;
    /// Room for more groups than any array has.
    const GROUPS_BYTES: u16 = 4096;
    let inquiry = ask(
        initiator,
        at,
        cdb::inquiry(INQUIRY_BYTES),
        INQUIRY_BYTES.into(),
    )?;
    let inquiry = inquiry.and_then(|data| Inquiry::parse(&data).ok());
    let (Some(true), Some(own)) = (inquiry.map(|it| it.has_port_groups), port_group) else {
        return Ok(AccessState::Optimized);
    };
    let cdb = cdb::report_target_port_groups(GROUPS_BYTES.into());
    let groups = ask(initiator, at, cdb, GROUPS_BYTES.into())?;
    let groups = groups.and_then(|data| parse_port_groups(&data).ok());
    let mut groups = groups.unwrap_or_default().into_iter();
    let state = groups.find(|(tag, _)| *tag == own);
    Ok(state.map_or(AccessState::Optimized, |(_, state)| state))
}
