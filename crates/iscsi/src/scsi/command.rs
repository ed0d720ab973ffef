//! The commands of a logical unit in one table: decoding looks up a command's row by its operation code, and REPORT
//! SUPPORTED OPERATION CODES reports the rows.

use std::sync::Arc;

use super::answer::Reply;
use super::nexus::{Access, Nexus, State};
use super::opcode as op;
use super::{
    AdditionalSense, Cdb, LogicalUnit, MediumOperation, Sense, TargetDevice, UnitChange, block,
    capacity, copy, inquiry, medium, mode, request_sense, reserve_in, reserve_out, supported,
    unit_control,
};

/// One command and its context.
pub(super) struct Call<'a> {
    pub(super) device: &'a TargetDevice,
    /// The unit's index in the device.
    pub(super) place: usize,
    pub(super) unit: &'a LogicalUnit,
    pub(super) cdb: &'a Cdb,
    pub(super) nexus: &'a mut Nexus,
}

impl Call<'_> {
    /// Changes state shared by the device's initiators. If that has changed since the nexus last read it, the command
    /// may no longer be allowed: the response is BUSY, and the initiator's retry is checked again.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let seen = self.nexus.version();
        self.device.common().change(|state, version| {
            if version == seen {
                change(state)
            } else {
                Err(Refused::Busy)
            }
        })
    }

    /// Flushes the cache for change `number` of the unit, which completes with it.
    pub(super) fn flush_for(&self, number: u64) -> Reply {
        let change = UnitChange::new(Arc::clone(self.device.common()), self.place, number);
        Reply::Medium(Box::new(MediumOperation::FlushFor(Arc::new(change))))
    }
}

/// The Data-Out of a command.
pub(super) struct Delivery {
    /// The data received, at most as much as the command takes.
    pub(super) data: Vec<u8>,
    /// The number of bytes that the initiator announced.
    pub(super) announced_bytes: u32,
}

impl Delivery {
    /// The data of a command that needs exactly `bytes`.
    pub(super) fn exactly(self, bytes: u32) -> Result<Vec<u8>, Sense> {
        if self.announced_bytes == bytes && self.data.len() == bytes as usize {
            return Ok(self.data);
        }
        let additional = AdditionalSense::INVALID_FIELD_IN_INFORMATION_UNIT;
        Err(Sense::illegal(additional))
    }
}

/// Why a logical unit does not execute a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// CHECK CONDITION with this sense data.
    Sense(Sense),
    /// RESERVATION CONFLICT.
    Conflict,
    /// BUSY: not now, but soon.
    Busy,
}

impl From<Sense> for Refused {
    fn from(sense: Sense) -> Refused {
        Refused::Sense(sense)
    }
}

/// The outcome of a command.
pub(super) type Outcome = Result<Reply, Refused>;

