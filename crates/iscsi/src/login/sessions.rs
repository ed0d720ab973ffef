//! What a target's login asks of its caller, which knows the targets and the sessions.

use super::chap::TargetChap;
use crate::keys::{ConnectionParameters, SessionParameters, SessionType, Wanted};
use crate::sequence::Sn;
use crate::text::send_targets::TargetAddress;
use crate::wire::LoginStatus;

/// A login as its first whole text describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// InitiatorName.
    pub initiator_name: &'a str,
    /// SessionType.
    pub session_type: SessionType,
    /// TargetName; always there in a normal session.
    pub target_name: Option<&'a str>,
    /// ISID.
    pub isid: [u8; 6],
    /// TSIH: 0 to begin a session (or to reinstate one, when the initiator has a session of this
    /// ISID with the same portal group), else the session that the connection is to join.
    pub tsih: u16,
    /// CID.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: Sn,
}

/// The bounds of CmdSN that a target announces (RFC 7143 §4.2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnouncedWindow {
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
}

/// What [`Sessions::find`] knows about a candidate.
#[derive(Debug)]
pub struct Found {
    /// The portal group that serves the connection (§13.9).
    pub portal_group_tag: u16,
    /// TargetAlias, the target's human-readable name (§13.6).
    pub target_alias: Option<String>,
    /// The session that the candidate's TSIH names: its parameters in force and its window.
    pub session: Option<(SessionParameters, AnnouncedWindow)>,
    /// Authenticates the candidate; `None` if authentication is not required.
    pub chap: Option<TargetChap>,
    /// The values to negotiate, if other than those the login began with. It must pass
    /// [`Wanted::check`].
    pub wanted: Option<Wanted>,
}

/// What [`Sessions::admit`] has made of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// The session's TSIH, not 0.
    pub tsih: u16,
    /// The session's command window. ExpCmdSN of a new session is the candidate's CmdSN.
    pub window: AnnouncedWindow,
}

/// Why a login is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The status says why: NotFound, AuthorizationFailure, TooManyConnections, …
    Status(LoginStatus),
    /// The target redirects the login to another address.
    Moved {
        /// Permanently, not temporarily.
        permanently: bool,
        /// Where.
        address: TargetAddress,
    },
}

/// What a target's login asks of its caller, which knows the targets and the sessions.
pub trait Sessions {
    /// Asked once, when the first whole text is in: is there such a target, may this initiator
    /// see it, and, when TSIH is not 0, which session is meant. Changes nothing: the initiator
    /// has not proved yet who it is.
    ///
    /// # Errors
    /// The status, or the address, to refuse the candidate with.
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal>;

    /// Asked once, when the login has succeeded and before its last response: begin the session
    /// (ending an old one that it reinstates, §6.3.5) or add the connection to it (ending an old
    /// connection of the same CID, §6.3.4).
    ///
    /// # Errors
    /// The status to refuse the candidate with after all.
    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        connection: &ConnectionParameters,
    ) -> Result<Admitted, Refusal>;
}
