//! What the values in force cost on a long path: the round trips of a write, the ceiling of the
//! command window, and what else an engineer should know before the path is blamed.

use crate::keys::{ConnectionParameters, SessionParameters};

/// A path as it is to be judged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Round-trip time in ns, above 0.
    pub rtt_ns: u64,
    /// What it carries in one direction, in bit/s, above 0.
    pub rate_bits_per_s: u64,
}

impl Path {
    /// Bandwidth-delay product: the bytes that must be under way to fill the path.
    #[must_use]
    pub fn bdp_bytes(&self) -> u64 {
        let bits = u128::from(self.rate_bits_per_s) * u128::from(self.rtt_ns) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

/// What login has settled for a session.
#[derive(Debug, Clone, Copy)]
pub struct InForce<'a> {
    /// For the session.
    pub session: &'a SessionParameters,
    /// For its connections; those of one target are the same as a rule.
    pub connection: &'a ConnectionParameters,
    /// Commands that the target takes at once: MaxCmdSN − ExpCmdSN + 1 of an idle session
    /// (RFC 7143 §4.2.2.1).
    pub window: u32,
}

/// A value that costs something on the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The key or the quantity.
    pub parameter: &'static str,
    /// Its value in force.
    pub value: String,
    /// What it costs, in words.
    pub effect: String,
    /// What to do about it, and at which end.
    pub remedy: String,
}

/// The I/O that a command window is judged by: databases and file systems write pages of this size.
const SMALL_IO_BYTES: u64 = 4 << 10;

/// The write that bursts are judged by: what backup and replication send, and operating systems
/// merge small writes to.
const LARGE_WRITE_BYTES: u64 = 4 << 20;

/// The write that unsolicited data is judged by.
const MEDIUM_WRITE_BYTES: u64 = 64 << 10;