/// When a command can be decided.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// From its CDB.
    AtOnce(fn(&mut Call<'_>) -> Outcome),
    /// From its CDB and its Data-Out of `bytes`.
    WithData {
        bytes: fn(&Call<'_>) -> Result<u32, Sense>,
        run: fn(&mut Call<'_>, Delivery) -> Outcome,
    },
}

/// A row of the table.
pub(super) struct Command {
    pub(super) opcode: u8,
    /// In the low five bits of byte 1, for codes shared by several commands.
    pub(super) service_action: Option<u8>,
    /// CDB USAGE DATA (SPC-4 6.34.3): the code, then ones in the bits that are evaluated. As long as the CDB.
    pub(super) usage: &'static [u8],
    /// Access needed while another nexus has reserved the unit.
    pub(super) access: Access,
    /// It reads or writes the medium, which must be started.
    pub(super) needs_medium: bool,
    /// It changes the medium, which must not be write protected.
    pub(super) writes: bool,
    /// Supported by thin units only.
    pub(super) thin_only: bool,
    /// It bypasses unit attentions (SAM-5 5.14.1).
    pub(super) before_attentions: bool,
    pub(super) run: Run,
}

impl Command {
    const fn new(usage: &'static [u8], run: Run) -> Command {
        Command {
            opcode: usage[0],
            service_action: None,
            usage,
            access: Access::Full,
            needs_medium: false,
            writes: false,
            thin_only: false,
            before_attentions: false,
            run,
        }
    }

    /// The command of `usage`, decided from its CDB.
    const fn at_once(usage: &'static [u8], run: fn(&mut Call<'_>) -> Outcome) -> Command {
        Command::new(usage, Run::AtOnce(run))
    }

    /// The command of `usage`, with Data-Out.
    const fn with_data(
        usage: &'static [u8],
        bytes: fn(&Call<'_>) -> Result<u32, Sense>,
        run: fn(&mut Call<'_>, Delivery) -> Outcome,
    ) -> Command {
        Command::new(usage, Run::WithData { bytes, run })
    }

    const fn action(mut self, service_action: u8) -> Command {
        self.service_action = Some(service_action);
        self
    }

    /// Allowed for nexuses with at least this access.
    const fn open_to(mut self, access: Access) -> Command {
        self.access = access;
        self
    }

    const fn reading(mut self) -> Command {
        self.access = Access::Reading;
        self.needs_medium = true;
        self
    }

    const fn writing(mut self) -> Command {
        self.needs_medium = true;
        self.writes = true;
        self
    }

    const fn on_medium(mut self) -> Command {
        self.needs_medium = true;
        self
    }

    const fn thin(mut self) -> Command {
        self.thin_only = true;
        self
    }

    const fn before_attentions(mut self) -> Command {
        self.before_attentions = true;
        self.access = Access::Nothing;
        self
    }

    /// Whether `unit` supports this command.
    pub(super) fn is_there(&self, unit: &LogicalUnit) -> bool {
        unit.thin || !self.thin_only
    }

    /// A unit that clears NORMACA in its INQUIRY data rejects NACA in any CDB (SAM-5 5.2). CONTROL is the last byte of
    /// a CDB.
    pub(super) fn check_control(&self, cdb: &Cdb) -> Result<(), Sense> {
        let control = self.usage.len() - 1;
        if cdb[control] & NACA != 0 {
            return Err(Sense::invalid_field(control as u16, Some(2)));
        }
        Ok(())
    }
}

/// NACA in the CONTROL byte of a CDB (SAM-5 5.2).
const NACA: u8 = 0x04;

/// PERSISTENT RESERVE OUT, which checks access itself.
const fn reserve_out_row(usage: &'static [u8]) -> Command {
    let run = reserve_out::persistent_reserve_out;
    Command::with_data(usage, reserve_out::list_bytes, run).open_to(Access::Registering)
}

/// All commands, grouped by operation code.
///
/// The reservations that allow a command are those of SPC-4 table 66 and SBC-3 table 15.
#[rustfmt::skip]
pub(super) static COMMANDS: &[Command] = &[
    Command::at_once(&[op::TEST_UNIT_READY, 0, 0, 0, 0, 0], unit_control::test_ready)
        .on_medium().open_to(Access::Registering),
    Command::at_once(&[op::REQUEST_SENSE, 0x01, 0, 0, 0xff, 0], request_sense::request_sense)
        .before_attentions(),
    Command::at_once(&[op::READ_6, 0x1f, 0xff, 0xff, 0xff, 0], block::read).reading(),
    Command::at_once(&[op::WRITE_6, 0x1f, 0xff, 0xff, 0xff, 0], block::write).writing(),
    Command::at_once(&[op::INQUIRY, 0x01, 0xff, 0xff, 0xff, 0], inquiry::inquiry)
        .before_attentions(),
    Command::with_data(&[op::MODE_SELECT_6, 0x11, 0, 0, 0xff, 0], mode::select_6_bytes, mode::select_6),
    Command::at_once(&[op::RESERVE_6, 0, 0, 0, 0, 0], reserve_out::reserve_6)
        .open_to(Access::Registering),
    Command::at_once(&[op::RELEASE_6, 0, 0, 0, 0, 0], reserve_out::release_6)
        .open_to(Access::Nothing),
    Command::at_once(&[op::MODE_SENSE_6, 0x08, 0xff, 0xff, 0xff, 0], mode::sense_6),
    Command::with_data(&[op::START_STOP_UNIT, 0x01, 0, 0, 0x05, 0], medium::no_bytes, unit_control::start_stop)
        .open_to(Access::Registering),
    Command::at_once(&[op::PREVENT_ALLOW_MEDIUM_REMOVAL, 0, 0, 0, 0x03, 0], unit_control::prevent_allow),
    Command::at_once(&[op::READ_CAPACITY_10, 0, 0, 0, 0, 0, 0, 0, 0, 0], capacity::read_10)
        .on_medium().open_to(Access::Registering),
    Command::at_once(&[op::READ_10, 0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0], block::read)
        .reading(),
    Command::at_once(&[op::WRITE_10, 0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0], block::write)
        .writing(),
    Command::with_data(&[op::WRITE_AND_VERIFY_10, 0x16, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0],
        medium::write_and_verify_bytes, medium::write_and_verify).writing(),
    Command::with_data(&[op::VERIFY_10, 0x16, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0],
        medium::verify_bytes, medium::verify).reading(),
    Command::with_data(&[op::PRE_FETCH_10, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0],
        medium::no_bytes, medium::pre_fetch).reading(),
    Command::at_once(&[op::SYNCHRONIZE_CACHE_10, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0],
        block::synchronize_cache).on_medium(),
    Command::at_once(&[op::READ_DEFECT_DATA_10, 0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0],
        unit_control::read_defect_data_10).open_to(Access::Reading),
    Command::with_data(&[op::WRITE_SAME_10, 0x08, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0],
        medium::write_same_bytes, medium::write_same).writing(),
    Command::with_data(&[op::UNMAP, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0],
        medium::unmap_bytes, medium::unmap).writing().thin(),
    Command::with_data(&[op::MODE_SELECT_10, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0],
        mode::select_10_bytes, mode::select_10),
    Command::at_once(&[op::MODE_SENSE_10, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0], mode::sense_10),
    Command::at_once(&[op::PERSISTENT_RESERVE_IN, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], reserve_in::keys)
        .action(reserve_in::READ_KEYS).open_to(Access::Registering),
    Command::at_once(&[op::PERSISTENT_RESERVE_IN, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], reserve_in::reservation)
        .action(reserve_in::READ_RESERVATION).open_to(Access::Registering),
    Command::at_once(&[op::PERSISTENT_RESERVE_IN, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], reserve_in::capabilities)
        .action(reserve_in::REPORT_CAPABILITIES).open_to(Access::Registering),
    Command::at_once(&[op::PERSISTENT_RESERVE_IN, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], reserve_in::full_status)
        .action(reserve_in::READ_FULL_STATUS).open_to(Access::Registering),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::REGISTER),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::RESERVE),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::RELEASE),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::CLEAR),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::PREEMPT),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::PREEMPT_AND_ABORT),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::REGISTER_AND_IGNORE),
    reserve_out_row(&[op::PERSISTENT_RESERVE_OUT, 0x1f, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]).action(reserve_out::REGISTER_AND_MOVE),
    Command::with_data(&[op::THIRD_PARTY_COPY_OUT, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        copy::bytes, copy::extended_copy).action(op::EXTENDED_COPY),
    Command::at_once(&[op::THIRD_PARTY_COPY_IN, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        copy::status).action(op::COPY_STATUS),
    Command::at_once(&[op::THIRD_PARTY_COPY_IN, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        copy::operating_parameters).action(op::COPY_OPERATING_PARAMETERS),
    Command::at_once(&[op::READ_16, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        block::read).reading(),
    Command::with_data(&[op::COMPARE_AND_WRITE, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0, 0],
        medium::compare_and_write_bytes, medium::compare_and_write).writing(),
    Command::at_once(&[op::WRITE_16, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        block::write).writing(),
    Command::with_data(&[op::ORWRITE_16, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::or_write_bytes, medium::or_write).writing(),
    Command::with_data(&[op::WRITE_AND_VERIFY_16, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::write_and_verify_bytes, medium::write_and_verify).writing(),
    Command::with_data(&[op::VERIFY_16, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::verify_bytes, medium::verify).reading(),
    Command::with_data(&[op::PRE_FETCH_16, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::no_bytes, medium::pre_fetch).reading(),
    Command::at_once(&[op::SYNCHRONIZE_CACHE_16, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        block::synchronize_cache).on_medium(),
    Command::with_data(&[op::WRITE_SAME_16, 0x09, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::write_same_bytes, medium::write_same).writing(),
    Command::at_once(&[op::SERVICE_ACTION_IN_16, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        capacity::read_16).action(op::READ_CAPACITY_16).on_medium().open_to(Access::Registering),
    Command::with_data(&[op::SERVICE_ACTION_IN_16, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::no_bytes, medium::get_lba_status).action(op::GET_LBA_STATUS).reading(),
    Command::at_once(&[op::REPORT_LUNS, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        super::report_luns::report_luns).before_attentions(),
    Command::at_once(&[op::MAINTENANCE_IN, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        unit_control::report_target_port_groups)
        .action(op::REPORT_TARGET_PORT_GROUPS).open_to(Access::Registering),
    Command::at_once(&[op::MAINTENANCE_IN, 0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        supported::operation_codes).action(op::REPORT_SUPPORTED_OPERATION_CODES),
    Command::at_once(&[op::MAINTENANCE_IN, 0x1f, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        supported::task_management).action(op::REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS),
    Command::at_once(&[op::READ_12, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        block::read).reading(),
    Command::at_once(&[op::WRITE_12, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        block::write).writing(),
    Command::with_data(&[op::WRITE_AND_VERIFY_12, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::write_and_verify_bytes, medium::write_and_verify).writing(),
    Command::with_data(&[op::VERIFY_12, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        medium::verify_bytes, medium::verify).reading(),
    Command::at_once(&[op::READ_DEFECT_DATA_12, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
        unit_control::read_defect_data_12).open_to(Access::Reading),
];

/// No row in [`FIRST`].
const NONE: u8 = u8::MAX;

/// The first row of each operation code.
static FIRST: [u8; 256] = {
    let mut first = [NONE; 256];
    let mut row = COMMANDS.len();
    while row > 0 {
        row -= 1;
        first[COMMANDS[row].opcode as usize] = row as u8;
    }
    first
};

/// The rows of an operation code; empty when it is not supported.
pub(super) fn rows(opcode: u8) -> &'static [Command] {
    let first = FIRST[usize::from(opcode)];
    if first == NONE {
        return &[];
    }
    let rows = &COMMANDS[usize::from(first)..];
    let count = rows.iter().take_while(|row| row.opcode == opcode).count();
    &rows[..count]
}

/// The command of a CDB.
///
/// # Errors
/// INVALID COMMAND OPERATION CODE, or INVALID FIELD IN CDB pointing to the service action, when `unit` does not support
/// the command.
pub(super) fn find(unit: &LogicalUnit, cdb: &Cdb) -> Result<&'static Command, Sense> {
    let first = FIRST[usize::from(cdb[0])];
    let Some(row) = COMMANDS.get(usize::from(first)) else {
        return Err(Sense::illegal(AdditionalSense::INVALID_OPERATION_CODE));
    };
    if row.service_action.is_none() {
        return match row.is_there(unit) {
            true => Ok(row),
            false => Err(Sense::illegal(AdditionalSense::INVALID_OPERATION_CODE)),
        };
    }
    let action = Some(cdb[1] & 0x1f);
    let mut rows = rows(cdb[0]).iter();
    rows.find(|row| row.service_action == action && row.is_there(unit))
        .ok_or(Sense::invalid_field(1, Some(4)))
}
