//! A thread and its sessions in virtual time.

use std::collections::VecDeque;

use super::*;

const PERIOD_US: u64 = 25_000;
/// Cost of a turn of the thread, and of each of its commands.
const TURN_US: u64 = 6;
const COMMAND_US: u64 = 1;
/// Bytes of each command: a read of 4 KiB.
const BYTES: u64 = 8288;
const FULL: u32 = 1024;

/// A session whose initiator keeps a constant number of commands in flight.
struct Asking {
    wants: usize,
    /// From a response to the next command.
    round_trip_us: u64,
    /// Arrival times of the commands in flight.
    coming: VecDeque<u64>,
    allowance: Allowance,
    taken: Taken,
    /// Commands served since the last check.
    served: u64,
}

impl Asking {
    fn new(wants: usize, round_trip_us: u64) -> Asking {
        Asking {
            wants,
            round_trip_us,
            coming: VecDeque::from(vec![0; wants]),
            allowance: Allowance::full(FULL),
            taken: Taken::default(),
            served: 0,
        }
    }
}

struct Thread {
    now_us: u64,
    slept_us: u64,
    sessions: Vec<Asking>,
}

impl Thread {
    fn of(sessions: impl IntoIterator<Item = Asking>) -> Thread {
        Thread {
            now_us: 0,
            slept_us: 0,
            sessions: sessions.into_iter().collect(),
        }
    }

    /// Runs one second; returns the commands of each session in its second half.
    fn run(&mut self) -> Vec<u64> {
        let begins = self.now_us;
        let mut period_ends = begins + PERIOD_US;
        let mut is_first_half = true;
        while self.now_us < begins + 1_000_000 {
            if is_first_half && self.now_us >= begins + 500_000 {
                is_first_half = false;
                self.sessions
                    .iter_mut()
                    .for_each(|session| session.served = 0);
            }
            self.turn();
            if self.now_us >= period_ends {
                let lasted_us = self.now_us + PERIOD_US - period_ends;
                let is_busy = 4 * std::mem::take(&mut self.slept_us) < lasted_us;
                let period = Period::of(self.sessions.iter().map(|one| one.taken), is_busy);
                for session in &mut self.sessions {
                    let taken = std::mem::take(&mut session.taken);
                    if taken.turns > 0 {
                        session.allowance.after(period, taken);
                    }
                }
                period_ends = self.now_us + PERIOD_US;
            }
        }
        self.sessions.iter().map(|session| session.served).collect()
    }

    /// Serves the session whose commands have waited longest: all that have arrived by now.
    fn turn(&mut self) {
        let comes = |one: &&mut Asking| one.coming.front().copied().unwrap_or(u64::MAX);
        let session = self.sessions.iter_mut().min_by_key(comes);
        let session = session.expect("there is one");
        let first_us = *session.coming.front().expect("somebody asks");
        self.slept_us += first_us.saturating_sub(self.now_us);
        self.now_us = self.now_us.max(first_us);
        let now_us = self.now_us;
        let come = session.coming.partition_point(|&comes| comes <= now_us);
        session.coming.drain(..come);
        session.taken.turns += 1;
        session.taken.bytes += come as u64 * BYTES;
        session.served += come as u64;
        self.now_us += TURN_US + come as u64 * COMMAND_US;
        let window = session.wants.min(session.allowance.window as usize);
        let follow = window.saturating_sub(session.coming.len());
        let comes = self.now_us + session.round_trip_us;
        session.coming.extend(std::iter::repeat_n(comes, follow));
    }
}

fn many(count: usize, wants: usize, round_trip_us: u64) -> impl Iterator<Item = Asking> {
    (0..count).map(move |_| Asking::new(wants, round_trip_us))
}

/// Jain's index of fairness.
fn fairness(served: &[u64]) -> f64 {
    let sum: f64 = served.iter().map(|&served| served as f64).sum();
    let squares: f64 = served.iter().map(|&served| (served as f64).powi(2)).sum();
    sum * sum / (served.len() as f64 * squares)
}

#[test]
fn one_that_wants_256_times_as_much_gets_little_more_than_others() {
    for round_trip_us in [20, 100, 300] {
        let greedy = Asking::new(1024, round_trip_us);
        let mut thread = Thread::of(many(63, 4, round_trip_us).chain([greedy]));
        let served = thread.run();
        assert!(fairness(&served) > 0.95, "{round_trip_us} µs: {served:?}");
    }
}

#[test]
fn one_over_a_longer_path_is_held_to_its_share_and_not_below() {
    let greedy = Asking::new(1024, 20_000);
    let mut thread = Thread::of(many(63, 4, 50).chain([greedy]));
    let served = thread.run();
    let (greedy, others) = (served[63], served[0]);
    assert!(greedy > others / 2 && greedy < 2 * others, "{served:?}");
}

#[test]
fn equals_keep_their_windows() {
    for (count, wants) in [(1, 1024), (8, 500), (200, 4)] {
        let mut thread = Thread::of(many(count, wants, 100));
        let served = thread.run();
        assert!(fairness(&served) > 0.99, "{served:?}");
        let mut windows = thread.sessions.iter().map(|one| one.allowance.window);
        assert!(windows.all(|window| window == FULL), "{count} sessions");
    }
}

#[test]
fn those_that_wait_for_their_paths_take_nothing_from_one_that_wants_much() {
    let alone = Thread::of([Asking::new(1024, 100)]).run()[0];
    let mut thread = Thread::of(many(20, 1, 20_000).chain([Asking::new(1024, 100)]));
    let served = thread.run();
    assert!(served[20] * 10 > alone * 9, "{served:?}, {alone} alone");
}

#[test]
fn the_window_comes_back_once_others_want_less() {
    let mut thread = Thread::of(many(63, 4, 50).chain([Asking::new(1024, 50)]));
    thread.run();
    assert!(thread.sessions[63].allowance.window < 16);
    for others in &mut thread.sessions[..63] {
        others.wants = 0;
    }
    thread.run();
    assert_eq!(thread.sessions[63].allowance.window, FULL);
}

#[test]
fn a_single_turn_more_than_others_is_no_excess() {
    let turns = |turns| Taken {
        turns,
        bytes: turns * 500 * BYTES,
    };
    let taken = [2, 1, 1, 1].map(turns);
    let period = Period::of(taken.into_iter(), true);
    let mut allowance = Allowance::full(FULL);
    assert_eq!(allowance.after(period, taken[0]), FULL);
    let much = Taken {
        turns: 2,
        bytes: 100 * taken[0].bytes,
    };
    assert_eq!(allowance.after(period, much), FULL / 2);
}
