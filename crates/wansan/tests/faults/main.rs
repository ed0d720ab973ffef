//! Faults: what a caller of the initiator has written is on the target's disk, whatever happens to
//! the connections, to the path, to single bytes and to the target.
//!
//! And histories of many initiators, whose target is killed as well, are held to what the standards allow.
//!
//! Each kind of fault is a test of several rounds. A round has a world of its own (`wansan target`,
//! a proxy, the initiator in this process) and a seed that says all about it; one that fails prints
//! its seed and the command that runs it again. `WANSAN_FAULT_ROUNDS` is how many rounds of each
//! kind there are, `WANSAN_FAULT_HISTORIES` how many histories, `WANSAN_FAULT_SEED` the first seed.

mod caller;
mod histories;
mod kinds;
mod model;
mod proxy;
mod round;
mod terms;
mod world;

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::Trial;
use wansan_peers::trial::{Stop, run, trial};

use self::kinds::Kind;
use self::round::Outcome;

/// What the rounds amount to, told at the end: in the middle it would tear the runner's own lines.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A kind of fault as a test.
struct Test {
    name: &'static str,
    /// Runs the round of a seed.
    run: Box<dyn Fn(u64) -> Result<Outcome, String> + Send + Sync>,
    /// What a round does.
    done: &'static str,
    /// Rounds in the ordinary suite.
    rounds: u64,
    /// Rounds side by side: those that mostly wait do not need the processor.
    at_once: usize,
}

fn main() -> ExitCode {
    let held = |seconds| Kind::Held(Duration::from_secs(seconds));
    let tests = [
        ("path_is_held_for_60_s", held(60), 2, 34),
        ("path_is_held_for_10_s", held(10), 4, 10),
        ("path_is_held_for_1_s", held(1), 10, 3),
        ("routes_die_and_come_back", Kind::Resurrected, 6, 6),
        ("connections_are_killed", Kind::Killed, 10, 2),
        ("bytes_are_corrupted", Kind::Corrupted, 10, 2),
        ("target_is_killed", Kind::Restarted, 10, 2),
        ("target_is_killed_twice", Kind::RestartedTwice, 10, 2),
    ];
    let rounds = number("WANSAN_FAULT_ROUNDS");
    let seed = number("WANSAN_FAULT_SEED");
    let first_seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    println!("faults: the first round of each kind has seed {first_seed}");
    let mut trials = vec![trial("model_finds_what_is_wrong", || {
        model::finds_what_is_wrong().map_err(Stop::Failed)
    })];
    let rounds_of = |wanted: Option<u64>, usual: u64| match seed {
        Some(_) => wanted.unwrap_or(1),
        None => wanted.unwrap_or(usual),
    };
    for (name, kind, usual_rounds, at_once) in tests {
        let test = Test {
            name,
            run: Box::new(move |seed| round::run(kind, seed)),
            done: "writes",
            rounds: rounds_of(rounds, usual_rounds),
            at_once,
        };
        trials.push(in_rounds(test, first_seed));
    }
    let histories = Test {
        name: "histories_of_many_initiators",
        run: Box::new(histories::run),
        done: "commands",
        rounds: rounds_of(number("WANSAN_FAULT_HISTORIES").or(rounds), 30),
        at_once: 4,
    };
    trials.push(in_rounds(histories, first_seed));
    let status = run(trials);
    for line in TOLD.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{line}");
    }
    status
}

/// A number in the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name}={text} is not a number"),
    }
}

fn in_rounds(test: Test, first_seed: u64) -> Trial {
    trial(test.name, move || {
        let next = AtomicU64::new(0);
        let outcomes: Mutex<Vec<(u64, Result<Outcome, String>)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..test.at_once.min(test.rounds as usize) {
                scope.spawn(|| {
                    loop {
                        let round = next.fetch_add(1, Ordering::Relaxed);
                        if round >= test.rounds {
                            return;
                        }
                        let seed = first_seed + round;
                        let outcome = (test.run)(seed);
                        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                        outcomes.push((seed, outcome));
                    }
                });
            }
        });
        let outcomes = outcomes.into_inner();
        judge(
            &test,
            first_seed,
            outcomes.unwrap_or_else(PoisonError::into_inner),
        )
    })
}

/// All rounds must have gone well.
fn judge(
    test: &Test,
    first_seed: u64,
    outcomes: Vec<(u64, Result<Outcome, String>)>,
) -> Result<(), Stop> {
    let (mut well, mut all) = (0, Outcome::default());
    let mut failures = String::new();
    for (seed, outcome) in outcomes {
        match outcome {
            Ok(outcome) => {
                well += 1;
                all.done += outcome.done;
                all.faults += outcome.faults;
            }
            Err(failure) => {
                failures += &format!(
                    "\nseed {seed}: {failure}\n  again: WANSAN_FAULT_SEED={seed} cargo test -p \
                     wansan --test faults -- {}",
                    test.name
                );
            }
        }
    }
    let told = format!(
        "{}: {well} of {} rounds went well, seeds from {first_seed}, {} {}, {} faults",
        test.name, test.rounds, all.done, test.done, all.faults
    );
    TOLD.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(told);
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Stop::Failed(failures)),
    }
}
