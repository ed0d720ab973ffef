//! State of congestion controls: `wansan cc list` and `wansan cc show`.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;
use wansan_tcp::control::{self, Algorithm, Counting, HighSpeed, Options, State, Status, Users};
use wansan_tcp::{congestion, ece};
use wansan_trace::units::format_number;

use crate::commands::grid::{grid, right};
use crate::commands::{print_json, print_text, remark};

/// Windows, in segments, for which `show` evaluates HighSpeed TCP's response.
const WINDOWS: [f64; 6] = [38.0, 100.0, 1_000.0, 10_000.0, 83_000.0, 200_000.0];

/// Result of `load` and `unload`, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) done: &'static str,
    /// Number of connections that use it; null if unknown.
    pub(super) connections: Option<usize>,
    /// Number of network namespaces with it as default; null if unknown.
    pub(super) namespaces: Option<usize>,
}

/// Users of each control.
pub(super) struct Counted(Option<BTreeMap<String, Users>>);

impl Counted {
    /// Counts them; prints the reason if it fails.
    pub(super) fn now() -> Counted {
        Counted(
            control::users()
                .map_err(|error| remark(&format!("wansan: connections are not counted: {error}")))
                .ok(),
        )
    }

    /// Users of one control; `None` if unknown.
    pub(super) fn of(&self, name: &str) -> Option<Users> {
        let counts = self.0.as_ref()?;
        Some(counts.get(name).copied().unwrap_or_default())
    }

    /// Its connections.
    fn connections(&self, name: &str) -> Option<usize> {
        self.of(name).map(|users| users.connections)
    }
}

/// One control in the list.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    /// The specification that it implements; null for the kernel's own.
    law: Option<&'static str>,
    /// "absent", "kept", "held", or "kernel" for the kernel's own; "there" if the reason is unknown.
    state: &'static str,
    /// Whether an unprivileged process may choose it.
    any_process: bool,
    /// Number of connections that use it; null if unknown.
    connections: Option<usize>,
}

pub(super) fn list(json: bool) -> Result<()> {
    let known = control::list();
    if let Err(error) = &known {
        remark(&format!("wansan: {error}"));
    }
    let listed = listed(known.as_deref().unwrap_or_default(), &Counted::now())?;
    if json {
        return print_json(&serde_json::to_string_pretty(&listed)?);
    }
    let mut table = grid(["name", "law", "state", "any process", "connections"]);
    for control in &listed {
        let connections = control.connections.map(|many| many.to_string());
        table.add_row([
            control.name.clone(),
            control.law.unwrap_or("").to_owned(),
            control.state.to_owned(),
            if control.any_process { "yes" } else { "no" }.to_owned(),
            connections.unwrap_or_else(|| "unknown".to_owned()),
        ]);
    }
    right(&mut table, [4]);
    print_text(|out| writeln!(out, "{table}"))
}

/// Our controls, then the kernel's own.
fn listed(known: &[Status], counted: &Counted) -> Result<Vec<Listed>> {
    let available = congestion::available()?;
    let allowed = congestion::allowed()?;
    let has = |names: &str, name: &str| names.split_whitespace().any(|other| other == name);
    let ours = Algorithm::ALL.into_iter().map(|law| {
        let state = known.iter().find(|status| status.algorithm == law);
        let there = has(&available, law.name());
        (
            law.name(),
            Some(law.source()),
            match state {
                Some(status) => in_word(status.state),
                None if there => "there",
                None => "absent",
            },
        )
    });
    let own = available
        .split_whitespace()
        .filter(|name| Algorithm::by_name(name).is_none())
        .map(|name| {
            if name.starts_with(ece::NAME) {
                (name, Some("asks senders to slow down, RFC 3168"), "held")
            } else {
                (name, None, "kernel")
            }
        });
    Ok(ours
        .chain(own)
        .map(|(name, law, state)| Listed {
            name: name.to_owned(),
            law,
            state,
            any_process: has(&allowed, name),
            connections: counted.connections(name),
        })
        .collect())
}

/// Output of `show`, as JSON. Windows are in segments.
#[derive(Debug, Serialize)]
struct Shown {
    name: &'static str,
    law: &'static str,
    state: &'static str,
    connections: Option<usize>,
    /// Its parameters; null if it is not kept.
    options: Option<ShownOptions>,
}

