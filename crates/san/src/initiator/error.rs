//! Errors of setting up a session, or of a failed one.

use std::io;
use std::time::Duration;

use wansan_iscsi::initiator::{AdmitError, HandshakeError, SessionError};
use wansan_tcp::congestion::CongestionError;

use super::login;
use crate::reservation::in_words;

/// Setting up a session failed, or the session has failed.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// The TCP connection failed.
    #[error("cannot connect to {portal}: {source}")]
    Connect {
        /// Host and port.
        portal: String,
        /// The cause.
        source: io::Error,
    },
    /// The kernel provides no socket, or no descriptor to wait with.
    #[error("cannot open a socket for the session: {0}")]
    NoSocket(io::Error),
    /// The target allows fewer connections per session.
    #[error(
        "the target at {portal} allows {granted} connection{} per session, not {asked}; request fewer",
        if *granted == 1 { "" } else { "s" }
    )]
    TooFewConnections {
        /// Host and port.
        portal: String,
        /// The requested number.
        asked: usize,
        /// MaxConnections as negotiated.
        granted: u16,
    },
    /// The kernel provides no random bytes for a CHAP challenge.
    #[error("no random bytes for CHAP: {0}")]
    Random(io::Error),
    /// The congestion control is not available.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// Login failed.
    #[error("login to {target} at {portal} failed: {source}")]
    Login {
        /// The target's name.
        target: String,
        /// Host and port.
        portal: String,
        /// The cause.
        source: Box<HandshakeError>,
    },
    /// The portal responds, but does not offer the target.
    #[error("{portal} has no target {target}; {}", login::nearest(target, offered))]
    NoSuchTarget {
        /// The target's name.
        target: String,
        /// Host and port.
        portal: String,
        /// The names of the targets that the portal offers.
        offered: Vec<String>,
    },
    /// The socket failed.
    #[error("the connection to {portal} failed: {source}")]
    Socket {
        /// Host and port.
        portal: String,
        /// The cause.
        source: io::Error,
    },
    /// The target closed the connection.
    #[error("the target at {portal} closed the connection")]
    Closed {
        /// Host and port.
        portal: String,
    },
    /// The target did not respond for too long.
    #[error("the target at {portal} does not respond, not even to a NOP-Out")]
    Silent {
        /// Host and port.
        portal: String,
    },
    /// A connection logged in, but does not belong to the session.
    #[error("the connection to {portal} cannot be used: {source}")]
    NotAdmitted {
        /// Host and port.
        portal: String,
        /// The cause.
        source: AdmitError,
    },
    /// The session is up, but the unit cannot be used through it.
    #[error("LUN {lun} cannot be used through {portal}: {problem}")]
    Unusable {
        /// The number of the unit.
        lun: u16,
        /// Host and port.
        portal: String,
        /// The cause.
        problem: String,
    },
    /// The session over another route belongs to another portal group, so it did not end a lost one.
    #[error("{portal} is in another target portal group than the lost session")]
    OtherPortalGroup {
        /// Host and port.
        portal: String,
    },
    /// Routes lead to different units, or a route to another unit than before.
    #[error(
        "LUN {lun} at {portal} is another unit than the one in use: its designators or its size differ"
    )]
    OtherUnit {
        /// The number of the unit.
        lun: u16,
        /// Host and port.
        portal: String,
    },
    /// Other hosts have reserved the unit.
    #[error(
        "LUN {lun} at {portal} is another host's, which has registered key {}; detach it there, or use --preempt to take it over",
        in_words(others)
    )]
    Reserved {
        /// The number of the unit.
        lun: u16,
        /// Host and port.
        portal: String,
        /// Their keys.
        others: Vec<u64>,
    },
    /// Another initiator has registered this host's key.
    #[error(
        "initiator {initiator} uses reservation key {key:#x} as well on LUN {lun} at {portal}; give each host a key of its own"
    )]
    SameKey {
        /// The number of the unit.
        lun: u16,
        /// Host and port.
        portal: String,
        /// The key.
        key: u64,
        /// The other initiator's iSCSI name.
        initiator: String,
    },
    /// The session is up, but no longer registered at the target.
    #[error(
        "LUN {lun} at {portal} has lost the registration of this session, which registers again unless another host has taken the disk over"
    )]
    Unregistered {
        /// The number of the unit.
        lun: u16,
        /// Host and port.
        portal: String,
    },
    /// The unit is reserved for all registrants, and rejects a registered one.
    #[error(
        "LUN {lun} at {portal} rejects writes of this host with RESERVATION CONFLICT after each registration: the target does not implement Write Exclusive – All Registrants, or another initiator keeps removing the key; check the target's reservations, or attach the disk without a reservation key"
    )]
    NotHonoured {
        /// The number of the unit.
        lun: u16,
        /// Host and port.
        portal: String,
    },
    /// The unit was reserved, and another host has preempted it.
    #[error(
        "another host has taken LUN {lun} over: {} registered, {key:#x} is not any more; detach the disk, and attach it with --preempt to take it back",
        match &others[..] {
            [] => "no key is".to_owned(),
            others => format!("key {} is", in_words(others)),
        }
    )]
    Preempted {
        /// The number of the unit.
        lun: u16,
        /// The key that was removed.
        key: u64,
        /// The keys registered now.
        others: Vec<u64>,
    },
    /// The session is up, but the unit cannot be reserved.
    #[error("LUN {lun} at {portal} cannot be reserved: {problem}")]
    Unreservable {
        /// The number of the unit.
        lun: u16,
        /// Host and port.
        portal: String,
        /// The cause.
        problem: String,
    },
    /// The session was lost and not recovered.
    #[error(
        "the session with {target} was lost ({cause}) and not recovered within {} s: {}; check that the target is running and reachable",
        timeout.as_secs_f64(),
        last_attempt(last_failure.as_deref())
    )]
    NotBack {
        /// The target's name.
        target: String,
        /// Why it was lost.
        cause: Box<InitiatorError>,
        /// The time allowed for recovery, [`InitiatorConfig::replacement_timeout`](super::InitiatorConfig::replacement_timeout).
        timeout: Duration,
        /// Why the last completed attempt failed, if any.
        last_failure: Option<Box<InitiatorError>>,
    },
    /// Login took too long.
    #[error("login at {portal} did not complete within {} s", patience.as_secs_f64())]
    Slow {
        /// Host and port.
        portal: String,
        /// The timeout.
        patience: Duration,
    },
    /// A protocol error.
    #[error("session with {portal}: {source}")]
    Session {
        /// Host and port.
        portal: String,
        /// The error.
        source: SessionError,
    },
}

impl InitiatorError {
    /// Whether another attempt may succeed without changes on this host: the target, or the path to it, may only be
    /// down temporarily.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        !matches!(
            self,
            InitiatorError::Random(_)
                | InitiatorError::Congestion(_)
                | InitiatorError::OtherUnit { .. }
                | InitiatorError::Reserved { .. }
                | InitiatorError::SameKey { .. }
                | InitiatorError::Preempted { .. }
                | InitiatorError::Unreservable { .. }
        )
    }
}

/// Describes the failure of the last reconnect attempt.
fn last_attempt(failure: Option<&InitiatorError>) -> String {
    match failure {
        Some(failure) => format!("the last attempt failed: {failure}"),
        None => "no attempt completed in that time".to_owned(),
    }
}
