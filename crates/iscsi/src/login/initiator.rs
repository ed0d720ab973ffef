//! The initiator's side of a login.

use thiserror::Error;
use wansan_trace::TaskTag;

use super::chap::{ChapError, InitiatorChap, Said};
use super::{MAX_PDUS, VERSION, leads_on};
use crate::fault::Fault;
use crate::keys::{
    AuthMethod, ConnectionParameters, KeyError, KeyName, Negotiation, Role, SessionParameters,
    SessionType, Wanted, WantedError,
};
use crate::sequence::Sn;
use crate::text::continuation::{Joiner, Splitter};
use crate::text::send_targets::{TargetAddress, is_iscsi_name};
use crate::text::{MAX_VALUE_BYTES, pairs, push_pair};
use crate::wire::{DEFAULT_MAX_DATA_BYTES, LoginRequest, LoginResponse, LoginStatus, Stage};

/// The settings of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitiatorSettings {
    /// InitiatorName, an iSCSI name (RFC 7143 §13.5).
    pub initiator_name: String,
    /// InitiatorAlias, a human-readable name of at most 255 bytes (§13.7).
    pub initiator_alias: Option<String>,
    /// The target; `None` for a discovery session.
    pub target_name: Option<String>,
    /// ISID (§11.12.5).
    pub isid: [u8; 6],
    /// The session to join: its TSIH, not 0, and its parameters in force. `None` starts one.
    pub joins: Option<(u16, SessionParameters)>,
    /// CID (§11.12.7).
    pub cid: u16,
    /// CmdSN: the session's first, or its current one when joining (§11.12.8).
    pub cmd_sn: Sn,
    /// The Initiator Task Tag of all requests of the login.
    pub task_tag: TaskTag,
    /// The initial stage. [`Stage::OperationalNegotiation`] saves a round trip; [`Stage::SecurityNegotiation`] is for
    /// targets that require it, and a login with `chap` starts there in any case.
    pub begins_in: Stage,
    /// Authenticates this end if the target requires it.
    pub chap: Option<InitiatorChap>,
    /// The values that this end proposes.
    pub wanted: Wanted,
}

/// A Login Request and its data segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The header.
    pub request: LoginRequest,
    /// The text.
    pub data: Vec<u8>,
}

/// A connection that has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Established {
    /// The session's TSIH.
    pub tsih: u16,
    /// The session's type.
    pub session_type: SessionType,
    /// The session's negotiated parameters.
    pub session: SessionParameters,
    /// The connection's negotiated parameters.
    pub connection: ConnectionParameters,
    /// ExpStatSN: the StatSN of the target's next response.
    pub exp_stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// The portal group that serves the connection (§13.9).
    pub portal_group_tag: Option<u16>,
    /// TargetAlias, the target's human-readable name (§13.6).
    pub target_alias: Option<String>,
}

/// What to do after a Login Response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Send this request.
    Send(Request),
    /// The full feature phase has begun, digests included.
    Done(Box<Established>),
    /// The target redirects the login: log in at one of these addresses instead.
    Redirect {
        /// Permanently: the old address should be dropped.
        permanently: bool,
        /// The addresses; not empty.
        addresses: Vec<TargetAddress>,
    },
    /// Close the connection.
    Failed(InitiatorLoginError),
}

