//! Plans.

use super::{refused, refused_beside};

/// Set in its table, or by its sweep.
#[test]
fn a_congestion_control_of_a_plan_that_the_kernel_does_not_have() {
    let plan = include_str!("../../../../plans/limits/nothing-binds.toml");
    for setting in [
        "\n[tcp]\necn = false\ncongestion_control = \"hasty\"\n",
        "\n[sweep]\ntcp.congestion_control = [\"cubic\", \"hasty\"]\n",
    ] {
        let plan = format!("{plan}{setting}");
        let line = plan.lines().count();
        refused_beside(
            &[("plan.toml", plan.as_bytes())],
            &["lab", "run", "plan.toml", "--json"],
            &[&format!("plan.toml:{line}: "), "hasty"],
        );
    }
}

#[test]
fn a_plan_that_is_not_there() {
    refused(&["lab", "run", "plan.toml"], &["plan.toml"]);
}

#[test]
fn a_plan_without_a_quick_form() {
    let plan = include_bytes!("../../../../plans/limits/nothing-binds.toml");
    let arguments = ["lab", "run", "--quick", "plan.toml"];
    refused_beside(
        &[("plan.toml", plan)],
        &arguments,
        &["plan.toml", "[quick]"],
    );
}

#[test]
fn a_plan_that_is_no_toml() {
    let plan: &[u8] = b"title = \"x\"\n[world\n";
    refused_beside(
        &[("plan.toml", plan)],
        &["lab", "run", "plan.toml"],
        &["plan.toml", "2"],
    );
}

#[test]
fn a_plan_with_an_unknown_key_names_the_nearest() {
    let plan: &[u8] = b"titel = \"x\"\n";
    refused_beside(
        &[("plan.toml", plan)],
        &["lab", "run", "plan.toml"],
        &["titel", "title"],
    );
}

#[test]
fn an_expectation_that_no_result_can_meet_names_the_nearest() {
    for (right, wrong, words) in [
        (
            "finding.limit",
            "finding.limt",
            ["plan.toml:33", "`finding.limit`"],
        ),
        ("\"nothing\"", "\"notihng\"", ["plan.toml:34", "`nothing`"]),
    ] {
        let right_plan = include_str!("../../../../plans/limits/nothing-binds.toml");
        let plan = right_plan.replace(right, wrong);
        for command in ["check", "run"] {
            refused_beside(
                &[("plan.toml", plan.as_bytes())],
                &["lab", command, "plan.toml"],
                &[&words[..], &[wrong.trim_matches('"')]].concat(),
            );
        }
    }
}

#[test]
fn a_plan_whose_lun_is_none_names_what_would_be_one() {
    let right_plan = include_str!("../../../../plans/limits/nothing-binds.toml");
    let plan = right_plan.replace("memory:64MiB", "memory:1YiB");
    for command in ["check", "run"] {
        refused_beside(
            &[("plan.toml", plan.as_bytes())],
            &["lab", command, "plan.toml"],
            &["plan.toml:19", "target.luns", "`YiB`", "GiB"],
        );
    }
}

#[test]
fn a_plan_whose_routes_lead_nowhere_names_what_is_missing() {
    let right_plan = include_str!("../../../../plans/topologies/p1-two-routes.toml");
    for (right, wrong, words) in [
        (
            "name = \"lower\"\nvia",
            "name = \"upper\"\nvia",
            &["plan.toml:52", "[[route]] `upper`", "twice"][..],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "routes = [\"upper\", \"upper\"]",
            &["plan.toml:64", "`upper`", "twice"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"near-2\"]",
            &["plan.toml:53", "no [[path]] joins `near-2` and `storage`"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"near-2\", \"fra\"]",
            &["plan.toml:53", "`fra`", "`far`"],
        ),
    ] {
        let plan = right_plan.replace(right, wrong);
        for command in ["check", "run"] {
            refused_beside(
                &[("plan.toml", plan.as_bytes())],
                &["lab", command, "plan.toml"],
                words,
            );
        }
    }
}

#[test]
fn a_plan_that_is_no_text() {
    let plan: &[u8] = &[0xff, 0xfe, 0, 1];
    refused_beside(
        &[("plan.toml", plan)],
        &["lab", "run", "plan.toml"],
        &["plan.toml"],
    );
}
