//! Plans for real computers: what is supported, and what is refused in a line that names the key and the worlds that
//! support it.

use std::net::SocketAddrV4;

use wansan_lab::plan::{Plan, WorldKind};

use super::{first_scenario, is_refused, parse};

const PLAN: &str = r#"
title = "Reads, and a stream through a relay"

[world]
kind = "hosts"

[[host]]
name = "storage"
ssh = "root@array.example.net"
address = "192.0.2.1"

[[host]]
name = "client"
address = "192.0.2.2"

[[host]]
name = "edge"
ssh = "ssh://lab@edge:2222"
address = "198.51.100.3"

[[path]]
name = "lan"
between = ["client", "edge"]

[[path]]
name = "wan"
between = ["edge", "storage"]

[[path]]
name = "direct"
between = ["client", "storage"]

[target]
host = "storage"
luns = ["file:/there/only,read-only"]

[[relay]]
host = "edge"
to = "storage"

[[initiator]]
host = "client"

[[stream]]
name = "data"
from = "client"
to = "storage"
through = "relay"

[workload]
time = "1s"
block = "4KiB"
op = "read"

[tcp]
congestion_control = "reno"
"#;

#[test]
fn programs_listen_and_connect_at_the_addresses_of_the_plan() {
    let scenario = first_scenario(&parse(PLAN).unwrap());
    let ssh: Vec<&str> = scenario.hosts.iter().map(|it| &*it.ssh).collect();
    assert_eq!(
        ssh,
        ["root@array.example.net", "client", "ssh://lab@edge:2222"]
    );
    let address = |text: &str| text.parse::<SocketAddrV4>().unwrap();
    let connection = &scenario.initiators[0].connections[0];
    assert_eq!(connection.source, address("192.0.2.2:0"));
    assert_eq!(connection.target, *address("192.0.2.1:1").ip());
    let relay = &scenario.relays[0];
    assert_eq!(
        (relay.listen, relay.to),
        (address("198.51.100.3:4000"), address("192.0.2.1:5201"))
    );
    assert_eq!(scenario.streams[0].to, relay.listen);
    assert_eq!(scenario.receivers[0].listen, relay.to);
    assert!(scenario.links.iter().all(|link| link.wire));
}

#[test]
fn the_same_plan_runs_in_other_worlds() {
    let text = PLAN.replace("file:/there/only,read-only", "memory:1MiB");
    let plan: Plan = parse(&text).unwrap();
    for kind in [WorldKind::Netns, WorldKind::Sim] {
        let scenario = first_scenario(&plan.in_world(kind).unwrap());
        assert_eq!(scenario.hosts, []);
        assert!(scenario.receivers[0].listen.ip().is_unspecified());
    }
    let back = plan.in_world(WorldKind::Netns).unwrap();
    assert_eq!(
        first_scenario(&back.in_world(WorldKind::Hosts).unwrap())
            .hosts
            .len(),
        3
    );
}

/// The plan with a path emulated by a host that is the end of no other path.
fn routed(path: &str) -> String {
    let gate = "[[host]]\nname = \"gate\"\naddress = \"192.0.2.9\"\n\n[[path]]\nname = \"lan\"";
    let text = PLAN.replacen("[[path]]\nname = \"lan\"", gate, 1);
    let wan = "between = [\"edge\", \"storage\"]";
    text.replacen(wan, &format!("{wan}\n{path}"), 1)
}

#[test]
fn a_host_may_emulate_a_path_between_others() {
    let text = routed("router = \"gate\"\ndelay = \"20ms\"\nloss = \"1%\"");
    let text = text.replace("file:/there/only,read-only", "memory:1MiB");
    let plan = parse(&text).unwrap();
    let scenario = first_scenario(&plan);
    let routers: Vec<_> = scenario.links.iter().map(|link| link.router).collect();
    assert_eq!(routers, [None, Some(scenario.node("gate")), None]);
    let is_wire: Vec<_> = scenario.links.iter().map(|link| link.wire).collect();
    assert_eq!(is_wire, [true, false, true]);
    // Other worlds support the same path without the router.
    for kind in [WorldKind::Netns, WorldKind::Sim] {
        let scenario = first_scenario(&plan.in_world(kind).unwrap());
        assert_eq!(scenario.links[1].router, None);
        assert_eq!(
            scenario.links[1].forward,
            first_scenario(&plan).links[1].forward
        );
    }
    let counted = "[tcp]\n[[expect]]\nmetric = \"cells.path_dropped\"\nequals = 0\n";
    parse(&text.replace("[tcp]\ncongestion_control = \"reno\"\n", counted)).unwrap();
}

