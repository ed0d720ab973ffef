//! Plans with relays and streams.

use wansan_lab::plan::{Phase, Plan, PlanError};

use super::{first_scenario, is_refused, parse};

const GOOD: &str = r#"title = "Streams"
[[host]]
name = "site"
count = 2
[[host]]
name = "far"
[[path]]
name = "lan"
between = ["site-1", "site-2"]
[[path]]
name = "wan"
between = ["site", "far"]
delay = "10ms"
[[relay]]
host = "site-2"
to = "far"
in = { congestion_control = "reno" }
[[relay]]
name = "spare"
host = "site-2"
to = "far"
[[stream]]
name = "one"
from = "site-1"
to = "far"
through = "relay"
[[stream]]
name = "ten"
from = "site-2"
to = "far"
flows = 10
[workload]
time = "1s"
[trace]
kinds = ["tcp"]
"#;

fn changed(from: &str, to: &str) -> Result<Plan, PlanError> {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replacen(from, to, 1))
}

#[test]
fn streams_reach_their_receiver_or_the_relay_that_leads_there() {
    let plan = parse(GOOD).unwrap();
    let scenario = first_scenario(&plan);
    assert_eq!(scenario.target_host, None);
    let [one, ten] = &scenario.streams[..] else {
        panic!("{:?}", scenario.streams);
    };
    // site-1, site-2 and far are nodes 0, 1 and 2; lan and wan are networks 0 and 1.
    let [relay] = &scenario.relays[..] else {
        panic!("the spare relay is not started: {:?}", scenario.relays);
    };
    assert_eq!((one.host.as_str(), ten.host.as_str()), ("site-1", "site-2"));
    assert_eq!(one.to.port(), relay.listen.port());
    assert_eq!(relay.to, ten.to);
    assert_ne!(one.to.ip(), ten.to.ip());
    assert_eq!(scenario.receivers.len(), 1);
    assert_eq!(scenario.receivers[0].listen.port(), ten.to.port());
    // The document has every default, and parses as a plan again.
    let again = parse(&toml::to_string(plan.document()).unwrap()).unwrap();
    assert_eq!(again.document(), plan.document());
}

