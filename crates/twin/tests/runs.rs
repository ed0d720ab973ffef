//! How many runs predictions are made of.

use wansan_sim::network::{Begins, Pause};
use wansan_twin::knob::Setting;
use wansan_twin::{Reading, Twin, WhatIf};

use super::recording::World;

/// Reads that a command window holds back, over a path of which this is all.
fn recorded(path: &str) -> Reading {
    let world = World {
        path,
        target: "luns = [\"memory:64MiB\"]\ncommand_window = 16",
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 64",
        more: "",
    };
    world.record().1.unwrap()
}

fn predicted(reading: Reading) -> WhatIf {
    let twin = Twin::of(reading, &|| true).unwrap();
    let wider = Setting {
        parameter: "target.command_window".to_owned(),
        value: "64".to_owned(),
    };
    let told = twin.predict(&[vec![wider]], &|_, _| true).unwrap();
    assert!(told.fits, "{:#?}", told.compared);
    told
}

const WITHOUT_CHANCE: &str = "delay = \"10ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"";

#[test]
fn two_are_enough_where_nothing_is_left_to_chance() {
    let told = predicted(recorded(WITHOUT_CHANCE));
    assert_eq!(told.predictions[0].seeds, 2);
    let told = predicted(recorded(&format!("{WITHOUT_CHANCE}\nloss = \"0.1%\"")));
    assert!(told.predictions[0].seeds >= 3);
}

#[test]
fn the_run_that_was_compared_is_one_of_them() {
    let reading = recorded(WITHOUT_CHANCE);
    let each_s = (reading.setup.warmup + reading.setup.time).as_secs_f64();
    // A twin with a pause is not the one to predict by; this one never begins.
    let mut again = reading.clone();
    let initiator = &mut again.setup.initiators[0];
    initiator.pauses[0].program.push(Pause {
        flow: initiator.connections[0].addresses,
        begins: Begins::Data(u64::MAX),
        lasts: std::time::Duration::from_millis(1),
    });
    let [known, again] = [reading, again].map(predicted);
    let runs = |told: &WhatIf| (told.simulated_s / each_s).round();
    assert_eq!([&known, &again].map(runs), [3.0, 4.0]);
    assert_eq!(known.predictions, again.predictions);
    assert_eq!(known.expected_bytes_per_s, again.expected_bytes_per_s);
}
