//! The knobs of target and session: the command window, keys, connections.

use std::fmt::Display;

use wansan_iscsi::initiator::Schedule;
use wansan_settings::quantity::Size;

use super::Setting;
use super::host::{Knob, each_session, has_writes};
use super::value::{flag, number, one_each, size};
use crate::setup::{Connection, Setup};

/// Maximum of FirstBurstLength and MaxBurstLength (RFC 7143 §13.13, §13.14).
const MOST_BURST_BYTES: u64 = (1 << 24) - 1;
/// Their minimum.
const LEAST_BURST_BYTES: u64 = 512;
/// Maximum command window of a target.
const MOST_COMMAND_WINDOW: u64 = 65_536;
/// Maximum number of connections of a session.
const MOST_CONNECTIONS: u64 = 256;

/// The knobs of target and session.
pub(super) static KNOBS: &[Knob] = &[
    Knob {
        name: "target.command_window",
        get: |setup| Some(setup.command_window.to_string()),
        set: |setup, text| {
            setup.command_window = number(text, 1, MOST_COMMAND_WINDOW)? as u32;
            Ok(())
        },
        tries: |setup| {
            let wanted = setup
                .initiators
                .iter()
                .map(|it| it.load.parallel as u64)
                .max();
            let wanted = wanted
                .unwrap_or(0)
                .next_multiple_of(8)
                .min(MOST_COMMAND_WINDOW);
            let window = u64::from(setup.command_window);
            let doubled = (2 * window).min(MOST_COMMAND_WINDOW);
            let mut tries = one_each(
                "target.command_window",
                [doubled, wanted.max(doubled)],
                window,
            );
            if setup.hides_queue {
                tries.push(vec![
                    Setting::new("target.command_window", doubled),
                    Setting::new("workload.parallel", doubled),
                ]);
            }
            tries
        },
    },
    Knob {
        name: "session.max_outstanding_r2t",
        get: |setup| of_writes(setup, setup.initiators[0].keys.max_outstanding_r2t),
        set: |setup, text| {
            let most = number(text, 1, u64::from(u16::MAX))? as u16;
            each_session(setup, |it| it.keys.max_outstanding_r2t = most);
            Ok(())
        },
        tries: |setup| {
            let keys = &setup.initiators[0].keys;
            let bursts = most_block_bytes(setup).div_ceil(u64::from(keys.max_burst_bytes));
            let now = u64::from(keys.max_outstanding_r2t);
            writes(setup, || {
                one_each(
                    "session.max_outstanding_r2t",
                    [bursts.max(now).min(65_535)],
                    now,
                )
            })
        },
    },
    Knob {
        name: "session.max_burst",
        get: |setup| of_writes(setup, Size(setup.initiators[0].keys.max_burst_bytes.into())),
        set: |setup, text| {
            let bytes = size(text, LEAST_BURST_BYTES, MOST_BURST_BYTES)? as u32;
            each_session(setup, |it| {
                it.keys.max_burst_bytes = bytes;
                it.keys.first_burst_bytes = it.keys.first_burst_bytes.min(bytes);
            });
            Ok(())
        },
        tries: |setup| {
            let now = Size(setup.initiators[0].keys.max_burst_bytes.into());
            let wanted = Size(most_block_bytes(setup).min(MOST_BURST_BYTES).max(now.0));
            writes(setup, || one_each("session.max_burst", [wanted], now))
        },
    },
    Knob {
        name: "session.first_burst",
        get: |setup| {
            of_writes(
                setup,
                Size(setup.initiators[0].keys.first_burst_bytes.into()),
            )
        },
        set: |setup, text| {
            let bytes = size(text, LEAST_BURST_BYTES, MOST_BURST_BYTES)? as u32;
            each_session(setup, |it| {
                it.keys.first_burst_bytes = bytes;
                it.keys.max_burst_bytes = it.keys.max_burst_bytes.max(bytes);
            });
            Ok(())
        },
        tries: |_| Vec::new(),
    },
    Knob {
        name: "session.initial_r2t",
        get: |setup| of_writes(setup, setup.initiators[0].keys.initial_r2t),
        set: |setup, text| {
            let on = flag(text)?;
            each_session(setup, |it| it.keys.initial_r2t = on);
            Ok(())
        },
        tries: |setup| {
            let keys = &setup.initiators[0].keys;
            let wanted = most_block_bytes(setup).min(MOST_BURST_BYTES);
            let has_room = u64::from(keys.first_burst_bytes) >= wanted;
            writes(setup, || {
                match has_room && !keys.initial_r2t && keys.immediate_data {
                    true => Vec::new(),
                    // Unsolicited data needs all three.
                    false => vec![vec![
                        Setting::new("session.initial_r2t", false),
                        Setting::new("session.immediate_data", true),
                        Setting::new(
                            "session.first_burst",
                            Size(wanted.max(keys.first_burst_bytes.into())),
                        ),
                    ]],
                }
            })
        },
    },
    Knob {
        name: "session.immediate_data",
        get: |setup| of_writes(setup, setup.initiators[0].keys.immediate_data),
        set: |setup, text| {
            let on = flag(text)?;
            each_session(setup, |it| it.keys.immediate_data = on);
            Ok(())
        },
        tries: |_| Vec::new(),
    },
    Knob {
        name: "initiator.connections",
        get: |setup| Some(setup.initiators[0].connections.len().to_string()),
        set: |setup, text| {
            let count = number(text, 1, MOST_CONNECTIONS)? as usize;
            each_session(setup, |it| connect(&mut it.connections, count));
            Ok(())
        },
        tries: |setup| {
            let now = setup.initiators[0].connections.len() as u64;
            let more = [2, 4].map(|times| (now * times).min(MOST_CONNECTIONS));
            one_each("initiator.connections", more, now)
        },
    },
    Knob {
        name: "initiator.schedule",
        get: |setup| {
            let initiator = &setup.initiators[0];
            let schedule = serde_json::to_value(initiator.schedule).ok()?;
            let is_of_use = initiator.connections.len() > 1;
            schedule.as_str().filter(|_| is_of_use).map(str::to_owned)
        },
        set: |setup, text| {
            let schedule = serde_json::from_value(text.into());
            let schedule = schedule.map_err(|error| error.to_string())?;
            each_session(setup, |it| it.schedule = schedule);
            Ok(())
        },
        tries: |setup| {
            let now = setup.initiators[0].schedule;
            let others = [Schedule::LeastInFlight, Schedule::Earliest];
            let others = others.into_iter().filter(|other| *other != now);
            let words = others.filter_map(|it| serde_json::to_value(it).ok());
            words
                .filter_map(|word| Some(vec![Setting::new("initiator.schedule", word.as_str()?)]))
                .collect()
        },
    },
];

/// Sets the number of connections: additional ones copy the recorded ones in turn, with ports of their own.
fn connect(connections: &mut Vec<Connection>, count: usize) {
    let recorded = connections.clone();
    connections.truncate(count);
    while connections.len() < count {
        let mut another = recorded[connections.len() % recorded.len()].clone();
        let taken = |port: u16| connections.iter().any(|it| it.addresses[0].port() == port);
        let free = (40_000..=u16::MAX).find(|port| !taken(*port));
        another.addresses[0].set_port(free.unwrap_or_default());
        connections.push(another);
    }
}

/// A key of writes; `None` if nothing is written.
fn of_writes(setup: &Setup, value: impl Display) -> Option<String> {
    has_writes(setup).then(|| value.to_string())
}

fn writes(setup: &Setup, tries: impl FnOnce() -> Vec<Vec<Setting>>) -> Vec<Vec<Setting>> {
    match has_writes(setup) {
        true => tries(),
        false => Vec::new(),
    }
}

fn most_block_bytes(setup: &Setup) -> u64 {
    let blocks = setup
        .initiators
        .iter()
        .map(|it| u64::from(it.load.block_bytes));
    blocks.max().unwrap_or(0)
}
