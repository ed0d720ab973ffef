//! Asymmetric logical unit access (SPC-4 5.15): how well each group of target ports reaches a unit.

use super::{AdditionalSense, Malformed, Sense, SenseKey, be16, be32};

/// ASYMMETRIC ACCESS STATE of a target port group (SPC-4 table 274).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessState {
    /// Active/optimized.
    Optimized,
    /// Active/non-optimized: fully functional, partly slower.
    NonOptimized,
    /// Logical block dependent: some blocks are optimized, others not.
    BlockDependent,
    /// Standby, unavailable, offline, transitioning, or an unknown state: media cannot be accessed now.
    Inaccessible,
}

impl AccessState {
    const fn of(code: u8) -> AccessState {
        match code & 0x0f {
            0x0 => AccessState::Optimized,
            0x1 => AccessState::NonOptimized,
            0x4 => AccessState::BlockDependent,
            _ => AccessState::Inaccessible,
        }
    }
}

/// Whether a command was not executed because the state of its port group has changed, or does not allow it: the states
/// must be queried again.
#[must_use]
pub fn is_about_access_state(sense: &Sense) -> bool {
    let AdditionalSense { code, qualifier } = sense.additional;
    match sense.key {
        // LOGICAL UNIT NOT ACCESSIBLE: ASYMMETRIC ACCESS STATE TRANSITION, TARGET PORT IN STANDBY STATE, TARGET PORT IN
        // UNAVAILABLE STATE; LOGICAL UNIT NOT READY, OFFLINE.
        SenseKey::NotReady => code == 0x04 && matches!(qualifier, 0x0a..=0x0c | 0x12),
        // ASYMMETRIC ACCESS STATE CHANGED, IMPLICIT ASYMMETRIC ACCESS STATE TRANSITION FAILED.
        SenseKey::UnitAttention => code == 0x2a && matches!(qualifier, 0x06 | 0x07),
        _ => false,
    }
}

/// Parses the data of REPORT TARGET PORT GROUPS with the length-only header: each group's tag and state.
///
/// # Errors
/// When it is shorter than the header. Truncated groups are left out.
pub fn parse_port_groups(data: &[u8]) -> Result<Vec<(u16, AccessState)>, Malformed> {
    const HEADER_BYTES: usize = 4;
    const GROUP_BYTES: usize = 8;
    const PORT_BYTES: usize = 4;
    Malformed::check_bytes("list of target port groups", data, HEADER_BYTES)?;
    let (header, all) = data.split_at(HEADER_BYTES);
    let mut left = &all[..all.len().min(be32(header, 0) as usize)];
    let mut groups = Vec::new();
    while let Some((group, rest)) = left.split_at_checked(GROUP_BYTES) {
        groups.push((be16(group, 2), AccessState::of(group[0])));
        left = rest
            .get(usize::from(group[7]) * PORT_BYTES..)
            .unwrap_or(&[]);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_far_as_they_came() {
        let two_ports = [0x80, 0x0f, 0, 1, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        let standby = [0x02, 0x0f, 0x12, 0x34, 0, 0, 0, 0];
        let mut data = vec![0, 0, 0, 24];
        data.extend(two_ports);
        data.extend(standby);
        let both = [
            (1, AccessState::Optimized),
            (0x1234, AccessState::Inaccessible),
        ];
        assert_eq!(parse_port_groups(&data).unwrap(), both);
        for cut in 20..28 {
            assert_eq!(parse_port_groups(&data[..cut]).unwrap(), both[..1]);
        }
        assert!(parse_port_groups(&data[..3]).is_err());
    }
}
