//! Interprets a target's answer for the disk's user.

use wansan_cache::Failure;
use wansan_iscsi::initiator::{Answer, TaskError};
use wansan_iscsi::scsi::{AdditionalSense, Sense, SenseKey};
use wansan_iscsi::wire::ScsiStatus;

/// What to do with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Success.
    Good,
    /// Unit attention: an event on the disk, possibly caused by other initiators. It says nothing of the command, which
    /// is retried.
    Again(Attention),
    /// The disk asks for a later retry.
    Later(String),
    /// The session was lost before the answer.
    Lost,
    /// Failure, with the reason in words.
    Failed(Failure, String),
}

/// The meaning of a unit attention, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attention {
    /// The disk may have lost power, and unflushed writes with it.
    Reset,
    /// The disk may have a write cache now.
    ModesChanged,
    /// Anything else.
    Other,
}

impl Attention {
    /// Decodes an additional sense code (SPC-4 Annex D). The loss of a session alone (29h/07h) loses no data.
    pub(super) fn of(additional: AdditionalSense) -> Attention {
        match (additional.code, additional.qualifier) {
            (0x29, 0x07) => Attention::Other,
            (0x29, _) => Attention::Reset,
            (0x2a, 0x01) => Attention::ModesChanged,
            _ => Attention::Other,
        }
    }
}

/// A thin-provisioned disk or snapshot is full.
const NO_SPACE: AdditionalSense = AdditionalSense::SPACE_ALLOCATION_FAILED;

pub(super) fn verdict(outcome: &Result<Answer, TaskError>) -> Verdict {
    let answer = match outcome {
        Ok(answer) => answer,
        // All commands sent to a disk may be repeated.
        Err(TaskError::Unsure | TaskError::SessionEnded) => return Verdict::Lost,
        Err(error) => return Verdict::Failed(Failure::Io, error.to_string()),
    };
    match answer.status {
        ScsiStatus::Good => Verdict::Good,
        ScsiStatus::CheckCondition => match Sense::parse(&answer.sense) {
            Ok(sense) => of_sense(&sense),
            Err(_) => Verdict::Failed(Failure::Io, "CHECK CONDITION without sense data".to_owned()),
        },
        ScsiStatus::ReservationConflict => {
            let what = "another initiator has reserved the disk";
            Verdict::Failed(Failure::NotPermitted, what.to_owned())
        }
        // For example by another initiator's reset.
        ScsiStatus::TaskAborted => Verdict::Later("TASK ABORTED".to_owned()),
        status => Verdict::Failed(Failure::Io, format!("{status:?}")),
    }
}

fn of_sense(sense: &Sense) -> Verdict {
    let failure = match (sense.key, sense.additional) {
        (SenseKey::NoSense | SenseKey::RecoveredError, _) => return Verdict::Good,
        (SenseKey::UnitAttention, additional) => {
            return Verdict::Again(Attention::of(additional));
        }
        // Becoming ready, access state in transition, or space allocation in progress; or aborted for a reason of the
        // disk's own.
        (
            SenseKey::NotReady,
            AdditionalSense {
                code: 0x04,
                qualifier: 0x01 | 0x0a | 0x14,
            },
        )
        | (SenseKey::AbortedCommand, _) => {
            return Verdict::Later(format!("{}: {}", sense.key, sense.additional));
        }
        (_, NO_SPACE) | (_, AdditionalSense::LBA_OUT_OF_RANGE) => Failure::NoSpace,
        (SenseKey::DataProtect, _) => Failure::NotPermitted,
        (_, AdditionalSense::INVALID_OPERATION_CODE) => Failure::NotSupported,
        (SenseKey::IllegalRequest, _) => Failure::Invalid,
        _ => Failure::Io,
    };
    Verdict::Failed(failure, format!("{}: {}", sense.key, sense.additional))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_iscsi::wire::Residual;

    fn failure(status: ScsiStatus, sense: Vec<u8>) -> Option<Failure> {
        let answer = Answer {
            status,
            residual: Residual::None,
            sense,
        };
        match verdict(&Ok(answer)) {
            Verdict::Failed(failure, _) => Some(failure),
            _ => None,
        }
    }

    #[test]
    fn each_error_of_the_target_is_the_one_of_nbd_that_says_it() {
        let other = AdditionalSense {
            code: 0x11,
            qualifier: 0,
        };
        for (key, additional, expected) in [
            (SenseKey::DataProtect, other, Failure::NotPermitted),
            (SenseKey::DataProtect, NO_SPACE, Failure::NoSpace),
            (
                SenseKey::IllegalRequest,
                AdditionalSense::LBA_OUT_OF_RANGE,
                Failure::NoSpace,
            ),
            (
                SenseKey::IllegalRequest,
                AdditionalSense::INVALID_OPERATION_CODE,
                Failure::NotSupported,
            ),
            (SenseKey::IllegalRequest, other, Failure::Invalid),
            (SenseKey::MediumError, other, Failure::Io),
            (SenseKey::HardwareError, other, Failure::Io),
        ] {
            let sense = Sense::new(key, additional);
            for bytes in [sense.fixed().to_vec(), sense.descriptor()] {
                let found = failure(ScsiStatus::CheckCondition, bytes);
                assert_eq!(found, Some(expected), "{sense:?}");
            }
        }
        let protected = Sense::new(SenseKey::DataProtect, AdditionalSense::WRITE_PROTECTED);
        let verdict = of_sense(&protected);
        let words = "DATA PROTECT: WRITE PROTECTED (27/00)".to_owned();
        assert_eq!(verdict, Verdict::Failed(Failure::NotPermitted, words));
        let conflict = failure(ScsiStatus::ReservationConflict, Vec::new());
        assert_eq!(conflict, Some(Failure::NotPermitted));
        let silent = failure(ScsiStatus::CheckCondition, Vec::new());
        assert_eq!(silent, Some(Failure::Io));
    }
}
