//! The LUN of a load: its existence and capacity.

use wansan_iscsi::initiator::{Completion, Transfer};
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::report_luns::LunList;
use wansan_iscsi::scsi::{AdditionalSense, Sense, SenseKey, cdb};
use wansan_iscsi::wire::Lun;

use wansan_workload::failure;

use super::run::{LoadError, command};
use crate::initiator::{Initiator, InitiatorError};

/// The capacity of a LUN. Pending unit attentions are cleared first.
///
/// # Errors
/// [`LoadError`] if the LUN does not exist, does not report its capacity, or the session failed.
pub fn capacity(initiator: &mut Initiator, lun: u16) -> Result<Capacity, LoadError> {
    const ANSWER_BYTES: u32 = 32;
    /// More unit attentions than a target queues.
    const TRIES: u32 = 8;
    let mut problem = String::new();
    for _ in 0..TRIES {
        let transfer = Transfer::Read(vec![0; ANSWER_BYTES as usize]);
        let command = command(
            address(lun)?,
            cdb::read_capacity_16(ANSWER_BYTES),
            transfer,
            0,
        );
        let done = initiator.execute(command)?;
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
            let there = luns(initiator)?;
            return Err(LoadError::NoSuchLun { lun, there });
        }
        if sense.is_none_or(|sense| sense.key != SenseKey::UnitAttention) {
            break;
        }
    }
    Err(LoadError::Unusable { lun, problem })
}

/// The address of a LUN by its number.
///
/// # Errors
/// [`LoadError::Unusable`] when there is no such number.
pub fn address(lun: u16) -> Result<Lun, LoadError> {
    Lun::single_level(lun).ok_or_else(|| LoadError::Unusable {
        lun,
        problem: "16383 is the highest LUN there is".to_owned(),
    })
}

/// The LUNs that the target lists; none when it does not tell. It is asked at LUN 0, where it has
/// to answer even when no disk is there; asked at another that is not there, some list nothing.
fn luns(initiator: &mut Initiator) -> Result<Vec<Lun>, InitiatorError> {
    /// Room for more than anybody wants to read in one line.
    const ANSWER_BYTES: u32 = 8 + 256 * 8;
    let lun = Lun::default();
    let transfer = Transfer::Read(vec![0; ANSWER_BYTES as usize]);
    let done = initiator.execute(command(lun, cdb::report_luns(ANSWER_BYTES), transfer, 0))?;
    if failure(&done).is_some() {
        return Ok(Vec::new());
    }
    let list = LunList::parse(&done.transfer.into_buffer());
    Ok(list.map(|list| list.luns).unwrap_or_default())
}

/// The existing LUNs, in words.
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