/// Why a login failed at the initiator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InitiatorLoginError {
    /// A setting is out of its range.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// An invalid iSCSI name, or an alias that is too long.
    #[error("{key} {value:?} is not valid (RFC 7143 §{section}); use another")]
    BadName {
        /// The key.
        key: &'static str,
        /// The name.
        value: String,
        /// The section of RFC 7143.
        section: &'static str,
    },
    /// A login cannot begin in the full feature phase, nor a connection join session 0.
    #[error(
        "login cannot begin in full feature phase or join TSIH 0; choose another stage or session"
    )]
    BadStart,
    /// The target's text or one of its keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The target rejected the login.
    #[error(
        "the target refused the login: {status} (status {:#06x}, RFC 7143 §11.13.5)",
        status.to_wire()
    )]
    Refused {
        /// The status.
        status: LoginStatus,
    },
    /// A redirection without an address.
    #[error(
        "the target redirects the login without an address; it must send TargetAddress (RFC 7143 §11.13.5)"
    )]
    MovedNowhere,
    /// No authentication method in common.
    #[error(
        "no authentication method in common: {}",
        if *.has_chap {
            "the target does not accept CHAP; give it an account, or log in without CHAP (RFC 7143 §12.1)"
        } else {
            "the target requires CHAP of this initiator; give a CHAP name and secret (RFC 7143 §12.1)"
        }
    )]
    NoMethod {
        /// Whether this end has an account.
        has_chap: bool,
    },
    /// Authentication failed.
    #[error(transparent)]
    Chap(#[from] ChapError),
    /// A version other than 0.
    #[error(
        "the target uses iSCSI version {version}, this initiator supports version 0 (RFC 7143 §11.13.2)"
    )]
    UnsupportedVersion {
        /// The target's Version-active.
        version: u8,
    },
    /// CSG, NSG, T and C that are not a valid answer to the request.
    #[error(
        "login response with CSG {csg:?}, NSG {nsg:?}, C {continued} is not allowed here; the target must follow RFC 7143 §11.13"
    )]
    WrongStage {
        /// CSG.
        csg: Stage,
        /// NSG, when T is set.
        nsg: Option<Stage>,
        /// C.
        continued: bool,
    },
    /// Text received before this end's own text is complete.
    #[error(
        "login response interrupts the initiator's incomplete text; the target must answer with an empty response (RFC 7143 §6.2)"
    )]
    OutOfTurn,
    /// An ISID or a TSIH that is not this login's, or no TSIH for a new session.
    #[error(
        "login response has ISID {isid:02x?} and TSIH {tsih}, which are not this session's; the target must follow RFC 7143 §11.13"
    )]
    WrongSession {
        /// ISID.
        isid: [u8; 6],
        /// TSIH.
        tsih: u16,
    },
    /// More than [`MAX_PDUS`] responses.
    #[error("login exceeds {MAX_PDUS} responses; the target must complete it")]
    Endless,
    /// [`InitiatorLogin::handle`] was called after the login had ended.
    #[error("login response after the end of the login; the caller must not pass it on")]
    IsOver,
}

impl InitiatorLoginError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            InitiatorLoginError::Wanted(error) => error.fault(),
            InitiatorLoginError::Key(error) => error.fault(),
            InitiatorLoginError::Chap(error) => error.fault(),
            InitiatorLoginError::BadName { .. }
            | InitiatorLoginError::BadStart
            | InitiatorLoginError::IsOver => Fault::CallerMisused,
            InitiatorLoginError::Refused { status } if status.class() == 3 => {
                Fault::EnvironmentLacks
            }
            InitiatorLoginError::Refused { .. }
            | InitiatorLoginError::NoMethod { .. }
            | InitiatorLoginError::UnsupportedVersion { .. } => Fault::PeerIncompatible,
            _ => Fault::PeerMisbehaved,
        }
    }
}

/// The initiator's side of one connection's login.
///
/// [`start`](Self::start) returns the first request; [`handle`](Self::handle) takes each Login Response with its data
/// segment and returns the next step. The caller sets a timeout for each.
#[derive(Debug)]
pub struct InitiatorLogin {
    settings: InitiatorSettings,
    stage: Stage,
    negotiation: Negotiation,
    question: Splitter,
    answer: Joiner,
    exp_stat_sn: Sn,
    responses: u32,
    is_over: bool,
}

impl InitiatorLogin {
    /// Prepares a login.
    ///
    /// # Errors
    /// [`InitiatorLoginError::Wanted`], [`BadName`](InitiatorLoginError::BadName) and
    /// [`BadStart`](InitiatorLoginError::BadStart), for invalid settings.
    pub fn new(settings: InitiatorSettings) -> Result<Self, InitiatorLoginError> {
        settings.wanted.check()?;
        let names = [
            (KeyName::InitiatorName, Some(&settings.initiator_name)),
            (KeyName::TargetName, settings.target_name.as_ref()),
        ];
        let names = names
            .into_iter()
            .filter(|(_, name)| name.is_some_and(|n| !is_iscsi_name(n)));
        let alias = (KeyName::InitiatorAlias, settings.initiator_alias.as_ref());
        let sound = |alias: &str| alias.len() <= MAX_VALUE_BYTES && !alias.contains('\0');
        let alias = Some(alias).filter(|(_, alias)| alias.is_some_and(|alias| !sound(alias)));
        if let Some((name, value)) = names.chain(alias).next() {
            return Err(InitiatorLoginError::BadName {
                key: name.key().text,
                value: value.cloned().unwrap_or_default(),
                section: name.key().section,
            });
        }
        if settings.begins_in == Stage::FullFeaturePhase
            || settings.joins.is_some_and(|(tsih, _)| tsih == 0)
        {
            return Err(InitiatorLoginError::BadStart);
        }
        let session_type = match settings.target_name {
            Some(_) => SessionType::Normal,
            None => SessionType::Discovery,
        };
        let mut negotiation = Negotiation::new(
            Role::Initiator,
            settings.wanted.clone(),
            settings.joins.is_none(),
            session_type,
        );
        let mut stage = settings.begins_in;
        if let Some(chap) = &settings.chap {
            negotiation.set_auth_methods(if chap.insists() {
                &[AuthMethod::Chap]
            } else {
                &[AuthMethod::Chap, AuthMethod::None]
            });
            stage = Stage::SecurityNegotiation;
        }
        Ok(InitiatorLogin {
            stage,
            negotiation,
            settings,
            question: Splitter::default(),
            answer: Joiner::default(),
            exp_stat_sn: Sn(0),
            responses: 0,
            is_over: false,
        })
    }

