//! Effects of paths on packets, as stated in plans.

use std::path::Path;
use std::time::Duration;

use wansan_lab::plan::{Direction, Link, Phase, Plan};
use wansan_path::{
    Capacity, Discipline, Distribution, Effects, GilbertElliott, Jitter, Limit, LossModel, Unit,
};

/// A plan with a single path between two hosts, with these keys.
fn plan(keys: &str) -> String {
    format!(
        r#"
title = "Effects"
host = [{{ name = "storage" }}, {{ name = "client" }}]
target = {{ host = "storage", luns = ["memory:64MiB"] }}
initiator = [{{ host = "client" }}]
workload = {{ op = "read", block = "4KiB", time = "1s" }}

[[path]]
between = ["client", "storage"]
{keys}
"#
    )
}

fn link_in(folder: &Path, keys: &str) -> Result<Link, String> {
    let plan = Plan::parse(&folder.join("effects.toml"), &plan(keys));
    let plan = plan.map_err(|error| error.to_string())?;
    let cells = plan.cells(Phase::Planned, &[]).expect("it was checked");
    Ok(cells[0].scenario.links[0].clone())
}

fn link(keys: &str) -> Link {
    link_in(Path::new("nowhere"), keys).expect(keys)
}

fn forward(keys: &str) -> Effects {
    link(keys).forward.effects
}