impl InForce<'_> {
    /// Data of a write that may be sent with its command or right behind it, in bytes (§13.10,
    /// §13.11, §13.14).
    #[must_use]
    pub fn unsolicited_bytes(&self) -> u64 {
        let first_burst_bytes = self.session.first_burst_bytes;
        let bytes = match (self.session.initial_r2t, self.session.immediate_data) {
            (false, _) => first_burst_bytes,
            (true, true) => first_burst_bytes.min(self.connection.max_send_data_bytes),
            (true, false) => 0,
        };
        u64::from(bytes)
    }

    /// Data that one round of R2Ts can ask for, in bytes (§13.13, §13.17).
    #[must_use]
    pub fn solicited_bytes(&self) -> u64 {
        u64::from(self.session.max_burst_bytes) * u64::from(self.session.max_outstanding_r2t)
    }

    /// Round trips of a write of `bytes` from its command to its status, when the target sends all
    /// R2Ts that it may at once.
    #[must_use]
    pub fn write_round_trips(&self, bytes: u64) -> u64 {
        let solicited_bytes = bytes.saturating_sub(self.unsolicited_bytes());
        1 + solicited_bytes.div_ceil(self.solicited_bytes().max(1))
    }

    /// What the values in force cost on `path`, the dearest kind first; empty when nothing does.
    #[must_use]
    pub fn costs(&self, path: Path) -> Vec<Cost> {
        let mut costs = Vec::new();
        costs.extend(self.window_cost(path));
        costs.extend(self.unsolicited_cost(path));
        costs.extend(self.burst_cost(path));
        costs.extend(self.recovery_cost(path));
        costs.extend(self.digest_cost());
        costs
    }

    fn window_cost(&self, path: Path) -> Option<Cost> {
        let window = u64::from(self.window);
        let wanted = path.bdp_bytes().div_ceil(SMALL_IO_BYTES);
        if window >= wanted {
            return None;
        }
        let per_s = u128::from(window) * 1_000_000_000 / u128::from(path.rtt_ns.max(1));
        let mbit_per_s = per_s * u128::from(SMALL_IO_BYTES) * 8 / 1_000_000;
        Some(Cost {
            parameter: "command window",
            value: window.to_string(),
            effect: format!(
                "at most {per_s} commands a second, {mbit_per_s} Mbit/s with 4 KiB I/Os"
            ),
            remedy: format!(
                "let the target take {wanted} commands at once, or use larger I/Os or more sessions"
            ),
        })
    }

    fn unsolicited_cost(&self, path: Path) -> Option<Cost> {
        if self.unsolicited_bytes() >= MEDIUM_WRITE_BYTES {
            return None;
        }
        let (parameter, value, remedy) = match (
            self.session.initial_r2t,
            self.session.immediate_data,
        ) {
            (true, false) => (
                "ImmediateData",
                "No".to_owned(),
                "allow ImmediateData=Yes, and InitialR2T=No, at the target",
            ),
            (true, true) => (
                "InitialR2T",
                "Yes".to_owned(),
                "allow InitialR2T=No at the target, or give it a larger MaxRecvDataSegmentLength",
            ),
            (false, _) => (
                "FirstBurstLength",
                self.session.first_burst_bytes.to_string(),
                "raise FirstBurstLength at both ends",
            ),
        };
        Some(Cost {
            parameter,
            value,
            effect: format!(
                "a write of 64 KiB takes {} round trips, {} ms, instead of 1: {} bytes may go unasked",
                self.write_round_trips(MEDIUM_WRITE_BYTES),
                self.write_round_trips(MEDIUM_WRITE_BYTES) * path.rtt_ns / 1_000_000,
                self.unsolicited_bytes(),
            ),
            remedy: remedy.to_owned(),
        })
    }

    fn burst_cost(&self, path: Path) -> Option<Cost> {
        let rounds = self.write_round_trips(LARGE_WRITE_BYTES);
        if rounds <= 2 {
            return None;
        }
        let session = self.session;
        // §13.19: what a target with error recovery asks for must come in order, one at a time.
        let forced = session.error_recovery_level > 0 && session.data_sequence_in_order;
        let remedy = if forced {
            "allow DataSequenceInOrder=No at the target: with Yes and error recovery only one R2T may be out"
                .to_owned()
        } else {
            format!(
                "raise MaxOutstandingR2T to {} or MaxBurstLength to 4 MiB at the target, or split large writes",
                LARGE_WRITE_BYTES.div_ceil(u64::from(session.max_burst_bytes).max(1)),
            )
        };
        Some(Cost {
            parameter: "MaxOutstandingR2T × MaxBurstLength",
            value: format!(
                "{} × {}",
                session.max_outstanding_r2t, session.max_burst_bytes
            ),
            effect: format!(
                "a write of 4 MiB takes {rounds} round trips, {} ms, before its own transmission",
                rounds * path.rtt_ns / 1_000_000
            ),
            remedy,
        })
    }

    fn recovery_cost(&self, path: Path) -> Option<Cost> {
        if self.session.error_recovery_level == 2 {
            return None;
        }
        let level = self.session.error_recovery_level;
        Some(Cost {
            parameter: "ErrorRecoveryLevel",
            value: level.to_string(),
            effect: format!(
                "a connection that breaks takes the session with it: up to {} bytes under way are sent again",
                path.bdp_bytes()
            ),
            remedy: "allow ErrorRecoveryLevel=2 at the target, if it can".to_owned(),
        })
    }

    fn digest_cost(&self) -> Option<Cost> {
        let connection = self.connection;
        if connection.header_digest && connection.data_digest {
            return None;
        }
        let value = match (connection.header_digest, connection.data_digest) {
            (true, false) => "headers only",
            (false, true) => "data only",
            _ => "None",
        };
        Some(Cost {
            parameter: "digests",
            value: value.to_owned(),
            effect: "TCP's checksum ends at each proxy and tunnel: bytes corrupted there pass"
                .to_owned(),
            remedy: "log in with --header-digest always --data-digest always".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Negotiation, Role, SessionType, Wanted};

    const LONG: Path = Path {
        rtt_ns: 50_000_000,
        rate_bits_per_s: 1_000_000_000,
    };

    /// What is in force when the other end says nothing: the standard's defaults.
    fn defaults() -> (SessionParameters, ConnectionParameters) {
        let negotiation = Negotiation::new(
            Role::Initiator,
            Wanted::default(),
            true,
            SessionType::Normal,
        );
        (
            SessionParameters::in_force(&negotiation),
            ConnectionParameters::in_force(&negotiation),
        )
    }

    /// tgt's answers to libiscsi, as measured at 50 ms: 2 round trips for 64 KiB, 17 for 4 MiB.
    #[test]
    fn round_trips_of_a_write_are_those_that_were_measured() {
        let (mut session, mut connection) = defaults();
        session.initial_r2t = true;
        session.immediate_data = true;
        session.first_burst_bytes = 65_536;
        session.max_burst_bytes = 262_144;
        session.max_outstanding_r2t = 1;
        connection.max_send_data_bytes = 8192;
        let in_force = InForce {
            session: &session,
            connection: &connection,
            window: 128,
        };
        for (bytes, round_trips) in [
            (4 << 10, 1),
            (8 << 10, 1),
            (64 << 10, 2),
            (512 << 10, 3),
            (1 << 20, 5),
            (2 << 20, 9),
            (4 << 20, 17),
        ] {
            assert_eq!(in_force.write_round_trips(bytes), round_trips, "{bytes}");
        }
        let named: Vec<&str> = in_force.costs(LONG).iter().map(|c| c.parameter).collect();
        assert_eq!(
            named,
            [
                "command window",
                "InitialR2T",
                "MaxOutstandingR2T × MaxBurstLength",
                "ErrorRecoveryLevel",
                "digests"
            ]
        );
        let window = &in_force.costs(LONG)[0];
        assert!(window.effect.contains("2560 commands"), "{window:?}");
    }

    #[test]
    fn nothing_is_said_of_values_that_fit() {
        let (mut session, mut connection) = defaults();
        session.initial_r2t = false;
        session.first_burst_bytes = 262_144;
        session.max_burst_bytes = 1 << 20;
        session.max_outstanding_r2t = 16;
        session.error_recovery_level = 2;
        connection.header_digest = true;
        connection.data_digest = true;
        let in_force = InForce {
            session: &session,
            connection: &connection,
            window: 2048,
        };
        assert_eq!(in_force.costs(LONG), []);
        assert_eq!(in_force.write_round_trips(4 << 20), 2);
    }
}
