//! Each test of the suite as one of ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libtest_mimic::Trial;
use wansan_peers::cunit::{Outcome, Test, suites};
use wansan_peers::trial::{Stop, require, trial};

use crate::sides;

/// What one suite has said: its tests, or why it could not be run.
type Said = Arc<OnceLock<Result<Vec<Test>, String>>>;

pub(crate) fn trials() -> Vec<Trial> {
    let suites = match suites() {
        Ok(suites) => suites,
        Err(error) => return vec![trial("iscsi_test_cu", move || Err(error.into()))],
    };
    let said: Arc<Mutex<HashMap<String, Said>>> = Arc::default();
    let mut trials = Vec::new();
    for (suite, tests) in suites {
        for test in tests {
            let (said, suite) = (said.clone(), suite.clone());
            trials.push(trial(format!("{suite}.{test}"), move || {
                let mut all = said.lock().unwrap_or_else(PoisonError::into_inner);
                let of_suite = all.entry(suite.clone()).or_default().clone();
                drop(all);
                judge(&suite, &test, &of_suite)
            }));
        }
    }
    trials
}

/// Runs `suite` when this is the first of its tests, and judges `test`.
fn judge(suite: &str, test: &str, said: &Said) -> Result<(), Stop> {
    let tests = said
        .get_or_init(|| sides::ours(suite).map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|error| Stop::Failed(error.clone()))?;
    let outcome = tests
        .iter()
        .find(|said| said.name.rsplit('.').next() == Some(test))
        .map(|said| &said.outcome);
    match outcome {
        Some(Outcome::Skipped(reason)) => Err(Stop::NotRun(reason.clone())),
        outcome => require(outcome == Some(&Outcome::Passed), || {
            format!("{outcome:#?}")
        }),
    }
}
