//! Which sessions a target has, over all its threads.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wansan_trace::SessionId;

/// Sessions that a target serves at most.
pub(super) const MAX_SESSIONS: usize = 1024;

/// What names a session before it has a TSIH (RFC 7143 §3.4.3): one I_T nexus has one session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Nexus {
    /// The initiator's iSCSI name.
    pub(super) initiator: String,
    /// Its ISID.
    pub(super) isid: [u8; 6],
    /// The target's name; empty for a discovery session.
    pub(super) target: String,
}

/// A session that another one of the same nexus has pushed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) session: SessionId,
    /// The number of the thread that owns it.
    pub(super) owner: usize,
}

/// The sessions. Touched at login and at the end of a session only.
#[derive(Debug, Default)]
pub(super) struct Registry {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sessions: HashMap<Nexus, Replaced>,
    last_tsih: u16,
}

impl Default for State {
    /// TSIHs begin anywhere: a connection of a session from before this target was started must not
    /// find another one of that number.
    fn default() -> Self {
        State {
            sessions: HashMap::new(),
            last_tsih: RandomState::new().hash_one(()) as u16,
        }
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a new session and gives its id, with the one it replaces (session reinstatement,
    /// §6.3.5). `None` when there are as many as may be.
    pub(super) fn enter(
        &self,
        nexus: Nexus,
        owner: usize,
    ) -> Option<(SessionId, Option<Replaced>)> {
        let mut state = self.lock();
        if state.sessions.len() >= MAX_SESSIONS && !state.sessions.contains_key(&nexus) {
            return None;
        }
        // Fewer sessions than TSIHs, so one is free. 0 means "no session yet" (§11.12.6).
        let session = loop {
            state.last_tsih = state.last_tsih.wrapping_add(1).max(1);
            let tsih = state.last_tsih;
            let taken = |known: &Replaced| known.session.0 & 0xffff == u64::from(tsih);
            if !state.sessions.values().any(taken) {
                break SessionId::new(nexus.isid, tsih);
            }
        };
        let replaced = state.sessions.insert(nexus, Replaced { session, owner });
        Some((session, replaced))
    }

    /// The number of the thread that owns a session.
    pub(super) fn owner(&self, session: SessionId) -> Option<usize> {
        let state = self.lock();
        let mut known = state.sessions.values();
        Some(known.find(|known| known.session == session)?.owner)
    }

    /// Whether `session` is the one that joins `nexus`.
    pub(super) fn is(&self, nexus: &Nexus, session: SessionId) -> bool {
        let known = self.lock().sessions.get(nexus).copied();
        known.is_some_and(|known| known.session == session)
    }

    /// Whether nobody is logged in.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().sessions.is_empty()
    }

    /// Whether anybody is logged in to a target.
    pub(super) fn has_sessions(&self, target: &str) -> bool {
        self.lock()
            .sessions
            .keys()
            .any(|nexus| nexus.target == target)
    }

    /// The names of the initiator and of the target (empty for a discovery session) of each session.
    pub(super) fn names(&self) -> HashMap<SessionId, (String, String)> {
        let state = self.lock();
        let named = state.sessions.iter().map(|(nexus, known)| {
            let names = (nexus.initiator.clone(), nexus.target.clone());
            (known.session, names)
        });
        named.collect()
    }

    /// Forgets a session that has ended.
    pub(super) fn leave(&self, session: SessionId) {
        self.lock()
            .sessions
            .retain(|_, known| known.session != session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nexus(name: &str) -> Nexus {
        Nexus {
            initiator: name.to_owned(),
            isid: [0x80, 0, 0, 0, 0, 1],
            target: "t".to_owned(),
        }
    }

    #[test]
    fn the_same_nexus_replaces_its_old_session() {
        let registry = Registry::default();
        let (first, replaced) = registry.enter(nexus("a"), 0).unwrap();
        assert_eq!(replaced, None);
        let (other, _) = registry.enter(nexus("b"), 1).unwrap();
        assert_ne!(first, other);
        let (second, replaced) = registry.enter(nexus("a"), 1).unwrap();
        assert_eq!(
            replaced,
            Some(Replaced {
                session: first,
                owner: 0
            })
        );
        assert_ne!(second, first);
        assert_eq!(registry.owner(second), Some(1));
        assert_eq!(registry.owner(first), None);
        assert!(registry.is(&nexus("a"), second) && !registry.is(&nexus("b"), second));
        // The old one's end must not take the new one with it.
        registry.leave(first);
        assert_eq!(
            registry.enter(nexus("a"), 0).unwrap().1.map(|r| r.session),
            Some(second)
        );
    }

    #[test]
    fn sessions_are_bounded() {
        let registry = Registry::default();
        for n in 0..MAX_SESSIONS {
            assert!(registry.enter(nexus(&n.to_string()), 0).is_some());
        }
        assert!(registry.enter(nexus("more"), 0).is_none());
        assert!(registry.enter(nexus("7"), 0).is_some());
    }
}
