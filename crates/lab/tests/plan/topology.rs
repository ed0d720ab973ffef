//! Valid and invalid plans with routers and routes.

use wansan_lab::plan::Scenario;
use wansan_lab::world::{Medium, Role, Topology};

use super::{first_scenario, is_refused, parse};

/// Two routers on the initiator's side and one on the target's.
const GOOD: &str = r#"
title = "Two routes"

[[host]]
name = "client"

[[host]]
name = "storage"

[[router]]
name = "near"
count = 2

[[router]]
name = "far"

[[path]]
name = "to-upper"
between = ["client", "near-1"]

[[path]]
name = "to-lower"
between = ["client", "near-2"]

[[path]]
name = "upper"
between = ["near-1", "far"]
delay = "2ms"

[[path]]
name = "lower"
between = ["near-2", "far"]
delay = "8ms"

[[path]]
name = "site"
between = ["far", "storage"]

[[route]]
name = "upper"
via = ["near-1", "far"]

[[route]]
name = "lower"
via = ["near-2", "far"]

[routing]
by = "port"

[target]
host = "storage"
luns = ["memory:1MiB"]

[[initiator]]
host = "client"
routes = ["upper", "lower"]

[workload]
op = "read"
block = "4KiB"
time = "1s"
"#;

/// The valid plan's scenario with these replacements.
fn scenario(replacements: &[(&str, &str)]) -> Scenario {
    let mut text = GOOD.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from} is not in the good plan");
        text = text.replace(from, to);
    }
    first_scenario(&parse(&text).unwrap())
}

/// The addresses of the first initiator's connections.
fn ends(scenario: &Scenario) -> Vec<String> {
    let connections = scenario.initiators[0].connections.iter();
    connections
        .map(|one| format!("{} {}->{}", one.route, one.source, one.target))
        .collect()
}

