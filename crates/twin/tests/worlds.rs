//! The worlds for which a formula for the binding limit alone is wrong: there, another one binds next.

use wansan_twin::Twin;
use wansan_twin::knob::Setting;

use super::recording::World;

/// How far a prediction may be from the run of the changed plan.
const MOST_OFF: f64 = 0.1;

/// Predicts a change from the recording of one world, and holds it to the run of another, which has it.
fn holds(recorded: &World<'_>, change: &[(&str, &str)], changed: &World<'_>) {
    let (before, reading) = recorded.record();
    let twin = Twin::of(reading.unwrap(), &|| true).unwrap();
    let change: Vec<Setting> = change
        .iter()
        .map(|(parameter, value)| Setting {
            parameter: (*parameter).to_owned(),
            value: (*value).to_owned(),
        })
        .collect();
    let told = twin.predict(&[change], &|_, _| true).unwrap();
    assert!(told.fits, "{:#?}", told.compared);
    let (after, _) = changed.record();
    let predicted = &told.predictions[0];
    println!(
        "recorded {before:.0} B/s, predicted {:.0} ({:+.1} %), measured {after:.0} ({:+.1} %)",
        predicted.bytes_per_s,
        predicted.gain.median * 100.0,
        (after / before - 1.0) * 100.0,
    );
    let off = predicted.bytes_per_s / after - 1.0;
    assert!(off.abs() <= MOST_OFF, "{:+.1} % off: {predicted:#?}", off * 100.0);
}

#[test]
fn a_window_of_24_before_a_store_of_4_servers() {
    let world = |target| World {
        path: "delay = \"15ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"",
        target,
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 96",
        more: "",
    };
    let store = "luns = [\"memory:64MiB,service-time=4ms,servers=4\"]";
    holds(
        &world(&format!("{store}\ncommand_window = 24")),
        &[("target.command_window", "96")],
        &world(&format!("{store}\ncommand_window = 96")),
    );
}

#[test]
fn a_window_of_16_before_a_path_of_300_mbit() {
    let world = |target| World {
        path: "delay = \"20ms\"\nrate = \"300Mbit/s\"\nqueue = \"1MiB\"",
        target,
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 64",
        more: "",
    };
    holds(
        &world("luns = [\"memory:64MiB\"]\ncommand_window = 16"),
        &[("target.command_window", "64")],
        &world("luns = [\"memory:64MiB\"]\ncommand_window = 64"),
    );
}

#[test]
fn writes_in_parts_whose_data_is_asked_for() {
    let world = |more| World {
        path: "delay = \"25ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"",
        target: "luns = [\"memory:64MiB\"]",
        workload: "op = \"write\"\nblock = \"1MiB\"\nparallel = 2",
        more,
    };
    holds(
        &world(
            "[session]\ninitial_r2t = true\nfirst_burst = \"64KiB\"\nmax_burst = \"256KiB\"\nmax_outstanding_r2t = 1",
        ),
        &[
            ("session.initial_r2t", "no"),
            ("session.first_burst", "256KiB"),
        ],
        &world(
            "[session]\ninitial_r2t = false\nfirst_burst = \"256KiB\"\nmax_burst = \"256KiB\"\nmax_outstanding_r2t = 1",
        ),
    );
}

#[test]
fn a_window_of_16_before_a_store_of_16_servers() {
    let world = |target| World {
        path: "delay = \"4ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"",
        target,
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 128",
        more: "",
    };
    let store = "luns = [\"memory:64MiB,service-time=4ms,servers=16\"]";
    holds(
        &world(&format!("{store}\ncommand_window = 16")),
        &[("target.command_window", "128")],
        &world(&format!("{store}\ncommand_window = 128")),
    );
}
