//! Each test of libiscsi as one of ours.

use std::sync::{Arc, OnceLock};

use libtest_mimic::Trial;
use wansan_peers::cunit::{Outcome, Program, SOURCE_VARIABLE, Test};
use wansan_peers::trial::{Stop, require, trial};

use crate::defects::defect_behind;
use crate::sides;

/// One suite, which runs when the first of its tests is asked for.
struct Suite {
    program: Program,
    name: String,
    tests: Vec<String>,
    /// Its results, or why there are none.
    results: OnceLock<Result<Vec<Test>, String>>,
}

/// The tests of the installed program under their own names, and those of a checkout with the prefix
/// `current.`
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = match Program::installed() {
        Ok(program) => trials_of(&program, ""),
        Err(error) => vec![trial("iscsi_test_cu", move || Err(error.into()))],
    };
    match Program::of_checkout() {
        Ok(Some(program)) => trials.extend(trials_of(&program, "current.")),
        Ok(None) => trials.push(trial("libiscsi_current", || Err(Stop::NotRun(not_set())))),
        Err(error) => trials.push(trial("libiscsi_current", move || Err(error.into()))),
    }
    trials
}

/// Why libiscsi's current suite does not run.
pub(crate) fn not_set() -> String {
    format!("set {SOURCE_VARIABLE} to a checkout of libiscsi in which it is built")
}

fn trials_of(program: &Program, prefix: &str) -> Vec<Trial> {
    let suites = match program.suites() {
        Ok(suites) => suites,
        Err(error) => return vec![trial(format!("{prefix}list"), move || Err(error.into()))],
    };
    let mut trials = Vec::new();
    for (name, tests) in suites {
        let suite = Arc::new(Suite {
            program: program.clone(),
            name,
            tests,
            results: OnceLock::new(),
        });
        for (at, test) in suite.tests.iter().enumerate() {
            let name = format!("{prefix}{}.{test}", suite.name);
            let suite = suite.clone();
            trials.push(trial(name, move || suite.judge(&suite.tests[at])));
        }
    }
    trials
}

impl Suite {
    fn judge(&self, test: &str) -> Result<(), Stop> {
        let results = self
            .results
            .get_or_init(|| {
                sides::ours(&self.program, &self.name, &self.tests)
                    .map_err(|error| error.to_string())
            })
            .as_ref()
            .map_err(|error| Stop::Failed(error.clone()))?;
        let result = results
            .iter()
            .find(|result| result.name.rsplit('.').next() == Some(test));
        if let Some(defect) = result.and_then(defect_behind) {
            return Err(Stop::NotRun(format!("a defect in libiscsi: {defect}")));
        }
        match result.map(|result| &result.outcome) {
            Some(Outcome::Skipped(reason)) => Err(Stop::NotRun(reason.clone())),
            outcome => require(outcome == Some(&Outcome::Passed), || {
                format!("{outcome:#?}")
            }),
        }
    }
}
