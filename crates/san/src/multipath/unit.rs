//! The unit of a session: whether it is that of the other routes, and how well it is reached.

use wansan_iscsi::initiator::{Command, Completion, Transfer};
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::inquiry::Inquiry;
use wansan_iscsi::scsi::{
    AccessState, Sense, SenseKey, cdb, is_about_access_state, parse_port_groups,
};
use wansan_iscsi::wire::Lun;
use wansan_trace::Instant;

use crate::identity::{Answers, UnitIdentity};
use crate::initiator::{Initiator, InitiatorError};
use crate::load::{LoadError, address, ask, capacity, command};
use crate::sessions::Execute;

/// A unit, as reached over one route, with its identity.
#[derive(Debug, Clone)]
pub struct Unit {
    identity: UnitIdentity,
    /// Of the routes that are up, those with the lowest rank are used.
    pub(super) rank: u8,
}

impl Unit {
    /// Identifies unit `lun` over a session, until `deadline`. Once it has answered, the commands of an earlier session
    /// of the same ISID are over, if the target lets no command of the new session pass them.
    ///
    /// # Errors
    /// The session failed, or the unit cannot be used through it.
    pub(super) fn ask(
        initiator: &mut Initiator,
        lun: u16,
        deadline: Instant,
    ) -> Result<Unit, InitiatorError> {
        let portal = initiator.destination().portal();
        let unusable = |problem: String| InitiatorError::Unusable {
            lun,
            portal: portal.clone(),
            problem,
        };
        let refused = |error| match error {
            LoadError::Session(error) => error,
            LoadError::Unusable { problem, .. } => unusable(problem),
            error => unusable(error.to_string()),
        };
        let initiator = &mut Until {
            initiator,
            deadline,
        };
        let capacity = capacity(initiator, lun).map_err(refused)?;
        let at = address(lun).map_err(refused)?;
        let answers = Answers::ask(initiator, at)?;
        let port_group = answers.port_group;
        let identity = answers.of(capacity);
        if !identity.has_name() {
            let problem =
                "it has neither a designator nor a serial number that tells it from others";
            return Err(unusable(problem.to_owned()));
        }
        let rank = match access_state(initiator, at, port_group)? {
            AccessState::Optimized => 0,
            AccessState::NonOptimized | AccessState::BlockDependent => 1,
            AccessState::Inaccessible => {
                let problem = "its target port group is in standby, offline or in transition";
                return Err(unusable(problem.to_owned()));
            }
        };
        if !can_read(initiator, at, &capacity)? {
            let problem = "the state of its target port group does not let it be read";
            return Err(unusable(problem.to_owned()));
        }
        Ok(Unit { identity, rank })
    }

    /// Whether another route leads to the same unit, which may have grown meanwhile.
    pub(super) fn is(&self, known: &Unit) -> bool {
        self.identity.is(&known.identity)
    }
}

/// Executes commands of an initiator until a deadline.
struct Until<'a> {
    initiator: &'a mut Initiator,
    deadline: Instant,
}

impl Execute for Until<'_> {
    fn execute(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        self.initiator.execute_until(command, self.deadline)
    }
}

/// Reads the first block; once that is answered, all earlier commands have been executed. Returns whether the state of
/// the port group allows reads; any other failure concerns the medium, or a reservation.
fn can_read(
    session: &mut impl Execute,
    at: Lun,
    capacity: &Capacity,
) -> Result<bool, InitiatorError> {
    /// More unit attentions, whose responses wait for nothing, than a target queues.
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let transfer = Transfer::Read(vec![0; capacity.block_bytes as usize]);
        let done = session.execute(command(at, cdb::read(0, 1, false), transfer, 0))?;
        let sense = done
            .outcome
            .ok()
            .and_then(|answer| Sense::parse(&answer.sense).ok());
        match sense {
            Some(sense) if is_about_access_state(&sense) => return Ok(false),
            Some(sense) if sense.key == SenseKey::UnitAttention => {}
            _ => return Ok(true),
        }
    }
    Ok(true)
}

/// The state of the session's target port group; optimized where the unit does not report it.
fn access_state(
    session: &mut impl Execute,
    at: Lun,
    port_group: Option<u16>,
) -> Result<AccessState, InitiatorError> {
    const INQUIRY_BYTES: u16 = 96;
    /// Room for more groups than any array has.
    const GROUPS_BYTES: u16 = 4096;
    let inquiry = ask(
        session,
        at,
        cdb::inquiry(INQUIRY_BYTES),
        INQUIRY_BYTES.into(),
    )?;
    let inquiry = inquiry.and_then(|data| Inquiry::parse(&data).ok());
    let (Some(true), Some(own)) = (inquiry.map(|it| it.has_port_groups), port_group) else {
        return Ok(AccessState::Optimized);
    };
    let cdb = cdb::report_target_port_groups(GROUPS_BYTES.into());
    let groups = ask(session, at, cdb, GROUPS_BYTES.into())?;
    let groups = groups.and_then(|data| parse_port_groups(&data).ok());
    let mut groups = groups.unwrap_or_default().into_iter();
    let state = groups.find(|(tag, _)| *tag == own);
    Ok(state.map_or(AccessState::Optimized, |(_, state)| state))
}
