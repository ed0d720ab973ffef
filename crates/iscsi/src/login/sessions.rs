//! The interface of a target's login to its caller, which manages targets and sessions.

use super::chap::TargetChap;
use crate::keys::{ConnectionParameters, SessionParameters, SessionType, Wanted};
use crate::sequence::Sn;
use crate::text::send_targets::TargetAddress;
use crate::wire::LoginStatus;

/// A login, as described by its first complete text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// InitiatorName.
    pub initiator_name: &'a str,
    /// SessionType.
    pub session_type: SessionType,
    /// TargetName; always present in a normal session.
    pub target_name: Option<&'a str>,
    /// ISID.
    pub isid: [u8; 6],
    /// TSIH: 0 to start a session (or to reinstate one, when the initiator has a session of this ISID with the same
    /// portal group), otherwise that of the session to join.
    pub tsih: u16,
    /// CID.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: Sn,
}

/// The limits of CmdSN that a target announces (RFC 7143 §4.2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnouncedWindow {
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
}

/// What [`Sessions::find`] knows of a candidate.
#[derive(Debug)]
pub struct Found {
    /// The portal group that serves the connection (§13.9).
    pub portal_group_tag: u16,
    /// TargetAlias, the target's human-readable name (§13.6).
    pub target_alias: Option<String>,
    /// The session of the candidate's TSIH: its parameters in force and its window.
    pub session: Option<(SessionParameters, AnnouncedWindow)>,
    /// Authenticates the candidate; `None` if authentication is not required.
    pub chap: Option<TargetChap>,
    /// The values to negotiate, if other than the login's initial ones. It must pass [`Wanted::check`].
    pub wanted: Option<Wanted>,
}

/// The session that [`Sessions::admit`] assigned to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// The session's TSIH, not 0.
    pub tsih: u16,
    /// The session's command window. ExpCmdSN of a new session is the candidate's CmdSN.
    pub window: AnnouncedWindow,
}

/// Why a login is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// By the status: NotFound, AuthorizationFailure, TooManyConnections, …
    Status(LoginStatus),
    /// The target redirects the login to another address.
    Moved {
        /// Permanently, not temporarily.
        permanently: bool,
        /// The new address.
        address: TargetAddress,
    },
}

/// The interface of a target's login to its caller, which manages targets and sessions.
pub trait Sessions {
    /// Called once, when the first text is complete: whether the target exists and this initiator may see it, and, when
    /// TSIH is not 0, which session to join. Must not change anything: the initiator is not authenticated yet.
    ///
    /// # Errors
    /// The status, or the new address, with which to reject the candidate.
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal>;

    /// Called once, when the login has succeeded and before its last response: starts the session (ending an old one
    /// that it reinstates, §6.3.5) or adds the connection to it (ending an old connection of the same CID, §6.3.4).
    ///
    /// # Errors
    /// The status with which to reject the candidate after all.
    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        connection: &ConnectionParameters,
    ) -> Result<Admitted, Refusal>;
}
