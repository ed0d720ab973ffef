//! Parallel execution on all processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Runs all pieces of work on as many threads as there are processors, and returns their results in the order of the
/// work. `watch` gets the numbers of pieces done and of all pieces, and returns whether to continue; `one` gets a
/// function that polls this.
pub(crate) fn run<W: Sync, R: Send>(
    work: &[W],
    watch: &(dyn Fn(usize, usize) -> bool + Sync),
    one: impl Fn(&W, &dyn Fn() -> bool) -> R + Sync,
) -> Vec<R> {
    run_some(usize::MAX, work, watch, |work, goes_on| one(work, goes_on))
}

/// As [`run`], with at most `at_a_time` pieces at a time.
pub(crate) fn run_some<W: Sync, R: Send>(
    at_a_time: usize,
    work: &[W],
    watch: &(dyn Fn(usize, usize) -> bool + Sync),
    one: impl Fn(&W, &(dyn Fn() -> bool + Sync)) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_left = AtomicBool::new(false);
    let goes_on = || {
        if !watch(done.load(Ordering::Relaxed), work.len()) {
            is_left.store(true, Ordering::Relaxed);
        }
        !is_left.load(Ordering::Relaxed)
    };
    let outcomes = Mutex::new(Vec::with_capacity(work.len()));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers.min(at_a_time).min(work.len()) {
            scope.spawn(|| {
                while let place = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(work) = work.get(place)
                {
                    let outcome = one(work, &goes_on);
                    done.fetch_add(1, Ordering::Relaxed);
                    let mut outcomes = outcomes.lock().expect("no thread panics with it");
                    outcomes.push((place, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("all threads are done");
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_stand_in_the_order_of_the_work() {
        let work: Vec<u64> = (0..100).collect();
        let doubled = run(&work, &|_, _| true, |number, _| number * 2);
        assert_eq!(
            doubled,
            (0..100).map(|number| number * 2).collect::<Vec<_>>()
        );
    }

    #[test]
    fn whoever_watches_can_end_it() {
        let ended = run(&[(); 8], &|_, _| false, |(), goes_on| goes_on());
        assert_eq!(ended, [false; 8]);
    }
}
