//! Findings from a sample of the I/Os, compared with those from all of them.

use super::simulation::{MS, Stop, US, World, Writes, observe, play};
use wansan_insight::finding::Limit;
use wansan_insight::{Cell, Observed, explain, summarise};
use wansan_trace::event::{self, Pdu};
use wansan_trace::{
    ConnectionId, Direction, Instant, Kinds, Layer, Recorder, Sample, SessionId, TaskTag,
};

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
        assert!(half > 0.0 && half < 0.2, "{half}");
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
        let weight = sampled.sampled_one_in.unwrap();
        assert!(close(weight, 8.0, 0.05), "{weight}");
        assert_eq!(whole.sampled_one_in, None);
    }
}

#[test]
fn the_command_window_shows_in_a_sample_if_it_is_full() {
    let window = |parallel, command_window, number| {
        let world = World {
            parallel,
            command_window,
            jitter_ns: 0,
            ..busy()
        };
        let seen = seen(&world, [number; 2]).summary;
        seen.sessions[0].command_window.unwrap()
    };
    for number in [1, 16, 64] {
        // Commands wait; just so many that none does; and fewer.
        for (parallel, command_window, is_waited_for) in [
            (600, 400, true),
            (400, 400, false),
            (300, 400, false),
            (600, 32, true),
        ] {
            let used = window(parallel, command_window, number);
            assert_eq!(used.is_waited_for, is_waited_for, "{number}: {used:?}");
            assert_eq!(used.closed_share.is_some(), number == 1);
            let off = used.slots.abs_diff(command_window.into());
            assert!(
                off <= 1 + u64::from(command_window) / 20,
                "{number}: {used:?}"
            );
        }
    }
}

/// Commands of writes wait for their CmdSNs, few at a time and seldom: for the window, or for room in TCP.
#[test]
fn what_commands_wait_for_is_unknown_where_a_sample_does_not_show_it() {
    let world = World {
        batch: true,
        parallel: 60,
        command_window: 40,
        writes: Some(Writes {
            immediate_bytes: 4096,
            unsolicited_bytes: 0,
            r2ts: 0,
            outstanding: 1,
            sequence_bytes: 4096,
        }),
        ..busy()
    };
    let [all, some] = [[1, 1], [8, 8]].map(|samples| seen(&world, samples));
    let window = |it: &Observed| it.summary.sessions[0].command_window.unwrap();
    assert!(window(&all).is_waited_for && !window(&some).is_waited_for);
    let waits = &some.summary.waits;
    assert!(waits.share(Limit::Nothing) > 0.1, "{waits:?}");
    let finding = explain(&[some]);
    let says = |part: &str| finding.evidence.iter().any(|line| line.contains(part));
    assert!(
        says("holds it back does not show in a sample"),
        "{finding:#?}"
    );
}

/// A window closes because the store inside it is full: that rule does not depend on the sample.
#[test]
fn only_limits_that_could_bind_are_called_possible() {
    let world = World {
        servers: 4,
        service_ns: 50 * US,
        command_window: 450,
        ..busy()
    };
    let finding = explain(&[seen(&world, [8, 8])]);
    assert_eq!(finding.limit, Limit::Store, "{finding:#?}");
    let doubts = finding
        .evidence
        .iter()
        .filter(|line| line.contains("too small"));
    assert_eq!(doubts.count(), 0, "{finding:#?}");
}

/// Waits for R2Ts just above or below the share from which they count.
#[test]
fn a_share_near_its_threshold_is_called_uncertain() {
    let writes = Writes {
        immediate_bytes: 0,
        unsolicited_bytes: 0,
        r2ts: 1,
        outstanding: 1,
        sequence_bytes: 4096,
    };
    let shares = [50, 54, 58, 62].map(|service| {
        let world = World {
            sessions: 1,
            parallel: 64,
            writes: Some(writes),
            jitter_ns: 4 * MS,
            service_ns: service * MS / 2,
            ..busy()
        };
        let [all, some] = [[1, 1], [8, 8]].map(|samples| explain(&[seen(&world, samples)]));
        println!(
            "{service}: {} {}\n{:#?}",
            all.limit, some.sentence, some.evidence
        );
        let is_uncertain = some.evidence.iter().any(|line| line.contains("too small"));
        // A sample does not show that a closed loop is one.
        let limit = match all.limit {
            Limit::TooFewIos => Limit::Nothing,
            limit => limit,
        };
        (limit == some.limit, is_uncertain)
    });
    assert!(
        shares
            .iter()
            .all(|(is_same, is_uncertain)| *is_same || *is_uncertain)
    );
    assert!(shares.iter().any(|(_, is_uncertain)| *is_uncertain));
}

#[test]
fn a_sample_of_few_ios_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let world = World {
        samples: Some([Sample::one_in(1000); 2]),
        ..World::wan()
    };
    play(&world, folder.path());
    let refused = Cell::read(folder.path()).unwrap_err().to_string();
    assert!(
        refused.contains("the sample of one I/O in 1000 has only"),
        "{refused}"
    );
}

/// An initiator that uses few tags again and again: how many of them the sample has is chance.
#[test]
fn cmd_sns_tell_how_many_commands_each_one_in_a_sample_stands_for() {
    const TAGS: u32 = 128;
    let sample = Sample::one_in(16);
    let recorder = |sample| {
        Recorder::new(
            Kinds {
                sample,
                ..Kinds::ALL
            },
            1 << 28,
        )
    };
    let mut initiator = recorder(sample);
    let session = SessionId(1);
    initiator.connection(event::Connection {
        session,
        sampled_one_in: 16,
        ..event::Connection::BLANK
    });
    for number in 0..20_000_u32 {
        let (task, time) = (
            TaskTag(number % TAGS),
            Instant::from_ns(u64::from(number) * 1000),
        );
        let pdu = Pdu {
            time,
            session,
            task,
            opcode: 1,
            // Halfway, the session begins anew.
            cmd_sn: (number % 10_000).wrapping_sub(50),
            ..Pdu::BLANK
        };
        if initiator.keeps_pdu(task, 1) {
            initiator.pdu(pdu);
        }
        for (after_ns, direction) in [(0, Direction::Enter), (500, Direction::Leave)] {
            let at = Instant::from_ns(time.ns() + after_ns);
            initiator.crossing(at, session, ConnectionId(0), task, Layer::App, direction);
        }
    }
    let cell = Cell::gather(&[("initiator", &initiator)]).unwrap();
    let chosen = (0..TAGS).filter(|tag| sample.has(TaskTag(*tag))).count();
    let expected = f64::from(TAGS) / chosen as f64;
    let weight = cell.joined.weights.of_session(session);
    assert!(close(weight, expected, 0.01), "{weight}");
    let iops = summarise(&cell, None).total.iops;
    assert!(close(iops, 1e6, 0.02), "{iops}");
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
        says("whether the application keeps a fixed number in flight"),
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
        assert_eq!(mixed.sampled_one_in, both.sampled_one_in);
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
