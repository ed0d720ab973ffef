//! Findings from a sample of the I/Os, compared with those from all of them.

use super::simulation::{MS, Stop, US, World, Writes, observe};
use wansan_insight::finding::Limit;
use wansan_insight::{Observed, explain};
use wansan_trace::{Layer, Sample};

/// Two sessions with enough I/Os for a sample.
fn busy() -> World {
    World {
        sessions: 2,
        parallel: 600,
        link_ns: 5 * US,
        one_way_ns: 4 * MS,
        servers: 256,
        ..World::wan()
    }
}

fn seen(world: &World, samples: [u32; 2]) -> Observed {
    let folder = tempfile::tempdir().unwrap();
    let world = World {
        samples: Some(samples.map(Sample::one_in)),
        ..world.clone()
    };
    observe(&world, folder.path())
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * b.abs()
}

#[test]
fn a_sample_leads_to_the_finding_of_all_ios_within_its_interval() {
    let limits = [
        (
            Limit::CommandWindow,
            World {
                command_window: 400,
                ..busy()
            },
        ),
        (
            Limit::Store,
            World {
                servers: 4,
                service_ns: 50 * US,
                ..busy()
            },
        ),
        (
            Limit::PathRate,
            World {
                link_ns: 20 * US,
                ..busy()
            },
        ),
        (
            Limit::ReceiveWindow,
            World {
                stop: Some((200, Stop::ReceiveWindow)),
                ..busy()
            },
        ),
        (
            Limit::R2tRoundTrips,
            World {
                parallel: 100,
                writes: Some(Writes {
                    immediate_bytes: 0,
                    unsolicited_bytes: 0,
                    r2ts: 2,
                    outstanding: 1,
                    sequence_bytes: 2048,
                }),
                ..busy()
            },
        ),
    ];
    for (limit, world) in limits {
        let [all, some] = [[1, 1], [8, 8]].map(|samples| seen(&world, samples));
        let [whole, sampled] = [&all, &some].map(|it| explain(std::slice::from_ref(it)));
        println!(
            "{}\n{}\n{:#?}",
            whole.sentence, sampled.sentence, sampled.evidence
        );
        assert_eq!((whole.limit, sampled.limit), (limit, limit));
        assert_eq!(whole.waiting_share_uncertain, 0.0);
        let half = sampled.waiting_share_uncertain;
        assert!(half > 0.0 && half < 0.05, "{half}");
        let off = (whole.waiting_share - sampled.waiting_share).abs();
        assert!(off <= half, "{limit}: {off} of {half}");
        let [whole, sampled] = [&all, &some].map(|it| &it.summary);
        assert!(sampled.total.ios * 7 < whole.total.ios);
        assert!(close(sampled.total.iops, whole.total.iops, 0.02));
        for (part, total) in sampled.total.layers.iter().zip(&whole.total.layers) {
            assert!(part.little.agrees, "{part:?}");
            let [some, all] = [part, total].map(|it| it.in_flight_mean);
            assert!(
                (some - all).abs() <= 0.03 * all + 1.0,
                "{}: {some} of {all}",
                part.layer
            );
            assert_eq!(part.in_flight_max, None);
        }
        assert_eq!(sampled.losses.missing_crossings, 0);
        assert_eq!(sampled.sampled_one_in, 8);
    }
}

#[test]
fn the_command_window_shows_in_a_sample() {
    let window = |samples| {
        let world = World {
            command_window: 400,
            jitter_ns: 0,
            ..busy()
        };
        seen(&world, samples).summary.sessions[0]
            .command_window
            .unwrap()
    };
    let (all, some) = (window([1, 1]), window([16, 16]));
    assert_eq!(all.slots, 400);
    assert!(some.slots.abs_diff(400) <= 4, "{some:?}");
    assert!(some.is_waited_for() && all.is_waited_for(), "{some:?}");
    // 600 in flight of 1024 allowed.
    let open = seen(&busy(), [16, 16]).summary.sessions[0]
        .command_window
        .unwrap();
    assert!(
        !open.is_waited_for() && open.closed_share < 0.01,
        "{open:?}"
    );
    assert!(open.slots.abs_diff(1024) <= 10, "{open:?}");
}

#[test]
fn what_does_not_show_in_a_sample_is_not_claimed() {
    let [all, some] = [[1, 1], [8, 8]].map(|samples| seen(&busy(), samples));
    assert_eq!(explain(&[all]).limit, Limit::TooFewIos);
    assert!(
        some.summary
            .sessions
            .iter()
            .all(|session| session.load.is_none())
    );
    let finding = explain(&[some]);
    assert_eq!(finding.limit, Limit::Nothing, "{finding:#?}");
    let says = |part: &str| finding.evidence.iter().any(|line| line.contains(part));
    assert!(
        says("does not show in a sample of the I/Os"),
        "{finding:#?}"
    );
    assert!(says("one I/O in 8 was recorded"), "{finding:#?}");
}

#[test]
fn ends_that_record_different_samples_are_joined_by_the_smaller_one() {
    let world = World {
        command_window: 400,
        ..busy()
    };
    for samples in [[1, 16], [16, 5]] {
        let mixed = seen(&world, samples).summary;
        let both = seen(&world, [16, 16]).summary;
        assert_eq!(mixed.sampled_one_in, 16);
        assert_eq!(mixed.losses.missing_crossings, 0);
        assert_eq!(mixed.total.ios, both.total.ios);
        assert_eq!(mixed.total.latency, both.total.latency);
        let layers = |it: &wansan_insight::CellSummary| -> Vec<(Layer, f64)> {
            let layers = it.total.layers.iter();
            layers
                .map(|held| (held.layer, held.in_flight_mean))
                .collect()
        };
        assert_eq!(layers(&mixed), layers(&both));
    }
}
