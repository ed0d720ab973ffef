//! Expectations of a plan, and side effects of its advice.

use wansan_lab::plan::{Parameter, Phase};

use super::{GOOD, parse};

fn verdict(expectation: &str, results: &serde_json::Value) -> wansan_schema::Verdict {
    let (kept, _) = GOOD.split_once("[[expect]]").unwrap();
    let plan = parse(&format!("{kept}[[expect]]\n{expectation}")).unwrap();
    let results = serde_json::from_value(results.clone()).unwrap();
    plan.expectations()[0].check(&results)
}

#[test]
fn expectations_can_fail() {
    let cell = |phase: &str, parallel: u32, iops: f64| {
        serde_json::json!({
            "phase": phase,
            "parameters": {"workload.parallel": parallel},
            "iops": iops,
            "latency_p99_ns": 40_000_000,
            "in_flight": {"app": f64::from(parallel)},
        })
    };
    let results = serde_json::json!({
        "finding": {"limit": "command_window"},
        "cells": [cell("planned", 16, 1000.0), cell("planned", 176, 3000.0), cell("advised", 176, 4500.0)],
    });
    for (expectation, met) in [
        (
            "metric = \"finding.limit\"\nequals = \"command_window\"",
            true,
        ),
        ("metric = \"finding.limit\"\nequals = \"store\"", false),
        ("metric = \"finding.layer\"\nequals = \"window\"", false),
        ("metric = \"cells.iops\"\nat_least = 1000", true),
        ("metric = \"cells.iops\"\nat_least = 1001", false),
        ("metric = \"cells.iops\"\nat_most = 4499.5", false),
        (
            "metric = \"cells.latency_p99_ns\"\nat_most = \"40ms\"",
            true,
        ),
        (
            "metric = \"cells.latency_p99_ns\"\nat_most = \"39ms\"",
            false,
        ),
        ("metric = \"cells.in_flight.app\"\nat_most = 176", true),
        (
            "metric = \"cells.iops\"\nwhere = { phase = \"planned\", workload.parallel = 176 }\nequals = 3000",
            true,
        ),
        (
            "metric = \"cells.iops\"\nwhere = { phase = \"advised\" }\n\
             relative_to = { phase = \"planned\", workload.parallel = 176 }\nat_least = 1.5",
            true,
        ),
        (
            "metric = \"cells.iops\"\nwhere = { phase = \"advised\" }\n\
             relative_to = { phase = \"planned\", workload.parallel = 176 }\nat_least = 1.6",
            false,
        ),
    ] {
        let verdict = verdict(expectation, &results);
        assert_eq!(verdict.met, met, "{expectation}: {verdict:?}");
    }
}

/// A single disturbed repeat of three neither breaks nor rescues an expectation of their median.
#[test]
fn an_expectation_can_be_about_the_median_of_repeats() {
    let cell = |parallel: u32, iops: f64| {
        serde_json::json!({
            "phase": "planned", "parameters": {"workload.parallel": parallel}, "iops": iops,
        })
    };
    let cells = [
        (16, 1000.0),
        (176, 1200.0),
        (16, 600.0),
        (176, 1230.0),
        (16, 1010.0),
        (176, 900.0),
    ];
    let cells = cells.map(|(parallel, iops)| cell(parallel, iops));
    let results = serde_json::json!({ "cells": cells });
    let ratio = "metric = \"cells.iops\"\nwhere = { workload.parallel = 176 }\n\
                 relative_to = { workload.parallel = 16 }\n";
    for (repeats, bound, met) in [
        ("median", "at_most = 1.35", true),
        ("median", "at_most = 1.19", false),
        ("median", "at_least = 1.19", true),
        ("each", "at_most = 1.35", false),
        ("each", "at_least = 1.19", false),
    ] {
        let verdict = verdict(
            &format!("{ratio}repeats = \"{repeats}\"\n{bound}"),
            &results,
        );
        assert_eq!(verdict.met, met, "{repeats} {bound}: {verdict:?}");
        assert_eq!(
            verdict.expected.contains("median of repeats"),
            repeats == "median"
        );
    }
    let all = verdict(
        "metric = \"cells.iops\"\nrepeats = \"median\"\nat_least = 1000",
        &results,
    );
    assert_eq!((all.met, all.found.as_str()), (true, "1000.000, 1200.000"));
    let (kept, _) = GOOD.split_once("[[expect]]").unwrap();
    for (expectation, part) in [
        (
            "metric = \"finding.wanted\"\nrepeats = \"median\"\nat_least = 1",
            "numbers of cells",
        ),
        (
            "metric = \"cells.iops\"\nrepeats = \"middle\"\nat_least = 1",
            "median",
        ),
    ] {
        let mistake = parse(&format!("{kept}[[expect]]\n{expectation}"))
            .unwrap_err()
            .to_string();
        assert!(mistake.contains(part), "{mistake}");
    }
}

#[test]
fn a_longer_first_burst_takes_the_longest_burst_along() {
    let plan = parse(GOOD).unwrap();
    let first_burst = Parameter::new("session.first_burst");
    let names = |changes: Vec<(Parameter, toml::Value)>| -> Vec<String> {
        let names = changes.iter().map(|(name, _)| name.name().to_owned());
        names.collect()
    };
    let fits = plan.changes_for(&first_burst, "512KiB");
    assert_eq!(names(fits), ["session.first_burst"]);
    let too_long = plan.changes_for(&first_burst, "16777215B");
    let cells = plan.cells(Phase::Advised, &too_long).unwrap();
    assert!(!cells.is_empty());
    assert_eq!(
        names(too_long),
        ["session.first_burst", "session.max_burst"]
    );
}
