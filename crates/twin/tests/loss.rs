//! Random loss, whose share a recording shows only as precisely as its packets allow.

use wansan_twin::knob::Setting;
use wansan_twin::loss::LossShare;
use wansan_twin::{Range, Reading, Twin, WhatIf};

use super::recording::World;

/// The true share, and the number of packets lost in this recording.
const LOSS: &str = "0.12%";
const LOST: u64 = 8;

/// Reads limited by a congestion window that Reno halves with each loss.
fn recorded() -> Reading {
    let world = World {
        path: &format!(
            "delay = \"10ms\"\nrate = \"100Mbit/s\"\nqueue = \"256KiB\"\nloss = \"{LOSS}\""
        ),
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 4",
        more: "[tcp]\ncongestion_control = \"reno\"",
    };
    world.record().1.unwrap()
}

/// The loss share of the direction that carries the data.
fn of_data(reading: &Reading) -> LossShare {
    let mut directions = reading.setup.directions.iter();
    let back = directions.find(|direction| direction.name == "wan:back");
    back.unwrap().loss_share
}

fn predicted(reading: Reading, change: &[(&str, &str)]) -> WhatIf {
    let twin = Twin::of(reading, &|| true).unwrap();
    let change = change.iter().map(|(parameter, value)| Setting {
        parameter: (*parameter).to_owned(),
        value: (*value).to_owned(),
    });
    let told = twin.predict(&[change.collect()], &|_, _| true).unwrap();
    assert!(told.fits, "{:#?}", told.compared);
    told
}

fn throughput(told: &WhatIf) -> Range {
    told.predictions[0].bytes_per_s
}

const CUBIC: (&str, &str) = ("tcp.congestion_control", "cubic");

#[test]
fn eight_lost_packets_give_a_range_that_covers_the_true_share() {
    let reading = recorded();
    let share = of_data(&reading);
    assert!(
        matches!(share, LossShare::Recorded { lost: LOST, .. }),
        "{share:?}"
    );
    let told = predicted(reading.clone(), &[CUBIC]);
    let range = throughput(&told);
    let truly = throughput(&predicted(reading, &[CUBIC, ("path.wan.loss", LOSS)])).median;
    assert!(
        (range.least..range.most).contains(&truly),
        "{truly} is not in {range:?}, of {share}"
    );
    let mut losses = told.losses.iter();
    let known = losses.find(|loss| loss.path == "wan:back").unwrap();
    assert_eq!((known.lost, known.share), (LOST, share.estimate()));
    assert!(known.share_least < known.share && known.share < known.share_most);
}

#[test]
fn the_range_is_narrower_where_more_packets_were_recorded() {
    let few = recorded();
    let mut many = few.clone();
    for direction in &mut many.setup.directions {
        let LossShare::Recorded { lost, of } = direction.loss_share else {
            panic!("{direction:?} was recorded")
        };
        // The same share.
        direction.loss_share = LossShare::Recorded {
            lost: lost * 1000,
            of: of * 1000,
        };
    }
    let [few, many] = [few, many].map(|reading| predicted(reading, &[CUBIC]));
    let width = |told: &WhatIf| {
        let range = throughput(told);
        range.most / range.least
    };
    assert!(
        width(&many) < width(&few),
        "{:?}, {:?}",
        throughput(&many),
        throughput(&few)
    );
    // A share known this precisely does not decide.
    assert!(!few.losses.is_empty() && many.losses.is_empty());
}
