//! Each mistake in a plan is reported with a correction.

use std::path::Path;

use wansan_lab::plan::{Phase, Plan};

use super::{GOOD, is_refused, parse};

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
            &[":21", "1 to 65536"],
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
        (
            "luns = [\"memory:64MiB\"]",
            "luns = []",
            &[":20", "memory:1GiB"],
        ),
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
            &["\"Client\"", "lower-case letters"],
        ),
        (
            "op = \"read\"",
            "op = \"reed\"",
            &[":27", "workload.op", "`reed`", "`read`"],
        ),
        (
            "block = \"4KiB\"",
            "block = \"1000B\"",
            &[":28", "workload.block", "512B"],
        ),
        (
            "block = \"4KiB\"",
            "block = \"32MiB\"",
            &[":28", "workload.block", "16MiB"],
        ),
        (
            "apply_advice = true",
            "[session]\nmax_burst = \"16MiB\"",
            &[":4", "session.max_burst", "512B to 16777215B"],
        ),
        (
            "apply_advice = true",
            "[session]\nmax_burst = \"16KiB\"",
            &["session.first_burst", "256KiB", "16KiB"],
        ),
        (
            "time = \"1s\"",
            "time = \"1ms\"",
            &[":29", "workload.time", "100ms"],
        ),
        ("title = ", "title ", &[":2"]),
        (
            "workload.parallel = [16, 176]",
            "workload.parallel = []",
            &[":32", "workload.parallel", "one"],
        ),
        (
            "workload.parallel = [16, 176]",
            "workload.parallel = 16",
            &[":32", "workload.parallel", "[16]"],
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
            &["world.mtu", "9kB"],
        ),
        (
            "apply_advice = true",
            "[tcp]\nrmem = [\"4KiB\"]",
            &[":4", "tcp.rmem", "1 values", "3"],
        ),
        (
            "apply_advice = true",
            "[tcp]\nwmem = [\"4KiB\", \"16KiB\", \"1MiB\", \"2MiB\"]",
            &[":4", "tcp.wmem", "4 values", "3"],
        ),
        (
            "apply_advice = true",
            "[tcp]\nrmem = [\"4KiB\", \"0B\", \"1MiB\"]",
            &[":4", "`tcp.rmem`", "0B", "1B to"],
        ),
        (
            "apply_advice = true",
            "[tcp]\nwmem = [\"4KiB\", \"2MiB\", \"1MiB\"]",
            &[":4", "`tcp.wmem`", "4KiB, 2MiB, 1MiB are not in order"],
        ),
        (
            "apply_advice = true",
            "[tcp]\ncongestion_control = \"not the name of one\"",
            &[":4", "`tcp.congestion_control`", "15 letters"],
        ),
        (
            "apply_advice = true",
            "[tcp]\ncontrol = { max_ssthresh = 100 }",
            &[
                ":4",
                "`tcp.control`",
                "`cubic` is the kernel's",
                "wansan_reno",
            ],
        ),
        (
            "apply_advice = true",
            "[tcp]\ncongestion_control = \"wansan_reno\"\ncontrol.low_window = 5",
            &[
                ":5",
                "`tcp.control`",
                "`wansan_reno` takes no",
                "wansan_hstcp does",
            ],
        ),
        (
            "apply_advice = true",
            "[tcp]\ncongestion_control = \"wansan_hstcp\"\ncontrol.high_loss = 0.5",
            &[":5", "`tcp.control`", "loss rate 0.5", "do not fit"],
        ),
        (
            "apply_advice = true",
            "[tcp]\ncongestion_control = \"wansan_scal\"\ncontrol.max_ssthresh = 1",
            &[":5", "`tcp.control`", "2 segments or more"],
        ),
        (
            "apply_advice = true",
            "[tcp]\ncongestion_control = \"wansan_hstcp\"\ncontrol.high_windw = 400",
            &[":5", "high_windw", "high_window"],
        ),
        (
            "apply_advice = true",
            "[trace]\nkinds = [\"tcp\"]",
            &[":4", "`trace.kinds`", "\"io\""],
        ),
        (
            "apply_advice = true",
            "seed = \"x\"",
            &[":3", "`seed`", "whole number"],
        ),
        (
            "apply_advice = true",
            "[world]\nmtu = \"500B\"",
            &[":4", "`world.mtu`", "576B"],
        ),
        (
            "between = [\"client\", \"storage\"]",
            "between = [\"client\", \"storage\", \"client\"]",
            &[":13", "`path.between`", "3 values", "2"],
        ),
        (
            "queue = \"4MiB\"",
            "reorder = \"1%\"",
            &[":16", "`path.reorder`", "a table"],
        ),
        (
            "queue = \"4MiB\"",
            "loss = { packets = [18446744073709551615] }",
            &[":16", "loss", "9223372036854775807"],
        ),
        (
            "command_window = 100",
            "name = \"disk\"",
            &[":21", "`target.name`", "\"disk\"", "iqn."],
        ),
        (
            "luns = [\"memory:64MiB\"]",
            "luns = [\"file:/nowhere/disk.img\"]",
            &[":20", "`target.luns`", "/nowhere/disk.img", "`size=`"],
        ),
        (
            "luns = [\"memory:64MiB\"]",
            "luns = [\"memory:2KiB\"]",
            &[
                ":28",
                "`workload.block`",
                "longer than LUN 0",
                "memory:2KiB",
            ],
        ),
        (
            "op = \"read\"",
            "op = \"write\"\nverify = true",
            &[":28", "`workload.verify`", "2 initiators"],
        ),
        (
            "workload.parallel = [16, 176]",
            "repeat = [1, 2]",
            &[":32", "[sweep] `repeat`", "same in all cells"],
        ),
        (
            "workload.parallel = [16, 176]",
            "title = [\"a\", \"b\"]",
            &[":32", "[sweep] `title`"],
        ),
        (
            "workload.parallel = [16, 176]",
            "\"sweep.x\" = [1, 2]",
            &[":32", "`sweep.x`"],
        ),
        (
            "workload.parallel = [16, 176]",
            "workload.parallel = [16, 176, 16]",
            &[":32", "[sweep] `workload.parallel`", "16 and 16", "same"],
        ),
        (
            "workload.parallel = [16, 176]",
            "workload.block = [\"64KiB\", \"4KiB\", \"65536B\"]",
            &[
                ":32",
                "[sweep] `workload.block`",
                "\"64KiB\" and \"65536B\"",
            ],
        ),
        (
            "path.wan.delay = [",
            "path.wam.delay = [",
            &["path.wam.delay", "`wan`", "`wam`"],
        ),
        (
            "metric = \"finding.limit\"\nequals = \"command_window\"",
            "metric = \"cells.iops\"\nat_least = nan",
            &[":37", "`cells.iops`", "nan"],
        ),
        (
            "metric = \"finding.limit\"\nequals = \"command_window\"",
            "metric = \"cells.packet_gap_p50_ns\"\nat_most = \"1ms\"\n\
             [trace]\nkinds = [\"io\", \"pdu\"]",
            &[
                ":36",
                "`cells.packet_gap_p50_ns`",
                "\"packet\"",
                "`trace.kinds`",
            ],
        ),
        (
            "metric = \"finding.limit\"\nequals = \"command_window\"",
            "metric = \"cells.vpn_cpu_s_per_gib\"\nat_most = 1",
            &[":36", "never there", "`vpn`", "workload.parallel = 16"],
        ),
    ] {
        is_refused(GOOD, from, to, parts);
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
fn what_only_packets_tell_is_not_expected_of_wires() {
    let text = GOOD
        .replace("count = 2", "count = 1")
        .replace("delay = \"16ms\"\nrate = \"1Gbit/s\"\n", "")
        .replace("path.wan.delay", "target.command_window")
        .replace("[\"1ms\", \"16ms\", \"32ms\"]", "[8]")
        .replace("finding.limit", "cells.packet_gap_p50_ns")
        .replace("equals = \"command_window\"", "at_most = \"1ms\"");
    let error = parse(&text).unwrap_err().to_string();
    assert!(
        error.contains("wires") && error.contains("\"0ms\""),
        "{error}"
    );
    parse(&text.replace("queue = ", "delay = \"0ms\"\nqueue = ")).unwrap();
}

#[test]
fn no_file_is_too_long_to_be_refused() {
    // It is endless, and has no length in its metadata.
    let error = Plan::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.starts_with("/dev/zero: it is too long"), "{error}");
}

#[test]
fn no_plan_is_named_as_another_folder() {
    for file in ["...toml", "plans/..toml"] {
        let error = Plan::parse(Path::new(file), GOOD);
        let told = error.map(|plan| plan.name());
        assert!(
            told.as_ref()
                .is_err_and(|told| told.to_string().contains("another name")),
            "{file}: {told:?}"
        );
    }
    let four = Plan::parse(Path::new("....toml"), GOOD).unwrap();
    assert_eq!(four.name(), "...");
}