    /// The first request: the names, and all keys of the first stage.
    pub fn start(&mut self) -> Request {
        let mut text = Vec::new();
        push_pair(&mut text, "InitiatorName", &self.settings.initiator_name);
        if let Some(alias) = &self.settings.initiator_alias {
            push_pair(&mut text, "InitiatorAlias", alias);
        }
        if let Some(target_name) = &self.settings.target_name {
            push_pair(&mut text, "TargetName", target_name);
        }
        // Leading-only (§13.21).
        if self.settings.joins.is_none() {
            let session_type = match self.negotiation.session_type() {
                SessionType::Normal => "Normal",
                SessionType::Discovery => "Discovery",
            };
            push_pair(&mut text, "SessionType", session_type);
        }
        self.say(text)
    }

    /// Takes a Login Response and its data segment.
    pub fn handle(&mut self, response: &LoginResponse, data: &[u8]) -> Next {
        let next = self.advance(response, data).unwrap_or_else(Next::Failed);
        self.is_over |= !matches!(next, Next::Send(_));
        next
    }

    fn advance(
        &mut self,
        response: &LoginResponse,
        data: &[u8],
    ) -> Result<Next, InitiatorLoginError> {
        if self.is_over {
            return Err(InitiatorLoginError::IsOver);
        }
        self.responses += 1;
        if self.responses > MAX_PDUS {
            return Err(InitiatorLoginError::Endless);
        }
        match response.status.class() {
            0 => {}
            1 => return redirection(response.status, data),
            // The only remedy can be named.
            _ if response.status == LoginStatus::AuthenticationFailure
                && self.settings.chap.is_none() =>
            {
                return Err(InitiatorLoginError::NoMethod { has_chap: false });
            }
            _ => {
                return Err(InitiatorLoginError::Refused {
                    status: response.status,
                });
            }
        }
        if response.version_active != VERSION {
            return Err(InitiatorLoginError::UnsupportedVersion {
                version: response.version_active,
            });
        }
        if response.isid != self.settings.isid {
            return Err(wrong_session(response));
        }
        self.exp_stat_sn = response.stat_sn.next();
        self.follow_into_security(response);
        let in_stage = response.csg == self.stage;
        let leads_on = response
            .nsg
            .is_none_or(|nsg| leads_on(self.stage, nsg) && !response.continue_);
        if !in_stage || !leads_on {
            return Err(InitiatorLoginError::WrongStage {
                csg: response.csg,
                nsg: response.nsg,
                continued: response.continue_,
            });
        }
        if self.question.has_more() {
            if !data.is_empty() || response.continue_ || response.nsg.is_some() {
                return Err(InitiatorLoginError::OutOfTurn);
            }
            return Ok(Next::Send(self.next_request()));
        }
        let text = self
            .answer
            .join(data, response.continue_)
            .map_err(KeyError::from)?;
        let Some(text) = text else {
            return Ok(Next::Send(self.request(Vec::new(), false, None)));
        };
        let mut answers = self.negotiation.receive(self.stage, &text)?;
        self.authenticate(response.nsg.is_some(), &mut answers)?;
        match response.nsg {
            Some(Stage::FullFeaturePhase) => self.conclude(response).map(Next::Done),
            Some(stage) => {
                self.stage = stage;
                Ok(Next::Send(self.say(Vec::new())))
            }
            None => Ok(Next::Send(self.say(answers))),
        }
    }

