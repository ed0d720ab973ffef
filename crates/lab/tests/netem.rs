//! Plans for the kernel's netem: what is supported, and what is refused when the plan is read.

use std::path::Path;

use wansan_lab::plan::NetemSetting;
use wansan_lab::plan::{Phase, Plan};
use wansan_lab::world::Medium;

/// A plan with these keys in its world and in its only path, followed by `more`.
fn plan(world: &str, keys: &str, more: &str) -> Result<Plan, String> {
    plan_of(1, "client", world, keys, more)
}

/// The same with this many clients, of which the named one reads.
fn plan_of(
    clients: u32,
    reader: &str,
    world: &str,
    keys: &str,
    more: &str,
) -> Result<Plan, String> {
    let text = format!(
        r#"
title = "Netem"
host = [{{ name = "storage" }}, {{ name = "client", count = {clients} }}]
target = {{ host = "storage", luns = ["memory:64MiB"] }}
initiator = [{{ host = "{reader}" }}]
workload = {{ op = "read", block = "4KiB", time = "1s" }}
world = {{ {world} }}
{more}

[[path]]
between = ["{reader}", "storage"]
{keys}
"#
    );
    Plan::parse(Path::new("netem.toml"), &text).map_err(|error| error.to_string())
}

const NETEM: &str = r#"emulator = "netem""#;
const KINDS: &str = r#"trace.kinds = ["io", "pdu", "tcp"]"#;

#[track_caller]
fn refused(keys: &str, more: &str, words: &[&str]) {
    let said = plan(NETEM, keys, more).expect_err(keys);
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "no '{word}' in: {said}");
    }
}

#[test]
fn a_path_by_netem_goes_through_the_wan_and_a_wire_does_not() {
    let media = |world: &str, keys: &str| {
        let plan = plan(world, keys, KINDS).unwrap();
        let cell = plan.cells(Phase::Planned, &[]).unwrap().remove(0);
        cell.scenario.topology.networks[0].medium
    };
    assert_eq!(media(NETEM, r#"delay = "1ms""#), Medium::Netem);
    assert_eq!(
        media(r#"emulator = "user""#, r#"delay = "1ms""#),
        Medium::Emulator
    );
    assert_eq!(media("", r#"delay = "1ms""#), Medium::Emulator);
    assert_eq!(media(NETEM, ""), Medium::Wire);
}

#[test]
fn each_direction_is_told_its_own() {
    let keys = r#"
        delay = "10ms"
        rate = "10Mbit/s"
        queue = "100packets"
        overhead = "24B"
        back = { loss = { kind = "gilbert-elliott", p = "1%", r = "30%" } }
    "#;
    let plan = plan(NETEM, keys, KINDS).unwrap();
    let cell = plan.cells(Phase::Planned, &[]).unwrap().remove(0);
    let link = &cell.scenario.links[0];
    let told = [&link.forward, &link.back]
        .map(|direction| NetemSetting::of(direction, 1500).unwrap().to_string());
    assert_eq!(
        told,
        [
            "limit 110 delay 10000us rate 10000000bit 24",
            "limit 110 delay 10000us loss gemodel 1% 30% 100% 0% rate 10000000bit 24"
        ]
    );
}

#[test]
fn what_netem_cannot_do_is_refused_by_its_key() {
    let delay = r#"delay = "1ms""#;
    let line = ["netem.toml:", "[[path]] `wan` ", "world.emulator"];
    let path = |keys: &str, words: &[&str]| {
        refused(
            &format!("{delay}\n{keys}"),
            KINDS,
            &[&line[..], words].concat(),
        );
    };
    path(
        "rate = \"1Mbit/s\"",
        &["queue", "write `queue = \"692packets\"`"],
    );
    path(
        "queue = { kind = \"codel\", limit = \"100packets\" }",
        &["queue", "CoDel"],
    );
    path("loss = { packets = [10] }", &["loss"]);
    path("mark = \"1%\"", &["mark"]);
    path("capture = true", &["capture"]);
    path("jitter = \"1ms\"", &["jitter", "reorder = true"]);
    path("reorder = { share = \"1%\", by = \"1ms\" }", &["reorder"]);
    path("forward = { mark = \"1%\" }", &["mark"]);
    refused(delay, "", &["trace.kinds", "packet"]);
    let timeline = format!("{KINDS}\ntimeline = [\"at 500ms wan down\"]");
    refused(delay, &timeline, &["netem.toml:", "timeline"]);
}

#[test]
fn netem_joins_one_node_at_each_end() {
    let keys = r#"delay = "1ms"
        [[path]]
        name = "crowd"
        between = ["client", "storage"]
    "#;
    // The second path joins two clients with the storage host.
    let said = plan_of(2, "client-1", NETEM, keys, KINDS).expect_err("two clients");
    assert!(
        said.contains("`crowd` between") && said.contains("one node"),
        "{said}"
    );
}

#[test]
fn another_name_of_an_emulator_is_refused() {
    let said = plan(r#"emulator = "dummynet""#, "delay = \"1ms\"", "").expect_err("unknown");
    assert!(
        said.contains("world.emulator") && said.contains("netem"),
        "{said}"
    );
}
