//! The target's side of a login.

use thiserror::Error;
use wansan_trace::TaskTag;

use super::chap::{ChapError, Said, TargetChap};
use super::sessions::{AnnouncedWindow, Candidate, Found, Refusal, Sessions};
use super::{MAX_LOGIN_TEXT_BYTES, MAX_PDUS, VERSION, leads_on};
use crate::fault::Fault;
use crate::keys::{
    AuthMethod, ConnectionParameters, KeyError, KeyName, Negotiation, Role, SessionParameters,
    SessionType, Wanted,
};
use crate::sequence::Sn;
use crate::text::continuation::{Joiner, Splitter};
use crate::text::push_pair;
use crate::text::send_targets::TargetAddress;
use crate::wire::{DEFAULT_MAX_DATA_BYTES, LoginRequest, LoginResponse, LoginStatus, Stage};

/// A Login Response and its data segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The header.
    pub response: LoginResponse,
    /// The text.
    pub data: Vec<u8>,
}

/// A connection that has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// InitiatorName.
    pub initiator_name: String,
    /// InitiatorAlias, a human-readable name.
    pub initiator_alias: Option<String>,
    /// SessionType.
    pub session_type: SessionType,
    /// TargetName; always present in a normal session.
    pub target_name: Option<String>,
    /// ISID.
    pub isid: [u8; 6],
    /// The session's TSIH.
    pub tsih: u16,
    /// Whether the connection joined a session instead of starting one.
    pub joined: bool,
    /// CID.
    pub cid: u16,
    /// The session's negotiated parameters.
    pub session: SessionParameters,
    /// The connection's negotiated parameters.
    pub connection: ConnectionParameters,
    /// The announced command window.
    pub window: AnnouncedWindow,
    /// The StatSN of the connection's next response.
    pub stat_sn: Sn,
    /// ExpStatSN of the first request: for a connection that takes over the CID of another one, the value that the
    /// initiator expected there (RFC 7143 §11.12.9).
    pub exp_stat_sn: Sn,
}

/// What to do after a Login Request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send the response; the login continues.
    Continue(Reply),
    /// Send the response; the full feature phase begins after it, digests included.
    Done(Reply, Box<Accepted>),
    /// Send the response and close the connection.
    Failed(Reply, TargetLoginError),
}

/// Why a login failed at the target.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetLoginError {
    /// The text or one of its keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// More than [`MAX_PDUS`] requests.
    #[error("login exceeds {MAX_PDUS} requests; the initiator must complete it")]
    Endless,
    /// No version in common.
    #[error(
        "the initiator requires iSCSI version {version_min} or later, this target supports version 0 (RFC 7143 §11.12.4)"
    )]
    UnsupportedVersion {
        /// The initiator's Version-min.
        version_min: u8,
    },
    /// CSG, NSG, T and C that are not valid in the current state.
    #[error(
        "login request of stage {}{}{} is not allowed here; the initiator must follow RFC 7143 §11.12.3",
        stage(*.csg),
        nsg.map_or(String::new(), |nsg| format!(" with a transition to {}", stage(nsg))),
        if *.continued { " with the C bit set" } else { "" }
    )]
    WrongStage {
        /// CSG.
        csg: Stage,
        /// NSG, when T is set.
        nsg: Option<Stage>,
        /// C.
        continued: bool,
    },
    /// Text received before the target's own text is complete.
    #[error(
        "login request interrupts the target's incomplete text; the initiator must answer with an empty request (RFC 7143 §6.2)"
    )]
    OutOfTurn,
    /// A field that must stay the same through a login.
    #[error("{field} changed during login; the initiator must keep it (RFC 7143 §11.12)")]
    Changed {
        /// The field.
        field: &'static str,
    },
    /// A key that the first text must contain.
    #[error("login request lacks {key}; the initiator must send it first (RFC 7143 §{section})")]
    MissingName {
        /// The key.
        key: &'static str,
        /// The section of RFC 7143.
        section: &'static str,
    },
    /// A discovery session has one connection.
    #[error(
        "a connection tried to join a discovery session; the initiator must begin a new session (RFC 7143 §13.21)"
    )]
    JoinsDiscovery,
    /// No authentication method in common.
    #[error(
        "no authentication method in common: this target {}; the initiator must offer that (AuthMethod, RFC 7143 §12.1)",
        if *.demands_chap { "requires CHAP" } else { "has no CHAP accounts and accepts only None" }
    )]
    NoMethod {
        /// Whether the target requires CHAP.
        demands_chap: bool,
    },
    /// The initiator failed to authenticate itself.
    #[error(transparent)]
    Chap(#[from] ChapError),
    /// The caller rejected the candidate.
    #[error(
        "login refused{} (status {:04x}, RFC 7143 §11.13.5)", reason(*.0), .0.to_wire()
    )]
    Refused(LoginStatus),
    /// The caller redirected the login.
    #[error("login redirected to {address}")]
    Moved {
        /// Permanently, not temporarily.
        permanently: bool,
        /// The new address.
        address: TargetAddress,
    },
    /// A PDU other than a Login Request before login was over, or a Login Request after it.
    #[error(
        "PDU is not allowed in this phase of the connection; the initiator must log in first, and once (RFC 7143 §6.3)"
    )]
    InvalidDuringLogin,
}

