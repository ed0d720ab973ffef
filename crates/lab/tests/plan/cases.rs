//! Named cases, joint axes, quick forms and papers' figures.

use wansan_lab::plan::{Parameter, Phase};

use super::{GOOD, is_refused, parse};

const CASES: &str = r#"
[[case]]
name = "short"
set = { path.wan.delay = "1ms", workload.parallel = 4 }

[[case]]
name = "long"
set = { path.wan.delay = "30ms" }

[sweep]
case = ["short", "long"]
"path.wan.rate" = ["10Mbit/s", "1Gbit/s"]

[quick]
repeat = 1
apply_advice = false
workload.time = "200ms"
sweep.path.wan.rate = ["1Gbit/s"]

[paper]
title = "Somebody (2004)"
remarks = ["All meet at long delays."]
differs = ["Ours has other routers."]

[[paper.known]]
metric = "cells.bytes_per_s"
where = { case = "long", path.wan.rate = "1Gbit/s" }
value = "80Mbit/s"

[[paper.known]]
metric = "cells.bytes_per_s"
where = { case = "long" }
relative_to = { path.wan.rate = "10Mbit/s" }
value = 2

[[expect]]
metric = "cells.bytes_per_s"
where = { case = "long", path.wan.rate = "1Gbit/s" }
at_least = "80Mbit/s"

[[expect]]
metric = "cells.finding.limit"
where = { path.wan.rate = "10Mbit/s" }
equals = "path_rate"

[[expect]]
metric = "cells.iops"
where = { phase = "advised" }
at_least = 1
"#;

fn with_cases() -> String {
    let (kept, _) = GOOD.split_once("[sweep]").unwrap();
    format!("{kept}{CASES}")
}

/// The results in a results.json.
fn results(file: serde_json::Value) -> wansan_schema::Results {
    serde_json::from_value(file).unwrap()
}

#[test]
fn an_axis_goes_through_named_cases() {
    let plan = parse(&with_cases()).unwrap();
    let axis = &plan.sweep()[0];
    assert_eq!(axis.name().name(), "case");
    assert!(axis.sets(&Parameter::new("workload.parallel")));
    assert!(!axis.sets(&Parameter::new("path.wan.rate")));
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    let seen: Vec<(String, u128, u32)> = cells
        .iter()
        .map(|cell| {
            let names: Vec<&str> = cell
                .parameters
                .iter()
                .map(|(name, _)| name.name())
                .collect();
            assert_eq!(names, ["case", "path.wan.rate"]);
            let delay = cell.scenario.links[0].forward.effects.delay.as_millis();
            let case = cell.parameters[0].1.as_str().unwrap().to_owned();
            (case, delay, cell.document.workload.load.parallel)
        })
        .collect();
    let short = ("short".to_owned(), 1, 4);
    let long = ("long".to_owned(), 30, 1);
    assert_eq!(seen, [short.clone(), short, long.clone(), long]);
}

#[test]
fn one_axis_sets_several_parameters_alike() {
    let far = "[[path]]\nname = \"far\"\nbetween = [\"client-1\", \"storage\"]\n\
               delay = \"1ms\"\n\n[target]\nhost";
    let text = GOOD
        .replace("[target]\nhost", far)
        .replace(
            "[[initiator]]\nhost = \"client\"",
            "[[initiator]]\nhost = \"client-1\"\nroutes = [\"far\", \"wan\"]",
        )
        .replace("path.wan.delay =", "\"path.wan.delay+ path.far.delay\" =")
        .replace(
            "equals = \"command_window\"",
            "equals = \"command_window\"\n[[expect]]\nmetric = \"cells.iops\"\n\
             where = { path.far.delay = \"16ms\" }\nat_least = 1",
        );
    let plan = parse(&text).unwrap();
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    assert_eq!(cells.len(), 6);
    for cell in &cells {
        let links = &cell.scenario.links;
        assert_eq!(
            links[0].forward.effects.delay,
            links[1].forward.effects.delay
        );
        let (name, _) = &cell.parameters[1];
        assert_eq!(name.name(), "path.wan.delay + path.far.delay");
    }
    let results = results(serde_json::json!({"cells": [
        {"phase": "planned", "iops": 0,
         "parameters": {"path.wan.delay + path.far.delay": "1ms"}},
        {"phase": "planned", "iops": 2,
         "parameters": {"path.wan.delay + path.far.delay": "16ms"}},
    ]}));
    let verdict = plan.expectations()[1].check(&results);
    assert_eq!((verdict.met, verdict.found.as_str()), (true, "2.000"));
}

#[test]
fn the_quick_form_checks_what_it_has_cells_for() {
    let plan = parse(&with_cases()).unwrap();
    assert_eq!(
        (plan.quick_unchecked(), plan.expectations().len()),
        (None, 3)
    );
    let quick = plan.quick().unwrap();
    assert_eq!(quick.document().workload.time.to_string(), "200ms");
    assert!(!quick.document().apply_advice);
    assert_eq!(quick.cells(Phase::Planned, &[]).unwrap().len(), 2);
    // Neither the 10 Mbit/s cells nor the advised ones exist.
    assert_eq!(
        (quick.quick_unchecked(), quick.expectations().len()),
        (Some(2), 1)
    );
    let again = parse(&toml::to_string(quick.document()).unwrap()).unwrap();
    assert_eq!(quick.document(), again.document());
}