#[test]
fn streams_and_relays_can_be_swept() {
    let sweep = "[sweep]\nstream.ten.flows = [0, 1]\nrelay.relay.in.congestion_control = [\"reno\", \
        \"cubic\"]\n[trace]";
    let plan = changed("[trace]", sweep).unwrap();
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    let seen: Vec<_> = cells
        .iter()
        .map(|cell| {
            let relay = &cell.scenario.relays[0].table;
            (
                cell.scenario.streams.len(),
                relay.flow.r#in.congestion_control.clone().unwrap(),
            )
        })
        .collect();
    let text = |name: &str| name.to_owned();
    let wanted = [
        (1, text("reno")),
        (1, text("cubic")),
        (2, text("reno")),
        (2, text("cubic")),
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn each_mistake_is_named_with_the_right_thing() {
    let expect = |metric: &str| format!("[[expect]]\nmetric = \"{metric}\"\nat_least = 1\n[trace]");
    let law = |law: &str| {
        let metric = "metric = \"cells.relays.relay.law\"";
        format!("[[expect]]\n{metric}\nequals = \"{law}\"\n[trace]")
    };
    let (law, fallback) = (law("arival"), expect("cells.relays.relay.fallbacks.no_ec"));
    let signals = expect("cells.relays.relay.ece_signals");
    let unrecorded = signals.replace("[trace]", "[trace]\nkinds = [\"path\"]");
    let (near, wrong, lost, ios) = (
        expect("cells.streams.on.bytes_per_s"),
        expect("cells.streams.one.byte_per_s"),
        expect("cells.relays.relay.lots"),
        expect("cells.iops"),
    );
    for (from, to, parts) in [
        (
            "through = \"relay\"",
            "through = \"relays\"",
            &["`relays`", "`relay`"][..],
        ),
        (
            "through = \"relay\"",
            "trough = \"relay\"",
            &["`trough`", "`through`"],
        ),
        ("flows = 10", "flow = 10", &["`flow`", "`flows`"]),
        ("flows = 10", "flows = 1001", &["0 to 1000"]),
        ("in = {", "inn = {", &["`inn`", "`in`"]),
        (
            "in = { congestion_control",
            "in = { congestion",
            &["`congestion`"],
        ),
        (
            "\"reno\" }",
            "\"a control that is none\" }",
            &["`relay.congestion_control`"],
        ),
        (
            "in = {",
            "law = \"window\"\nin = {",
            &[":17", "[[relay]] `relay`", "needs a latency"],
        ),
        (
            "in = {",
            "latency = \"20ms\"\nlaw = \"none\"\nin = {",
            &[":18", "[[relay]] `relay`", "leave out"],
        ),
        (
            "name = \"spare\"",
            "name = \"spare\"\nece_bound = \"1MiB\"",
            &[":20", "[[relay]] `spare`", "law 'ece-bound'"],
        ),
        // A side without a congestion control uses that of [tcp].
        (
            "in = { congestion_control = \"reno\" }",
            "law = \"arrival\"\nlatency = \"20ms\"",
            &[":14", "[[relay]] `relay`", "not as 'cubic'"],
        ),
        (
            "to = \"far\"\nthrough",
            "to = \"site-2\"\nthrough",
            &["goes to `site-2`", "leads to `far`"],
        ),
        (
            "from = \"site-1\"",
            "from = \"site-2\"",
            &["is on the host of", "`site-2`"],
        ),
        (
            "from = \"site-1\"",
            "from = \"site\"",
            &["`stream.from`", "site-1"],
        ),
        (
            "to = \"far\"\nflows",
            "to = \"site-2\"\nflows",
            &["from `site-2` to `site-2`"],
        ),
        (
            "between = [\"site-1\", \"site-2\"]",
            "between = [\"site-1\", \"far\"]",
            &["no [[path]] joins"],
        ),
        (
            "name = \"spare\"",
            "name = \"relay\"",
            &["[[relay]] `relay` is given twice"],
        ),
        (
            "name = \"ten\"",
            "name = \"one\"",
            &["[[stream]] `one` is given twice"],
        ),
        (
            "flows = 10",
            "every = \"1B\"",
            &["`stream.every`: must be 1KiB", "1KiB to 1GiB"],
        ),
        (
            "flows = 10",
            "receive_buffer = \"64KiB\"",
            &["one receiver", "`receive_buffer`"],
        ),
        (
            "title = \"Streams\"",
            "title = \"s\"\napply_advice = true",
            &["`apply_advice`", "[[initiator]]"],
        ),
        (
            "[trace]",
            "[[initiator]]\nhost = \"site-1\"\n[trace]",
            &["no [target]"],
        ),
        ("[trace]", &near, &["no [[stream]] is named `on`", "`one`"]),
        ("[trace]", &wrong, &["`byte_per_s`", "`bytes_per_s`"]),
        ("[trace]", &lost, &["`lots`", "`lost`"]),
        ("[trace]", &ios, &["no [[initiator]]"]),
        ("[trace]", &law, &["\"arival\"", "`arrival`"]),
        (
            "[trace]",
            &fallback,
            &["`fallbacks.no_ec`", "`fallbacks.no_ecn`"],
        ),
        (
            "[trace]\nkinds = [\"tcp\"]",
            &unrecorded,
            &["\"tcp\" in `trace.kinds`"],
        ),
    ] {
        is_refused(GOOD, from, to, parts);
    }
}

#[test]
fn a_session_goes_through_a_relay() {
    let session = "[[initiator]]\nhost = \"site-1\"\nthrough = \"spare\"\nconnections = 2\n[target]\n\
        host = \"far\"\nluns = [\"memory:1MiB\"]\n[trace]\n";
    let plan = changed("[trace]\nkinds = [\"tcp\"]\n", session).unwrap();
    let scenario = first_scenario(&plan);
    let spare = scenario
        .relays
        .iter()
        .find(|relay| relay.table.name == "spare");
    let spare = spare.unwrap();
    assert_eq!(spare.to.port(), 3260);
    let connections = &scenario.initiators[0].connections;
    assert_eq!(connections.len(), 2);
    for connection in connections {
        assert_eq!(connection.port, spare.listen.port());
        assert_eq!(connection.route, "lan");
    }
    let both = "[[initiator]]\nhost = \"site-1\"\nthrough = \"relay\"\n[target]\nhost = \"far\"\n\
        luns = [\"memory:1MiB\"]\n[trace]\n";
    let error = changed("[trace]\nkinds = [\"tcp\"]\n", both)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("one for sessions and one for streams"),
        "{error}"
    );
}