#[test]
fn each_mistake_is_named_with_its_line_and_the_right_thing() {
    for (from, to, parts) in [
        (
            "name = \"lower\"\nvia",
            "name = \"upper\"\nvia",
            &[":44", "[[route]] `upper`", "twice"][..],
        ),
        (
            "name = \"lower\"\nvia",
            "name = \"lower route\"\nvia",
            &[":44", "\"lower route\"", "lower-case letters"],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "routes = [\"upper\", \"upper\"]",
            &[":56", "`upper` twice", "`connections`"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"naer-2\", \"far\"]",
            &[":45", "a router `naer-2`", "`near-2`"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"near\", \"far\"]",
            &[":45", "`near` means 2", "`near-1`"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"client\", \"far\"]",
            &[":45", "a router `client`", "far"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = []",
            &[":45", "`lower`", "no router"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"far\", \"near-2\", \"far\"]",
            &[":45", "`far` twice"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"near-2\", \"near-1\"]",
            &[
                ":45",
                "[[route]] `lower`",
                "no [[path]] joins `near-2` and `near-1`",
            ],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"near-2\"]",
            &[":45", "no [[path]] joins `near-2` and `storage`"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"far\"]",
            &[
                ":56",
                "[[route]] `lower`",
                "no [[path]] joins `client` and `far`",
            ],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "routes = [\"uper\"]",
            &[":56", "`uper`", "`upper`"],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "routes = [\"to-upper\"]",
            &[
                ":56",
                "`to-upper`",
                "`client` and `storage`",
                "upper, lower",
            ],
        ),
        (
            "routes = [\"upper\", \"lower\"]\n",
            "",
            &[":54", "[[route]] `upper` or [[route]] `lower`", "`routes`"],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "connections = 257",
            &[":56", "257", "1 to 256"],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "connections = 0",
            &[":56", "1 to 256"],
        ),
        (
            "[[router]]\nname = \"far\"",
            "[[router]]\nname = \"storage\"",
            &[":15", "`storage`", "a [[host]] has that name"],
        ),
        (
            "[[router]]\nname = \"far\"",
            "[[router]]\nname = \"near-1\"",
            &[":15", "`near-1` is given twice"],
        ),
        (
            "[[router]]\nname = \"far\"",
            "[[router]]\nname = \"Far\"",
            &[":15", "lower-case letters"],
        ),
        (
            "[[router]]\nname = \"far\"",
            "[[router]]\nname = \"spare\"\n[[router]]\nname = \"far\"",
            &[":15", "[[router]] `spare`", "no [[path]]"],
        ),
        (
            "[[router]]\nname = \"near\"",
            "[[host]]\nname = \"lonely\"\n[[router]]\nname = \"near\"",
            &[":11", "[[host]] `lonely`", "no [[path]]"],
        ),
        (
            "between = [\"far\", \"storage\"]",
            "between = [\"fra\", \"storage\"]",
            &[":37", "`fra`", "`far`"],
        ),
        (
            "host = \"storage\"",
            "host = \"far\"",
            &["a host `far`", "storage"],
        ),
        (
            "host = \"client\"",
            "host = \"near-1\"",
            &[":55", "a host `near-1`", "client"],
        ),
        (
            "via = [\"near-1\", \"far\"]",
            "via = [\"near-1\", \"far\"]\nvpn = \"wireguard\"\ncipher = \"3des\"",
            &[":42", "`upper`", "`cipher`", "\"ipsec\"", "\"wireguard\""],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "routes = [\"upper\", \"lower\"]\nconnections = 1",
            &[":57", "connections = 1", "`lower`", "2 connections"],
        ),
        (
            "name = \"site\"",
            "name = \"a.b\"",
            &[":36", "[[path]] name = \"a.b\"", "lower-case letters"],
        ),
        (
            "name = \"site\"",
            "name = \"si\\nte\"",
            &[":36", "[[path]] name = \"si\\nte\"", "lower-case letters"],
        ),
        (
            "via = [\"near-1\", \"far\"]",
            "via = [\"near-1\", \"far\"]\nvpn = \"wiregaurd\"",
            &[":42", "`wiregaurd`", "`wireguard`"],
        ),
        (
            "by = \"port\"",
            "by = \"prot\"",
            &[":48", "`prot`", "`port`"],
        ),
        (
            "[routing]",
            "[[path]]\nname = \"beside\"\nbetween = [\"near-1\", \"far\"]\n\
             [[path]]\nname = \"side\"\nbetween = [\"far\", \"storage\"]\n[routing]",
            &[":41", "`site` and `side` both join `far` and `storage`"],
        ),
    ] {
        is_refused(GOOD, from, to, parts);
    }
}

#[test]
fn without_a_route_routers_are_not_passed() {
    let routes = GOOD.find("[[route]]").unwrap()..GOOD.find("[routing]").unwrap();
    let text = GOOD.replace(&GOOD[routes], "");
    let text = text.replace("routes = [\"upper\", \"lower\"]\n", "");
    let message = parse(&text).unwrap_err().to_string();
    for part in ["`client`", "`storage`", "write a [[route]]"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_vpn_needs_two_ends() {
    let text = GOOD
        .replace("[\"far\", \"storage\"]", "[\"near-1\", \"storage\"]")
        .replace(
            "via = [\"near-1\", \"far\"]",
            "via = [\"near-1\"]\nvpn = \"wireguard\"",
        );
    let message = parse(&text).unwrap_err().to_string();
    for part in [
        ":42",
        "`upper`",
        "\"wireguard\"",
        "first router to its last",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn more_than_250_nodes_are_too_many() {
    let text = GOOD.replace(
        "[[router]]\nname = \"far\"",
        "[[router]]\nname = \"far\"\n[[router]]\nname = \"many\"\ncount = 250",
    );
    let message = parse(&text).unwrap_err().to_string();
    assert!(message.contains("more than 250"), "{message}");
}

#[test]
fn what_has_no_effect_is_a_wire_between_two_nodes() {
    let good = scenario(&[]);
    let media: Vec<Medium> = good.topology.networks.iter().map(|n| n.medium).collect();
    use Medium::{Emulator, Wire};
    assert_eq!(media, [Wire, Wire, Emulator, Emulator, Wire]);
    let roles: Vec<Role> = good.topology.nodes.iter().map(|node| node.role).collect();
    use Role::{Host, Router};
    assert_eq!(roles, [Host, Host, Router, Router, Router]);

    let slow = scenario(&[(
        "between = [\"far\", \"storage\"]",
        "between = [\"far\", \"storage\"]\ndelay = \"0ms\"",
    )]);
    assert_eq!(slow.topology.networks[4].medium, Emulator);
    let crowd = scenario(&[("name = \"client\"", "name = \"client\"\ncount = 2")]);
    assert_eq!(crowd.topology.networks[0].medium, Emulator);
    assert_eq!(crowd.initiators.len(), 2);
}

#[test]
fn connections_are_given_out_to_the_routes_in_turn() {
    let three = scenario(&[(
        "routes = [\"upper\", \"lower\"]",
        "routes = [\"upper\", \"lower\"]\nconnections = 3",
    )]);
    assert_eq!(
        ends(&three),
        [
            "upper 10.82.0.1:20000->10.82.0.2",
            "lower 10.82.0.1:20257->10.82.0.2",
            "upper 10.82.0.1:20002->10.82.0.2"
        ]
    );
}

#[test]
fn each_kind_of_routing_has_ends_of_its_own() {
    assert_eq!(
        ends(&scenario(&[("by = \"port\"", "by = \"source\"")])),
        [
            "upper 10.81.0.1:0->10.82.0.2",
            "lower 10.81.1.1:0->10.82.0.2"
        ]
    );
    assert_eq!(
        ends(&scenario(&[("by = \"port\"", "by = \"prefix\"")])),
        [
            "upper 10.81.0.1:0->10.81.0.2",
            "lower 10.81.1.1:0->10.81.1.2"
        ]
    );
}

#[test]
fn packets_are_told_apart_in_both_directions() {
    for by in ["port", "source", "prefix"] {
        let scenario = scenario(&[("by = \"port\"", &format!("by = \"{by}\""))]);
        let connections = &scenario.initiators[0].connections;
        assert_eq!(connections.len(), 2);
        for connection in connections {
            let to = std::net::SocketAddrV4::new(connection.target, 3260);
            let classifier = scenario.classifier;
            assert_eq!(
                classifier.route(connection.source, to),
                connection.route_place,
                "{by}"
            );
            assert_eq!(
                classifier.route(to, connection.source),
                connection.route_place,
                "{by}"
            );
        }
        let other = "10.83.0.1:3260".parse().unwrap();
        assert_eq!(scenario.classifier.route(other, other), None, "{by}");
    }
}

#[test]
fn a_tunnel_takes_the_routes_between_its_ends() {
    let plain = scenario(&[]);
    let tunnelled = scenario(&[(
        "via = [\"near-1\", \"far\"]",
        "via = [\"near-1\", \"far\"]\nvpn = \"wireguard\"",
    )]);
    let tunnel = tunnelled.routes[0].tunnel.as_ref().unwrap();
    assert_eq!(tunnelled.routes[1].tunnel, None);
    let (near, far) = (&tunnel.near, &tunnel.far);
    assert_eq!((near.router, far.router), (2, 4));
    assert_eq!(near.outer, Topology::address(2, 2));
    assert_eq!(far.outer, Topology::address(2, 4));
    let address = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap();
    assert_eq!(near.inner, [address("10.82.0.1")]);
    assert_eq!(far.inner, [address("10.82.0.2")]);
    // The routers' own routes no longer lead from one end to the other.
    for (node, end, destination) in [(2, near, "10.82.0.2"), (4, far, "10.82.0.1")] {
        let to: Vec<u32> = end.routes.iter().map(|route| route.table).collect();
        assert!(to.contains(&1000), "{to:?}");
        let has = |scenario: &Scenario| {
            let mut routes = scenario.topology.nodes[node].routes.iter();
            routes.any(|route| route.table == 1000 && route.destination == address(destination))
        };
        assert!(has(&plain) && !has(&tunnelled));
    }
}

#[test]
fn hosts_know_what_the_device_of_several_tunnels_carries() {
    let mixed = |mtu: &str, ciphers: [&str; 2]| {
        let [upper, lower] = ciphers;
        let scenario = scenario(&[
            (
                "via = [\"near-1\", \"far\"]",
                &format!("via = [\"near-1\", \"far\"]\n{upper}"),
            ),
            (
                "via = [\"near-2\", \"far\"]",
                &format!("via = [\"near-2\", \"far\"]\n{lower}"),
            ),
            ("[routing]", &format!("[world]\nmtu = \"{mtu}\"\n[routing]")),
        ]);
        let tunnels = scenario
            .routes
            .iter()
            .map(|planned| planned.tunnel.as_ref().unwrap());
        let of_tunnels: Vec<u32> = tunnels.map(|tunnel| tunnel.mtu_bytes).collect();
        let routes = scenario.topology.nodes[0].routes.iter();
        let of_client: Vec<u32> = routes.filter_map(|route| route.mtu_bytes).collect();
        assert!(
            of_client.iter().all(|mtu| of_tunnels.contains(mtu)),
            "{of_client:?}"
        );
        of_tunnels
    };
    let ipsec = |cipher: &str| format!("vpn = \"ipsec\"\ncipher = \"{cipher}\"");
    let (des, gcm) = (ipsec("3des"), ipsec("aes-gcm"));
    let alone = mixed("1400B", [&gcm, &gcm])[0];
    let together = mixed("1400B", [&des, &gcm]);
    assert_eq!(together, [mixed("1400B", [&des, &des])[0].min(alone); 2]);
    // WireGuard has separate devices.
    let beside = mixed("1400B", ["vpn = \"wireguard\"", &gcm]);
    assert_eq!(beside[1], alone);
    assert_ne!(beside[0], beside[1]);
}
