//! The finder on worlds whose limit is known.

use super::simulation::{MS, Stop, US, World, Writes, observe};
use wansan_insight::finding::{Finding, Limit};
use wansan_insight::{Observed, explain, gain};
use wansan_trace::Layer;

fn seen(world: &World) -> Observed {
    let folder = tempfile::tempdir().unwrap();
    observe(world, folder.path())
}

fn found(world: &World) -> Finding {
    let finding = explain(&[seen(world)]);
    println!("{}\n{:#?}", finding.sentence, finding.evidence);
    finding
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * b.abs()
}

#[test]
fn a_sweep_over_the_command_window_names_it_and_predicts_the_gain() {
    let sweep = |command_window| -> Vec<Observed> {
        [16, 96, 112, 176]
            .into_iter()
            .enumerate()
            .map(|(cell, parallel)| {
                let world = World {
                    parallel,
                    command_window,
                    sessions: 2,
                    duration_ns: 500 * MS,
                    ..World::wan()
                };
                let mut observed = seen(&world);
                observed.cell = cell as u64;
                let parameter = ("initiator.parallel".to_owned(), parallel.into());
                observed.parameters = [parameter].into();
                observed
            })
            .collect()
    };
    let planned = sweep(100);
    let finding = explain(&planned);
    assert_eq!(finding.limit, Limit::CommandWindow, "{finding:#?}");
    assert_eq!(finding.binds_in_cells, [2, 3]);
    assert_eq!(
        (finding.above, finding.layer),
        (Some(Layer::Queue), Some(Layer::Window))
    );
    assert!(close(finding.wanted, 112.0, 0.01), "{}", finding.wanted);
    assert!(close(finding.got, 100.0, 0.01), "{}", finding.got);
    assert!(close(finding.waiting_share, 12.0 / 112.0, 0.1));
    let advice = finding.advice.expect("something to change");
    assert_eq!(advice.parameter.as_deref(), Some("target.command_window"));
    assert_eq!(advice.value.as_deref(), Some("176"));
    assert!(
        finding
            .sentence
            .contains("the queue depth is 112 per session, the window 100"),
        "{}",
        finding.sentence
    );
    assert!(finding.sentence.contains("+76 % at 176 parallel"));

    let gains = gain::compare(finding.predicted.as_deref().unwrap(), &planned, &sweep(176));
    assert_eq!(gains.len(), planned.len());
    for point in gains {
        assert!(
            close(point.advised_iops, point.predicted_iops, 0.03),
            "{point:?}"
        );
    }
}

#[test]
fn the_path_bounds_what_a_larger_window_brings() {
    let world = World {
        parallel: 176,
        command_window: 100,
        link_ns: 250 * US,
        ..World::wan()
    };
    let finding = found(&world);
    assert_eq!(finding.limit, Limit::CommandWindow);
    let prediction = &finding.predicted.expect("a prediction")[0];
    assert_eq!(prediction.bound, Limit::PathRate);
    assert!(
        prediction.gain > 0.1 && prediction.gain < 0.4,
        "{prediction:?}"
    );
}

#[test]
fn too_few_ios() {
    let finding = found(&World::wan());
    assert_eq!(finding.limit, Limit::TooFewIos);
    assert_eq!(finding.layer, Some(Layer::App));
    assert!(close(finding.wanted, 16.0, 0.01));
}

#[test]
fn one_io_at_a_time_is_too_few() {
    let world = World {
        parallel: 1,
        ..World::wan()
    };
    assert_eq!(found(&world).limit, Limit::TooFewIos);
}

#[test]
fn a_paced_load_is_held_by_nothing() {
    // 33 in flight of 64 allowed; then a load whose pace falls just behind its completions.
    for pace_ns in [MS, 100 * US, 32_045 * US / 10, 10 * MS] {
        for jitter_ns in [0, 100 * US] {
            let world = World {
                parallel: 1000,
                pace_ns: Some(pace_ns),
                jitter_ns,
                ..World::wan()
            };
            let finding = found(&world);
            assert_eq!(finding.limit, Limit::Nothing, "{pace_ns} {jitter_ns}");
            assert_eq!(finding.advice, None);
        }
    }
}

