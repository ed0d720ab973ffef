//! The sessions of a target, and their fields in login responses.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use wansan_trace::SessionId;

use super::session::{Session, SessionConfig};
use crate::keys::{ConnectionParameters, SessionParameters, SessionType, Wanted};
use crate::login::{Admitted, AnnouncedWindow, Candidate, Found, Refusal, Sessions};
use crate::wire::LoginStatus;

/// Most sessions of a target.
pub const MAX_SESSIONS: usize = 16 << 10;

/// Most ended sessions with store operations outstanding. At this limit no new session begins.
pub const MAX_ENDED: usize = 4 << 10;

// Each has a TSIH of its own, which is not 0 (RFC 7143 §11.12.6).
const _: () = assert!(MAX_SESSIONS + MAX_ENDED < u16::MAX as usize);

/// Identifies a session before it has a TSIH (RFC 7143 §3.4.3): one I_T nexus has one session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Nexus {
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// Its ISID.
    pub isid: [u8; 6],
    /// The target's name; empty for a discovery session.
    pub target: String,
}

impl Nexus {
    /// The nexus of a login.
    #[must_use]
    pub fn of(candidate: &Candidate<'_>) -> Nexus {
        let target = match candidate.session_type {
            SessionType::Normal => candidate.target_name,
            SessionType::Discovery => None,
        };
        Nexus {
            initiator: candidate.initiator_name.to_owned(),
            isid: candidate.isid,
            target: target.unwrap_or_default().to_owned(),
        }
    }
}

/// A session and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known<O> {
    /// Its ID.
    pub session: SessionId,
    /// The driver's identifier of the session's owner, such as a thread.
    pub owner: O,
}

/// The sessions of a target. Used at login and at the end of a session only.
///
/// [`enter`](SessionDirectory::enter) a session when its login has succeeded, let it [`leave`](SessionDirectory::leave)
/// when it ends, and report it [`quiet`](SessionDirectory::quiet) when all its store operations have completed: until
/// then its target is in use, and its TSIH is taken. There are at most [`MAX_SESSIONS`] of the first and [`MAX_ENDED`]
/// of the second.
#[derive(Debug)]
pub struct SessionDirectory<O> {
    /// Live sessions, and those that have ended, or were replaced, with operations outstanding; by TSIH.
    sessions: HashMap<u16, Entry<O>>,
    /// The TSIHs of live sessions.
    living: HashMap<Arc<Nexus>, u16>,
    last_tsih: u16,
}

/// A session whose TSIH is taken.
#[derive(Debug)]
struct Entry<O> {
    known: Known<O>,
    nexus: Arc<Nexus>,
}

/// The TSIH of a session.
fn tsih_of(session: SessionId) -> u16 {
    (session.0 & 0xffff) as u16
}

impl<O: Copy> SessionDirectory<O> {
    /// An empty directory, whose TSIHs begin after `last_tsih`.
    #[must_use]
    pub fn after(last_tsih: u16) -> Self {
        SessionDirectory {
            sessions: HashMap::new(),
            living: HashMap::new(),
            last_tsih,
        }
    }

    /// An empty directory, whose TSIHs begin at random: a connection of a session from before the target's restart must
    /// not find another one of the same TSIH.
    #[must_use]
    pub fn anywhere() -> Self {
        Self::after(RandomState::new().hash_one(()) as u16)
    }

    /// Adds a new session and returns its ID, with the one it replaces (session reinstatement, §6.3.5). `None` at the
    /// limit.
    pub fn enter(&mut self, nexus: Nexus, owner: O) -> Option<(SessionId, Option<Known<O>>)> {
        let full = self.living.len() >= MAX_SESSIONS && !self.living.contains_key(&nexus);
        if full || self.ended() >= MAX_ENDED {
            return None;
        }
        // There are fewer sessions than TSIHs, so one is free. 0 means "no session yet" (§11.12.6).
        let tsih = loop {
            self.last_tsih = self.last_tsih.wrapping_add(1).max(1);
            if !self.sessions.contains_key(&self.last_tsih) {
                break self.last_tsih;
            }
        };
        let session = SessionId::new(nexus.isid, tsih);
        let known = Known { session, owner };
        let nexus = Arc::new(nexus);
        let replaced = self.living.insert(Arc::clone(&nexus), tsih);
        let replaced = replaced.and_then(|tsih| Some(self.sessions.get(&tsih)?.known));
        self.sessions.insert(tsih, Entry { known, nexus });
        Some((session, replaced))
    }

