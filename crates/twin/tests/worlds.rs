//! Worlds where a formula for the binding limit alone would be wrong, since another limit binds next.

use std::collections::BTreeSet;

use wansan_trace::event::{Connection, Role};
use wansan_trace::file::Row;
use wansan_twin::knob::{Setting, set, settings, tries};
use wansan_twin::{Bounds, Reading, Twin, Unfit};

use super::recording::World;

/// Maximum error of a prediction against the run of the changed plan.
const MOST_OFF: f64 = 0.1;

/// Predicts a change from the recording of one world and compares it with a run of another, which has the change.
pub(crate) fn holds(recorded: &World<'_>, change: &[(&str, &str)], changed: &World<'_>) {
    holds_of(recorded.record(), change, changed.record().0);
}

/// As [`holds`], for a recording and the bytes per second measured with the change.
fn holds_of((before, reading): (f64, Result<Reading, Unfit>), change: &[(&str, &str)], after: f64) {
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
    let predicted = &told.predictions[0];
    println!(
        "recorded {before:.0} B/s, predicted {:.0} ({:+.1} %), measured {after:.0} ({:+.1} %)",
        predicted.bytes_per_s.median,
        predicted.gain.median * 100.0,
        (after / before - 1.0) * 100.0,
    );
    let off = predicted.bytes_per_s.median / after - 1.0;
    assert!(
        off.abs() <= MOST_OFF,
        "{:+.1} % off: {predicted:#?}",
        off * 100.0
    );
}