#[test]
fn a_full_path_is_the_path_also_when_the_command_window_closes() {
    for command_window in [1024, 100] {
        let world = World {
            parallel: 128,
            command_window,
            link_ns: MS,
            duration_ns: 3_000 * MS,
            ..World::wan()
        };
        let finding = found(&world);
        assert_eq!(finding.limit, Limit::PathRate);
        // A read's answer waits to get into the initiator.
        assert_eq!(finding.layer, Some(Layer::Socket));
        assert_eq!(finding.above, Some(Layer::Target));
    }
}

#[test]
fn a_full_path_that_was_not_sampled_shows_in_tcp() {
    let world = World {
        parallel: 128,
        link_ns: MS,
        duration_ns: 3_000 * MS,
        sample_path: false,
        ..World::wan()
    };
    assert_eq!(found(&world).limit, Limit::PathRate);
}

#[test]
fn a_router_that_never_stops_encrypting_is_the_limit() {
    // Its queue shows as data waiting for the congestion window.
    let encrypting = World {
        parallel: 128,
        link_ns: MS,
        vpn_runs: Some(0.8),
        stop: Some((64, Stop::CongestionWindow)),
        duration_ns: 3_000 * MS,
        ..World::wan()
    };
    let finding = found(&encrypting);
    assert_eq!(finding.limit, Limit::Encryption);
    assert!(
        finding.evidence[0].contains("far wireguard"),
        "{finding:#?}"
    );
    let advice = finding.advice.as_ref().expect("something to change");
    assert!(advice.text.contains("cipher"), "{advice:?}");
    // 1000 answers of 4 KiB per second use 80 % of a processor.
    let foretold = finding.evidence[1]
        .split_once("at most ")
        .expect("a ceiling")
        .1;
    let (foretold, _) = foretold.split_once(" Mbit/s").expect("a rate");
    let whole = 4096.0 * 8.0 / 0.8 / 1e3;
    assert!(
        close(foretold.parse().unwrap(), whole, 0.02),
        "{finding:#?}"
    );
    // If it is idle between packets, the limit is the window as before.
    let idle_at_times = World {
        link_ns: 200 * US,
        stop: Some((16, Stop::CongestionWindow)),
        ..encrypting.clone()
    };
    assert_eq!(found(&idle_at_times).limit, Limit::CongestionWindow);
    // A VPN that gets no processor time is not at its limit.
    let starved = World {
        vpn_runs: Some(0.02),
        ..encrypting
    };
    let finding = found(&starved);
    assert_ne!(finding.limit, Limit::Encryption);
    let told = |line: &String| line.contains("a thread of far wireguard waited");
    assert!(finding.evidence.iter().any(told), "{finding:#?}");
}

#[test]
fn slow_stores() {
    let few_servers = World {
        parallel: 64,
        servers: 2,
        service_ns: 2 * MS,
        duration_ns: 2_000 * MS,
        ..World::wan()
    };
    let finding = found(&few_servers);
    assert_eq!(finding.limit, Limit::Store);
    assert!(close(finding.got, 2.0, 0.02), "{}", finding.got);
    // The same store behind a command window that closes.
    let behind_window = World {
        command_window: 50,
        ..few_servers.clone()
    };
    assert_eq!(found(&behind_window).limit, Limit::Store);
    // As many servers as I/Os: nothing waits for the store, so more I/Os would be served at once.
    let slow = World {
        servers: 64,
        one_way_ns: 100 * US,
        duration_ns: 200 * MS,
        ..few_servers
    };
    assert_eq!(found(&slow).limit, Limit::TooFewIos);
}

