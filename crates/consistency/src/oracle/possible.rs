//! The possible states of a unit, given that outstanding changes may or may not have happened.

use std::collections::HashSet;

use super::rights::{Applied, Change, Established, Nexus, Outcome, Port, Rights};

/// An outstanding change.
#[derive(Debug, Clone)]
struct Pending {
    /// Its number.
    change: u32,
    what: Change,
    nexus: Nexus,
    since: u64,
}

/// A change that has happened but is unanswered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Happened {
    change: u32,
    established: Vec<Established>,
    aborted: Vec<Port>,
}

/// One possible state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    rights: Rights,
    /// By number: two orders of the same changes with the same result are one state, which bounds the number of states.
    happened: Vec<Happened>,
}

impl State {
    /// The index of `change` among those that have happened, or where to insert it.
    fn place_of(&self, change: u32) -> Result<usize, usize> {
        self.happened
            .binary_search_by_key(&change, |one| one.change)
    }
}

/// The possible states of a unit, now and earlier.
#[derive(Debug)]
pub(crate) struct Possible {
    /// The states possible from each time on; the last epoch is the present. Never empty.
    epochs: Vec<(u64, Vec<State>)>,
    pending: Vec<Pending>,
}

/// The certain and the possible effects of a change that was answered with GOOD.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) must_establish: Vec<Established>,
    pub(crate) may_establish: Vec<Established>,
    /// Ports whose tasks were aborted, and ports whose tasks may have been.
    pub(crate) aborted: Vec<Port>,
    pub(crate) may_abort: Vec<Port>,
}

impl Possible {
    pub(crate) fn new(rights: Rights) -> Possible {
        let state = State {
            rights,
            happened: Vec::new(),
        };
        Possible {
            epochs: vec![(0, vec![state])],
            pending: Vec::new(),
        }
    }

    fn now(&self) -> &[State] {
        self.epochs.last().map_or(&[], |(_, states)| states)
    }

    /// The number of outstanding changes.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The number of states possible now.
    pub(crate) fn states(&self) -> usize {
        self.now().len()
    }

    fn enter(&mut self, now: u64, states: Vec<State>) {
        self.epochs.push((now, states));
    }

    /// Whether `test` accepts a state that was possible at some time since `since`.
    pub(crate) fn ever(&self, since: u64, mut test: impl FnMut(&Rights) -> bool) -> bool {
        let first = self.epochs.iter().rposition(|(from, _)| *from <= since);
        let since = &self.epochs[first.unwrap_or(0)..];
        since
            .iter()
            .any(|(_, states)| states.iter().any(|state| test(&state.rights)))
    }

    /// When the oldest unanswered change began; `now` if there is none.
    pub(crate) fn unsettled_since(&self, now: u64) -> u64 {
        let pending = self.pending.iter().map(|pending| pending.since);
        pending.min().unwrap_or(now)
    }

    /// Whether `test` accepts a state that is possible now.
    pub(crate) fn may(&self, mut test: impl FnMut(&Rights) -> bool) -> bool {
        self.now().iter().any(|state| test(&state.rights))
    }

    /// A change begins. Returns the unit attentions that it may establish.
    pub(crate) fn begin(
        &mut self,
        change: u32,
        what: Change,
        nexus: Nexus,
        now: u64,
    ) -> Vec<Established> {
        self.pending.push(Pending {
            change,
            what,
            nexus,
            since: now,
        });
        let mut states = self.now().to_vec();
        self.close(&mut states);
        let mut established: Vec<Established> = Vec::new();
        for happened in states.iter().flat_map(|state| &state.happened) {
            for one in happened
                .established
                .iter()
                .filter(|_| happened.change == change)
            {
                if !established.contains(one) {
                    established.push(*one);
                }
            }
        }
        self.enter(now, states);
        established
    }