    /// Continues the exchange of the method in force. `moves_on`: the target lets this end leave the stage.
    fn authenticate(
        &mut self,
        moves_on: bool,
        answers: &mut Vec<u8>,
    ) -> Result<(), InitiatorLoginError> {
        let said = Said::new(self.negotiation.take_exchange());
        let in_force = AuthMethod::in_force(&self.negotiation);
        match (in_force, &mut self.settings.chap) {
            (Some(AuthMethod::Chap), Some(chap)) if self.stage == Stage::SecurityNegotiation => {
                if !(said.is_empty() && chap.has_said_all()) {
                    chap.advance(said, answers)?;
                }
                if moves_on && !chap.is_done() {
                    return Err(ChapError::NotProved.into());
                }
            }
            (Some(AuthMethod::None), Some(chap)) if moves_on && chap.insists() => {
                return Err(ChapError::NotProved.into());
            }
            (Some(_), _) => said.must_be_empty()?,
            (None, chap) => {
                return Err(InitiatorLoginError::NoMethod {
                    has_chap: chap.is_some(),
                });
            }
        }
        Ok(())
    }

    /// Whether this end has an exchange to finish before the next stage.
    fn is_authenticating(&self) -> bool {
        let chap = self.settings.chap.as_ref();
        AuthMethod::in_force(&self.negotiation) == Some(AuthMethod::Chap)
            && chap.is_some_and(|chap| !chap.has_said_all())
    }

    /// A target may require the security stage by answering in it, though the login started in the operational one. It
    /// has ignored our offers then.
    fn follow_into_security(&mut self, response: &LoginResponse) {
        let first = self.responses == 1 && !self.question.has_more();
        if first && leads_on(response.csg, self.stage) {
            self.negotiation.withdraw();
            self.stage = response.csg;
        }
    }

    /// Starts to send `text` and this end's other keys of the stage.
    fn say(&mut self, mut text: Vec<u8>) -> Request {
        self.negotiation.open(self.stage, &mut text);
        self.question = Splitter::new(text);
        self.next_request()
    }

    /// The next piece of this end's text. The last one requests the next stage, because this end sends all its keys at
    /// once, except the steps of an authentication.
    fn next_request(&mut self) -> Request {
        let piece = self.question.next_piece(DEFAULT_MAX_DATA_BYTES);
        let next = match self.stage {
            Stage::SecurityNegotiation => Stage::OperationalNegotiation,
            _ => Stage::FullFeaturePhase,
        };
        let nsg = Some(next).filter(|_| !piece.continued && !self.is_authenticating());
        self.request(piece.data, piece.continued, nsg)
    }

    fn request(&self, data: Vec<u8>, continue_: bool, nsg: Option<Stage>) -> Request {
        let request = LoginRequest {
            continue_,
            csg: self.stage,
            nsg,
            version_max: VERSION,
            version_min: VERSION,
            isid: self.settings.isid,
            tsih: self.settings.joins.map_or(0, |(tsih, _)| tsih),
            task_tag: self.settings.task_tag,
            cid: self.settings.cid,
            cmd_sn: self.settings.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        Request { request, data }
    }

    fn conclude(&self, response: &LoginResponse) -> Result<Box<Established>, InitiatorLoginError> {
        self.negotiation.finish()?;
        let session = match self.settings.joins {
            Some((tsih, _)) if tsih != response.tsih => return Err(wrong_session(response)),
            Some((_, session)) => session,
            None if response.tsih == 0 => return Err(wrong_session(response)),
            None => SessionParameters::in_force(&self.negotiation),
        };
        Ok(Box::new(Established {
            tsih: response.tsih,
            session_type: self.negotiation.session_type(),
            session,
            connection: ConnectionParameters::in_force(&self.negotiation),
            exp_stat_sn: self.exp_stat_sn,
            exp_cmd_sn: response.exp_cmd_sn,
            max_cmd_sn: response.max_cmd_sn,
            portal_group_tag: self.negotiation.portal_group_tag(),
            target_alias: self
                .negotiation
                .declared(KeyName::TargetAlias)
                .map(str::to_owned),
        }))
    }
}

fn wrong_session(response: &LoginResponse) -> InitiatorLoginError {
    InitiatorLoginError::WrongSession {
        isid: response.isid,
        tsih: response.tsih,
    }
}

/// Parses a redirection. All of it is in one response.
fn redirection(status: LoginStatus, data: &[u8]) -> Result<Next, InitiatorLoginError> {
    let pairs = pairs(data).map_err(KeyError::from)?;
    let addresses: Vec<_> = pairs
        .iter()
        .filter(|pair| pair.name == "TargetAddress")
        .filter_map(|pair| TargetAddress::parse(pair.value))
        .collect();
    if addresses.is_empty() {
        return Err(InitiatorLoginError::MovedNowhere);
    }
    let permanently = status == LoginStatus::TargetMovedPermanently;
    Ok(Next::Redirect {
        permanently,
        addresses,
    })
}
