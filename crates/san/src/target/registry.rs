//! The sessions of a target, over all its threads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wansan_iscsi::target::{Known, Nexus, SessionDirectory};
use wansan_trace::SessionId;

/// The sessions, each with the index of its owner thread. Used at login and at the end of a session only.
#[derive(Debug)]
pub(super) struct Registry {
    directory: Mutex<SessionDirectory<usize>>,
}

impl Default for Registry {
    fn default() -> Self {
        Registry {
            directory: Mutex::new(SessionDirectory::anywhere()),
        }
    }
}

impl Registry {
    /// The directory, locked.
    pub(super) fn lock(&self) -> MutexGuard<'_, SessionDirectory<usize>> {
        let directory = self.directory.lock();
        directory.unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a new session ([`SessionDirectory::enter`]).
    pub(super) fn enter(
        &self,
        nexus: Nexus,
        owner: usize,
    ) -> Option<(SessionId, Option<Known<usize>>)> {
        self.lock().enter(nexus, owner)
    }

    /// Makes the session registered as `session` by `make`, unless another one has replaced it already: then it never
    /// begins. No session is registered while one is made, so those of a nexus are made in the order of registration,
    /// and a device may treat the last one made as the live one.
    pub(super) fn make<T>(&self, session: SessionId, make: impl FnOnce() -> T) -> Option<T> {
        let directory = self.lock();
        directory.owner(session).is_some().then(make)
    }

    /// The index of a session's owner thread.
    pub(super) fn owner(&self, session: SessionId) -> Option<usize> {
        self.lock().owner(session)
    }

    /// Whether `session` is the present one of `nexus`.
    pub(super) fn is(&self, nexus: &Nexus, session: SessionId) -> bool {
        self.lock().is(nexus, session)
    }

    /// Whether there are no sessions.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether a target has sessions, or ended ones with store operations outstanding.
    pub(super) fn has_sessions(&self, target: &str) -> bool {
        self.lock().has_sessions(target)
    }

    /// The names of the initiator and of the target (empty for a discovery session) of each session.
    pub(super) fn names(&self) -> HashMap<SessionId, (String, String)> {
        let directory = self.lock();
        let named = directory.living().map(|(nexus, known)| {
            let names = (nexus.initiator.clone(), nexus.target.clone());
            (known.session, names)
        });
        named.collect()
    }

    /// Notes that a session has ended; its thread reports later when it is quiet.
    pub(super) fn leave(&self, session: SessionId) {
        self.lock().leave(session);
    }

    /// Removes an ended session after the stores have completed all its operations.
    pub(super) fn quiet(&self, session: SessionId) {
        self.lock().quiet(session);
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
    fn the_sessions_of_a_nexus_are_made_in_the_order_in_which_they_were_entered() {
        let registry = Registry::default();
        let (first, _) = registry.enter(nexus("a"), 0).unwrap();
        let (other, _) = registry.enter(nexus("b"), 0).unwrap();
        // The first one's thread is slow: meanwhile the second one is registered, and made.
        let (second, _) = registry.enter(nexus("a"), 1).unwrap();
        let mut made = Vec::new();
        for session in [second, first, other] {
            registry.make(session, || {
                assert!(registry.directory.try_lock().is_err(), "one may be entered");
                made.push(session);
            });
        }
        assert_eq!(made, [second, other]);
    }
}
