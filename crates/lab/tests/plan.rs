//! Plans as people write them, right and wrong.

use std::path::Path;

use wansan_lab::plan::{Parameter, Phase, Plan, PlanError};

const GOOD: &str = r#"
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

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(Path::new("plans/reads.toml"), text)
}

/// The one-line message for the good plan with `from` replaced by `to`.
fn mistake(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from} is not in the good plan");
    let error = parse(&GOOD.replace(from, to)).expect_err(to);
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    assert!(message.starts_with("plans/reads.toml"), "{message}");
    message
}

#[test]
fn each_mistake_is_named_with_the_right_thing() {
    for (from, to, parts) in [
        (
            "delay = \"16ms\"",
            "dely = \"16ms\"",
            &[":14", "`dely`", "[path]", "`delay`"][..],
        ),
        (
            "delay = \"16ms\"",
            "delay = 16",
            &[":14", "path.delay", "no unit", "ms"],
        ),
        (
            "delay = \"16ms\"",
            "delay = \"16 parsecs\"",
            &[":14", "parsecs", "ns, us, ms"],
        ),
        ("delay = \"16ms\"", "delay = \"2min\"", &["60s"]),
        (
            "rate = \"1Gbit/s\"",
            "rate = \"1GB\"",
            &[":15", "path.rate", "Gbit/s"],
        ),
        (
            "queue = \"4MiB\"",
            "queue = \"0B\"",
            &[":16", "path.queue", "more than 0"],
        ),
        (
            "queue = \"4MiB\"",
            "loss = \"0.1\"",
            &[":16", "path.loss", "0.1%"],
        ),
        (
            "[target]",
            "[tarket]",
            &["`tarket`", "the plan", "`target`"],
        ),
        (
            "command_window = 100",
            "command_window = 0",
            &[":21", "1 to 65535"],
        ),
        (
            "command_window = 100",
            "command_window = -5",
            &[":21", "-5"],
        ),
        (
            "command_window = 100",
            "command_window = \"100\"",
            &[":21", "target.command_window"],
        ),
        ("luns = [\"memory:64MiB\"]", "luns = []", &["memory:1GiB"]),
        (
            "luns = [\"memory:64MiB\"]",
            "luns = \"memory:64MiB\"",
            &[":20", "list in [ ]"],
        ),
        (
            "luns = [\"memory:64MiB\"]",
            "luns = [\n  \"memory:64MiB\",\n  \"memory:1YiB\",\n]",
            &[":22", "target.luns", "`YiB`", "GiB"],
        ),
        (
            "luns = [\"memory:64MiB\"]",
            "luns = [\"memroy:64MiB\"]",
            &[":20", "target.luns", "`memroy`", "`memory:`"],
        ),
        (
            "luns = [\"memory:64MiB\"]",
            "luns = [\"memory:1000B\"]",
            &[":20", "target.luns", "`memory:1000B`", "512-byte blocks"],
        ),
        (
            "luns = [\"memory:64MiB\"]",
            "luns = [64]",
            &[":20", "target.luns", "`64`", "a string"],
        ),
        (
            "[sweep]",
            "[sweep]\ntarget.luns = [[\"memory:1MiB,servise-time=2ms\"]]",
            &["[sweep]", "`servise-time`", "`service-time=`"],
        ),
        (
            "host = \"storage\"",
            "host = \"storag\"",
            &["`storag`", "`storage`"],
        ),
        (
            "host = \"storage\"",
            "host = \"client\"",
            &["runs on one host", "`client-1`"],
        ),
        (
            "[[initiator]]\nhost = \"client\"",
            "[[initiator]]\nhost = \"storage\"",
            &["no [[path]]"],
        ),
        (
            "[target]\nhost",
            "[[path]]\nname = \"far\"\nbetween = [\"client\", \"storage\"]\ndelay = \"1ms\"\n\n\
             [target]\nhost",
            &["[[path]] `wan` or [[path]] `far`", "`routes`"],
        ),
        (
            "[[initiator]]",
            "[[initiator]]\nroutes = [\"wam\"]",
            &["`wam`", "wan"],
        ),
        ("count = 2", "count = 0", &[":10", "1 to 250"]),
        (
            "name = \"client\"",
            "name = \"Client\"",
            &["\"Client\"", "small letters"],
        ),
        (
            "op = \"read\"",
            "op = \"reed\"",
            &[":27", "workload.op", "`reed`", "`read`"],
        ),
        (
            "block = \"4KiB\"",
            "block = \"1000B\"",
            &["workload.block", "512B"],
        ),
        (
            "block = \"4KiB\"",
            "block = \"32MiB\"",
            &["workload.block", "16MiB"],
        ),
        (
            "apply_advice = true",
            "[session]\nmax_burst = \"16MiB\"",
            &["session.max_burst", "512B to 16777215B"],
        ),
        (
            "apply_advice = true",
            "[session]\nmax_burst = \"16KiB\"",
            &["session.first_burst", "256KiB", "16KiB"],
        ),
        (
            "time = \"1s\"",
            "time = \"1ms\"",
            &["workload.time", "100ms"],
        ),
        ("title = ", "title ", &[":2"]),
        (
            "workload.parallel = [16, 176]",
            "workload.parallel = []",
            &["workload.parallel", "one"],
        ),
        (
            "workload.parallel = [16, 176]",
            "workload.parallel = 16",
            &["workload.parallel", "[16]"],
        ),
        (
            "workload.parallel = [16, 176]",
            "workload.paralel = [16]",
            &["[sweep]", "`paralel`", "`parallel`"],
        ),
        (
            "workload.parallel = [16, 176]",
            "workload.parallel = [16, \"many\"]",
            &["many"],
        ),
        ("path.wan.delay", "path.lan.delay", &["lan"]),
        (
            "equals = \"command_window\"",
            "",
            &["finding.limit", "`equals`, `at_least`"],
        ),
        ("equals =", "equal =", &["`equal`", "`equals`"]),
        (
            "metric = \"finding.limit\"\nequals = \"command_window\"",
            "metric = \"cells.iops\"\nequals = 1\nwhere = { workload.parallel = 17 }",
            &[":38", "cells.iops", "workload.parallel = 17"],
        ),
        (
            "metric = \"finding.limit\"",
            "metric = \"iops\"\nwhere = { workload.parallel = 16 }",
            &[":36", "`iops`", "`cells.iops`"],
        ),
        (
            "metric = \"finding.limit\"",
            "metric = \"finding.limt\"",
            &[":36", "`finding.limt`", "`finding.limit`"],
        ),
        (
            "metric = \"finding.limit\"",
            "metric = \"cells.in_flight.windo\"",
            &[":36", "`cells.in_flight.window`"],
        ),
        (
            "metric = \"finding.limit\"",
            "metric = \"advised.measured_gian\"",
            &[":36", "`advised.measured_gian`", "advised.measured_gain"],
        ),
        (
            "equals = \"command_window\"",
            "equals = \"comand_window\"",
            &[":37", "\"comand_window\"", "`command_window`"],
        ),
        (
            "equals = \"command_window\"",
            "equals = 7",
            &[":37", "`finding.limit`", "text", "7"],
        ),
        (
            "equals = \"command_window\"",
            "at_least = 7",
            &[":37", "`equals`"],
        ),
        (
            "metric = \"finding.limit\"",
            "metric = \"cells.iops\"\nwhere = { phase = \"palnned\" }",
            &[":37", "palnned", "`planned`"],
        ),
        (
            "metric = \"finding.limit\"\nequals = \"command_window\"",
            "metric = \"cells.iops\"\nequals = \"many\"",
            &[":37", "`cells.iops`", "many"],
        ),
        (
            "apply_advice = true",
            "repeat = 0",
            &[":3", "repeat", "1 to 1000"],
        ),
        (
            "apply_advice = true",
            "[world]\nkind = \"moon\"",
            &["`moon`", "netns"],
        ),
        (
            "apply_advice = true",
            "[world]\nmtu = \"64KiB\"",
            &["world.mtu", "9000B"],
        ),
        (
            "apply_advice = true",
            "[tcp]\nrmem = [\"4KiB\"]",
            &["tcp.rmem"],
        ),
    ] {
        let message = mistake(from, to);
        for part in parts {
            assert!(
                message.contains(part),
                "`{to}` gives `{message}`, without `{part}`"
            );
        }
    }
}