/// A stage in the notation of RFC 7143 §11.12.3.
const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::SecurityNegotiation => "SecurityNegotiation",
        Stage::OperationalNegotiation => "LoginOperationalNegotiation",
        Stage::FullFeaturePhase => "FullFeaturePhase",
    }
}

/// Why the caller rejects a candidate, where the status shows it.
const fn reason(status: LoginStatus) -> &'static str {
    match status {
        LoginStatus::AuthorizationFailure => ": the target's access list does not admit it",
        LoginStatus::NotFound => ": there is no such target",
        LoginStatus::TooManyConnections => ": the session has its maximum number of connections",
        LoginStatus::SessionDoesNotExist => ": the session to join does not exist",
        LoginStatus::ServiceUnavailable => ": the target accepts no new sessions now",
        LoginStatus::OutOfResources => ": the target is out of resources",
        _ => "",
    }
}

impl TargetLoginError {
    /// The status in the Login Response (RFC 7143 §11.13.5).
    #[must_use]
    pub fn status(&self) -> LoginStatus {
        match self {
            TargetLoginError::Key(_)
            | TargetLoginError::Endless
            | TargetLoginError::WrongStage { .. }
            | TargetLoginError::OutOfTurn
            | TargetLoginError::Changed { .. } => LoginStatus::InitiatorError,
            TargetLoginError::UnsupportedVersion { .. } => LoginStatus::UnsupportedVersion,
            TargetLoginError::MissingName { .. } => LoginStatus::MissingParameter,
            TargetLoginError::JoinsDiscovery => LoginStatus::CannotIncludeInSession,
            TargetLoginError::Chap(error) if error.is_about_form() => LoginStatus::InitiatorError,
            TargetLoginError::Chap(_) | TargetLoginError::NoMethod { .. } => {
                LoginStatus::AuthenticationFailure
            }
            TargetLoginError::Refused(status) => *status,
            TargetLoginError::Moved {
                permanently: true, ..
            } => LoginStatus::TargetMovedPermanently,
            TargetLoginError::Moved {
                permanently: false, ..
            } => LoginStatus::TargetMovedTemporarily,
            TargetLoginError::InvalidDuringLogin => LoginStatus::InvalidDuringLogin,
        }
    }

    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            TargetLoginError::Key(error) => error.fault(),
            TargetLoginError::Chap(error) => error.fault(),
            TargetLoginError::UnsupportedVersion { .. }
            | TargetLoginError::NoMethod { .. }
            | TargetLoginError::Moved { .. } => Fault::PeerIncompatible,
            TargetLoginError::Refused(status) if status.class() == 3 => Fault::EnvironmentLacks,
            TargetLoginError::Refused(_) => Fault::PeerIncompatible,
            _ => Fault::PeerMisbehaved,
        }
    }
}

impl From<Refusal> for TargetLoginError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Status(status) => TargetLoginError::Refused(status),
            Refusal::Moved {
                permanently,
                address,
            } => TargetLoginError::Moved {
                permanently,
                address,
            },
        }
    }
}

