//! Which sessions a target has, over all its threads.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wansan_trace::SessionId;

/// Sessions that a target serves at most.
pub(super) const MAX_SESSIONS: usize = 1024;

/// Sessions that have ended and still have operations at stores, at most. While there are as many,
/// no new session begins.
const MAX_ENDED: usize = 4 * MAX_SESSIONS;

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

/// A session and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) session: SessionId,
    /// The number of the thread that owns it.
    pub(super) owner: usize,
}

/// The sessions. Touched at login and at the end of a session only.
///
/// An ended session stays known until the stores have answered all that it had asked of them, which
/// its thread says with [`Registry::quiet`]: until then its target is in use.
#[derive(Debug, Default)]
pub(super) struct Registry {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sessions: HashMap<Nexus, Known>,
    /// Those that have ended, or were pushed out, and have outstanding operations.
    ended: HashMap<SessionId, Nexus>,
    last_tsih: u16,
}

impl Default for State {
    /// TSIHs begin anywhere: a connection of a session from before this target was started must not
    /// find another one of that number.
    fn default() -> Self {
        State {
            sessions: HashMap::new(),
            ended: HashMap::new(),
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
    pub(super) fn enter(&self, nexus: Nexus, owner: usize) -> Option<(SessionId, Option<Known>)> {
        let mut state = self.lock();
        let full = state.sessions.len() >= MAX_SESSIONS && !state.sessions.contains_key(&nexus);
        if full || state.ended.len() >= MAX_ENDED {
            return None;
        }
        // Fewer sessions than TSIHs, so one is free. 0 means "no session yet" (§11.12.6).
        let session = loop {
            state.last_tsih = state.last_tsih.wrapping_add(1).max(1);
            let tsih = state.last_tsih;
            let living = state.sessions.values().map(|known| &known.session);
            let taken = |id: &SessionId| id.0 & 0xffff == u64::from(tsih);
            if !living.chain(state.ended.keys()).any(taken) {
                break SessionId::new(nexus.isid, tsih);
            }
        };
        let replaced = state
            .sessions
            .insert(nexus.clone(), Known { session, owner });
        if let Some(replaced) = replaced {
            state.ended.insert(replaced.session, nexus);
        }
        Some((session, replaced))
    }

    /// Has the session that was entered as `session` made by `make`, unless another one has replaced
    /// it already: then it never begins. No session is entered while one is made, so those of a nexus
    /// are made in the order in which they were entered, and a device that takes the one that is made
    /// last for the one that lives is right.
    pub(super) fn make<T>(&self, session: SessionId, make: impl FnOnce() -> T) -> Option<T> {
        let state = self.lock();
        let lives = state
            .sessions
            .values()
            .any(|known| known.session == session);
        lives.then(make)
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

    /// Whether there are no sessions.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().sessions.is_empty()
    }

    /// Whether anybody is logged in to a target, or was and still has operations at its stores.
    pub(super) fn has_sessions(&self, target: &str) -> bool {
        let state = self.lock();
        let mut all = state.sessions.keys().chain(state.ended.values());
        all.any(|nexus| nexus.target == target)
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

    /// Notes that a session has ended; its thread says later when it is quiet.
    pub(super) fn leave(&self, session: SessionId) {
        let mut state = self.lock();
        let State {
            sessions, ended, ..
        } = &mut *state;
        sessions.retain(|nexus, known| {
            let leaves = known.session == session;
            if leaves {
                ended.insert(session, nexus.clone());
            }
            !leaves
        });
    }

    /// Forgets a session that has ended, as the stores have answered all that it had asked.
    pub(super) fn quiet(&self, session: SessionId) {
        self.lock().ended.remove(&session);
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
            Some(Known {
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
    fn the_sessions_of_a_nexus_are_made_in_the_order_in_which_they_were_entered() {
        let registry = Registry::default();
        let (first, _) = registry.enter(nexus("a"), 0).unwrap();
        let (other, _) = registry.enter(nexus("b"), 0).unwrap();
        // The first one's thread is slow: meanwhile the second one is entered, and made.
        let (second, _) = registry.enter(nexus("a"), 1).unwrap();
        let mut made = Vec::new();
        for session in [second, first, other] {
            registry.make(session, || {
                assert!(registry.state.try_lock().is_err(), "one may be entered");
                made.push(session);
            });
        }
        assert_eq!(made, [second, other]);
    }

    #[test]
    fn a_target_is_in_use_until_its_last_session_is_quiet() {
        let registry = Registry::default();
        let (first, _) = registry.enter(nexus("a"), 0).unwrap();
        let (second, _) = registry.enter(nexus("a"), 1).unwrap();
        registry.leave(second);
        assert!(registry.is_empty());
        for session in [first, second] {
            assert!(registry.has_sessions("t") && !registry.has_sessions("u"));
            registry.quiet(session);
        }
        assert!(!registry.has_sessions("t"));
    }

    #[test]
    fn ended_sessions_are_bounded_until_they_are_quiet() {
        let registry = Registry::default();
        let mut last = registry.enter(nexus("a"), 0).unwrap().0;
        for _ in 0..MAX_ENDED {
            registry.leave(last);
            last = registry.enter(nexus("a"), 0).map_or(last, |(id, _)| id);
        }
        assert!(registry.enter(nexus("b"), 0).is_none());
        let ended = *registry.lock().ended.keys().next().unwrap();
        registry.quiet(ended);
        assert!(registry.enter(nexus("b"), 0).is_some());
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
