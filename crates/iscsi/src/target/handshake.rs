//! A target's connection until it has logged in.

use std::sync::Arc;

use wansan_trace::{ConnectionId, SessionId};

use super::connection::Connection;
use super::session::{Session, SessionConfig};
use crate::keys::{SessionType, Wanted};
use crate::login::{Accepted, Sessions, Step, TargetLogin, TargetLoginError};
use crate::scsi::InitiatorPort;
use crate::text::send_targets::TargetRecord;
use crate::wire::{BHS_BYTES, FrameError, LoginRequest, Opcode, Receiver, Transmitter};

/// A connection in the login phase. It takes 16 KiB for received bytes and one response for sent
/// ones.
///
/// Input goes through [`Handshake::space`] and [`Handshake::filled`], then [`Handshake::receive`]; output through
/// [`Handshake::pending`] and [`Handshake::sent`]. When login is complete, [`Handshake::into_session`] creates the
/// session, or [`Handshake::into_connection`] a connection of the one that it joins; bytes received after the login go
/// with it.
#[derive(Debug)]
pub struct Handshake {
    receiver: Receiver,
    transmitter: Transmitter,
    login: TargetLogin,
}

/// Why a login ended without a session. Send pending bytes before closing the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The byte stream cannot be split into PDUs.
    #[error("login: {0}")]
    Frame(#[from] FrameError),
    /// Login failed.
    #[error("login: {0}")]
    Login(#[from] TargetLoginError),
}

impl Handshake {
    /// Waits for a login that negotiates `wanted`, which must pass [`Wanted::check`].
    #[must_use]
    pub fn new(wanted: Wanted) -> Self {
        Handshake {
            receiver: Receiver::new(),
            transmitter: Transmitter::new(),
            login: TargetLogin::new(wanted),
        }
    }

    /// Whether a complete Login Request has been received.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.login.has_begun()
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

    /// Continues the login with the bytes received. `Some` when it is complete: nothing after it has been processed.
    ///
    /// # Errors
    /// Send pending bytes and close the connection.
    pub fn receive(
        &mut self,
        sessions: &mut dyn Sessions,
    ) -> Result<Option<Box<Accepted>>, HandshakeError> {
        while let Some(pdu) = self.receiver.next()? {
            let step = match pdu.opcode() {
                Opcode::LoginRequest => match LoginRequest::parse(pdu.bhs) {
                    Ok(request) => self.login.handle(&request, pdu.data, sessions),
                    Err(_) => self.login.not_a_login(pdu.task_tag()),
                },
                _ => self.login.not_a_login(pdu.task_tag()),
            };
            let (Step::Continue(reply) | Step::Done(reply, _) | Step::Failed(reply, _)) = &step;
            let mut bhs = [0; BHS_BYTES];
            reply.response.emit(&mut bhs);
            self.transmitter.push(&bhs, &reply.data);
            match step {
                Step::Continue(_) => {}
                Step::Done(_, accepted) => return Ok(Some(accepted)),
                Step::Failed(_, error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// The session that the connection joins, by its first header: `None` until that was received, and for a new
    /// session.
    #[must_use]
    pub fn joins(&self) -> Option<SessionId> {
        let request = LoginRequest::parse(self.receiver.peek()?).ok()?;
        (request.tsih != 0).then(|| SessionId::new(request.isid, request.tsih))
    }

    /// Creates the session that `accepted` starts. `targets` answers SendTargets.
    #[must_use]
    pub fn into_session(
        self,
        accepted: Accepted,
        config: SessionConfig,
        targets: Arc<[TargetRecord]>,
    ) -> Session {
        let connection = self.into_connection(&accepted);
        let id = SessionId::new(accepted.isid, accepted.tsih);
        let discovery = accepted.session_type == SessionType::Discovery;
        let name = accepted.target_name.filter(|_| !discovery);
        let exp_cmd_sn = accepted.window.exp_cmd_sn;
        let initiator = InitiatorPort {
            name: accepted.initiator_name,
            isid: accepted.isid,
        };
        Session::new(
            id,
            initiator,
            name,
            targets,
            accepted.session,
            config,
            exp_cmd_sn,
            connection,
        )
    }

    /// Creates the connection with which `accepted` joins an existing session.
    #[must_use]
    pub fn into_connection(mut self, accepted: &Accepted) -> Connection {
        let parameters = accepted.connection;
        self.receiver
            .set_digests(parameters.header_digest, parameters.data_digest);
        self.receiver
            .set_max_data_bytes(parameters.max_recv_data_bytes as usize);
        self.transmitter
            .set_digests(parameters.header_digest, parameters.data_digest);
        Connection::new(
            ConnectionId(accepted.cid),
            SessionId::new(accepted.isid, accepted.tsih),
            self.receiver,
            self.transmitter,
            parameters,
            (accepted.stat_sn, accepted.exp_stat_sn),
        )
    }
}