/// The target's side of one connection's login.
///
/// [`handle`](Self::handle) takes each Login Request with its data segment until it returns
/// [`Step::Done`] or [`Step::Failed`]; any other PDU goes to [`not_a_login`](Self::not_a_login).
/// The caller limits how long a login may take.
#[derive(Debug)]
pub struct TargetLogin {
    wanted: Wanted,
    requests: u32,
    stat_sn: Sn,
    /// Since the first request.
    dialogue: Option<Dialogue>,
    is_over: bool,
}

impl TargetLogin {
    /// Awaits the first request. `wanted` must pass [`Wanted::check`].
    #[must_use]
    pub fn new(wanted: Wanted) -> Self {
        TargetLogin {
            wanted,
            requests: 0,
            stat_sn: Sn(0),
            dialogue: None,
            is_over: false,
        }
    }

    /// Takes a Login Request and its data segment.
    pub fn handle(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        sessions: &mut dyn Sessions,
    ) -> Step {
        self.advance(request, data, sessions)
            .unwrap_or_else(|error| self.fail(request.task_tag, error))
    }

    /// Whether a Login Request has been received.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.requests > 0
    }

    /// Answers a PDU that is no Login Request, or one with a malformed header: the login fails with "invalid during
    /// login" (RFC 7143 §11.13.5).
    pub fn not_a_login(&mut self, task_tag: TaskTag) -> Step {
        self.fail(task_tag, TargetLoginError::InvalidDuringLogin)
    }

    fn advance(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        sessions: &mut dyn Sessions,
    ) -> Result<Step, TargetLoginError> {
        if self.is_over {
            return Err(TargetLoginError::InvalidDuringLogin);
        }
        self.requests += 1;
        if self.requests > MAX_PDUS {
            return Err(TargetLoginError::Endless);
        }
        if request.version_min > VERSION {
            return Err(TargetLoginError::UnsupportedVersion {
                version_min: request.version_min,
            });
        }
        let dialogue = self.dialogue.get_or_insert_with(|| {
            // A reinstated connection continues the count from the initiator's value (§11.12.9).
            self.stat_sn = request.exp_stat_sn;
            Dialogue::new(request, self.wanted.clone())
        });
        dialogue.check(request)?;
        let (data, continued) = dialogue.exchange(request, data, sessions)?;
        let next = request.nsg.filter(|_| !continued && dialogue.may_move_on());
        let mut response = LoginResponse {
            continue_: continued,
            csg: dialogue.stage,
            nsg: next,
            version_max: VERSION,
            version_active: VERSION,
            isid: request.isid,
            tsih: request.tsih,
            task_tag: request.task_tag,
            stat_sn: self.stat_sn,
            exp_cmd_sn: dialogue.window.exp_cmd_sn,
            max_cmd_sn: dialogue.window.max_cmd_sn,
            status: LoginStatus::Success,
        };
        match next {
            Some(Stage::FullFeaturePhase) => {
                let stat_sn = self.stat_sn.next();
                let accepted = dialogue.conclude(stat_sn, sessions)?;
                response.tsih = accepted.tsih;
                response.exp_cmd_sn = accepted.window.exp_cmd_sn;
                response.max_cmd_sn = accepted.window.max_cmd_sn;
                self.stat_sn = stat_sn;
                self.is_over = true;
                Ok(Step::Done(Reply { response, data }, Box::new(accepted)))
            }
            next => {
                dialogue.stage = next.unwrap_or(dialogue.stage);
                self.stat_sn = self.stat_sn.next();
                Ok(Step::Continue(Reply { response, data }))
            }
        }
    }

    fn fail(&mut self, task_tag: TaskTag, error: TargetLoginError) -> Step {
        self.is_over = true;
        let mut data = Vec::new();
        if let TargetLoginError::Moved { address, .. } = &error {
            // A redirection omits the portal group tag (§13.8).
            let address = TargetAddress {
                portal_group_tag: None,
                ..address.clone()
            };
            push_pair(&mut data, "TargetAddress", &address.to_string());
        }
        let first = self.dialogue.as_ref().map(|dialogue| dialogue.first);
        let response = LoginResponse {
            continue_: false,
            csg: self
                .dialogue
                .as_ref()
                .map_or(Stage::SecurityNegotiation, |dialogue| dialogue.stage),
            nsg: None,
            version_max: VERSION,
            version_active: VERSION,
            isid: first.map_or([0; 6], |first| first.isid),
            tsih: first.map_or(0, |first| first.tsih),
            task_tag,
            stat_sn: self.stat_sn,
            exp_cmd_sn: first.map_or(Sn(0), |first| first.cmd_sn),
            max_cmd_sn: first.map_or(Sn(0), |first| first.cmd_sn),
            status: error.status(),
        };
        self.stat_sn = self.stat_sn.next();
        Step::Failed(Reply { response, data }, error)
    }
}