#[test]
fn paths_side_by_side_take_an_interface_each() {
    let far =
        "[[path]]\nname = \"far\"\nbetween = [\"client-1\", \"storage\"]\ndelay = \"1ms\"\n\n";
    let text = GOOD
        .replace("[target]\nhost", &format!("{far}[target]\nhost"))
        .replace(
            "[[initiator]]\nhost = \"client\"",
            "[[initiator]]\nhost = \"client-1\"\nroutes = [\"far\", \"wan\"]",
        );
    let plan = parse(&text).unwrap();
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    let scenario = &cells[0].scenario;
    let ends: Vec<String> = scenario.initiators[0]
        .connections
        .iter()
        .map(|one| format!("{}: {}->{}", one.route, one.source, one.target))
        .collect();
    assert_eq!(
        ends,
        ["far: 10.84.0.2:0->10.84.0.1", "wan: 10.83.0.2:0->10.83.0.1"]
    );
    let members: Vec<&[usize]> = scenario
        .topology
        .networks
        .iter()
        .map(|network| &network.members[..])
        .collect();
    assert_eq!(members, [&[1, 2, 0][..], &[1, 0]]);
}

#[test]
fn a_plan_that_is_not_there_is_named() {
    let error = Plan::read(Path::new("/nowhere/plan.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("/nowhere/plan.toml: cannot read"),
        "{error}"
    );
}

#[test]
fn cells_are_the_product_in_the_order_of_the_plan() {
    let plan = parse(&GOOD.replace("apply_advice = true", "repeat = 2")).unwrap();
    assert_eq!(plan.name(), "reads");
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    assert_eq!(cells.len(), 12);
    let seen: Vec<(u32, u32, u128)> = cells
        .iter()
        .map(|cell| {
            let link = &cell.scenario.links[0];
            (
                cell.repeat,
                cell.document.workload.parallel,
                link.forward.effects.delay.as_millis(),
            )
        })
        .collect();
    assert_eq!(
        &seen[..7],
        &[
            (0, 16, 1),
            (0, 16, 16),
            (0, 16, 32),
            (0, 176, 1),
            (0, 176, 16),
            (0, 176, 32),
            (1, 16, 1)
        ]
    );
    let scenario = &cells[0].scenario;
    assert_eq!(scenario.target_host, "storage");
    let hosts: Vec<&str> = scenario
        .initiators
        .iter()
        .map(|initiator| initiator.host.as_str())
        .collect();
    assert_eq!(hosts, ["client-1", "client-2"]);
    assert!(scenario.links[0].joins(0, 2));
    assert!(!scenario.links[0].joins(1, 2));
}

#[test]
fn advice_is_set_over_the_whole_sweep() {
    let plan = parse(GOOD).unwrap();
    let window = wansan_lab::plan::Parameter::new("target.command_window");
    let value = plan.value_for(&window, "176");
    let cells = plan
        .cells(Phase::Advised, &[(window.clone(), value)])
        .unwrap();
    assert!(
        cells
            .iter()
            .all(|cell| cell.document.target.command_window == 176)
    );
    let buffer = wansan_lab::plan::Parameter::new("tcp.ecn");
    let value = plan.value_for(&buffer, "true");
    assert!(
        plan.cells(Phase::Advised, &[(buffer, value)]).unwrap()[0]
            .document
            .tcp
            .ecn
    );
    let wrong = plan.value_for(&window, "plenty");
    assert!(plan.cells(Phase::Advised, &[(window, wrong)]).is_err());
}

#[test]
fn a_resolved_plan_reads_back() {
    let plan = parse(GOOD).unwrap();
    let again = parse(&toml::to_string(plan.document()).unwrap()).unwrap();
    assert_eq!(plan.document(), again.document());
}

#[test]
fn a_sweep_without_end_is_refused() {
    let many: Vec<String> = (1..=200).map(|n| n.to_string()).collect();
    let text = GOOD.replace(
        "workload.parallel = [16, 176]",
        &format!(
            "workload.parallel = [{0}]\ntarget.command_window = [{0}]",
            many.join(", ")
        ),
    );
    assert!(
        parse(&text)
            .unwrap_err()
            .to_string()
            .contains("10000 cells")
    );
}

fn verdict(expectation: &str, results: &serde_json::Value) -> wansan_lab::plan::Verdict {
    let (kept, _) = GOOD.split_once("[[expect]]").unwrap();
    let plan = parse(&format!("{kept}[[expect]]\n{expectation}")).unwrap();
    plan.expectations()[0].check(results)
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
            (case, delay, cell.document.workload.parallel)
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
    let results = serde_json::json!({"cells": [
        {"phase": "planned", "iops": 0,
         "parameters": {"path.wan.delay + path.far.delay": "1ms"}},
        {"phase": "planned", "iops": 2,
         "parameters": {"path.wan.delay + path.far.delay": "16ms"}},
    ]});
    let verdict = plan.expectations()[1].check(&results);
    assert_eq!((verdict.met, verdict.found.as_str()), (true, "2"));
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
    // Neither the cells of 10 Mbit/s nor the advised ones are there.
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
    let results = serde_json::json!({"cells": [
        cell("short", "10Mbit/s", 1e6), cell("long", "10Mbit/s", 1e6),
        cell("long", "1Gbit/s", 4e6), cell("long", "1Gbit/s", 6e6),
    ]});
    let paper = plan.paper(&results).unwrap();
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
            &["\"short\" is there twice"],
        ),
        (
            "\"path.wan.rate\" =",
            "\"path.wan.delay\" =",
            &["both set `path.wan.delay`"],
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
            &["paper.known", "no number"],
        ),
    ] {
        assert!(text.contains(from), "{from} is not in the plan");
        let error = parse(&text.replace(from, to)).expect_err(to).to_string();
        for part in parts {
            assert!(
                error.contains(part),
                "`{to}` gives `{error}`, without `{part}`"
            );
        }
    }
    let error = parse(GOOD).unwrap().quick().unwrap_err().to_string();
    assert!(error.contains("no quick form"), "{error}");
}