#[derive(Debug, Serialize)]
struct ShownOptions {
    /// "packets" or "acks".
    count: &'static str,
    max_ssthresh: Option<u32>,
    /// Only for HighSpeed TCP.
    highspeed: Option<ShownHighSpeed>,
}

#[derive(Debug, Serialize)]
struct ShownHighSpeed {
    low_window: f64,
    high_window: f64,
    low_loss: f64,
    high_loss: f64,
    high_decrease: f64,
}

pub(super) fn show(law: Algorithm, json: bool) -> Result<()> {
    let status = control::show(law)?;
    let connections = Counted::now().connections(law.name());
    if json {
        return print_json(&serde_json::to_string_pretty(&Shown {
            name: law.name(),
            law: law.source(),
            state: in_word(status.state),
            connections,
            options: status.options.map(|options| shown(law, &options)),
        })?);
    }
    print_text(|out| out.write_all(in_words(&status, connections).as_bytes()))
}

fn shown(law: Algorithm, options: &Options) -> ShownOptions {
    let highspeed = &options.highspeed;
    ShownOptions {
        count: match options.growth.counting {
            Counting::PerPacket => "packets",
            Counting::PerAck => "acks",
        },
        max_ssthresh: options.growth.max_ssthresh,
        highspeed: (law == Algorithm::HighSpeed).then_some(ShownHighSpeed {
            low_window: highspeed.low_window,
            high_window: highspeed.high_window,
            low_loss: highspeed.low_loss,
            high_loss: highspeed.high_loss,
            high_decrease: highspeed.high_decrease,
        }),
    }
}

fn in_words(status: &Status, connections: Option<usize>) -> String {
    let law = status.algorithm;
    let state = match status.state {
        State::Absent => "not loaded",
        State::Kept => "loaded until it is unloaded",
        State::Held => "held by a running program, and unloaded when it ends",
    };
    let mut text = format!("{} ({}): {state}\n", law.name(), law.source());
    // Writing to a string cannot fail.
    if let Some(connections) = connections {
        let _ = writeln!(text, "connections that use it: {connections}");
    }
    let Some(options) = status.options else {
        return text;
    };
    let counts = match options.growth.counting {
        Counting::PerPacket => "the packets that it acknowledges",
        Counting::PerAck => "one packet, whatever it acknowledges",
    };
    let _ = writeln!(text, "an ACK counts as {counts}");
    let _ = match options.growth.max_ssthresh {
        Some(segments) => writeln!(text, "limited slow start above {segments} segments"),
        None => writeln!(text, "slow start is not limited"),
    };
    if law == Algorithm::HighSpeed {
        let _ = write!(text, "{}", highspeed(&options.highspeed));
    }
    text
}

fn highspeed(law: &HighSpeed) -> String {
    let mut text = format!(
        "window {} segments at a loss rate of {:e}, {} at {:e}; decrease {} there\n",
        format_number(law.low_window),
        law.low_loss,
        format_number(law.high_window),
        law.high_loss,
        format_number(law.high_decrease)
    );
    let mut table = grid(["window", "grows by", "a loss takes", "loss rate"]);
    for window in WINDOWS {
        table.add_row([
            format!("{window}"),
            format!("{:.2} a round trip", law.increase(window)),
            format!("{:.1} %", law.decrease(window) * 100.0),
            format!("{:.2e}", law.loss(window)),
        ]);
    }
    right(&mut table, 0..4);
    let _ = writeln!(text, "{table}");
    text
}

fn in_word(state: State) -> &'static str {
    match state {
        State::Absent => "absent",
        State::Kept => "kept",
        State::Held => "held",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_parameters_are_shown_in_few_digits() {
        let law = HighSpeed {
            high_loss: 1e-20,
            high_decrease: 1e-30,
            ..HighSpeed::default()
        };
        let told = highspeed(&law);
        let first = told.lines().next();
        let expected =
            "window 38 segments at a loss rate of 1e-3, 83000 at 1e-20; decrease 1e-30 there";
        assert_eq!(first, Some(expected), "{told}");
        assert!(
            told.lines().all(|line| line.chars().count() < 100),
            "{told}"
        );
    }
}