/// A login in progress.
#[derive(Debug)]
struct Dialogue {
    /// The first request, whose fields must not change.
    first: LoginRequest,
    stage: Stage,
    negotiation: Negotiation,
    question: Joiner,
    answer: Splitter,
    /// The caller's result, once called.
    found: Option<Found>,
    /// Authentication of the initiator, if required.
    chap: Option<TargetChap>,
    window: AnnouncedWindow,
}

impl Dialogue {
    fn new(first: &LoginRequest, wanted: Wanted) -> Self {
        Dialogue {
            first: *first,
            stage: first.csg,
            negotiation: Negotiation::new(
                Role::Target,
                wanted,
                first.tsih == 0,
                SessionType::Normal,
            ),
            question: Joiner::with_bound(MAX_LOGIN_TEXT_BYTES),
            answer: Splitter::default(),
            found: None,
            chap: None,
            // Login Requests are immediate, so this window only has to be valid.
            window: AnnouncedWindow {
                exp_cmd_sn: first.cmd_sn,
                max_cmd_sn: first.cmd_sn,
            },
        }
    }

    /// Checks a request against the first one and the stage.
    fn check(&self, request: &LoginRequest) -> Result<(), TargetLoginError> {
        // CmdSN advances while the session's other connections send commands.
        let same_cmd_sn = self.first.tsih != 0 || request.cmd_sn == self.first.cmd_sn;
        for (field, same) in [
            ("ISID", request.isid == self.first.isid),
            ("TSIH", request.tsih == self.first.tsih),
            ("CID", request.cid == self.first.cid),
            ("CmdSN", same_cmd_sn),
        ] {
            if !same {
                return Err(TargetLoginError::Changed { field });
            }
        }
        if request.csg == Stage::OperationalNegotiation && !self.is_authenticated() {
            // It does not follow into the security stage, or leaves it unasked.
            return Err(TargetLoginError::NoMethod { demands_chap: true });
        }
        let in_stage = request.csg == self.stage && self.stage != Stage::FullFeaturePhase;
        let leads_on = request
            .nsg
            .is_none_or(|nsg| leads_on(request.csg, nsg) && !request.continue_);
        if in_stage && leads_on {
            Ok(())
        } else {
            Err(TargetLoginError::WrongStage {
                csg: request.csg,
                nsg: request.nsg,
                continued: request.continue_,
            })
        }
    }

    /// Takes the request's text and returns the response's, with its C bit.
    fn exchange(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        sessions: &mut dyn Sessions,
    ) -> Result<(Vec<u8>, bool), TargetLoginError> {
        if self.answer.has_more() {
            if !data.is_empty() || request.continue_ {
                return Err(TargetLoginError::OutOfTurn);
            }
        } else if let Some(text) = self
            .question
            .join(data, request.continue_)
            .map_err(KeyError::from)?
        {
            self.answer = Splitter::new(self.respond(&text, sessions)?);
        }
        let piece = self.answer.next_piece(DEFAULT_MAX_DATA_BYTES);
        Ok((piece.data, piece.continued))
    }