    /// Adds every state that outstanding changes can lead to.
    fn close(&self, states: &mut Vec<State>) {
        let mut known: HashSet<State> = states.iter().cloned().collect();
        let mut place = 0;
        while place < states.len() {
            for pending in &self.pending {
                let state = &states[place];
                let Err(at) = state.place_of(pending.change) else {
                    continue;
                };
                let Ok(applied) = state.rights.apply(&pending.what, pending.nexus) else {
                    continue;
                };
                let Applied {
                    rights,
                    established,
                    aborted,
                } = applied;
                let mut happened = state.happened.clone();
                let change = pending.change;
                happened.insert(
                    at,
                    Happened {
                        change,
                        established,
                        aborted,
                    },
                );
                let next = State { rights, happened };
                if known.insert(next.clone()) {
                    states.push(next);
                }
            }
            place += 1;
        }
    }

    /// A change was answered with GOOD. Returns `None` if no possible state explains that.
    pub(crate) fn done(&mut self, change: u32, now: u64) -> Option<Done> {
        let mut done = Done::default();
        let mut first = true;
        let mut states = Vec::new();
        for state in self.now() {
            let Ok(place) = state.place_of(change) else {
                continue;
            };
            let mut state = state.clone();
            let happened = state.happened.remove(place);
            if first {
                done.must_establish.clone_from(&happened.established);
                done.aborted.clone_from(&happened.aborted);
                first = false;
            } else {
                done.must_establish
                    .retain(|one| happened.established.contains(one));
                done.aborted.retain(|one| happened.aborted.contains(one));
            }
            done.may_abort.extend(&happened.aborted);
            for one in happened.established {
                if !done.may_establish.contains(&one) {
                    done.may_establish.push(one);
                }
            }
            if !states.contains(&state) {
                states.push(state);
            }
        }
        self.pending.retain(|one| one.change != change);
        if states.is_empty() {
            return None;
        }
        self.enter(now, states);
        Some(done)
    }

    /// A change was rejected and has not happened. An `outcome` must follow from a state that was possible since
    /// `since`. Returns whether it does.
    pub(crate) fn refused(
        &mut self,
        change: u32,
        outcome: Option<Outcome>,
        since: u64,
        now: u64,
    ) -> bool {
        let found = self.pending.iter().position(|one| one.change == change);
        let Some(place) = found else { return true };
        let pending = self.pending.remove(place);
        if let Some(outcome) = outcome
            && !self.ever(since, |rights| {
                let found = rights.apply(&pending.what, pending.nexus).err();
                found == Some(outcome) || found == Some(Outcome::Either)
            })
        {
            return false;
        }
        let mut states = self.now().to_vec();
        states.retain(|state| state.place_of(change).is_err());
        if states.is_empty() {
            return false;
        }
        self.enter(now, states);
        true
    }

    /// A change will not be answered: it has happened, or never will.
    pub(crate) fn abandon(&mut self, change: u32, now: u64) {
        let before = self.pending.len();
        self.pending.retain(|one| one.change != change);
        if self.pending.len() == before {
            return;
        }
        let mut states: Vec<State> = Vec::new();
        for state in self.now() {
            let mut state = state.clone();
            state.happened.retain(|one| one.change != change);
            if !states.contains(&state) {
                states.push(state);
            }
        }
        self.enter(now, states);
    }

    /// The target restarts: unanswered changes may or may not have happened.
    pub(crate) fn restart(&mut self, write_cache: bool, now: u64) {
        let mut states: Vec<State> = Vec::new();
        for state in self.now() {
            let state = State {
                rights: state.rights.restarted(write_cache),
                happened: Vec::new(),
            };
            if !states.contains(&state) {
                states.push(state);
            }
        }
        self.pending.clear();
        self.enter(now, states);
    }

    /// Drops the states that were possible only before `since`.
    pub(crate) fn forget(&mut self, since: u64) {
        if self.epochs.len() > 16 {
            let first = self.epochs.iter().rposition(|(from, _)| *from <= since);
            self.epochs.drain(..first.unwrap_or(0));
        }
    }
}
