//! A SCSI target device: its logical units, and LUN addressing (SAM-5 4.5, 5.11).

use std::sync::Arc;

use super::answer::Reply;
use super::command::{Call, Command, Delivery, Refused, Run, find, rows};
use super::fence::Fence;
use super::nexus::{Access, Common, State, View};
use super::reservation::Reservations;
use super::{
    AdditionalSense, Answer, Cdb, Decoded, Executed, InitiatorPort, LogicalUnit, MediumOperation,
    Nexus, NexusId, Sense, SenseKey, StoreOperation, UnitAttention, inquiry, opcode, report_luns,
    request_sense,
};
use crate::wire::Lun;

/// Why logical units do not form a target device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// A duplicate LUN.
    #[error("LUN {0} is defined twice")]
    Duplicate(u16),
    /// A number too large for a single-level LUN.
    #[error("LUN {0} exceeds the maximum of 16383")]
    Number(u16),
}

/// The logical units of one target, and the state that its initiators share.
#[derive(Debug)]
pub struct TargetDevice {
    /// In ascending order of their numbers.
    units: Vec<LogicalUnit>,
    /// Their LUNs, in the same order.
    luns: Vec<Lun>,
    common: Arc<Common>,
}

impl TargetDevice {
    /// A device with these units, whose numbers are unique.
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
        let common = Common::new(&units);
        Ok(TargetDevice {
            units,
            luns,
            common,
        })
    }

    pub(super) fn luns(&self) -> &[Lun] {
        &self.luns
    }

    pub(super) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Its logical units, in ascending order of their numbers.
    #[must_use]
    pub fn units(&self) -> &[LogicalUnit] {
        &self.units
    }

    /// The index in [`units`](TargetDevice::units) of the unit at that LUN.
    #[must_use]
    pub fn place(&self, lun: Lun) -> Option<usize> {
        let number = lun.number()?;
        let at = |place: usize| self.units.get(place).map(|unit| unit.identity.number);
        // Units are usually numbered from 0 without gaps: the number is the index.
        if at(usize::from(number)) == Some(number) {
            return Some(usize::from(number));
        }
        self.units
            .binary_search_by_key(&number, |unit| unit.identity.number)
            .ok()
    }

    /// A new I_T nexus for the initiator port `port`. If it replaces another one, a unit attention is pending at each
    /// unit.
    #[must_use]
    pub fn nexus(&self, port: InitiatorPort) -> Nexus {
        Nexus::new(&self.common, port)
    }

    /// Decodes a command for the unit at `lun` from `nexus`, one of this device's. READ and WRITE allocate nothing and
    /// lock nothing.
    ///
    /// A pending unit attention is returned instead of the response, except for INQUIRY and REPORT LUNS; REQUEST SENSE
    /// returns it as its data (SAM-5 5.14.1).
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
            Ok(Reply::Medium(_)) => Decoded::Answer(Answer::check_condition(MISTAKE)),
            Err(refused) => Decoded::Answer(refused.into()),
        }
    }

    fn decode_at(&self, place: usize, cdb: &Cdb, nexus: &mut Nexus) -> Result<Reply, Refused> {
        if !nexus.belongs_to(&self.common) {
            return Err(MISTAKE.into());
        }
        nexus.refresh();
        let unit = &self.units[place];
        let found = find(unit, cdb);
        if !found.is_ok_and(|command| command.before_attentions)
            && let Some(attention) = nexus.take_attention(place)
        {
            return Err(attention.sense().into());
        }
        let command = found?;
        command.check_control(cdb)?;
        check(command, unit, place, nexus)?;
        let mut call = Call {
            device: self,
            place,
            unit,
            cdb,
            nexus,
        };
        match command.run {
            Run::AtOnce(run) => run(&mut call),
            Run::WithData { bytes, .. } => Ok(Reply::Store(StoreOperation::Deferred {
                cdb: *cdb,
                data_out_bytes: bytes(&call)?,
            })),
        }
    }

    /// Executes [`StoreOperation::Deferred`] of the unit at `place` with the Data-Out `data`; the initiator had
    /// announced `announced_bytes` of it, possibly fewer than the command takes. `nexus` must be fresh.
    pub fn execute(
        &self,
        place: usize,
        cdb: &Cdb,
        (data, announced_bytes): (Vec<u8>, u32),
        nexus: &mut Nexus,
    ) -> Executed {
        let executed = self.units.get(place).map(|unit| {
            let command = find(unit, cdb)?;
            let Run::WithData { run, .. } = command.run else {
                return Err(MISTAKE.into());
            };
            // The state may have changed since the command arrived, while its data was in flight.
            check(command, unit, place, nexus)?;
            let mut call = Call {
                device: self,
                place,
                unit,
                cdb,
                nexus,
            };
            let delivery = Delivery {
                data,
                announced_bytes,
            };
            run(&mut call, delivery)
        });
        match executed.unwrap_or(Err(MISTAKE.into())) {
            Ok(Reply::Data(data)) => Executed::Answer(Answer::good(data)),
            Ok(Reply::Medium(operation)) => Executed::Medium(operation),
            Ok(Reply::Store(_)) => Executed::Answer(Answer::check_condition(MISTAKE)),
            Err(refused) => Executed::Answer(refused.into()),
        }
    }

    /// Restores the unit's persistent reservations saved by
    /// [`MediumOperation::KeepReservations`](super::MediumOperation::KeepReservations), at index `place`. Returns
    /// whether they were valid; nothing is changed when not.
    #[must_use]
    pub fn restore(&self, place: usize, text: &str) -> bool {
        let Some(reservations) = Reservations::from_text(text) else {
            return false;
        };
        self.common.change(|state, _| {
            if let Some(unit) = state.units.get_mut(place) {
                unit.reservations = reservations;
            }
        });
        true
    }

    /// Transfers the state of the unit at `old_place` of `old`, which has no nexus any more, to the one at `place`:
    /// persistent reservations, mode parameters, and whether it is stopped. Indices that do not exist are skipped.
    pub fn inherit(&self, place: usize, old: &TargetDevice, old_place: usize) {
        let inherited = old.common.look(|state| {
            let unit = state.units.get(old_place)?;
            Some(unit.inherited())
        });
        self.common.change(|state, _| {
            if let (Some(unit), Some(inherited)) = (state.units.get_mut(place), inherited) {
                *unit = inherited;
            }
        });
    }

    /// `by` resets the unit at `place` (SAM-5 6.3.3): releases RESERVE (6) reservations, and restores the default mode
    /// parameters. Every nexus reports the reset, from its next command on. The tasks of all other nexuses end; the
    /// caller ends those of `by`, and delays the response by the fence.
    pub(crate) fn reset(&self, place: usize, by: NexusId) -> Fence {
        self.end_tasks(place, by, |state| {
            state.reset(place, &self.units);
            state.establish(place, UnitAttention::UnitReset, |_| true);
        })
    }

    /// `by` clears the task set of the unit at `place`: every other nexus reports that, from its next command on (SAM-5
    /// 7.5), and its tasks end as with [`TargetDevice::reset`].
    pub(crate) fn clear(&self, place: usize, by: NexusId) -> Fence {
        self.end_tasks(place, by, |state| {
            let attention = UnitAttention::CommandsCleared;
            state.establish(place, attention, |known| known.id != by);
        })
    }

    fn end_tasks(&self, place: usize, by: NexusId, change: impl FnOnce(&mut State)) -> Fence {
        let fence = self.common.change(|state, _| {
            // A function of a replaced session, whose thread has not seen its end yet, must not end tasks of the new
            // one (RFC 7143 §6.3.5).
            if state.is_replaced(by) {
                return Fence::default();
            }
            change(state);
            state.abort(place, |known| known.id != by);
            state.fence(place, |other| other != by)
        });
        self.common.ring();
        fence
    }

    /// Sets a function that is called, from any thread, when sessions of this device must be reviewed: call
    /// [`Session::review`](crate::target::Session::review) for each of them then. It is called rarely, and must not
    /// call back. Only the first one counts.
    pub fn set_bell(&self, bell: impl Fn() + Send + Sync + 'static) {
        self.common.set_bell(Box::new(bell));
    }

    /// Rechecks a decoded command before it goes to the store: a reservation also applies to earlier commands (SPC-4
    /// 5.13.1), and nothing is written once a unit is write protected or stopped. `medium` is the operation of a
    /// deferred command. `nexus` must be fresh.
    pub(crate) fn recheck(
        &self,
        place: usize,
        operation: &StoreOperation,
        medium: Option<&MediumOperation>,
        nexus: &Nexus,
    ) -> Result<(), Answer> {
        let (unit, view) = (&self.units[place], nexus.view(place));
        let checked = match (operation, medium) {
            (StoreOperation::Read { .. }, _) => check_view(view, Access::Reading, true, false),
            (StoreOperation::Write { .. }, _) => check_view(view, Access::Full, true, true),
            // Flushes are always allowed; a reservation change was checked when it was made.
            (StoreOperation::Flush { .. }, _) | (_, Some(MediumOperation::KeepReservations(_))) => {
                Ok(())
            }
            (StoreOperation::Deferred { cdb, .. }, medium) => match find(unit, cdb) {
                Ok(command) => check(command, unit, place, nexus),
                Err(sense) => Err(sense.into()),
            }
            .and_then(|()| match medium {
                Some(MediumOperation::Copy(job)) => job.recheck(nexus).map_err(Refused::from),
                _ => Ok(()),
            }),
        };
        checked.map_err(Answer::from)
    }

    /// Whether writes to the unit at `place` reach the medium before their status, because MODE SELECT has cleared WCE.
    /// False for units without a cache, which need no action.
    pub(crate) fn writes_through(&self, place: usize, nexus: &Nexus) -> bool {
        self.units[place].write_cache && !nexus.view(place).mode.write_cache
    }

    /// An incorrect LUN (SAM-5 5.11): the device still reports that, and lists the correct ones.
    fn decode_without_unit(&self, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
        let unsupported = Sense::illegal(AdditionalSense::UNIT_NOT_SUPPORTED);
        let known = matches!(
            cdb[0],
            opcode::REPORT_LUNS | opcode::INQUIRY | opcode::REQUEST_SENSE
        );
        if let Some(command) = rows(cdb[0]).first().filter(|_| known) {
            command.check_control(cdb)?;
        }
        match cdb[0] {
            opcode::REPORT_LUNS => report_luns::report(&self.luns, cdb),
            opcode::INQUIRY if cdb[1] & super::cdb::EVPD == 0 => inquiry::no_unit(cdb),
            opcode::REQUEST_SENSE => Ok(request_sense::report(&unsupported, cdb)),
            _ => Err(unsupported),
        }
    }
}

