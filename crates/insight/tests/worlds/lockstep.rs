//! Sessions of several connections over unequal routes.

use super::simulation::{MS, US, World, observe};
use wansan_insight::finding::{Finding, Limit};
use wansan_insight::{Observed, explain, gain};

fn seen(world: &World) -> Observed {
    let folder = tempfile::tempdir().unwrap();
    observe(world, folder.path())
}

fn found(world: &World) -> Finding {
    let finding = explain(&[seen(world)]);
    println!("{}\n{:#?}", finding.sentence, finding.evidence);
    finding
}

/// 64 in flight over two routes of 4 ms each way, whose links take 100 µs and 1 ms per answer. No path is sampled.
fn unequal() -> World {
    World {
        parallel: 64,
        routes_ns: vec![(4 * MS, 100 * US), (4 * MS, MS)],
        sample_path: false,
        ..World::wan()
    }
}

#[test]
fn lockstep_is_named_and_the_gain_comes_out() {
    let world = unequal();
    let finding = found(&world);
    assert_eq!(finding.limit, Limit::RouteLockstep);
    assert!((finding.wanted - 32.0).abs() < 1.0, "{}", finding.wanted);
    // The slow route is full, and the fast one holds its round trip's worth of commands at that rate.
    assert!((finding.got - 8.2).abs() < 1.0, "{}", finding.got);
    assert!(
        finding.sentence.contains("where it could have 32"),
        "{}",
        finding.sentence
    );
    let advice = finding.advice.expect("something to change");
    assert_eq!(advice.parameter.as_deref(), Some("initiator.schedule"));
    for part in ["in turn", "connection 1: 8", "connection 2: 55"] {
        let told = finding.evidence.iter().any(|line| line.contains(part));
        assert!(told, "{part}: {:#?}", finding.evidence);
    }
    let advised = World {
        least_in_flight: true,
        ..world.clone()
    };
    let gains = gain::compare(
        finding.predicted.as_deref().unwrap(),
        &[seen(&world)],
        &[seen(&advised)],
    );
    let [gain] = &gains[..] else {
        panic!("{gains:?}");
    };
    // The slow route gets fewer commands and so a shorter queue, but carries no less: the prediction is too low.
    assert!(gain.predicted_gain > 1.0, "{gain:?}");
    assert!(gain.measured_gain > gain.predicted_gain, "{gain:?}");
}

#[test]
fn the_order_of_cmdsn_is_lockstep_that_the_earliest_mends() {
    for least_in_flight in [false, true] {
        let world = World {
            routes_ns: vec![(2 * MS, 33 * US), (16 * MS, 33 * US)],
            least_in_flight,
            ..unequal()
        };
        let finding = found(&world);
        assert_eq!(finding.limit, Limit::RouteLockstep);
        let told = |part: &str| finding.evidence.iter().any(|line| line.contains(part));
        assert!(told("lower CmdSNs arrive"), "{:#?}", finding.evidence);
        let advice = finding.advice.expect("something to change");
        assert_eq!(advice.parameter.as_deref(), Some("initiator.schedule"));
        assert_eq!(advice.value.as_deref(), Some("earliest"));
        let predicted = finding.predicted.expect("a bound");
        assert!(predicted[0].gain > 0.05, "{predicted:#?}");
    }
}

#[test]
fn batches_over_unequal_routes_are_in_lockstep() {
    let world = World {
        parallel: 16,
        batch: true,
        sample_path: true,
        ..unequal()
    };
    let finding = found(&world);
    assert_eq!(finding.limit, Limit::RouteLockstep);
    let told = |part: &str| finding.evidence.iter().any(|line| line.contains(part));
    assert!(
        told("next batch only when the previous one is complete"),
        "{finding:#?}"
    );
    assert_eq!(finding.predicted, None);
    // Equal routes finish together, and a single route waits for none.
    let equal = World {
        routes_ns: vec![(4 * MS, 100 * US), (4 * MS, 100 * US)],
        ..world.clone()
    };
    let one_route = World {
        routes_ns: vec![(4 * MS, MS)],
        ..world
    };
    for other in [equal, one_route] {
        let finding = found(&other);
        assert_eq!(finding.limit, Limit::TooFewIos);
        assert!(
            finding
                .evidence
                .iter()
                .any(|line| line.contains("submits I/Os in batches of this size"))
        );
    }
}

/// With more connections each has fewer commands of a batch and finishes sooner, and the same share of the time costs
/// more of the total capacity.
#[test]
fn batches_over_three_and_four_routes_are_in_lockstep() {
    let near = (MS, MS);
    let far = (16 * MS, MS);
    for (parallel, routes_ns) in [
        (
            6,
            vec![(4 * MS, 100 * US), (4 * MS, 100 * US), (4 * MS, MS)],
        ),
        (6, vec![near, near, far]),
        (
            8,
            vec![(MS, 500 * US), (4 * MS, 500 * US), (8 * MS, 500 * US)],
        ),
        (8, vec![near, near, near, far]),
        (32, vec![near, (4 * MS, MS), (4 * MS, MS)]),
        (32, vec![near, near, near, far]),
    ] {
        let world = World {
            parallel,
            batch: true,
            sample_path: true,
            routes_ns: routes_ns.clone(),
            ..unequal()
        };
        let finding = found(&world);
        assert_eq!(
            finding.limit,
            Limit::RouteLockstep,
            "{parallel}: {routes_ns:?}"
        );
        // Equal routes are not in lockstep, whether or not the batch divides evenly among them.
        for parallel in [parallel, parallel + 1] {
            let alike = World {
                parallel,
                routes_ns: vec![(4 * MS, MS); routes_ns.len()],
                ..world.clone()
            };
            let finding = found(&alike);
            assert_eq!(finding.limit, Limit::TooFewIos, "{parallel}: {routes_ns:?}");
        }
    }
}

#[test]
fn a_command_window_that_the_slow_route_fills_is_lockstep_too() {
    let world = World {
        parallel: 200,
        command_window: 64,
        ..unequal()
    };
    assert_eq!(found(&world).limit, Limit::RouteLockstep);
}

#[test]
fn what_is_no_lockstep_is_not_called_so() {
    let world = unequal();
    let equal = World {
        routes_ns: vec![(4 * MS, 100 * US), (4 * MS, 100 * US)],
        ..world.clone()
    };
    let shared_out = World {
        least_in_flight: true,
        ..world.clone()
    };
    let paced = World {
        pace_ns: Some(MS),
        parallel: 1000,
        ..world.clone()
    };
    let one_at_a_time = World {
        parallel: 1,
        ..world.clone()
    };
    let one_route = World {
        routes_ns: vec![(4 * MS, MS)],
        ..world
    };
    for (name, world) in [
        ("equal routes", equal),
        ("shared out by what is under way", shared_out),
        ("paced", paced),
        ("one at a time", one_at_a_time),
        ("one route", one_route),
    ] {
        let limit = found(&world).limit;
        assert_ne!(limit, Limit::RouteLockstep, "{name}");
    }
}