#[test]
fn stops_of_tcp_are_told_apart() {
    for (stop, limit) in [
        (Stop::ReceiveWindow, Limit::ReceiveWindow),
        (Stop::SendBuffer, Limit::SendBuffer),
        (Stop::SendMemory, Limit::SendBuffer),
        (Stop::CongestionWindow, Limit::CongestionWindow),
    ] {
        for command_window in [1024, 48] {
            let world = World {
                parallel: 64,
                command_window,
                stop: Some((16, stop)),
                ..World::wan()
            };
            let finding = found(&world);
            assert_eq!(finding.limit, limit);
            assert!(finding.advice.is_some());
        }
    }
}

#[test]
fn a_receiver_that_does_not_read_is_no_small_window() {
    let busy = World {
        parallel: 64,
        one_way_ns: 100 * US,
        stop: Some((4, Stop::SlowReader)),
        is_initiator_busy: true,
        ..World::wan()
    };
    let finding = found(&busy);
    assert_eq!(finding.limit, Limit::Processor);
    assert!(
        finding.evidence[0].contains("client initiator"),
        "{finding:#?}"
    );
    // Without records of its threads, the reason for not reading is unknown, and no processor is blamed.
    let finding = found(&World {
        is_initiator_busy: false,
        ..busy
    });
    assert_eq!(finding.limit, Limit::Nothing);
    assert!(
        !format!("{finding:?}").contains("processor"),
        "{finding:#?}"
    );
}

#[test]
fn a_full_path_between_other_hosts_is_not_named() {
    let world = World {
        parallel: 64,
        stop: Some((16, Stop::CongestionWindow)),
        is_another_path_full: true,
        ..World::wan()
    };
    assert_eq!(found(&world).limit, Limit::CongestionWindow);
    let world = World {
        stop: None,
        ..world
    };
    assert_eq!(found(&world).limit, Limit::TooFewIos);
}

#[test]
fn one_large_read_at_a_time_is_the_rate_of_the_path() {
    // An answer occupies the link for 300 ms; the round trip takes 32 ms.
    let world = World {
        parallel: 1,
        link_ns: 300 * MS,
        duration_ns: 10_000 * MS,
        ..World::wan()
    };
    let finding = found(&world);
    assert_eq!(finding.limit, Limit::PathRate);
    assert!(
        close(finding.waiting_share, 300.0 / 332.0, 0.02),
        "{finding:#?}"
    );
    // If the round trip takes longer than transmission, more answers fit into it.
    let small = World {
        link_ns: 20 * MS,
        ..world
    };
    assert_eq!(found(&small).limit, Limit::TooFewIos);
}

/// Writes of 64 KiB that the target requests entirely by R2T, 16 KiB at a time.
fn asked_for() -> World {
    World {
        writes: Some(Writes {
            immediate_bytes: 0,
            unsolicited_bytes: 0,
            r2ts: 4,
            outstanding: 1,
            sequence_bytes: 16 << 10,
        }),
        // I/Os come in bursts: a long run makes those at the edges negligible.
        duration_ns: 8_000 * MS,
        ..World::wan()
    }
}

fn with_writes(change: impl Fn(&mut Writes)) -> World {
    let mut world = asked_for();
    change(world.writes.as_mut().expect("it writes"));
    world
}