/// A bug of wansan's, which must not take the target down.
const MISTAKE: Sense = Sense::new(
    SenseKey::HardwareError,
    AdditionalSense::INTERNAL_TARGET_FAILURE,
);

/// Whether a unit's state allows `command` for `nexus`.
fn check(
    command: &Command,
    unit: &LogicalUnit,
    place: usize,
    nexus: &Nexus,
) -> Result<(), Refused> {
    let view = nexus.view(place);
    let writes = command.writes && !unit.read_only;
    check_view(view, command.access, command.needs_medium, writes)?;
    if command.writes && unit.read_only {
        let additional = AdditionalSense::WRITE_PROTECTED;
        return Err(Sense::new(SenseKey::DataProtect, additional).into());
    }
    Ok(())
}

/// Reservations first (SPC-4 5.13.1), then whether the unit is started, then write protection.
fn check_view(view: View, access: Access, needs_medium: bool, writes: bool) -> Result<(), Refused> {
    if view.access < access {
        return Err(Refused::Conflict);
    }
    if view.stopped && needs_medium {
        let additional = AdditionalSense::COMMAND_REQUIRED;
        return Err(Sense::new(SenseKey::NotReady, additional).into());
    }
    if writes && view.mode.write_protected {
        let additional = AdditionalSense::SOFTWARE_WRITE_PROTECTED;
        return Err(Sense::new(SenseKey::DataProtect, additional).into());
    }
    Ok(())
}