    /// Answers a complete text.
    fn respond(
        &mut self,
        text: &[u8],
        sessions: &mut dyn Sessions,
    ) -> Result<Vec<u8>, TargetLoginError> {
        let mut response = Vec::new();
        if self.found.is_none() {
            // The initiator's name determines what is required of it, so the text is parsed once for the names, and
            // then answered.
            let mut glimpse = self.negotiation.clone();
            glimpse.receive(self.stage, text)?;
            let mut found = sessions.find(&self.candidate(&glimpse)?)?;
            self.chap = found.chap.take();
            if let Some(wanted) = found.wanted.take() {
                self.negotiation.set_wanted(wanted);
            }
            if self.chap.is_some() {
                if self.stage == Stage::OperationalNegotiation {
                    // §6.3.1: a login that skips the stage that the target requires is rejected.
                    return Err(TargetLoginError::NoMethod { demands_chap: true });
                }
                self.negotiation.set_auth_methods(&[AuthMethod::Chap]);
            }
            if self.first.tsih != 0 {
                let session = found
                    .session
                    .ok_or(Refusal::Status(LoginStatus::SessionDoesNotExist))?;
                self.window = session.1;
            }
            // §13.9: the first response to a login that names a target contains the tag.
            if glimpse.declared(KeyName::TargetName).is_some() {
                let tag = found.portal_group_tag.to_string();
                push_pair(&mut response, "TargetPortalGroupTag", &tag);
                if let Some(alias) = &found.target_alias {
                    push_pair(&mut response, "TargetAlias", alias);
                }
            }
            self.found = Some(found);
        }
        response.extend_from_slice(&self.negotiation.receive(self.stage, text)?);
        let said = Said::new(self.negotiation.take_exchange());
        match (AuthMethod::in_force(&self.negotiation), &mut self.chap) {
            (Some(AuthMethod::Chap), Some(chap)) => chap.advance(said, &mut response)?,
            (Some(_), _) => said.must_be_empty()?,
            (None, chap) => {
                return Err(TargetLoginError::NoMethod {
                    demands_chap: chap.is_some(),
                });
            }
        }
        self.negotiation.open(self.stage, &mut response);
        Ok(response)
    }

    /// Whether the initiator is authenticated, if required.
    fn is_authenticated(&self) -> bool {
        self.chap.as_ref().is_none_or(TargetChap::is_done)
    }

    /// Whether both ends are done with the stage.
    fn may_move_on(&self) -> bool {
        self.is_authenticated() && !self.question.is_joining() && !self.negotiation.awaits_answers()
    }

    /// The candidate of the login. Fails when the first text lacks a required name.
    fn candidate<'a>(
        &self,
        negotiation: &'a Negotiation,
    ) -> Result<Candidate<'a>, TargetLoginError> {
        let name = |name: KeyName| {
            negotiation
                .declared(name)
                .ok_or(TargetLoginError::MissingName {
                    key: name.key().text,
                    section: name.key().section,
                })
        };
        let session_type = negotiation.session_type();
        if session_type == SessionType::Discovery && self.first.tsih != 0 {
            return Err(TargetLoginError::JoinsDiscovery);
        }
        Ok(Candidate {
            initiator_name: name(KeyName::InitiatorName)?,
            session_type,
            target_name: match session_type {
                SessionType::Normal => Some(name(KeyName::TargetName)?),
                SessionType::Discovery => negotiation.declared(KeyName::TargetName),
            },
            isid: self.first.isid,
            tsih: self.first.tsih,
            cid: self.first.cid,
            cmd_sn: self.first.cmd_sn,
        })
    }

    /// Determines the parameters and admits the connection.
    fn conclude(
        &mut self,
        stat_sn: Sn,
        sessions: &mut dyn Sessions,
    ) -> Result<Accepted, TargetLoginError> {
        self.negotiation.finish()?;
        let candidate = self.candidate(&self.negotiation)?;
        let joined = self.found.as_ref().and_then(|found| found.session);
        let session = match joined {
            Some((parameters, _)) if self.first.tsih != 0 => parameters,
            _ => SessionParameters::in_force(&self.negotiation),
        };
        let connection = ConnectionParameters::in_force(&self.negotiation);
        let admission = sessions.admit(&candidate, &session, &connection)?;
        Ok(Accepted {
            initiator_name: candidate.initiator_name.to_owned(),
            initiator_alias: self
                .negotiation
                .declared(KeyName::InitiatorAlias)
                .map(str::to_owned),
            session_type: candidate.session_type,
            target_name: candidate.target_name.map(str::to_owned),
            isid: candidate.isid,
            tsih: admission.tsih,
            joined: candidate.tsih != 0,
            cid: candidate.cid,
            session,
            connection,
            window: admission.window,
            stat_sn,
            exp_stat_sn: self.first.exp_stat_sn,
        })
    }
}
