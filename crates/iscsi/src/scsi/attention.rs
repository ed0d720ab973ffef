//! Unit attention conditions (SAM-5 5.14).
//!
//! A nexus that replaces a living one reports I_T NEXUS LOSS OCCURRED (RFC 7143 §6.3.5.1, SAM-5 6.3.4). Any other
//! starts with none pending: the target keeps nothing of a session that ended before, and POWER ON OCCURRED would tell
//! an initiator nothing that its login has not, at the cost of a round trip for the first command of every session.
//! REPORTED LUNS DATA HAS CHANGED and CAPACITY DATA HAS CHANGED do not occur: the units of a device and their sizes do
//! not change while it has a nexus.

use super::{AdditionalSense, Sense, SenseKey};

/// A condition to report, in order of precedence: a reset before conditions that it implies (SAM-5 5.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum UnitAttention {
    /// The logical unit was reset.
    UnitReset,
    /// This session has replaced one of the same initiator port.
    NexusLost,
    /// Another initiator cleared this one's commands.
    CommandsCleared,
    /// Another initiator changed mode parameters.
    ModeParametersChanged,
    /// Another initiator preempted or cleared the reservation.
    ReservationsPreempted,
    /// The reservation that this initiator shared was released.
    ReservationsReleased,
    /// Another initiator removed this one's registration.
    RegistrationsPreempted,
}

impl UnitAttention {
    const ALL: [UnitAttention; 7] = [
        UnitAttention::UnitReset,
        UnitAttention::NexusLost,
        UnitAttention::CommandsCleared,
        UnitAttention::ModeParametersChanged,
        UnitAttention::ReservationsPreempted,
        UnitAttention::ReservationsReleased,
        UnitAttention::RegistrationsPreempted,
    ];

    /// The sense data that reports it.
    #[must_use]
    pub const fn sense(self) -> Sense {
        let additional = match self {
            UnitAttention::UnitReset => AdditionalSense::BUS_DEVICE_RESET,
            UnitAttention::NexusLost => AdditionalSense::NEXUS_LOSS,
            UnitAttention::CommandsCleared => AdditionalSense::COMMANDS_CLEARED,
            UnitAttention::ModeParametersChanged => AdditionalSense::MODE_PARAMETERS_CHANGED,
            UnitAttention::ReservationsPreempted => AdditionalSense::RESERVATIONS_PREEMPTED,
            UnitAttention::ReservationsReleased => AdditionalSense::RESERVATIONS_RELEASED,
            UnitAttention::RegistrationsPreempted => AdditionalSense::REGISTRATIONS_PREEMPTED,
        };
        Sense::new(SenseKey::UnitAttention, additional)
    }
}

/// The unit attentions pending for one I_T_L nexus. Each condition is held once, however often it
/// is established (SAM-5 5.14.2), so the queue cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnitAttentions(u8);

impl UnitAttentions {
    /// Adds `attention`, to be reported once.
    pub fn establish(&mut self, attention: UnitAttention) {
        self.0 |= 1 << attention as u8;
    }

    /// Adds all pending ones of `other`.
    pub fn merge(&mut self, other: UnitAttentions) {
        self.0 |= other.0;
    }

    /// Removes the pending one of highest precedence. A reset implies the loss of a session.
    pub fn take(&mut self) -> Option<UnitAttention> {
        let first = UnitAttention::ALL.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        if *first == UnitAttention::UnitReset {
            self.0 &= !(1 << UnitAttention::NexusLost as u8);
        }
        Some(*first)
    }

    /// Whether none is pending.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_reported_once_and_resets_come_first() {
        let mut attentions = UnitAttentions::default();
        assert_eq!(attentions.take(), None);
        for attention in UnitAttention::ALL.into_iter().rev() {
            attentions.establish(attention);
            attentions.establish(attention);
        }
        let implied = UnitAttention::NexusLost;
        for attention in UnitAttention::ALL.into_iter().filter(|one| *one != implied) {
            assert!(!attentions.is_empty());
            assert_eq!(attentions.take(), Some(attention));
        }
        assert!(attentions.is_empty());
        assert_eq!(attentions.take(), None);
        attentions.establish(implied);
        assert_eq!(attentions.take(), Some(implied));
    }

    #[test]
    fn a_reset_is_29_03() {
        let sense = UnitAttention::UnitReset.sense().fixed();
        assert_eq!((sense[2], sense[12], sense[13]), (0x06, 0x29, 0x03));
    }
}