/// The error for a plan with these keys.
fn mistake(keys: &str) -> String {
    let message = link_in(Path::new("nowhere"), keys).expect_err(keys);
    assert!(!message.contains('\n'), "{message}");
    message
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn short_forms_say_the_usual() {
    let effects = forward(
        r#"
        delay = "8ms"
        jitter = "1ms"
        rate = "330Mbit/s"
        queue = "100packets"
        loss = "0.1%"
        reorder = { share = "1%", by = "5ms" }
        duplicate = "0.5%"
        corrupt = "0.01%"
        mark = "2%"
        "#,
    );
    assert_eq!(effects.delay, ms(8));
    let jitter = Jitter {
        distribution: Distribution::Uniform { spread: ms(1) },
        overtaking: false,
    };
    assert_eq!(effects.jitter, Some(jitter));
    assert_eq!(effects.capacity.mean_bits_per_s(), Some(330_000_000));
    assert_eq!(effects.queue_limit, Limit::packets(100));
    assert_eq!(effects.discipline, Discipline::DropTail);
    let shares = [
        (effects.loss.mean(), 0.001),
        (effects.reorder_share.value(), 0.01),
        (effects.duplicate.value(), 0.005),
        (effects.corrupt.value(), 0.0001),
        (effects.mark.value(), 0.02),
    ];
    for (share, stated) in shares {
        assert!((share - stated).abs() < 1e-12, "{share} is not {stated}");
    }
    assert_eq!(effects.reorder_by, ms(5));
}

#[test]
fn tables_say_more() {
    let effects = forward(
        r#"
        delay = "8ms"
        jitter = { kind = "normal", deviation = "1ms", reorder = true }
        queue = { kind = "red", limit = "100packets", min = "5packets", max = "15packets", ecn = true }
        loss = { kind = "gilbert-elliott", p = "1%", r = "30%", good = "0.1%" }
        "#,
    );
    let jitter = effects.jitter.expect("stated");
    assert_eq!(
        jitter.distribution,
        Distribution::Normal { deviation: ms(1) }
    );
    assert!(jitter.overtaking);
    let Discipline::Red(red) = effects.discipline else {
        panic!("{:?}", effects.discipline);
    };
    assert_eq!(
        (red.unit, red.min_threshold, red.max_threshold, red.ecn),
        (Unit::Packets, 5.0, 15.0, true)
    );
    assert_eq!((red.weight, red.gentle), (0.002, true));
    let channel = GilbertElliott::new(0.01, 0.3, 0.001, 1.0).expect("a channel");
    assert_eq!(effects.loss, LossModel::GilbertElliott(channel));

    let codel = r#"queue = { kind = "codel", target = "1ms", interval = "20ms" }"#;
    let Discipline::CoDel(codel) = forward(codel).discipline else {
        panic!("{codel}");
    };
    assert_eq!(
        (codel.target, codel.interval, codel.largest_packet_bytes),
        (ms(1), ms(20), 1514)
    );
    let LossModel::Listed(list) = forward("loss = { packets = [500, 10, 11] }").loss else {
        panic!("a list");
    };
    assert_eq!(list.numbers(), [10, 11, 500]);
}

#[test]
fn a_direction_says_what_is_different() {
    let link = link(
        r#"
        delay = "8ms"
        loss = "1%"
        overhead = "24B"
        forward = { loss = { packets = [1] }, mark = "1%" }
        [path.back]
        delay = "2ms"
        overhead = "0B"
        "#,
    );
    let Direction {
        effects,
        overhead_bytes,
        ..
    } = &link.forward;
    assert_eq!((effects.delay, *overhead_bytes), (ms(8), 24));
    assert!(matches!(effects.loss, LossModel::Listed(_)));
    assert!((effects.mark.value() - 0.01).abs() < 1e-12);
    let Direction {
        effects,
        overhead_bytes,
        ..
    } = &link.back;
    assert_eq!((effects.delay, *overhead_bytes), (ms(2), 0));
    assert!((effects.loss.mean() - 0.01).abs() < 1e-12);
    assert!(effects.mark.value() == 0.0);
}

#[test]
fn only_effects_make_an_emulated_path() {
    assert!(link("").wire);
    assert!(link("queue = \"64KiB\"\noverhead = \"24B\"").wire);
    for keys in [
        "delay = \"0ms\"",
        "mark = \"1%\"",
        "duplicate = \"1%\"",
        "loss = { packets = [7] }",
        "[path.back]\ncorrupt = \"1%\"",
    ] {
        assert!(!link(keys).wire, "{keys}");
    }
}

#[test]
fn sweeps_reach_one_direction() {
    let text =
        plan("delay = \"8ms\"") + "[sweep]\n\"path.wan.forward.delay\" = [\"1ms\", \"2ms\"]\n";
    let plan = Plan::parse(Path::new("effects.toml"), &text).expect("a plan");
    let cells = plan.cells(Phase::Planned, &[]).expect("it was checked");
    let delays = cells.iter().map(|cell| {
        let link = &cell.scenario.links[0];
        (link.forward.effects.delay, link.back.effects.delay)
    });
    assert!(delays.eq([(ms(1), ms(8)), (ms(2), ms(8))]));
}

#[test]
fn a_plan_with_every_key_reads_back_what_it_writes() {
    let keys = r#"
        delay = "8ms"
        jitter = { kind = "uniform", spread = "1ms", reorder = true }
        rate = "1Gbit/s"
        queue = { kind = "codel", ecn = true }
        loss = { kind = "gilbert-elliott", p = "1%", r = "30%" }
        reorder = { share = "1%", by = "5ms" }
        duplicate = "0.5%"
        corrupt = "0.01%"
        mark = "2%"
        overhead = "24B"
        back = { queue = { kind = "red", min = "10kB", max = "30kB" } }
        "#;
    let plan = Plan::parse(Path::new("effects.toml"), &plan(keys)).expect("a plan");
    let written = toml::to_string(plan.document()).expect("it was read");
    let again = Plan::parse(Path::new("effects.toml"), &written).expect(&written);
    assert_eq!(again.document(), plan.document());
}

#[test]
fn files_stand_beside_the_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write(
        "jitter.csv",
        "# least to greatest\n-1ms\n\n0ms # median\n+4ms\n",
    )
    .expect("writes");
    write("rates.csv", "500ms, 100Mbit/s\n500ms,0bit/s\n").expect("writes");
    let keys = r#"
        delay = "8ms"
        jitter = { kind = "file", file = "jitter.csv" }
        rate = { file = "rates.csv" }
        "#;
    let effects = link_in(folder.path(), keys).expect(keys).forward.effects;
    let Some(Distribution::Empirical(quantiles)) = effects.jitter.map(|jitter| jitter.distribution)
    else {
        panic!("a table");
    };
    assert_eq!(quantiles.offsets_ns(), [-1_000_000, 0, 4_000_000]);
    let Capacity::Trace(trace) = effects.capacity else {
        panic!("a trace");
    };
    assert_eq!(
        (trace.period(), trace.mean_bits_per_s()),
        (ms(1000), 50_000_000)
    );

    for (file, text, parts) in [
        ("jitter.csv", "", &["jitter.csv", "2 to"][..]),
        ("jitter.csv", "1ms\n0ms\n", &["quantile 2", "less"]),
        (
            "jitter.csv",
            "-9ms\n0ms\n",
            &["9ms", "exceeds the delay 8ms"],
        ),
        ("jitter.csv", "0ms\nsoon\n", &["jitter.csv:2", "soon"]),
        (
            "rates.csv",
            "500ms 1Mbit/s\n",
            &["rates.csv:1", "500ms, 100Mbit/s"],
        ),
        ("rates.csv", "500ms,1parsec\n", &["rates.csv:1", "parsec"]),
        ("rates.csv", "0ms,1Mbit/s\n", &["step 1", "no duration"]),
        ("rates.csv", "1ms,0bit/s\n", &["every rate is 0"]),
        ("rates.csv", "# nothing\n", &["1 to", "not 0"]),
        ("rates.csv", "\u{fffd}", &["rates.csv:1"]),
    ] {
        let before = std::fs::read(folder.path().join(file)).expect("reads");
        write(file, text).expect("writes");
        let message = link_in(folder.path(), keys).expect_err(text);
        assert!(!message.contains('\n'), "{message}");
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
        std::fs::write(folder.path().join(file), before).expect("writes");
    }
    write("rates.csv", &"1ms,1Mbit/s\n".repeat(400_000)).expect("writes");
    let message = link_in(folder.path(), keys).expect_err("too long");
    assert!(message.contains("more than 4194304 bytes"), "{message}");
}