#[test]
fn r2t_round_trips_are_named_with_the_key_that_binds() {
    let one_after_the_other = asked_for();
    let finding = found(&one_after_the_other);
    assert_eq!(finding.limit, Limit::R2tRoundTrips);
    assert_eq!(
        (finding.above, finding.layer),
        (Some(Layer::Target), Some(Layer::Device))
    );
    // One round trip, and four between R2Ts and their data.
    assert!(close(finding.waiting_share, 0.8, 0.01), "{finding:#?}");
    assert!(close(finding.wanted, 16.0 * 0.8, 0.02), "{finding:#?}");
    let advised = |finding: &Finding| {
        let advice = finding.advice.clone().expect("something to change");
        (advice.parameter.unwrap(), advice.value.unwrap())
    };
    let set = |parameter: &str, value: &str| (parameter.to_owned(), value.to_owned());
    assert_eq!(advised(&finding), set("session.max_outstanding_r2t", "4"));

    let at_once = with_writes(|writes| writes.outstanding = 4);
    let finding = found(&at_once);
    assert_eq!(finding.limit, Limit::R2tRoundTrips);
    assert!(close(finding.waiting_share, 0.5, 0.01), "{finding:#?}");
    assert_eq!(advised(&finding), set("session.initial_r2t", "false"));

    let short_first_burst = with_writes(|writes| {
        writes.outstanding = 4;
        writes.immediate_bytes = 8 << 10;
        writes.unsolicited_bytes = 8 << 10;
        writes.r2ts = 3;
    });
    let finding = found(&short_first_burst);
    assert_eq!(finding.limit, Limit::R2tRoundTrips);
    assert_eq!(advised(&finding), set("session.first_burst", "64KiB"));

    let short_bursts = with_writes(|writes| {
        writes.outstanding = 16;
        writes.r2ts = 128;
        writes.sequence_bytes = 512;
    });
    let finding = found(&short_bursts);
    assert_eq!(finding.limit, Limit::R2tRoundTrips);
    assert_eq!(advised(&finding), set("session.max_burst", "64KiB"));
}

#[test]
fn the_gain_of_fewer_round_trips_is_foretold() {
    let at_once = with_writes(|writes| writes.outstanding = 4);
    let unasked = with_writes(|writes| {
        writes.immediate_bytes = 64 << 10;
        writes.r2ts = 0;
    });
    for (before, after) in [(asked_for(), at_once.clone()), (at_once, unasked)] {
        for command_window in [1024, 12] {
            let world = |world: &World| World {
                command_window,
                ..world.clone()
            };
            let (planned, advised) = ([seen(&world(&before))], [seen(&world(&after))]);
            let finding = explain(&planned);
            assert_eq!(finding.limit, Limit::R2tRoundTrips);
            let predicted = finding.predicted.as_deref().unwrap();
            let gain = &gain::compare(predicted, &planned, &advised)[0];
            assert!(gain.predicted_gain > 0.9, "{gain:?}");
            assert!(
                close(gain.advised_iops, gain.predicted_iops, 0.05),
                "{gain:?}"
            );
        }
    }
}

#[test]
fn writes_whose_round_trips_do_not_matter_have_other_limits() {
    // No R2Ts: all data comes with the command or right behind it.
    let unasked = with_writes(|writes| {
        writes.immediate_bytes = 32 << 10;
        writes.unsolicited_bytes = 32 << 10;
        writes.r2ts = 0;
    });
    assert_eq!(found(&unasked).limit, Limit::TooFewIos);
    // The target sends R2Ts, but its store takes far longer.
    let slow_store = World {
        servers: 1,
        service_ns: 20 * MS,
        ..asked_for()
    };
    assert_eq!(found(&slow_store).limit, Limit::Store);
    // It sends R2Ts, but commands wait far longer for a CmdSN.
    let closed_window = World {
        parallel: 64,
        command_window: 8,
        ..asked_for()
    };
    assert_eq!(found(&closed_window).limit, Limit::CommandWindow);
}

#[test]
fn the_same_limits_on_a_short_path() {
    let short = World {
        one_way_ns: 100 * US,
        link_ns: 3 * US,
        jitter_ns: 20 * US,
        duration_ns: 50 * MS,
        ..World::wan()
    };
    assert_eq!(found(&short).limit, Limit::TooFewIos);
    let window = World {
        parallel: 48,
        command_window: 32,
        ..short.clone()
    };
    assert_eq!(found(&window).limit, Limit::CommandWindow);
    let paced = World {
        parallel: 64,
        pace_ns: Some(100 * US),
        ..short
    };
    assert_eq!(found(&paced).limit, Limit::Nothing);
}

#[test]
fn nothing_recorded_is_said_and_not_judged() {
    let finding = explain(&[]);
    assert_eq!(finding.limit, Limit::Nothing);
    assert!(finding.sentence.contains("nothing to explain"));
}
