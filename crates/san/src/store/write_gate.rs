//! Excludes writes while part of a store is read, changed and written back.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A lock that writes share and an [update](super::Store::update) holds alone. A write may end on another thread than it
/// began on, so no `RwLock` does. Writes wait for updates that wait, so updates are not delayed forever.
#[derive(Debug, Default)]
pub(super) struct WriteGate {
    state: Mutex<State>,
    /// The last write, or an update, has ended.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    writes: usize,
    /// That wait or run.
    updates: usize,
    is_updating: bool,
}

impl WriteGate {
    /// Begins a write if no update runs or waits.
    pub(super) fn try_begin(self: &Arc<Self>) -> Option<Writing> {
        let mut state = self.lock();
        if state.updates > 0 {
            return None;
        }
        state.writes += 1;
        Some(Writing(Arc::clone(self)))
    }

    /// Begins a write after all updates that run or wait.
    pub(super) fn begin(self: &Arc<Self>) -> Writing {
        let mut state = self.wait_while(self.lock(), |state| state.updates > 0);
        state.writes += 1;
        Writing(Arc::clone(self))
    }

    /// Calls `update` while nothing is written and no other update runs.
    pub(super) fn alone<T>(&self, update: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        state.updates += 1;
        let mut state = self.wait_while(state, |state| state.writes > 0 || state.is_updating);
        state.is_updating = true;
        drop(state);
        // Ends the update also if it panics.
        let _updating = Updating(self);
        update()
    }

    fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, State>,
        wait: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_while(state, |state| wait(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// No panic can leave the state inconsistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write in progress, until it is dropped.
#[derive(Debug)]
pub struct Writing(Arc<WriteGate>);

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.writes -= 1;
        let wakes = state.writes == 0 && state.updates > 0;
        drop(state);
        if wakes {
            self.0.changed.notify_all();
        }
    }
}

/// An update in progress, until it is dropped.
struct Updating<'a>(&'a WriteGate);

impl Drop for Updating<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.updates -= 1;
        state.is_updating = false;
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn an_update_waits_for_writes_and_later_writes_for_the_update() {
        let gate = Arc::<WriteGate>::default();
        let writes = [gate.begin(), gate.try_begin().expect("writes share it")];
        let (events, seen) = channel();
        thread::scope(|scope| {
            let (sender, updated) = (events.clone(), Arc::clone(&gate));
            scope.spawn(move || {
                updated.alone(|| {
                    assert!(updated.try_begin().is_none());
                    sender.send("updated").expect("a receiver");
                });
            });
            while gate.lock().updates == 0 {
                thread::yield_now();
            }
            assert!(gate.try_begin().is_none(), "the update waits");
            let (sender, later) = (events, Arc::clone(&gate));
            scope.spawn(move || {
                let _write = later.begin();
                sender.send("written").expect("a receiver");
            });
            let [first, second] = writes;
            drop(first);
            assert!(seen.try_recv().is_err(), "one write is in progress");
            drop(second);
            assert_eq!([seen.recv(), seen.recv()], [Ok("updated"), Ok("written")]);
        });
        assert!(gate.try_begin().is_some());
    }

    #[test]
    fn updates_exclude_each_other_and_a_panic_ends_one() {
        let gate = Arc::<WriteGate>::default();
        let failed =
            thread::scope(|scope| scope.spawn(|| gate.alone(|| panic!("on purpose"))).join());
        assert!(failed.is_err());
        // Not atomic: only exclusion makes the sum right.
        let sum = Mutex::new(0);
        let add = || {
            for _ in 0..1000 {
                gate.alone(|| {
                    let before = *sum.lock().expect("no panic");
                    thread::yield_now();
                    *sum.lock().expect("no panic") = before + 1;
                });
            }
        };
        thread::scope(|scope| {
            scope.spawn(add);
            scope.spawn(add);
        });
        assert_eq!(sum.into_inner().expect("no panic"), 2000);
    }
}