#[test]
fn numbers_of_the_paper_stand_beside_ours() {
    let plan = parse(&with_cases()).unwrap();
    let cell = |case: &str, rate: &str, bytes_per_s: f64| {
        serde_json::json!({
            "phase": "planned", "bytes_per_s": bytes_per_s,
            "parameters": {"case": case, "path.wan.rate": rate},
        })
    };
    let results = results(serde_json::json!({"cells": [
        cell("short", "10Mbit/s", 1e6), cell("long", "10Mbit/s", 1e6),
        cell("long", "1Gbit/s", 4e6), cell("long", "1Gbit/s", 6e6),
    ]}));
    let paper = plan.paper(&results).unwrap();
    assert_eq!(paper.remarks, ["All meet at long delays."]);
    assert_eq!(paper.differs, ["Ours has other routers."]);
    let rate = &paper.known[0];
    assert_eq!(
        (rate.value, rate.ours, rate.ratio),
        (1e7, Some(5e6), Some(0.5))
    );
    let ratio = &paper.known[1];
    assert_eq!(ratio.ours, Some((1.0 + 4.0 + 6.0) / 3.0));
    assert_eq!(
        plan.quick().unwrap().paper(&results).unwrap().known.len(),
        1
    );
}

#[test]
fn mistakes_in_cases_quick_forms_and_papers_are_named() {
    let text = with_cases();
    for (from, to, parts) in [
        (
            "case = [\"short\", \"long\"]",
            "case = [\"shrt\"]",
            &["`case`", "`short`"][..],
        ),
        (
            "case = [\"short\", \"long\"]\n",
            "",
            &["[[case]]", "case = [\"short\"]"],
        ),
        (
            "name = \"long\"",
            "name = \"short\"",
            &["\"short\" is given twice"],
        ),
        (
            "\"path.wan.rate\" =",
            "\"path.wan.delay\" =",
            &["both set `path.wan.delay`"],
        ),
        (
            "\"path.wan.rate\" =",
            "\"path.delay\" = [\"1ms\", \"2ms\"]\n\"path.wan.rate\" =",
            &["`case`", "`path.delay`", "one value", "`path.wan.delay`"],
        ),
        (
            "\"path.wan.rate\" =",
            "\"path.rate\" = [\"1Gbit/s\"]\n\"path.wan.rate\" =",
            &["one value", "`path.rate`", "`path.wan.rate`"],
        ),
        (
            "path.wan.delay = \"30ms\"",
            "path.wan.dely = \"30ms\"",
            &["case = \"long\"", "`delay`"],
        ),
        (
            "set = { path.wan.delay = \"30ms\" }",
            "set = {}",
            &["`long` sets nothing"],
        ),
        (
            "sweep.path.wan.rate",
            "sweep.path.wan.rte",
            &["[quick]", "`path.wan.rate`"],
        ),
        ("repeat = 1", "expect = []", &["[quick]", "`expect`"]),
        ("repeat = 1", "repeat = 0", &["[quick]", "1 to 1000"]),
        (
            "repeat = 1",
            "workload.tme = 1",
            &["[quick]", "`tme`", "`time`"],
        ),
        (
            "value = \"80Mbit/s\"",
            "value = \"80Mbit\"",
            &["paper.known", "Mbit/s"],
        ),
        (
            "where = { case = \"long\" }",
            "where = { case = \"lng\" }",
            &["paper.known", "lng"],
        ),
        (
            "metric = \"cells.bytes_per_s\"\nwhere = { case = \"long\" }",
            "metric = \"cells.finding.limit\"\nwhere = { case = \"long\" }",
            &["paper.known", "not a number"],
        ),
    ] {
        is_refused(&text, from, to, parts);
    }
    // Mistakes of the quick form are reported on its own lines, whatever the rest of the plan contains.
    for (from, to) in [
        ("repeat = 1", "repeat = 0"),
        ("repeat = 1", "workload.tme = 1"),
        ("workload.time = \"200ms\"", "workload.time = \"5\""),
        ("repeat = 1", "path.wan.delay = \"5\""),
        ("repeat = 1", "workload.parallel = 0"),
        ("sweep.path.wan.rate", "sweep.path.wan.rte"),
    ] {
        let text = text.replace(from, to);
        let line = text.lines().position(|line| line.contains(to)).unwrap() + 1;
        let error = parse(&text).expect_err(to).to_string();
        assert!(error.contains(&format!(":{line}: [quick]")), "{error}");
    }
    let error = parse(GOOD).unwrap().quick().unwrap_err().to_string();
    assert!(error.contains("no quick form"), "{error}");
}
