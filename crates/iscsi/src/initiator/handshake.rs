//! An initiator's connection until it has logged in.

use std::collections::BTreeSet;

use wansan_trace::{ConnectionId, SessionId, TaskTag};

use super::connection::Connection;
use super::error::AdmitError;
use super::session::{Begun, Core, Session};
use super::window::CommandWindow;
use crate::keys::{SessionParameters, Wanted};
use crate::login::chap::InitiatorChap;
use crate::login::{Established, InitiatorLogin, InitiatorLoginError, InitiatorSettings, Next};
use crate::sequence::Sn;
use crate::text::send_targets::TargetAddress;
use crate::wire::{
    BHS_BYTES, FrameError, LoginResponse, LoginStatus, Opcode, ParseError, Receiver, Stage,
    Transmitter,
};

/// A connection in the login phase.
///
/// Output goes through [`Handshake::pending`] and [`Handshake::sent`], input through [`Handshake::space`],
/// [`Handshake::filled`] and [`Handshake::receive`], until [`Handshake::is_done`]; then [`Handshake::into_session`]
/// creates the session, [`Session::admit`] adds the connection to one, or [`Handshake::into_entry`] returns which of
/// the two it is for.
#[derive(Debug)]
pub struct Handshake {
    receiver: Receiver,
    transmitter: Transmitter,
    login: InitiatorLogin,
    isid: [u8; 6],
    cid: u16,
    /// The TSIH of the session to join; `None` for a leading connection.
    joins: Option<u16>,
    established: Option<Box<Established>>,
}

/// The session that a logged-in connection enters.
#[derive(Debug)]
pub enum Entry {
    /// The existing session, by [`Session::admit`].
    Joins(Box<Handshake>),
    /// A session of its own, which replaces another one by [`Session::reinstate`].
    Leads(Box<Session>),
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The byte stream cannot be split into PDUs.
    #[error("the target's stream is corrupt: {0}")]
    Frame(#[from] FrameError),
    /// A PDU is malformed.
    #[error("the target sent a malformed PDU: {0}")]
    Parse(#[from] ParseError),
    /// A PDU other than a Login Response.
    #[error("the target sent opcode 0x{0:02x} in the login phase (RFC 7143 §6.3)")]
    NotALogin(u8),
    /// Login itself.
    #[error(transparent)]
    Login(#[from] InitiatorLoginError),
    /// The target redirects the login to another address.
    #[error("the target has moved to {}", list(addresses))]
    Moved {
        /// The new addresses.
        addresses: Vec<TargetAddress>,
    },
}

impl HandshakeError {
    /// Whether the login was rejected because the session to join does not exist. The target may accept later what it
    /// rejects for other reasons (lack of resources, or startup).
    #[must_use]
    pub fn denies_the_session(&self) -> bool {
        matches!(
            self,
            HandshakeError::Login(
                InitiatorLoginError::WrongSession { .. }
                    | InitiatorLoginError::Refused {
                        status: LoginStatus::SessionDoesNotExist
                            | LoginStatus::CannotIncludeInSession
                    }
            )
        )
    }
}

fn list(addresses: &[TargetAddress]) -> String {
    let each: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    each.join(", ")
}

/// The CID of a session's first connection; RFC 7143 §11.12.7 leaves the choice to the initiator.
const FIRST_CID: u16 = 0;

/// Initial stage of logins that concern an existing session: skipping the security stage would save a round trip, but
/// tgt looks up that session only at the end of the stage.
const REACHES_BACK: Stage = Stage::SecurityNegotiation;

/// The settings of a login; the same for all connections of a session except for `chap`.
#[derive(Debug, Clone)]
pub struct LoginSettings {
    /// InitiatorName (RFC 7143 §13.5).
    pub initiator: String,
    /// ISID (§11.12.5).
    pub isid: [u8; 6],
    /// TargetName (§13.4); `None` for a discovery session.
    pub target: Option<String>,
    /// Authenticates this initiator if the target requires it. Each login needs a new challenge.
    pub chap: Option<InitiatorChap>,
    /// The values to negotiate.
    pub wanted: Wanted,
}

impl Handshake {
    /// Begins the login of a session's first connection with `target`, or of a discovery session if
    /// `target` is `None`.
    ///
    /// # Errors
    /// If a setting violates the standard.
    pub fn begin(
        initiator: &str,
        isid: [u8; 6],
        target: Option<&str>,
        wanted: Wanted,
    ) -> Result<Self, HandshakeError> {
        let login = LoginSettings {
            initiator: initiator.to_owned(),
            isid,
            target: target.map(str::to_owned),
            chap: None,
            wanted,
        };
        Handshake::lead(&login)
    }

    /// The same, with the settings in one struct.
    ///
    /// # Errors
    /// As for [`Handshake::begin`].
    pub fn lead(login: &LoginSettings) -> Result<Self, HandshakeError> {
        Handshake::of(login, FIRST_CID, Sn(1), None, Stage::OperationalNegotiation)
    }

    /// Begins the login of a connection with `cid` that joins a session.
    pub(super) fn join(
        login: &LoginSettings,
        cid: u16,
        session: &Core,
    ) -> Result<Self, HandshakeError> {
        let joins = Some((session.tsih, session.parameters));
        Handshake::of(login, cid, session.window.cmd_sn(), joins, REACHES_BACK)
    }

    /// Begins the login of the first connection, with `cid`, of a session that replaces one with the same ISID.
    pub(super) fn reinstate(login: &LoginSettings, cid: u16) -> Result<Self, HandshakeError> {
        Handshake::of(login, cid, Sn(1), None, REACHES_BACK)
    }

    fn of(
        login: &LoginSettings,
        cid: u16,
        cmd_sn: Sn,
        joins: Option<(u16, SessionParameters)>,
        begins_in: Stage,
    ) -> Result<Self, HandshakeError> {
        let mut machine = InitiatorLogin::new(InitiatorSettings {
            initiator_name: login.initiator.clone(),
            initiator_alias: None,
            target_name: login.target.clone(),
            isid: login.isid,
            joins,
            cid,
            cmd_sn,
            task_tag: TaskTag(0),
            begins_in,
            chap: login.chap.clone(),
            wanted: login.wanted.clone(),
        })?;
        let first = machine.start();
        let mut handshake = Handshake {
            receiver: Receiver::new(),
            transmitter: Transmitter::new(),
            login: machine,
            isid: login.isid,
            cid,
            joins: joins.map(|(tsih, _)| tsih),
            established: None,
        };
        handshake.push(&first);
        Ok(handshake)
    }

    /// The connection's CID.
    #[must_use]
    pub fn cid(&self) -> u16 {
        self.cid
    }

    fn push(&mut self, request: &crate::login::initiator::Request) {
        let mut bhs = [0; BHS_BYTES];
        request.request.emit(&mut bhs);
        self.transmitter.push(&bhs, &request.data);
    }

    /// Room for bytes from the socket; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.receiver.space()
    }

    /// `bytes` of [`Handshake::space`] were read from the socket.
    pub fn filled(&mut self, bytes: usize) {
        self.receiver.filled(bytes);
    }

    /// Bytes for the socket.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.transmitter.pending()
    }

    /// The socket accepted `bytes` of [`Handshake::pending`].
    pub fn sent(&mut self, bytes: usize) {
        self.transmitter.sent(bytes);
    }

    /// Whether the login is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.established.is_some()
    }

