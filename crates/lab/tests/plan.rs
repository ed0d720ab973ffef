//! Valid and invalid plans.

mod cases;
mod cells;
mod expectations;
mod mistakes;
mod real_hosts;
mod simulated;
mod streams;
mod topology;

use std::path::Path;

use wansan_lab::plan::{Phase, Plan, PlanError, Scenario};

pub(crate) const GOOD: &str = r#"
title = "Reads over a long path"
apply_advice = true

[[host]]
name = "storage"

[[host]]
name = "client"
count = 2

[[path]]
between = ["client", "storage"]
delay = "16ms"
rate = "1Gbit/s"
queue = "4MiB"

[target]
host = "storage"
luns = ["memory:64MiB"]
command_window = 100

[[initiator]]
host = "client"

[workload]
op = "read"
block = "4KiB"
time = "1s"

[sweep]
workload.parallel = [16, 176]
path.wan.delay = ["1ms", "16ms", "32ms"]

[[expect]]
metric = "finding.limit"
equals = "command_window"
"#;

pub(crate) fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(Path::new("plans/reads.toml"), text)
}

/// Checks that the valid plan with the first `from` replaced by `to` is refused in one line, which contains all
/// `parts`.
#[track_caller]
pub(crate) fn is_refused(good: &str, from: &str, to: &str, parts: &[&str]) {
    assert!(good.contains(from), "{from} is not in the good plan");
    let error = parse(&good.replacen(from, to, 1)).expect_err(to);
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    assert!(message.starts_with("plans/reads.toml"), "{message}");
    for part in parts {
        assert!(
            message.contains(part),
            "`{to}` gives `{message}`, without `{part}`"
        );
    }
}

/// The scenario of a plan's first cell.
pub(crate) fn first_scenario(plan: &Plan) -> Scenario {
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    cells[0].scenario.clone()
}