    /// Number of ended sessions with operations outstanding.
    fn ended(&self) -> usize {
        self.sessions.len() - self.living.len()
    }

    /// The session with that ID, if it is live.
    fn entry(&self, session: SessionId) -> Option<&Entry<O>> {
        let tsih = tsih_of(session);
        let entry = self.sessions.get(&tsih)?;
        let lives = self.living.get(&entry.nexus) == Some(&tsih);
        (lives && entry.known.session == session).then_some(entry)
    }

    /// The owner of a live session.
    #[must_use]
    pub fn owner(&self, session: SessionId) -> Option<O> {
        Some(self.entry(session)?.known.owner)
    }

    /// Whether `session` is the present one of `nexus`.
    #[must_use]
    pub fn is(&self, nexus: &Nexus, session: SessionId) -> bool {
        let entry = self.entry(session);
        entry.is_some_and(|entry| *entry.nexus == *nexus)
    }

    /// Whether no session is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.living.is_empty()
    }

    /// Whether a target has sessions, or ended ones with store operations outstanding.
    #[must_use]
    pub fn has_sessions(&self, target: &str) -> bool {
        let mut all = self.sessions.values();
        all.any(|entry| entry.nexus.target == target)
    }

    /// The live sessions.
    pub fn living(&self) -> impl Iterator<Item = (&Nexus, &Known<O>)> {
        let entries = self
            .living
            .values()
            .filter_map(|tsih| self.sessions.get(tsih));
        entries.map(|entry| (&*entry.nexus, &entry.known))
    }

    /// A session has ended.
    pub fn leave(&mut self, session: SessionId) {
        if let Some(entry) = self.entry(session) {
            let nexus = Arc::clone(&entry.nexus);
            self.living.remove(&nexus);
        }
    }

    /// Forgets an ended session after the stores have completed all its operations.
    pub fn quiet(&mut self, session: SessionId) {
        let tsih = tsih_of(session);
        let is_it = |entry: &Entry<O>| entry.known.session == session;
        if self.entry(session).is_none() && self.sessions.get(&tsih).is_some_and(is_it) {
            self.sessions.remove(&tsih);
        }
    }
}

impl Session {
    /// The keys and the command window in the login response of a connection that joins a session.
    #[must_use]
    pub fn announced(&self) -> (SessionParameters, AnnouncedWindow) {
        (*self.parameters(), self.window())
    }

    /// Whether a login's connection may join (RFC 7143 §6.3.1). One with the CID of another replaces that one (§6.3.4),
    /// so it is admitted even where the session is full.
    ///
    /// # Errors
    /// The session has the maximum number of connections.
    pub fn let_in(&self, candidate: &Candidate<'_>) -> Result<Admitted, Refusal> {
        let most = usize::from(self.parameters().max_connections);
        let takes_over = self.place_of(candidate.cid).is_some();
        if !takes_over && self.connections() >= most {
            return Err(Refusal::Status(LoginStatus::TooManyConnections));
        }
        Ok(Admitted {
            tsih: candidate.tsih,
            window: self.window(),
        })
    }
}

impl SessionConfig {
    /// The fields of the login response of a new session.
    #[must_use]
    pub fn begin(
        &self,
        candidate: &Candidate<'_>,
        parameters: &SessionParameters,
        session: SessionId,
    ) -> Admitted {
        let exp_cmd_sn = candidate.cmd_sn;
        Admitted {
            tsih: tsih_of(session),
            window: AnnouncedWindow {
                exp_cmd_sn,
                max_cmd_sn: exp_cmd_sn.add(self.window(parameters) - 1),
            },
        }
    }
}

/// A target with a single name and without access control, as seen by one login.
pub struct Desk<'a, O> {
    /// Its sessions.
    pub directory: &'a mut SessionDirectory<O>,
    /// The session of an ID, while it exists.
    pub session: &'a dyn Fn(SessionId) -> Option<&'a Session>,
    /// The settings of new sessions, and their values to negotiate.
    pub config: &'a SessionConfig,
    /// As above.
    pub wanted: &'a Wanted,
    /// The owner of a new session.
    pub owner: O,
    /// The new session.
    pub entered: Option<SessionId>,
    /// The session that it replaced.
    pub replaced: Option<Known<O>>,
}