#[test]
fn each_mistake_is_named_with_the_right_thing() {
    for (keys, parts) in [
        (
            "delay = \"1ms\"\njitter = \"2ms\"",
            &[":11", "jitter", "2ms", "exceeds the delay 1ms"][..],
        ),
        ("jitter = 2", &["path.jitter", "no unit"]),
        (
            "jitter = { kind = \"nomral\", deviation = \"1ms\" }",
            &["`nomral`", "did you mean `normal`"],
        ),
        (
            "jitter = { kind = \"normal\", spread = \"1ms\" }",
            &["`spread`"],
        ),
        (
            "jitter = { kind = \"file\", file = \"none.csv\" }",
            &["nowhere/none.csv", "cannot read"],
        ),
        ("rate = { file = \"none.csv\" }", &["nowhere/none.csv"]),
        ("rate = \"0bit/s\"", &["path.rate", "more than 0"]),
        ("queue = { kind = \"redd\" }", &["`redd`", "`red`"]),
        (
            "queue = { kind = \"red\", min = \"15packets\", max = \"5packets\" }",
            &["queue", "15", "not below", "5"],
        ),
        (
            "queue = { kind = \"red\", min = \"5packets\", max = \"15kB\" }",
            &["queue", "both in bytes"],
        ),
        (
            "queue = { kind = \"red\", min = \"5kB\", max = \"15kB\", weight = 2.0 }",
            &["queue", "weight 2 is not"],
        ),
        (
            "queue = { kind = \"codel\", target = \"1s\" }",
            &["queue", "target", "not below the interval"],
        ),
        (
            "queue = { kind = \"priority\", routes = [\"upper\"] }",
            &["[[route]]", "`upper`"],
        ),
        ("loss = \"101%\"", &["path.loss", "0% to 100%"]),
        ("loss = { p = \"1%\" }", &["loss", "packets = [10, 11]"]),
        (
            "loss = { kind = \"gilbert-elliott\", p = \"1%\", r = \"0%\" }",
            &["loss", "r must be more than 0"],
        ),
        ("loss = { packets = [0] }", &["loss", "numbered from 1"]),
        (
            "reorder = { share = \"1%\", by = \"2min\" }",
            &["reorder", "60s"],
        ),
        ("duplicate = \"-1%\"", &["path.duplicate", "0% to 100%"]),
        ("corupt = \"1%\"", &["`corupt`", "did you mean `corrupt`"]),
        ("overhead = \"1MiB\"", &["overhead", "more than 1024B"]),
        (
            "[path.back]\ndelay = \"90s\"",
            &["[[path]] `wan` back.delay", "60s"],
        ),
        ("[path.back]\ndealy = \"9s\"", &["`dealy`", "`delay`"]),
    ] {
        let message = mistake(keys);
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
    }
}
