//! The sessions of a target, over all its threads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wansan_iscsi::target::{Known, Nexus, SessionDirectory};
use wansan_trace::SessionId;

/// The sessions, each with the number of the thread that owns it. Touched at login and at the end of a
/// session only.
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
    /// The directory, which nobody else sees meanwhile.
    pub(super) fn lock(&self) -> MutexGuard<'_, SessionDirectory<usize>> {
        let directory = self.directory.lock();
        directory.unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a new session ([`SessionDirectory::enter`]).
    pub(super) fn enter(
        &self,
        nexus: Nexus,
        owner: usize,
    ) -> Option<(SessionId, Option<Known<usize>>)> {
        self.lock().enter(nexus, owner)
    }

    /// Has the session that was entered as `session` made by `make`, unless another one has replaced
    /// it already: then it never begins. No session is entered while one is made, so those of a nexus
    /// are made in the order in which they were entered, and a device that takes the one that is made
    /// last for the one that lives is right.
    pub(super) fn make<T>(&self, session: SessionId, make: impl FnOnce() -> T) -> Option<T> {
        let directory = self.lock();
        directory.owner(session).is_some().then(make)
    }

    /// The number of the thread that owns a session.
    pub(super) fn owner(&self, session: SessionId) -> Option<usize> {
        self.lock().owner(session)
    }

    /// Whether `session` is the one that joins `nexus`.
    pub(super) fn is(&self, nexus: &Nexus, session: SessionId) -> bool {
        self.lock().is(nexus, session)
    }

    /// Whether there are no sessions.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether anybody is logged in to a target, or was and still has operations at its stores.
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

    /// Notes that a session has ended; its thread says later when it is quiet.
    pub(super) fn leave(&self, session: SessionId) {
        self.lock().leave(session);
    }

    /// Forgets a session that has ended, as the stores have answered all that it had asked.
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
        // The first one's thread is slow: meanwhile the second one is entered, and made.
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