impl<O: Copy> Desk<'_, O> {
    /// The session to join: it must be of the same initiator.
    fn joined(&self, candidate: &Candidate<'_>) -> Option<&Session> {
        let id = SessionId::new(candidate.isid, candidate.tsih);
        let is_known = self.directory.is(&Nexus::of(candidate), id);
        is_known.then(|| (self.session)(id)).flatten()
    }
}

impl<O: Copy> Sessions for Desk<'_, O> {
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal> {
        Ok(Found {
            portal_group_tag: 1,
            target_alias: None,
            session: self.joined(candidate).map(Session::announced),
            chap: None,
            wanted: Some(self.wanted.clone()),
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        if candidate.tsih != 0 {
            let gone = Refusal::Status(LoginStatus::SessionDoesNotExist);
            return self.joined(candidate).ok_or(gone)?.let_in(candidate);
        }
        let entered = self.directory.enter(Nexus::of(candidate), self.owner);
        let (id, replaced) = entered.ok_or(Refusal::Status(LoginStatus::OutOfResources))?;
        self.entered = Some(id);
        self.replaced = replaced;
        Ok(self.config.begin(candidate, session, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> SessionDirectory<usize> {
        SessionDirectory::after(0)
    }

    fn nexus(name: &str) -> Nexus {
        Nexus {
            initiator: name.to_owned(),
            isid: [0x80, 0, 0, 0, 0, 1],
            target: "t".to_owned(),
        }
    }

    #[test]
    fn the_same_nexus_replaces_its_old_session() {
        let mut directory = directory();
        let (first, replaced) = directory.enter(nexus("a"), 0).unwrap();
        assert_eq!(replaced, None);
        let (other, _) = directory.enter(nexus("b"), 1).unwrap();
        assert_ne!(first, other);
        let (second, replaced) = directory.enter(nexus("a"), 1).unwrap();
        assert_eq!(
            replaced,
            Some(Known {
                session: first,
                owner: 0
            })
        );
        assert_ne!(second, first);
        assert_eq!(directory.owner(second), Some(1));
        assert_eq!(directory.owner(first), None);
        assert!(directory.is(&nexus("a"), second) && !directory.is(&nexus("b"), second));
        // The end of the old one must not remove the new one.
        directory.leave(first);
        assert_eq!(
            directory.enter(nexus("a"), 0).unwrap().1.map(|r| r.session),
            Some(second)
        );
    }

    #[test]
    fn a_target_is_in_use_until_its_last_session_is_quiet() {
        let mut directory = directory();
        let (first, _) = directory.enter(nexus("a"), 0).unwrap();
        let (second, _) = directory.enter(nexus("a"), 1).unwrap();
        directory.leave(second);
        assert!(directory.is_empty());
        for session in [first, second] {
            assert!(directory.has_sessions("t") && !directory.has_sessions("u"));
            directory.quiet(session);
        }
        assert!(!directory.has_sessions("t"));
    }

    #[test]
    fn ended_sessions_are_bounded_until_they_are_quiet() {
        let mut directory = directory();
        let first = directory.enter(nexus("a"), 0).unwrap().0;
        let mut last = first;
        for _ in 0..MAX_ENDED {
            directory.leave(last);
            last = directory.enter(nexus("a"), 0).map_or(last, |(id, _)| id);
        }
        assert!(directory.enter(nexus("b"), 0).is_none());
        directory.quiet(first);
        assert!(directory.enter(nexus("b"), 0).is_some());
    }

    #[test]
    fn sessions_are_bounded() {
        let mut directory = directory();
        for n in 0..MAX_SESSIONS {
            assert!(directory.enter(nexus(&n.to_string()), 0).is_some());
        }
        assert!(directory.enter(nexus("more"), 0).is_none());
        assert!(directory.enter(nexus("7"), 0).is_some());
    }

    #[test]
    fn a_tsih_is_not_given_twice_while_it_is_in_use() {
        let mut directory = SessionDirectory::after(u16::MAX - 1);
        let tsih = |id: SessionId| id.0 & 0xffff;
        let (first, _) = directory.enter(nexus("a"), 0).unwrap();
        let (second, _) = directory.enter(nexus("a"), 0).unwrap();
        assert_eq!((tsih(first), tsih(second)), (0xffff, 1), "0 is none");
        directory.last_tsih = u16::MAX - 1;
        let (third, _) = directory.enter(nexus("a"), 0).unwrap();
        assert_eq!(tsih(third), 2);
    }
}
