//! Sessions of several connections over unequal routes.

use crate::simulation::{MS, World, observe};
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

/// 64 in flight over a route of 2 ms and one of 16 ms, each way.
fn unequal() -> World {
    World {
        parallel: 64,
        routes_ns: vec![2 * MS, 16 * MS],
        ..World::wan()
    }
}

#[test]
fn lockstep_is_named_and_the_gain_comes_out() {
    let world = unequal();
    let finding = found(&world);
    assert_eq!(finding.limit, Limit::RouteLockstep);
    // The routes hold commands as 2 to 16.
    assert!((finding.wanted - 32.0).abs() < 1.0, "{}", finding.wanted);
    assert!((finding.got - 64.0 / 9.0).abs() < 1.0, "{}", finding.got);
    assert!(
        finding
            .sentence
            .contains("under way where an even share is 32"),
        "{}",
        finding.sentence
    );
    let advice = finding.advice.expect("something to change");
    assert_eq!(advice.parameter.as_deref(), Some("initiator.schedule"));
    for part in [
        "connection 1: 7",
        "connection 2: 56",
        "slow by its round trip",
    ] {
        let told = finding.evidence.iter().any(|line| line.contains(part));
        assert!(told, "{part}: {:#?}", finding.evidence);
    }
    let advised = World {
        least_in_flight: true,
        ..world.clone()
    };
    let gains = gain::compare(finding.limit, &[seen(&world)], &[seen(&advised)]);
    let [gain] = &gains[..] else {
        panic!("{gains:?}");
    };
    assert!(gain.measured_gain > 1.0, "{gain:?}");
    assert!(
        (gain.advised_iops / gain.predicted_iops - 1.0).abs() < 0.05,
        "{gain:?}"
    );
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
        routes_ns: vec![9 * MS, 9 * MS],
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
        routes_ns: vec![16 * MS],
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