#[test]
fn what_a_router_cannot_do_is_refused() {
    let text = routed("router = \"gate\"\ndelay = \"20ms\"");
    let router = "router = \"gate\"";
    let again = "[target]";
    let same = "[[path]]\nname = \"again\"\nbetween = [\"storage\", \"edge\"]\n[target]";
    for (from, to, parts) in [
        (
            router,
            "router = \"gat\"",
            &["`path.router`", "`gat`", "`gate`"][..],
        ),
        (router, "router = \"edge\"", &["`wan`", "one of its ends"]),
        (
            router,
            "router = \"gate\"\ncapture = true",
            &["`path.wan.capture`"],
        ),
        (
            again,
            same,
            &["`wan` router", "`again` joins the same hosts"],
        ),
    ] {
        is_refused(&text, from, to, parts);
    }
}

#[test]
fn what_real_hosts_cannot_do_is_refused() {
    let both = "`world.kind = \"netns\"` and `\"sim\"` can";
    let netns = "`world.kind = \"netns\"` can";
    let path = "between = [\"client\", \"edge\"]";
    for (from, more, parts) in [
        (
            path,
            "delay = \"1ms\"",
            &[":24", "`path.lan.delay`", "`router`", both][..],
        ),
        (path, "rate = \"1Gbit/s\"", &["`path.lan.rate`", both]),
        (path, "loss = \"1%\"", &["`path.lan.loss`", both]),
        (
            path,
            "back = { delay = \"1ms\" }",
            &["`path.lan.back.delay`", both],
        ),
        (path, "capture = true", &["`path.lan.capture`", netns]),
        (
            "kind = \"hosts\"",
            "emulator = \"netem\"",
            &[":6", "`world.emulator`", netns],
        ),
        (
            "kind = \"hosts\"",
            "mtu = \"9000B\"",
            &["`world.mtu`", both],
        ),
        (
            "[tcp]",
            "ecn = true",
            &["`tcp.ecn`", "net.ipv4.tcp_ecn", both],
        ),
        (
            "[tcp]",
            "rmem = [\"4KiB\", \"1MiB\", \"2MiB\"]",
            &["`tcp.rmem`", "net.ipv4.tcp_rmem", both],
        ),
        (
            "name = \"storage\"",
            "count = 2",
            &["`storage` count", "one by one"],
        ),
    ] {
        is_refused(PLAN, from, &format!("{from}\n{more}"), parts);
    }
    for (from, to, parts) in [
        (
            "title =",
            "timeline = [\"at 1s lan down\"]\ntitle =",
            &["`timeline`", both][..],
        ),
        (
            "[tcp]",
            "[[router]]\nname = \"far\"\n[tcp]",
            &["`router`", both],
        ),
        (
            "address = \"192.0.2.1\"",
            "",
            &["`storage`", "no `address`"],
        ),
        ("192.0.2.1", "192.0.2.2", &["`client`", "that of `storage`"]),
        ("192.0.2.1", "0.0.0.0", &["0.0.0.0", "one computer"]),
        ("192.0.2.1", "array", &["`host.address`", "IPv4 address"]),
    ] {
        is_refused(PLAN, from, to, parts);
    }
    let metric = "[tcp]\n[[expect]]\nmetric = \"cells.path_dropped\"\nequals = 0\n";
    let reason = "paths between real hosts are not emulated";
    is_refused(
        PLAN,
        "[tcp]\ncongestion_control = \"reno\"\n",
        metric,
        &["`cells.path_dropped`", reason],
    );
    let sweep = "[sweep]\nhost.edge.ssh = [\"here\", \"there\"]\n[tcp]";
    is_refused(PLAN, "[tcp]", sweep, &["[sweep] `host`", "the same hosts"]);
}

#[test]
fn what_ssh_would_take_for_something_else_is_refused() {
    let destination = "root@array.example.net";
    for (to, part) in [
        ("-oProxyCommand=reboot", "USER@HOST"),
        ("", "USER@HOST"),
        ("root@here there", "no spaces"),
        (
            "root:secret@array",
            "a password does not belong into a plan",
        ),
        (
            "ssh://root:secret@array",
            "a password does not belong into a plan",
        ),
    ] {
        is_refused(PLAN, destination, to, &["`storage` ssh", part]);
    }
}
