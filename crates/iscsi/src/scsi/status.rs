//! How a command ended.

use core::fmt;

/// A status code (SAM-5 5.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Good = 0x00,
    /// Not done, or done with something to say; sense data says what.
    CheckCondition = 0x02,
    /// The condition that the command looked for is met.
    ConditionMet = 0x04,
    /// The logical unit cannot take the command now.
    Busy = 0x08,
    /// Another I_T nexus has reserved the logical unit.
    ReservationConflict = 0x18,
    /// The logical unit has no room for another command.
    TaskSetFull = 0x28,
    /// An auto contingent allegiance stands.
    AcaActive = 0x30,
    /// Another I_T nexus had the command aborted.
    TaskAborted = 0x40,
}

impl Status {
    /// The status with that code.
    #[must_use]
    pub const fn from_byte(code: u8) -> Option<Status> {
        Some(match code {
            0x00 => Status::Good,
            0x02 => Status::CheckCondition,
            0x04 => Status::ConditionMet,
            0x08 => Status::Busy,
            0x18 => Status::ReservationConflict,
            0x28 => Status::TaskSetFull,
            0x30 => Status::AcaActive,
            0x40 => Status::TaskAborted,
            _ => return None,
        })
    }

    /// Its code.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Status::Good => "GOOD",
            Status::CheckCondition => "CHECK CONDITION",
            Status::ConditionMet => "CONDITION MET",
            Status::Busy => "BUSY",
            Status::ReservationConflict => "RESERVATION CONFLICT",
            Status::TaskSetFull => "TASK SET FULL",
            Status::AcaActive => "ACA ACTIVE",
            Status::TaskAborted => "TASK ABORTED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_no_others_exist() {
        let known = (0..=255).filter_map(Status::from_byte).collect::<Vec<_>>();
        assert_eq!(known.len(), 8);
        for status in known {
            assert_eq!(Status::from_byte(status.byte()), Some(status));
        }
    }
}