fn a_window_of_24_before_a_store_of_4_servers_over(path: &str) {
    let world = |target| World {
        path,
        target,
        initiator: "",
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
fn a_window_of_24_before_a_store_of_4_servers() {
    a_window_of_24_before_a_store_of_4_servers_over(
        "delay = \"15ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"",
    );
}

#[test]
fn a_window_of_24_over_a_path_without_a_rate() {
    a_window_of_24_before_a_store_of_4_servers_over("delay = \"15ms\"");
}

#[test]
fn a_window_of_16_before_a_path_of_300_mbit() {
    let world = |target| World {
        path: "delay = \"20ms\"\nrate = \"300Mbit/s\"\nqueue = \"1MiB\"",
        target,
        initiator: "",
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
        initiator: "",
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
        initiator: "",
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

#[test]
fn a_receive_buffer_below_the_bandwidth_delay_product() {
    let world = |more| World {
        path: "delay = \"20ms\"\nrate = \"100Mbit/s\"\nqueue = \"1MiB\"",
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 16",
        more,
    };
    holds(
        &world("[tcp]\nrmem = [\"4KiB\", \"128KiB\", \"256KiB\"]"),
        &[("tcp.rmem", "64MiB")],
        &world("[tcp]\nrmem = [\"4KiB\", \"128KiB\", \"64MiB\"]"),
    );
}

#[test]
fn a_path_that_no_longer_loses_packets() {
    let world = |path| World {
        path,
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 16",
        more: "",
    };
    holds(
        &world("delay = \"10ms\"\nrate = \"50Mbit/s\"\nqueue = \"256KiB\"\nloss = \"0.5%\""),
        &[("path.loss", "0%")],
        &world("delay = \"10ms\"\nrate = \"50Mbit/s\"\nqueue = \"256KiB\""),
    );
}

/// The twin repeats changes of the path at the times when they were recorded.
#[test]
fn a_path_that_does_not_change_meanwhile() {
    let world = World {
        path: "delay = \"10ms\"\nrate = \"200Mbit/s\"\nqueue = \"512KiB\"",
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 16",
        more: "",
    };
    let meanwhile = [
        "at 1500ms wan.rate = 20Mbit/s",
        "at 1500ms wan.queue = 64KiB",
        "at 2s wan.delay = 25ms",
    ];
    holds_of(
        world.record_while(&meanwhile),
        &[("path.wan.rate", "200Mbit/s"), ("path.wan.queue", "512KiB")],
        world.record_while(&meanwhile[2..]).0,
    );
}

/// A path with losses, over which Reno's window stays small.
const LOSSY: &str = "delay = \"10ms\"\nrate = \"100Mbit/s\"\nqueue = \"256KiB\"\nloss = \"0.1%\"";
const RENO: &str = "[tcp]\ncongestion_control = \"reno\"";

/// A host next to the client or the storage, whichever `near` names, with a relay that uses BBR over the path.
fn relay(near: &str) -> String {
    let [beside_client, beside_storage, side] = match near {
        "client" => ["near", "far", "out"],
        _ => ["far", "near", "in"],
    };
    let path = |name: &str, to: &str| {
        let effects = if name == "far" { LOSSY } else { "" };
        format!("[[path]]\nname = \"{name}\"\nbetween = [\"edge\", \"{to}\"]\n{effects}\n")
    };
    format!(
        "[[host]]\nname = \"edge\"\n{}{}[[relay]]\nname = \"proxy\"\nhost = \"edge\"\nto = \"storage\"\n\
         {side} = {{ congestion_control = \"bbr\" }}\n{RENO}",
        path(beside_client, "client"),
        path(beside_storage, "storage"),
    )
}

#[test]
fn a_relay_at_the_edge_of_the_target_that_sends() {
    let world = |initiator, more| World {
        path: LOSSY,
        target: "luns = [\"memory:64MiB\"]",
        initiator,
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 16",
        more,
    };
    holds(
        &world("", RENO),
        &[("relay.target_edge", "bbr")],
        &world("through = \"proxy\"", &relay("storage")),
    );
}

#[test]
fn a_relay_at_the_edge_of_the_initiator_that_sends() {
    let world = |initiator, more| World {
        path: LOSSY,
        target: "luns = [\"memory:64MiB\"]",
        initiator,
        workload: "op = \"write\"\nblock = \"64KiB\"\nparallel = 16",
        more,
    };
    holds(
        &world("", RENO),
        &[("relay.initiator_edge", "bbr")],
        &world("through = \"proxy\"", &relay("client")),
    );
}

/// A route between two routers, with or without a tunnel, over a path of that rate; the client's side is a wire.
fn route(vpn: &str, rate: &str) -> String {
    format!(
        "[[router]]\nname = \"near\"\n[[router]]\nname = \"far\"\n\
         [[path]]\nname = \"office\"\nbetween = [\"client\", \"near\"]\n\
         [[path]]\nname = \"long\"\nbetween = [\"near\", \"far\"]\ndelay = \"10ms\"\nrate = \"{rate}\"\nqueue = \"4MiB\"\n\
         [[path]]\nname = \"site\"\nbetween = [\"far\", \"storage\"]\ndelay = \"1ms\"\n\
         [[route]]\nname = \"office\"\nvia = [\"near\", \"far\"]\n{vpn}\n\
         [trace]\nkinds = [\"io\", \"pdu\", \"tcp\", \"packet\", \"path\", \"thread\"]"
    )
}

/// Compares the prediction without the VPN with a run of the plan without it.
fn holds_without(vpn: &str, rate: &str, op: &str) {
    let workload = format!("op = \"{op}\"\nblock = \"64KiB\"\nparallel = 48");
    let world = |more| World {
        path: "",
        target: "luns = [\"memory:64MiB\"]",
        initiator: "routes = [\"office\"]",
        workload: &workload,
        more,
    };
    holds(
        &world(&route(vpn, rate)),
        &[("vpn", "none")],
        &world(&route("", rate)),
    );
}

#[test]
fn no_wireguard_where_the_path_limits() {
    holds_without("vpn = \"wireguard\"", "100Mbit/s", "read");
}

/// One processor limits each direction.
#[test]
fn no_ipsec_where_encryption_limits() {
    let vpn = "vpn = \"ipsec\"\ncipher = \"3des\"";
    holds_without(vpn, "1Gbit/s", "write");
}

/// Reads through a relay beside the storage.
fn through_relay(more: &str) -> World<'_> {
    World {
        path: LOSSY,
        target: "luns = [\"memory:64MiB\"]",
        initiator: "through = \"proxy\"",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 16",
        more,
    }
}

/// In the middle of the path, where it halves the round trip that a receive window has to cover.
#[test]
fn no_relay_where_there_was_one() {
    let path = |name: &str, to: &str| {
        format!(
            "[[path]]\nname = \"{name}\"\nbetween = [\"edge\", \"{to}\"]\ndelay = \"10ms\"\nrate = \"100Mbit/s\"\n"
        )
    };
    let buffers = "[tcp]\nrmem = [\"4KiB\", \"128KiB\", \"128KiB\"]";
    let between = [path("first", "client"), path("second", "storage")].concat();
    let recorded = format!(
        "[[host]]\nname = \"edge\"\n{between}[[relay]]\nname = \"proxy\"\nhost = \"edge\"\nto = \"storage\"\n{buffers}"
    );
    let world = |initiator, more| World {
        path: "delay = \"20ms\"\nrate = \"100Mbit/s\"",
        initiator,
        ..through_relay(more)
    };
    holds(
        &world("through = \"proxy\"", &recorded),
        &[("relay", "none")],
        &world("", buffers),
    );
}

#[test]
fn another_congestion_control_of_a_relay() {
    let by_bbr = relay("storage");
    holds(
        &through_relay(&by_bbr.replace("bbr", "reno")),
        &[("relay.in.congestion_control", "bbr")],
        &through_relay(&by_bbr),
    );
}

/// The target's connection is not the one that the relay made.
#[test]
fn a_relay_that_leads_to_another_is_refused() {
    let more = relay("storage");
    let (_, mut cell, window) = through_relay(&more).cell();
    let table = cell.connection.as_mut().expect("connections are recorded");
    let at_target = |row: &&mut Row<Connection>| row.record.role == Role::Target;
    let row = table.rows.iter_mut().find(at_target);
    row.expect("the target's").record.remote.set_port(1);
    assert!(matches!(Reading::of(&cell, window), Err(Unfit::Relay)));
}

#[test]
fn a_congestion_control_at_the_end_that_sends() {
    let world = |target, more| World {
        path: LOSSY,
        target,
        initiator: "",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 16",
        more,
    };
    let target = "luns = [\"memory:64MiB\"]";
    // The initiator only sends commands, for which its congestion control does not matter.
    holds(
        &world(target, RENO),
        &[("target.congestion_control", "bbr")],
        &world(target, "[tcp]\ncongestion_control = \"bbr\""),
    );
}

#[test]
fn reads_and_writes_of_several_lengths() {
    // Each write is split into parts of 64 KiB; each read is one piece.
    let world = |target| World {
        path: "delay = \"10ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"",
        target,
        initiator: "",
        workload: "op = \"mix\"\nblock = \"256KiB\"\nparallel = 16",
        more: "[session]\nmax_burst = \"64KiB\"\nfirst_burst = \"64KiB\"",
    };
    let recorded = world("luns = [\"memory:64MiB\"]\ncommand_window = 8");
    let setup = recorded.record().1.unwrap().setup;
    let listed = &setup.initiators[0].load.listed;
    let lengths: BTreeSet<(bool, u32)> = listed.iter().map(|io| (io.write, io.bytes)).collect();
    assert!(lengths.len() > 1, "{lengths:?}");
    holds(
        &recorded,
        &[("target.command_window", "64")],
        &world("luns = [\"memory:64MiB\"]\ncommand_window = 64"),
    );
}

#[test]
fn two_connections_in_place_of_one() {
    let world = |initiator| World {
        path: "delay = \"10ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"",
        target: "luns = [\"memory:64MiB\"]",
        initiator,
        workload: "op = \"write\"\nblock = \"64KiB\"\nparallel = 32",
        more: "[tcp]\nwmem = [\"4KiB\", \"16KiB\", \"256KiB\"]",
    };
    holds(
        &world(""),
        &[("initiator.connections", "2")],
        &world("connections = 2"),
    );
}

#[test]
fn a_load_at_a_rate_gains_nothing_by_a_larger_window() {
    let world = World {
        path: "delay = \"10ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"",
        target: "luns = [\"memory:64MiB\"]\ncommand_window = 16",
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 64\nrate = \"500IOPS\"",
        more: "",
    };
    holds(
        &world,
        &[("target.command_window", "64")],
        &World {
            target: "luns = [\"memory:64MiB\"]\ncommand_window = 64",
            ..world
        },
    );
}

#[test]
fn of_all_that_is_worth_a_try_the_best_comes_first() {
    let world = World {
        path: "delay = \"4ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"",
        target: "luns = [\"memory:64MiB,service-time=4ms,servers=16\"]\ncommand_window = 16",
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 128",
        more: "",
    };
    let (_, reading) = world.record();
    let twin = Twin::of(reading.unwrap(), &|| true).unwrap();
    let changes = tries(twin.setup());
    let told = twin.predict(&changes, &|_, _| true).unwrap();
    assert_eq!(told.predictions.len(), changes.len(), "{:?}", told.failed);
    assert_eq!(told.binds, "command_window");
    let gains: Vec<f64> = told.predictions.iter().map(|it| it.gain.median).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
    let best = &told.predictions[0];
    assert_eq!(best.change[0].parameter, "target.command_window");
    assert_eq!(
        (best.change[0].value.as_str(), best.binds_next.as_str()),
        ("128", "store")
    );
    let useless = told
        .predictions
        .iter()
        .find(|it| it.change[0].parameter == "tcp.rmem");
    assert!(
        useless.is_none_or(|it| it.gain.median.abs() < 0.02),
        "{useless:#?}"
    );
}

#[test]
fn nothing_is_tried_that_is_so_already() {
    let world = World {
        // Bandwidth-delay product.
        path: "delay = \"4ms\"\nrate = \"1Gbit/s\"\nqueue = \"977KiB\"",
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"16MiB\"\nparallel = 2",
        more: "",
    };
    let setup = world.record().1.unwrap().setup;
    let now = settings(&setup);
    for change in tries(&setup) {
        let is_so = change.iter().all(|setting| now.contains(setting));
        assert!(!is_so, "{change:?}");
    }
}

#[test]
fn a_wire_and_packets_of_paths_that_were_not_recorded_have_a_round_trip_time() {
    let world = |path, more| World {
        path,
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 2",
        more,
    };
    let without_path = "[trace]\nkinds = [\"io\", \"pdu\", \"tcp\", \"packet\"]";
    for world in [world("", ""), world("delay = \"1ms\"", without_path)] {
        let reading = world.record().1.unwrap();
        assert!(
            reading.unknown[0].starts_with("the path: "),
            "{:?}",
            reading.unknown
        );
        let twin = Twin::of(reading, &|| true).unwrap();
        assert_eq!(twin.setup().first_connection().routes, [vec![0], vec![1]]);
    }
}

#[test]
fn a_change_that_cannot_be_made_says_what_could() {
    let world = World {
        path: "delay = \"1ms\"",
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 2",
        more: "",
    };
    let mut setup = world.record().1.unwrap().setup;
    let mut refusal = |parameter: &str, value: &str| {
        let setting = Setting::new(parameter, value);
        set(&mut setup, &setting).unwrap_err().to_string()
    };
    assert!(refusal("target.comand_window", "8").contains("did you mean `target.command_window`?"));
    assert!(refusal("target.command_window", "many").contains("`many` is no number from 1"));
    assert!(refusal("workload.block", "32MiB").contains("not from 512B to 16MiB"));
    assert!(refusal("tcp.congestion_control", "bbr2").contains("did you mean `bbr`?"));
    // Nothing is written, so the keys of writes have no effect.
    assert!(refusal("session.initial_r2t", "no").contains("cannot be changed"));
}

#[test]
fn the_advice_has_every_part_that_it_takes() {
    let recorded = World {
        path: "delay = \"20ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"",
        target: "luns = [\"memory:64MiB\"]\ncommand_window = 4",
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 16",
        more: "[tcp]\nrmem = [\"4KiB\", \"8KiB\", \"16KiB\"]",
    };
    let (_, reading) = recorded.record();
    let twin = Twin::of(reading.unwrap(), &|| true).unwrap();
    let changes = tries(twin.setup());
    let mut told = twin.predict(&changes, &|_, _| true).unwrap();
    assert!(told.fits, "{:#?}", told.compared);
    twin.advise(&mut told, &Bounds::default(), &|_, _| true)
        .unwrap();
    let names = |step: usize| -> Vec<&str> {
        let change = &told.advice[step].change;
        change.iter().map(|it| it.parameter.as_str()).collect()
    };
    assert!(told.advice.len() >= 2, "{:#?}", told.advice);
    let both = names(1);
    assert!(both.contains(&"target.command_window"), "{both:?}");
    // More connections also have more receive windows.
    let widens = ["tcp.rmem", "initiator.connections"];
    assert!(widens.iter().any(|name| both.contains(name)), "{both:?}");
    assert!(both.starts_with(&names(0)));
    let gains: Vec<f64> = told.advice.iter().map(|it| it.gain.median).collect();
    assert!(gains.is_sorted(), "{gains:?}");
    // Each of them alone gains less.
    let alone = told.predictions.iter().filter(|it| {
        let name = it.change[0].parameter.as_str();
        both.contains(&name)
    });
    assert!(alone.map(|it| it.gain.median).all(|gain| gain < gains[1]));
}

#[test]
fn what_is_advised_keeps_its_bounds() {
    // Any larger window makes I/Os wait longer for the store.
    let recorded = World {
        path: "delay = \"4ms\"\nrate = \"1Gbit/s\"\nqueue = \"1MiB\"",
        target: "luns = [\"memory:64MiB,service-time=4ms,servers=4\"]\ncommand_window = 8",
        initiator: "",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 32",
        more: "",
    };
    let (_, reading) = recorded.record();
    let twin = Twin::of(reading.unwrap(), &|| true).unwrap();
    let unbounded = twin.predict(&tries(twin.setup()), &|_, _| true).unwrap();
    let at_most = |latency_p99_ns: Option<f64>| {
        let bounds = Bounds {
            latency_p99_ns,
            memory_bytes: None,
        };
        let mut told = unbounded.clone();
        let kept = twin.advise(&mut told, &bounds, &|_, _| true).unwrap();
        (told.advice, kept)
    };
    let (advice, kept) = at_most(None);
    let most_ns = advice
        .last()
        .expect("a window of 8 is too small")
        .latency_p99_ns;
    let best = &kept[0];
    assert_eq!(
        best.change.len(),
        1,
        "the window alone is enough: {best:#?}"
    );
    assert_eq!(best.change[0].parameter, "target.command_window");
    assert!(kept.iter().any(|it| it.latency_p99_ns == most_ns));
    let (advice, kept) = at_most(Some(1.0));
    assert!(advice.is_empty() && kept.is_empty());
}

#[test]
fn what_a_change_costs_a_reno_flow_is_told() {
    // Four connections leave one flow a fifth of the link instead of half.
    let recorded = World {
        path: "delay = \"10ms\"\nrate = \"20Mbit/s\"\nqueue = \"64KiB\"",
        target: "luns = [\"memory:64MiB\"]",
        initiator: "",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 32",
        more: "[tcp]\ncongestion_control = \"reno\"",
    };
    let (_, reading) = recorded.record();
    let twin = Twin::of(reading.unwrap(), &|| true).unwrap();
    assert!(twin.fits(), "{:#?}", twin.compared());
    let share = |parameter: &str, value: &str| {
        let change = Setting::new(parameter, value);
        let mut told = twin.predict(&[vec![change]], &|_, _| true).unwrap();
        twin.compare_with_reno(&mut told, &|| true);
        told.predictions[0].reno_share.expect("the link has a rate")
    };
    let crowded = share("initiator.connections", "4");
    assert!((0.2..0.75).contains(&crowded.median), "{crowded:?}");
    let same = share("target.command_window", "64");
    assert!((0.9..1.1).contains(&same.median), "{same:?}");
}

/// A response on one connection may carry a command window that those on the other have not shown yet.
#[test]
fn a_command_window_over_two_connections() {
    let world = |target| World {
        path: "delay = \"10ms\"\nrate = \"50Mbit/s\"\nqueue = \"1MiB\"",
        target,
        initiator: "connections = 2",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 128",
        more: "",
    };
    let recorded = world("luns = [\"memory:64MiB\"]\ncommand_window = 16");
    let setup = recorded.record().1.unwrap().setup;
    assert_eq!(setup.command_window, 16);
    holds(
        &recorded,
        &[("target.command_window", "64")],
        &world("luns = [\"memory:64MiB\"]\ncommand_window = 64"),
    );
}

#[test]
fn a_twin_of_flows_in_a_short_queue_fits_by_some_seed_where_chance_decides() {
    // Which packets the queue drops, and so which seeds fit, also depends on where a status is.
    let world = World {
        path: "delay = \"5ms\"\nrate = \"100Mbit/s\"\nqueue = \"32KiB\"",
        target: "luns = [\"memory:64MiB\"]\nstatus = \"separate\"",
        initiator: "connections = 2",
        workload: "op = \"read\"\nblock = \"64KiB\"\nparallel = 16",
        more: "[tcp]\ncongestion_control = \"reno\"",
    };
    let (_, cell, window) = world.cell();
    let repeating = || Reading::of(&cell, window).unwrap();
    let by_drops = Twin::by_one_seed(repeating(), &|| true).unwrap();
    assert!(by_drops.fits(), "{:#?}", by_drops.compared());
    // Without repeating the recorded queue drops.
    let reading = || Reading {
        alternatives: Vec::new(),
        ..repeating()
    };
    let by_one = Twin::by_one_seed(reading(), &|| true).unwrap();
    let by_some = Twin::of(reading(), &|| true).unwrap();
    assert!(
        !by_one.fits() && by_some.fits(),
        "{:#?}",
        by_some.compared()
    );
    // Both have the same tolerances.
    let of = |twin: &Twin| -> Vec<f64> { twin.compared().iter().map(|it| it.most_off).collect() };
    assert!(
        of(&by_some)
            .iter()
            .chain(&of(&by_one))
            .all(|most_off| *most_off == 0.05)
    );
}
