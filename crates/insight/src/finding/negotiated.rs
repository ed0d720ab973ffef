//! Advice on negotiated values without records: the cost of each on a long path,
//! and what to change.

use wansan_iscsi::keys::{ConnectionParameters, SessionParameters};

/// The path to give advice for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Round-trip time in ns, above 0.
    pub rtt_ns: u64,
    /// Rate in one direction, in bit/s, above 0.
    pub rate_bits_per_s: u64,
}

impl Path {
    /// Bandwidth-delay product: the bytes in flight that fill the path.
    #[must_use]
    pub fn bdp_bytes(&self) -> u64 {
        let bits = u128::from(self.rate_bits_per_s) * u128::from(self.rtt_ns) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

/// The values that login has negotiated.
#[derive(Debug, Clone, Copy)]
pub struct InForce<'a> {
    /// For the session.
    pub session: &'a SessionParameters,
    /// For one of its connections.
    pub connection: &'a ConnectionParameters,
    /// Command window of the idle session: MaxCmdSN − ExpCmdSN + 1 (RFC 7143 §4.2.2.1).
    pub window: u32,
}

/// A negotiated value that limits performance, or puts data at risk, on the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The key, or the quantity that several keys set.
    pub parameter: &'static str,
    /// Its value in force.
    pub value: String,
    /// What it costs, in a sentence.
    pub effect: String,
    /// What to change, and at which end.
    pub remedy: String,
}

/// The I/O that the command window is judged by: the page of databases and file systems.
const SMALL_IO_BYTES: u64 = 4 << 10;

/// The write that bursts are judged by: a large write of backup and replication.
const LARGE_WRITE_BYTES: u64 = 4 << 20;

/// The write that unsolicited data is judged by.
const MEDIUM_WRITE_BYTES: u64 = 64 << 10;

impl InForce<'_> {
    /// Round trips of a write of `bytes` from its command to its status, if the target sends all
    /// R2Ts that it may at once.
    #[must_use]
    pub fn write_round_trips(&self, bytes: u64) -> u64 {
        let solicited_bytes = bytes.saturating_sub(self.unsolicited_bytes());
        1 + solicited_bytes.div_ceil(self.session.solicited_bytes().max(1))
    }

    fn unsolicited_bytes(&self) -> u64 {
        let max_pdu_bytes = self.connection.max_send_data_bytes;
        u64::from(self.session.unsolicited_bytes(max_pdu_bytes))
    }

    /// What the negotiated values cost on `path`, the most expensive kind first; empty if they fit.
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
                "limits the session to {per_s} commands per second, {mbit_per_s} Mbit/s with 4 KiB I/Os"
            ),
            remedy: format!(
                "raise the target's command window to {wanted}, or use larger I/Os or more sessions"
            ),
        })
    }

    fn unsolicited_cost(&self, path: Path) -> Option<Cost> {
        if self.unsolicited_bytes() >= MEDIUM_WRITE_BYTES {
            return None;
        }
        let (parameter, value, remedy) =
            match (self.session.initial_r2t, self.session.immediate_data) {
                (true, false) => (
                    "ImmediateData",
                    "No".to_owned(),
                    "allow ImmediateData=Yes, and InitialR2T=No, at the target",
                ),
                (true, true) => (
                    "InitialR2T",
                    "Yes".to_owned(),
                    "allow InitialR2T=No at the target, or raise its MaxRecvDataSegmentLength",
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
                "a 64 KiB write takes {} round trips, {} ms, instead of 1: only {} bytes may be sent unsolicited",
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
        // With error recovery, sequences in order are solicited one at a time (RFC 7143 §13.19).
        let forced = session.error_recovery_level > 0 && session.data_sequence_in_order;
        let remedy = if forced {
            "allow DataSequenceInOrder=No at the target: with Yes and error recovery only one R2T may be outstanding"
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
                "a 4 MiB write takes {rounds} round trips, {} ms, plus its transmission time",
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
                "a lost connection ends the session: up to {} bytes in flight are resent",
                path.bdp_bytes()
            ),
            remedy: "allow ErrorRecoveryLevel=2 at the target, if it supports it".to_owned(),
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
            effect: "TCP's checksum covers no proxy or tunnel endpoint: corruption there goes undetected"
                .to_owned(),
            remedy: "log in with --header-digest always --data-digest always".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_iscsi::keys::{Negotiation, Role, SessionType, Wanted};

    const LONG: Path = Path {
        rtt_ns: 50_000_000,
        rate_bits_per_s: 1_000_000_000,
    };

    /// The standard's defaults, in force when the other end offers nothing.
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
    fn values_that_fit_get_no_advice() {
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
