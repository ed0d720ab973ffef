//! The negotiation of one connection's keys (RFC 7143 §6.2), driven by the table.

use thiserror::Error;

use super::auth_method::AuthMethod;
use super::parameters::{SessionType, Wanted};
use super::table::{KEYS, Key, KeyName, Rule, Senders, TABLE, Use};
use super::value::{Refusal, Value};
use crate::fault::Fault;
use crate::text::{TextError, pairs, push_pair};
use crate::wire::Stage;

/// Maximum number of key=value pairs in one text. The standard has 35 keys; the rest is headroom for vendor-specific
/// keys, each of which needs an answer longer than the shortest offer.
pub const MAX_PAIRS: usize = 256;

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends commands.
    Initiator,
    /// Serves them.
    Target,
}

/// A value that this end has offered and that the peer has not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer(Value);

/// State of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// Neither end has sent it: its default is in force.
    Silent,
    /// This end has sent it.
    Offered(Offer),
    /// Both ends have sent it, or the peer declared it.
    InForce(Value),
    /// One end has rejected the other's value: its default is in force.
    Refused,
}

/// Why a negotiation fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text is malformed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// More than [`MAX_PAIRS`].
    #[error("text has more than {MAX_PAIRS} pairs; the peer must send fewer")]
    TooManyPairs,
    /// A key in a stage that does not allow it.
    #[error("{key} is not allowed in stage {stage:?}; the peer must follow RFC 7143 §{section}")]
    WrongStage {
        /// The key.
        key: &'static str,
        /// The stage.
        stage: Stage,
        /// The section of RFC 7143.
        section: &'static str,
    },
    /// A key that only the other end may send.
    #[error("{key} was sent by the wrong end; the peer must follow RFC 7143 §{section}")]
    WrongSender {
        /// The key.
        key: &'static str,
        /// The section of RFC 7143.
        section: &'static str,
    },
    /// A repeated key (RFC 7143 §6.3).
    #[error("{key} was sent twice; the peer must send each key once in a login (RFC 7143 §6.3)")]
    Repeated {
        /// The key.
        key: &'static str,
    },
    /// An invalid declared value.
    #[error(
        "{key}={value} is not a valid declaration (RFC 7143 §{section}); the peer must declare another value"
    )]
    BadDeclaration {
        /// The key.
        key: &'static str,
        /// The value received, truncated for display.
        value: String,
        /// The section of RFC 7143.
        section: &'static str,
    },
    /// An answer that is not valid for the offer.
    #[error(
        "{key}={answer} is not a valid answer to {key}={offer}; the peer must follow RFC 7143 §{section}"
    )]
    BadAnswer {
        /// The key.
        key: &'static str,
        /// What this end offered.
        offer: String,
        /// The answer received, truncated for display.
        answer: String,
        /// The section of RFC 7143.
        section: &'static str,
    },
    /// The negotiated value is not acceptable to this end.
    #[error(
        "{key} was negotiated to {in_force}, but this end requires {wanted}; change either end's setting"
    )]
    Unacceptable {
        /// The key.
        key: &'static str,
        /// The value that this end requires.
        wanted: String,
        /// The negotiated value.
        in_force: String,
    },
}

impl KeyError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            KeyError::Unacceptable { .. } => Fault::PeerIncompatible,
            _ => Fault::PeerMisbehaved,
        }
    }
}

