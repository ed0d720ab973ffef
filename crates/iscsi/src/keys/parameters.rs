//! Settings before negotiation ([`Wanted`]) and after it ([`SessionParameters`],
//! [`ConnectionParameters`]).

use thiserror::Error;

use super::auth_method::AuthMethod;
use super::negotiation::Negotiation;
use super::table::{KeyName, Rule};
use super::value::Value;
use crate::fault::Fault;

/// The type of a session (RFC 7143 §4.3, §13.21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionType {
    /// Serves I/O to one target.
    Normal,
    /// Serves SendTargets and Logout only.
    Discovery,
}

/// A digest for headers or data (RFC 7143 §13.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestKind {
    /// No digest.
    None,
    /// CRC32C.
    Crc32c,
}

impl DigestKind {
    const fn text(self) -> &'static str {
        match self {
            DigestKind::None => "None",
            DigestKind::Crc32c => "CRC32C",
        }
    }
}

/// The values that this end proposes. The defaults suit long paths: unsolicited data, large bursts,
/// several outstanding R2Ts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// HeaderDigest, in order of preference (§13.1). Not empty.
    pub header_digest: Vec<DigestKind>,
    /// DataDigest, in order of preference (§13.1). Not empty.
    pub data_digest: Vec<DigestKind>,
    /// MaxConnections, 1 to 65535 (§13.2).
    pub max_connections: u16,
    /// InitialR2T (§13.10).
    pub initial_r2t: bool,
    /// ImmediateData (§13.11).
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength of this end, 512 to 2^24 − 1 (§13.12).
    pub max_recv_data_bytes: u32,
    /// MaxBurstLength, 512 to 2^24 − 1 (§13.13).
    pub max_burst_bytes: u32,
    /// FirstBurstLength, 512 to `max_burst_bytes` (§13.14).
    pub first_burst_bytes: u32,
    /// DefaultTime2Wait, 0 to 3600 (§13.15).
    pub time2wait_s: u16,
    /// DefaultTime2Retain, 0 to 3600 (§13.16).
    pub time2retain_s: u16,
    /// MaxOutstandingR2T, 1 to 65535 (§13.17).
    pub max_outstanding_r2t: u16,
    /// DataPDUInOrder (§13.18).
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder (§13.19).
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel, 0 to 2 (§13.20).
    pub error_recovery_level: u8,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted {
            header_digest: vec![DigestKind::None, DigestKind::Crc32c],
            data_digest: vec![DigestKind::None, DigestKind::Crc32c],
            max_connections: 1,
            initial_r2t: false,
            immediate_data: true,
            max_recv_data_bytes: 262_144,
            max_burst_bytes: 1_048_576,
            first_burst_bytes: 262_144,
            // wansan's own ends need no time before tasks are reassigned; the greater value counts.
            time2wait_s: 0,
            time2retain_s: 20,
            max_outstanding_r2t: 16,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
        }
    }
}

/// Why a [`Wanted`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WantedError {
    /// A number out of range.
    #[error("{key} is set to {value}, outside {min} to {max} (RFC 7143 §{section})")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// The number.
        value: u32,
        /// Lowest allowed.
        min: u32,
        /// Highest allowed.
        max: u32,
        /// The section of RFC 7143.
        section: &'static str,
    },
    /// An empty list.
    #[error("{key} is set to an empty list; give at least one of None and CRC32C")]
    EmptyList {
        /// The key.
        key: &'static str,
    },
    /// FirstBurstLength above MaxBurstLength.
    #[error(
        "FirstBurstLength {first_burst_bytes} exceeds MaxBurstLength {max_burst_bytes}; lower the first or raise the second (RFC 7143 §13.14)"
    )]
    FirstBurstAboveMaxBurst {
        /// FirstBurstLength.
        first_burst_bytes: u32,
        /// MaxBurstLength.
        max_burst_bytes: u32,
    },
}

impl WantedError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::CallerMisused
    }
}

