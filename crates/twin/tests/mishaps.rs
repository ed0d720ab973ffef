//! Influences on a recording that are no settings of its world: which packets a short queue drops, and the CPU time of
//! programs.

use wansan_twin::setup::Repeats;
use wansan_twin::{Reading, Twin};

use super::recording::World;
use super::worlds::holds;

#[test]
fn the_drops_of_a_short_queue_are_replayed_by_position() {
    let world = World {
        path: "delay = \"10ms\"\nrate = \"300Mbit/s\"\nqueue = \"64KiB\"",
        target: "luns = [\"memory:64MiB\"]\ncommand_window = 16",
        initiator: "",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 32",
        more: "",
    };
    let (_, reading) = world.record();
    let reading = reading.unwrap();
    let mut repeating = reading.alternatives.iter();
    let repeats =
        |it: &&wansan_twin::Setup| it.directions.iter().any(|it| it.repeats == Repeats::All);
    let setup = repeating.find(repeats).expect("its queue has dropped some");
    let reading = Reading {
        setup: setup.clone(),
        alternatives: Vec::new(),
        ..reading
    };
    let twin = Twin::by_one_seed(reading, &|| true).unwrap();
    assert!(twin.fits(), "{:#?}", twin.compared());
}

#[test]
fn a_window_of_8_before_programs_that_take_most_of_a_processor() {
    let world = |target| World {
        path: "delay = \"1ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"",
        target,
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 128",
        // Three times the usual cost.
        more: "[processors]\ncall = \"24us\"\npdu = \"750ns\"\nkib = \"675ns\"",
    };
    holds(
        &world("luns = [\"memory:64MiB\"]\ncommand_window = 8"),
        &[("target.command_window", "128")],
        &world("luns = [\"memory:64MiB\"]\ncommand_window = 128"),
    );
}
