//! The LUN of a load: its existence and capacity.

use wansan_iscsi::initiator::{Completion, Transfer};
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::report_luns::LunList;
use wansan_iscsi::scsi::{AdditionalSense, Cdb, Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, Residual, ScsiStatus};

use wansan_workload::failure;

use super::run::{LoadError, command};
use crate::initiator::InitiatorError;
use crate::sessions::Execute;

/// More unit attentions than a target queues.
const TRIES: u32 = 8;

/// The capacity of a LUN. Pending unit attentions are cleared first.
///
/// # Errors
/// [`LoadError`] if the LUN does not exist, does not report its capacity, or the session failed.
pub fn capacity(session: &mut impl Execute, lun: u16) -> Result<Capacity, LoadError> {
    const ANSWER_BYTES: u32 = 32;
    let mut problem = String::new();
    for _ in 0..TRIES {
        let transfer = Transfer::Read(vec![0; ANSWER_BYTES as usize]);
        let command = command(
            address(lun)?,
            cdb::read_capacity_16(ANSWER_BYTES),
            transfer,
            0,
        );
        let done = session.execute(command)?;
        match failure(&done) {
            None => {
                let data = done.transfer.into_buffer();
                return Capacity::parse_16(&data)
                    .map_err(|source| LoadError::Malformed { lun, source });
            }
            Some(failed) => problem = failed,
        }
        let sense = sense(&done);
        if sense.is_some_and(|sense| sense.additional == AdditionalSense::UNIT_NOT_SUPPORTED) {
            let there = luns(session)?;
            return Err(LoadError::NoSuchLun { lun, there });
        }
        if sense.is_none_or(|sense| sense.key != SenseKey::UnitAttention) {
            break;
        }
    }
    Err(LoadError::Unusable { lun, problem })
}

/// The response of a LUN to a command that reads at most `bytes`; `None` when it does not support the command. Pending
/// unit attentions are cleared first.
///
/// # Errors
/// The session failed.
pub fn ask(
    session: &mut impl Execute,
    lun: Lun,
    cdb: Cdb,
    bytes: usize,
) -> Result<Option<Vec<u8>>, InitiatorError> {
    for _ in 0..TRIES {
        let done = session.execute(command(lun, cdb, Transfer::Read(vec![0; bytes]), 0))?;
        let status = done.outcome.as_ref().ok().map(|answer| answer.status);
        match (status, sense(&done).map(|sense| sense.key)) {
            (Some(ScsiStatus::CheckCondition), Some(SenseKey::UnitAttention)) => {}
            (Some(ScsiStatus::Good), _)
            | (_, Some(SenseKey::NoSense | SenseKey::RecoveredError)) => return Ok(data(done)),
            _ => break,
        }
    }
    Ok(None)
}

/// A VPD page.
///
/// # Errors
/// The session failed.
pub fn page(
    session: &mut impl Execute,
    lun: Lun,
    code: u8,
) -> Result<Option<Vec<u8>>, InitiatorError> {
    const ALLOCATION_BYTES: u16 = 1024;
    let cdb = cdb::inquiry_page(code, ALLOCATION_BYTES);
    ask(session, lun, cdb, ALLOCATION_BYTES.into())
}

/// The data received by a read.
pub(crate) fn data(done: Completion) -> Option<Vec<u8>> {
    let answer = done.outcome.ok()?;
    let mut data = done.transfer.into_buffer();
    if let Residual::Underflow(bytes) = answer.residual {
        data.truncate(data.len().saturating_sub(bytes as usize));
    }
    Some(data)
}

/// The address of a LUN by its number.
///
/// # Errors
/// [`LoadError::Unusable`] when the number is invalid.
pub fn address(lun: u16) -> Result<Lun, LoadError> {
    Lun::single_level(lun).ok_or_else(|| LoadError::Unusable {
        lun,
        problem: "16383 is the highest LUN there is".to_owned(),
    })
}

/// The LUNs that the target lists; empty when it does not answer. The query goes to LUN 0, which has to answer even
/// without a disk; at another LUN that does not exist, some targets list nothing.
fn luns(session: &mut impl Execute) -> Result<Vec<Lun>, InitiatorError> {
    /// Room for more LUNs than fit in a readable line.
    const ANSWER_BYTES: u32 = 8 + 256 * 8;
    let lun = Lun::default();
    let transfer = Transfer::Read(vec![0; ANSWER_BYTES as usize]);
    let done = session.execute(command(lun, cdb::report_luns(ANSWER_BYTES), transfer, 0))?;
    if failure(&done).is_some() {
        return Ok(Vec::new());
    }
    let list = LunList::parse(&done.transfer.into_buffer());
    Ok(list.map(|list| list.luns).unwrap_or_default())
}

/// Describes the existing LUNs.
pub(super) fn list(there: &[Lun]) -> String {
    /// More do not help the reader.
    const NAMED: usize = 16;
    let named: Vec<String> = there.iter().take(NAMED).map(Lun::to_string).collect();
    match there.len() {
        0 => "the target lists none".to_owned(),
        all if all > NAMED => format!(
            "the target has {} and {} more",
            named.join(", "),
            all - NAMED
        ),
        _ => format!("the target has {}", named.join(", ")),
    }
}

fn sense(done: &Completion) -> Option<Sense> {
    let answer = done.outcome.as_ref().ok()?;
    Sense::parse(&answer.sense).ok()
}