impl Wanted {
    /// Checks every setting against its row in the table.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), WantedError> {
        for key in &super::table::TABLE {
            match (key.rule, self.wish(key.name)) {
                (
                    Rule::Minimum { range, .. }
                    | Rule::Maximum { range, .. }
                    | Rule::DeclaredNumber { range, .. },
                    Some(Value::Number(value)),
                ) if !range.contains(value) => {
                    return Err(WantedError::OutOfRange {
                        key: key.text,
                        value,
                        min: range.min,
                        max: range.max,
                        section: key.section,
                    });
                }
                (Rule::List { .. }, Some(Value::List(values))) if values.is_empty() => {
                    return Err(WantedError::EmptyList { key: key.text });
                }
                _ => {}
            }
        }
        if self.first_burst_bytes > self.max_burst_bytes {
            return Err(WantedError::FirstBurstAboveMaxBurst {
                first_burst_bytes: self.first_burst_bytes,
                max_burst_bytes: self.max_burst_bytes,
            });
        }
        Ok(())
    }

    /// The value that this end proposes for one key; `None` if the key is not configurable.
    #[must_use]
    pub fn wish(&self, name: KeyName) -> Option<Value> {
        let digests =
            |kinds: &[DigestKind]| Value::List(kinds.iter().map(|kind| kind.text()).collect());
        Some(match name {
            // The login replaces this where there are secrets.
            KeyName::AuthMethod => Value::List(vec![AuthMethod::None.text()]),
            KeyName::HeaderDigest => digests(&self.header_digest),
            KeyName::DataDigest => digests(&self.data_digest),
            KeyName::MaxConnections => Value::Number(self.max_connections.into()),
            KeyName::InitialR2T => Value::Boolean(self.initial_r2t),
            KeyName::ImmediateData => Value::Boolean(self.immediate_data),
            KeyName::MaxRecvDataSegmentLength => Value::Number(self.max_recv_data_bytes),
            KeyName::MaxBurstLength => Value::Number(self.max_burst_bytes),
            KeyName::FirstBurstLength => Value::Number(self.first_burst_bytes),
            KeyName::DefaultTime2Wait => Value::Number(self.time2wait_s.into()),
            KeyName::DefaultTime2Retain => Value::Number(self.time2retain_s.into()),
            KeyName::MaxOutstandingR2T => Value::Number(self.max_outstanding_r2t.into()),
            KeyName::DataPduInOrder => Value::Boolean(self.data_pdu_in_order),
            KeyName::DataSequenceInOrder => Value::Boolean(self.data_sequence_in_order),
            KeyName::ErrorRecoveryLevel => Value::Number(self.error_recovery_level.into()),
            // This crate implements RFC 7143 and no more, whatever the user prefers.
            KeyName::TaskReporting => Value::List(vec!["RFC3720"]),
            KeyName::ProtocolLevel => Value::Number(1),
            _ => return None,
        })
    }
}

/// Negotiated parameters of a session, shared by all its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionParameters {
    /// MaxConnections (§13.2); 1 in a discovery session.
    pub max_connections: u16,
    /// InitialR2T (§13.10): unsolicited Data-Out PDUs are forbidden.
    pub initial_r2t: bool,
    /// ImmediateData (§13.11).
    pub immediate_data: bool,
    /// MaxBurstLength (§13.13).
    pub max_burst_bytes: u32,
    /// FirstBurstLength (§13.14), at most `max_burst_bytes`.
    pub first_burst_bytes: u32,
    /// DefaultTime2Wait (§13.15).
    pub time2wait_s: u16,
    /// DefaultTime2Retain (§13.16).
    pub time2retain_s: u16,
    /// MaxOutstandingR2T (§13.17).
    pub max_outstanding_r2t: u16,
    /// DataPDUInOrder (§13.18).
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder (§13.19).
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel (§13.20).
    pub error_recovery_level: u8,
}

impl SessionParameters {
    /// Data of a write that may be sent unsolicited, with the command or right after it, in bytes (§13.10, §13.11,
    /// §13.14). The other end accepts data segments of `max_send_data_bytes`.
    #[must_use]
    pub fn unsolicited_bytes(&self, max_send_data_bytes: u32) -> u32 {
        match (self.initial_r2t, self.immediate_data) {
            (false, _) => self.first_burst_bytes,
            (true, true) => self.first_burst_bytes.min(max_send_data_bytes),
            (true, false) => 0,
        }
    }

