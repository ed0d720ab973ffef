//! Plans for a simulated world: what is refused, in a line that names the key, and what is supported.

use super::{is_refused, parse};

const PLAN: &str = r#"
title = "A stream through a relay"
timeline = ["at 500ms wan down", "at 1s wan up"]

[world]
kind = "sim"

[[host]]
name = "client"

[[host]]
name = "edge"

[[host]]
name = "storage"

[[path]]
name = "lan"
between = ["client", "edge"]
delay = "1ms"

[[path]]
name = "wan"
between = ["edge", "storage"]
delay = "10ms"

[[relay]]
name = "relay"
host = "edge"
to = "storage"
out = { congestion_control = "wansan_hstcp" }

[[stream]]
name = "data"
from = "client"
to = "storage"
through = "relay"
congestion_control = "reno"

[workload]
time = "1s"
"#;

#[test]
fn streams_and_relays_over_paths_that_go_down_are_taken() {
    parse(PLAN).unwrap();
}

#[test]
fn congestion_controls_and_time_outs_that_it_does_not_have_are_refused_by_their_keys() {
    for (from, to, said) in [
        (
            "\"reno\"",
            "\"illinois\"",
            "`stream.data.congestion_control`: a simulated world has no `illinois`",
        ),
        (
            "\"wansan_hstcp\"",
            "\"wansan_hstpc\"",
            "`relay.relay.out.congestion_control`: a simulated world has no `wansan_hstpc`; did you mean `wansan_hstcp`?",
        ),
        (
            "out = { ",
            "out = { user_timeout = \"5s\", ",
            "`relay.relay.out.user_timeout`: connections are never given up in a simulated world",
        ),
    ] {
        is_refused(PLAN, from, to, &[said]);
    }
}