/// Truncates a peer's text for error messages.
pub(crate) fn readable(value: &str) -> String {
    value
        .chars()
        .take(64)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The negotiation of one connection, on either end.
///
/// [`open`](Self::open) writes what this end's offers and declarations of a stage; [`receive`](Self::receive) takes the
/// peer's text and writes the answers to it; [`finish`](Self::finish) checks that the result is acceptable to this end,
/// which [`SessionParameters`](super::SessionParameters) and [`ConnectionParameters`](super::ConnectionParameters) then
/// read.
#[derive(Debug, Clone)]
pub struct Negotiation {
    role: Role,
    wanted: Wanted,
    session_type: SessionType,
    leading: bool,
    standings: [Standing; KEYS],
    own_length_declared: bool,
    auth_methods: &'static [AuthMethod],
    /// The peer's keys of the authentication exchange, for the login to take.
    exchange: Vec<(KeyName, String)>,
}

impl Negotiation {
    /// Begins. `leading`: the connection is the first of its session. A target learns the session type from the
    /// initiator; an initiator passes it here.
    #[must_use]
    pub fn new(role: Role, wanted: Wanted, leading: bool, session_type: SessionType) -> Self {
        Negotiation {
            role,
            wanted,
            session_type,
            leading,
            standings: [const { Standing::Silent }; KEYS],
            own_length_declared: false,
            auth_methods: &[AuthMethod::None],
            exchange: Vec::new(),
        }
    }

    /// Sets the values that this end proposes, before it has sent any.
    pub fn set_wanted(&mut self, wanted: Wanted) {
        self.wanted = wanted;
    }

    /// The values that this end proposes.
    #[must_use]
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Sets the acceptable authentication methods, in order of preference. The default is None.
    pub fn set_auth_methods(&mut self, methods: &'static [AuthMethod]) {
        self.auth_methods = methods;
    }

    /// This end's preference for a key.
    fn wish(&self, name: KeyName) -> Option<Value> {
        match name {
            KeyName::AuthMethod => {
                let texts = self.auth_methods.iter().map(|method| method.text());
                Some(Value::List(texts.collect()))
            }
            name => self.wanted.wish(name),
        }
    }

    /// Appends this end's offers and declarations of `stage`.
    ///
    /// An initiator offers all configurable keys. A target, which has to answer anyway, offers only keys whose default
    /// it cannot accept, because each offer of its own costs a round trip. Both declare MaxRecvDataSegmentLength.
    pub fn open(&mut self, stage: Stage, text: &mut Vec<u8>) {
        for key in TABLE.iter().filter(|key| key.allowed_in(stage)) {
            let Some(wish) = self.wish(key.name) else {
                continue;
            };
            if key.name == KeyName::MaxRecvDataSegmentLength {
                if !self.own_length_declared {
                    push_pair(text, key.text, &wish.to_string());
                    self.own_length_declared = true;
                }
            } else if *self.standing(key) == Standing::Silent
                && self.is_relevant(key)
                && self.is_worth_an_offer(key, &wish)
            {
                push_pair(text, key.text, &wish.to_string());
                self.standings[key.name as usize] = Standing::Offered(Offer(wish));
            }
        }
    }

    fn is_worth_an_offer(&self, key: &Key, wish: &Value) -> bool {
        // Newer than RFC 3720, so older targets do not know them, and omitting them means the same.
        let newer = matches!(key.name, KeyName::TaskReporting | KeyName::ProtocolLevel);
        let silence_will_do = key
            .rule
            .default()
            .is_some_and(|default| key.rule.admits(wish, &default));
        !silence_will_do || (self.role == Role::Initiator && !newer)
    }

    /// Takes the peer's complete text of one sequence and returns the answers.
    ///
    /// # Errors
    /// A [`KeyError`] when the peer violated a rule that ends the login.
    pub fn receive(&mut self, stage: Stage, text: &[u8]) -> Result<Vec<u8>, KeyError> {
        let pairs = pairs(text)?;
        if pairs.len() > MAX_PAIRS {
            return Err(KeyError::TooManyPairs);
        }
        let mut answers = Vec::new();
        let mut known = Vec::new();
        for pair in pairs {
            match Key::by_text(pair.name) {
                Some(key) => known.push((key, pair.value)),
                // An answer to a key that this end never sent is not answered.
                None if Refusal::parse(pair.value).is_some() => {}
                None => push_pair(&mut answers, pair.name, Refusal::NotUnderstood.text()),
            }
        }
        // In the table's order, not in the peer's: see KeyName.
        known.sort_by_key(|(key, _)| key.name);
        for (key, value) in known {
            if !key.allowed_in(stage) {
                return Err(KeyError::WrongStage {
                    key: key.text,
                    stage,
                    section: key.section,
                });
            }
            if let Some(answer) = self.take(key, value)? {
                push_pair(&mut answers, key.text, &answer);
            }
        }
        Ok(answers)
    }

    /// Takes one known key; returns the answer to send, if any.
    fn take(&mut self, key: &'static Key, value: &str) -> Result<Option<String>, KeyError> {
        if key.rule == Rule::Obsolete {
            return Ok(Refusal::parse(value)
                .is_none()
                .then(|| Refusal::Reject.text().to_owned()));
        }
        if let Rule::Exchange { .. } = key.rule {
            if self.exchange.iter().any(|(name, _)| *name == key.name) {
                return Err(KeyError::Repeated { key: key.text });
            }
            self.exchange.push((key.name, value.to_owned()));
            return Ok(None);
        }
        if !key.is_negotiated() {
            return self.take_declaration(key, value).map(|()| None);
        }
        let offer = match self.standing(key) {
            Standing::Silent => return Ok(Some(self.answer(key, value))),
            Standing::Offered(Offer(offer)) => offer.clone(),
            Standing::InForce(_) | Standing::Refused => {
                return Err(KeyError::Repeated { key: key.text });
            }
        };
        self.standings[key.name as usize] = if Refusal::parse(value).is_some() {
            Standing::Refused
        } else {
            let result = key
                .rule
                .parse(value)
                .filter(|result| key.rule.admits(&offer, result));
            Standing::InForce(result.ok_or_else(|| KeyError::BadAnswer {
                key: key.text,
                offer: offer.to_string(),
                answer: readable(value),
                section: key.section,
            })?)
        };
        Ok(None)
    }

    /// Answers the peer's offer (§6.2.1, §6.2.2).
    fn answer(&mut self, key: &'static Key, value: &str) -> String {
        let (standing, answer) =
            if key.irrelevant_in_discovery && self.session_type == SessionType::Discovery {
                (Standing::Refused, Refusal::Irrelevant.text().to_owned())
            } else {
                // tgt offers session keys on joining connections, and aborts when they are rejected. The session's
                // values stay, so an initiator may well repeat the values that led to them.
                let speaks = self.is_relevant(key) || self.role == Role::Initiator;
                let result = speaks
                    .then(|| key.rule.parse(value))
                    .flatten()
                    .zip(self.bounded_wish(key))
                    .and_then(|(offer, wish)| key.rule.result(&offer, &wish));
                match result {
                    Some(result) => (Standing::InForce(result.clone()), result.to_string()),
                    None => (Standing::Refused, Refusal::Reject.text().to_owned()),
                }
            };
        self.standings[key.name as usize] = standing;
        answer
    }

    /// This end's preference; FirstBurstLength must not exceed MaxBurstLength (§13.14).
    fn bounded_wish(&self, key: &Key) -> Option<Value> {
        match self.wish(key.name)? {
            Value::Number(bytes) if key.name == KeyName::FirstBurstLength => Some(Value::Number(
                bytes.min(self.number(KeyName::MaxBurstLength)),
            )),
            wish => Some(wish),
        }
    }

    fn take_declaration(&mut self, key: &'static Key, value: &str) -> Result<(), KeyError> {
        if Refusal::parse(value).is_some() && self.may_send(key) {
            // The peer ignores our declaration.
            return Ok(());
        }
        let from_peer = match self.role {
            Role::Initiator => Senders::Target,
            Role::Target => Senders::Initiator,
        };
        if key.senders != from_peer && key.senders != Senders::Both {
            return Err(KeyError::WrongSender {
                key: key.text,
                section: key.section,
            });
        }
        let declared = key
            .rule
            .parse(value)
            .ok_or_else(|| KeyError::BadDeclaration {
                key: key.text,
                value: readable(value),
                section: key.section,
            })?;
        if key.name == KeyName::TargetAddress {
            // May be sent more than once; used in redirections and SendTargets only.
            return Ok(());
        }
        if *self.standing(key) != Standing::Silent {
            return Err(KeyError::Repeated { key: key.text });
        }
        if key.name == KeyName::SessionType && value == "Discovery" {
            self.session_type = SessionType::Discovery;
        }
        self.standings[key.name as usize] = Standing::InForce(declared);
        Ok(())
    }

    fn may_send(&self, key: &Key) -> bool {
        match key.senders {
            Senders::Both => true,
            Senders::Initiator => self.role == Role::Initiator,
            Senders::Target => self.role == Role::Target,
        }
    }

    fn is_relevant(&self, key: &Key) -> bool {
        (self.leading || key.used != Use::LeadingOnly)
            && !(key.irrelevant_in_discovery && self.session_type == SessionType::Discovery)
    }

    /// Withdraws this end's offers and declarations, because the peer has not processed them.
    pub fn withdraw(&mut self) {
        for standing in &mut self.standings {
            if matches!(standing, Standing::Offered(_)) {
                *standing = Standing::Silent;
            }
        }
        self.own_length_declared = false;
    }

    /// Takes the peer's keys of the authentication exchange since the last call.
    pub fn take_exchange(&mut self) -> Vec<(KeyName, String)> {
        std::mem::take(&mut self.exchange)
    }

    /// Whether an offer was rejected, so that the two ends have no value in common for this key.
    #[must_use]
    pub fn is_refused(&self, name: KeyName) -> bool {
        *self.standing(name.key()) == Standing::Refused
    }

    /// Whether the peer still owes an answer to an offer of this end.
    #[must_use]
    pub fn awaits_answers(&self) -> bool {
        self.standings
            .iter()
            .any(|standing| matches!(standing, Standing::Offered(_)))
    }

    /// Checks that the negotiated values are acceptable to this end. An offer that the peer never
    /// answered counts as refused: the default applies.
    ///
    /// # Errors
    /// [`KeyError::Unacceptable`] names the first key whose value is not acceptable.
    pub fn finish(&self) -> Result<(), KeyError> {
        for key in TABLE
            .iter()
            .filter(|key| key.is_negotiated() && self.is_relevant(key))
        {
            let (Some(wish), Some(in_force)) = (self.wish(key.name), self.in_force(key.name))
            else {
                continue;
            };
            if !key.rule.admits(&wish, &in_force) {
                return Err(KeyError::Unacceptable {
                    key: key.text,
                    wanted: wish.to_string(),
                    in_force: in_force.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The session's type, as far as known.
    #[must_use]
    pub fn session_type(&self) -> SessionType {
        self.session_type
    }

    /// The peer's declaration of a key with a text value.
    #[must_use]
    pub fn declared(&self, name: KeyName) -> Option<&str> {
        match self.standing(name.key()) {
            Standing::InForce(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The TargetPortalGroupTag that the target declared.
    #[must_use]
    pub fn portal_group_tag(&self) -> Option<u16> {
        match self.in_force(KeyName::TargetPortalGroupTag) {
            Some(Value::Number(tag)) => u16::try_from(tag).ok(),
            _ => None,
        }
    }

    /// The negotiated boolean; false for a key of another type.
    #[must_use]
    pub fn boolean(&self, name: KeyName) -> bool {
        self.in_force(name) == Some(Value::Boolean(true))
    }

    /// The negotiated number; 0 for a key of another type. For MaxRecvDataSegmentLength it is the
    /// peer's.
    #[must_use]
    pub fn number(&self, name: KeyName) -> u32 {
        match self.in_force(name) {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    /// The negotiated element of a list; empty for a key of another type.
    #[must_use]
    pub fn chosen(&self, name: KeyName) -> &'static str {
        match self.in_force(name) {
            Some(Value::List(values)) => values.first().copied().unwrap_or_default(),
            _ => "",
        }
    }

    /// The MaxRecvDataSegmentLength that this end has declared, or the default.
    #[must_use]
    pub fn own_max_recv_data_bytes(&self) -> u32 {
        match KeyName::MaxRecvDataSegmentLength.key().rule {
            Rule::DeclaredNumber {
                default: Some(default),
                ..
            } if !self.own_length_declared => default,
            _ => self.wanted.max_recv_data_bytes,
        }
    }

    fn standing(&self, key: &Key) -> &Standing {
        &self.standings[key.name as usize]
    }

    fn in_force(&self, name: KeyName) -> Option<Value> {
        match self.standing(name.key()) {
            Standing::InForce(value) => Some(value.clone()),
            _ => name.key().rule.default(),
        }
    }
}