    /// Data that one round of R2Ts may request, in bytes (§13.13, §13.17).
    #[must_use]
    pub fn solicited_bytes(&self) -> u64 {
        u64::from(self.max_burst_bytes) * u64::from(self.max_outstanding_r2t)
    }

    /// The result of the leading connection's negotiation.
    #[must_use]
    pub fn in_force(negotiation: &Negotiation) -> Self {
        let number = |name| negotiation.number(name);
        // They fit by the table's ranges.
        let short = |name| u16::try_from(number(name)).unwrap_or(u16::MAX);
        let max_burst_bytes = number(KeyName::MaxBurstLength);
        let data_sequence_in_order = negotiation.boolean(KeyName::DataSequenceInOrder);
        let error_recovery_level = number(KeyName::ErrorRecoveryLevel).min(2) as u8;
        SessionParameters {
            max_connections: short(KeyName::MaxConnections),
            initial_r2t: negotiation.boolean(KeyName::InitialR2T),
            immediate_data: negotiation.boolean(KeyName::ImmediateData),
            max_burst_bytes,
            // §13.14: the two are negotiated separately, and a peer may have left one at its default.
            first_burst_bytes: number(KeyName::FirstBurstLength).min(max_burst_bytes),
            time2wait_s: short(KeyName::DefaultTime2Wait),
            time2retain_s: short(KeyName::DefaultTime2Retain),
            // §13.19: a recovered R2T must be the last one.
            max_outstanding_r2t: if data_sequence_in_order && error_recovery_level > 0 {
                1
            } else {
                short(KeyName::MaxOutstandingR2T)
            },
            data_pdu_in_order: negotiation.boolean(KeyName::DataPduInOrder),
            data_sequence_in_order,
            error_recovery_level,
        }
    }
}

/// Negotiated parameters of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// HeaderDigest is CRC32C (§13.1).
    pub header_digest: bool,
    /// DataDigest is CRC32C (§13.1).
    pub data_digest: bool,
    /// The longest data segment that the peer accepts: its MaxRecvDataSegmentLength (§13.12).
    pub max_send_data_bytes: u32,
    /// The longest data segment that this end accepts: its own MaxRecvDataSegmentLength.
    pub max_recv_data_bytes: u32,
}

impl ConnectionParameters {
    /// The result of the connection's negotiation.
    #[must_use]
    pub fn in_force(negotiation: &Negotiation) -> Self {
        let crc32c = |name| negotiation.chosen(name) == DigestKind::Crc32c.text();
        ConnectionParameters {
            header_digest: crc32c(KeyName::HeaderDigest),
            data_digest: crc32c(KeyName::DataDigest),
            max_send_data_bytes: negotiation.number(KeyName::MaxRecvDataSegmentLength),
            max_recv_data_bytes: negotiation.own_max_recv_data_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_negotiated() {
        assert_eq!(Wanted::default().check(), Ok(()));
    }

    #[test]
    fn wrong_settings_are_named() {
        let wanted = Wanted {
            max_recv_data_bytes: 511,
            ..Wanted::default()
        };
        assert_eq!(
            wanted.check().unwrap_err().to_string(),
            "MaxRecvDataSegmentLength is set to 511, outside 512 to 16777215 (RFC 7143 §13.12)"
        );
        let wanted = Wanted {
            data_digest: vec![],
            ..Wanted::default()
        };
        assert_eq!(
            wanted.check(),
            Err(WantedError::EmptyList { key: "DataDigest" })
        );
        let wanted = Wanted {
            max_burst_bytes: 65_536,
            ..Wanted::default()
        };
        assert_eq!(
            wanted.check(),
            Err(WantedError::FirstBurstAboveMaxBurst {
                first_burst_bytes: 262_144,
                max_burst_bytes: 65_536
            })
        );
    }
}