    /// Continues the login with the bytes received.
    ///
    /// # Errors
    /// The login failed: close the connection.
    pub fn receive(&mut self) -> Result<(), HandshakeError> {
        while self.established.is_none() {
            let Some(pdu) = self.receiver.next()? else {
                return Ok(());
            };
            if pdu.opcode() != Opcode::LoginResponse {
                return Err(HandshakeError::NotALogin(pdu.opcode().to_wire()));
            }
            let response = LoginResponse::parse(pdu.bhs)?;
            match self.login.handle(&response, pdu.data) {
                Next::Send(request) => self.push(&request),
                Next::Done(established) => {
                    let digests = established.connection;
                    self.receiver
                        .set_digests(digests.header_digest, digests.data_digest);
                    self.receiver
                        .set_max_data_bytes(digests.max_recv_data_bytes as usize);
                    self.transmitter
                        .set_digests(digests.header_digest, digests.data_digest);
                    self.established = Some(established);
                }
                Next::Redirect { addresses, .. } => {
                    return Err(HandshakeError::Moved { addresses });
                }
                Next::Failed(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Creates the session, for at most `tasks` concurrent tasks.
    ///
    /// # Errors
    /// [`AdmitError`], if the login is not complete or has joined a session.
    pub fn into_session(mut self, tasks: usize) -> Result<Session, AdmitError> {
        let established = self.established.take().ok_or(AdmitError::NotLoggedIn)?;
        if let Some(tsih) = self.joins {
            return Err(AdmitError::OtherSession { tsih });
        }
        let id = SessionId::new(self.isid, established.tsih);
        let begun = Begun {
            id,
            tsih: established.tsih,
            portal_group_tag: established.portal_group_tag,
            parameters: established.session,
            window: CommandWindow::new(Sn(1), established.exp_cmd_sn, established.max_cmd_sn),
        };
        Ok(Session::new(
            begun,
            self.connection(id, &established),
            tasks,
        ))
    }

    /// What the connection enters: the session that it joined, or one that it leads, for at most `tasks` tasks.
    ///
    /// # Errors
    /// [`AdmitError::NotLoggedIn`], if the login is not complete.
    pub fn into_entry(self, tasks: usize) -> Result<Entry, AdmitError> {
        if !self.is_done() {
            return Err(AdmitError::NotLoggedIn);
        }
        if self.joins.is_some() {
            return Ok(Entry::Joins(Box::new(self)));
        }
        let mut lead = self.into_session(tasks)?;
        // Unit attentions about the lost session do not concern its callers.
        lead.core.announced = Some(BTreeSet::new());
        Ok(Entry::Leads(Box::new(lead)))
    }

    /// Makes a connection that joins `session`, whose command window it updates.
    pub(super) fn into_connection(mut self, session: &mut Core) -> Result<Connection, AdmitError> {
        let established = self.established.take().ok_or(AdmitError::NotLoggedIn)?;
        // A leading login may get the same TSIH as the session, from a target that has restarted its numbering.
        if self.joins != Some(session.tsih) {
            let tsih = established.tsih;
            return Err(AdmitError::OtherSession { tsih });
        }
        let announced = (established.exp_cmd_sn, established.max_cmd_sn);
        session.window.update(announced);
        Ok(self.connection(session.id, &established))
    }

    fn connection(self, session: SessionId, established: &Established) -> Connection {
        Connection::new(
            ConnectionId(self.cid),
            session,
            self.receiver,
            self.transmitter,
            established.connection,
            established.exp_stat_sn,
            established.session.error_recovery_level > 0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_the_target_does_not_have_is_given_up() {
        let denies = |status| {
            let refused = InitiatorLoginError::Refused { status };
            HandshakeError::from(refused).denies_the_session()
        };
        assert!(denies(LoginStatus::SessionDoesNotExist));
        for passing in [
            LoginStatus::AuthenticationFailure,
            LoginStatus::NotFound,
            LoginStatus::OutOfResources,
            LoginStatus::ServiceUnavailable,
        ] {
            assert!(!denies(passing));
        }
    }
}
