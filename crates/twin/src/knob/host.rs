//! The knobs of hosts: what the target, its initiators, their TCP and their loads are set to.

use std::fmt::Display;

use wansan_iscsi::scsi::Geometry;
use wansan_mistake::nearest;
use wansan_settings::quantity::Size;
use wansan_sim::tcp::congestion::Law;
use wansan_workload::sequence::Operation;

use super::Setting;
use super::value::{flag, number, one_each, size};
use crate::setup::{Connection, End, Initiator, Setup};

/// Sizes that buffers are tried with: far beyond the bandwidth-delay product of the paths that are simulated.
const AMPLE_BUFFER_BYTES: u64 = 64 << 20;
/// The longest FirstBurstLength and MaxBurstLength (RFC 7143 §13.13, §13.14).
const MOST_BURST_BYTES: u64 = (1 << 24) - 1;
/// The least of them.
const LEAST_BURST_BYTES: u64 = 512;
/// The greatest command window of a target.
const MOST_COMMAND_WINDOW: u64 = 65_536;
/// Most connections of a session.
const MOST_CONNECTIONS: u64 = 256;
/// Most I/Os in flight.
const MOST_PARALLEL: u64 = 65_536;
/// The longest I/O: what one command may move.
const MOST_BLOCK_BYTES: u64 = Geometry::MAX_TRANSFER_BYTES as u64;

/// A knob.
pub(super) struct Knob {
    /// Its name in plans.
    pub(super) name: &'static str,
    /// Its value; `None` where the setup has no such knob.
    pub(super) get: fn(&Setup) -> Option<String>,
    /// Sets it; an error says what it takes.
    pub(super) set: fn(&mut Setup, &str) -> Result<(), String>,
    /// Changes that are worth a try, each of one knob or of those that belong together.
    pub(super) tries: fn(&Setup) -> Vec<Vec<Setting>>,
}

impl Knob {
    /// Whether it is of target, session or TCP: the load is the application's, and the store what it is.
    pub(super) fn is_of_hosts(&self) -> bool {
        self.name != "target.servers" && !self.name.starts_with("workload.")
    }
}

/// All of them.
pub(super) static KNOBS: [Knob; 16] = [
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
            one_each(
                "target.command_window",
                [doubled, wanted.max(doubled)],
                window,
            )
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
                    // Data that goes unasked needs all three.
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
        name: "tcp.congestion_control",
        get: |setup| {
            let [near, far] = &setup.first_connection().ends;
            let both = [&near.congestion_control, &far.congestion_control];
            Some(match both[0] == both[1] {
                true => both[0].clone(),
                false => format!("{} and {}", both[0], both[1]),
            })
        },
        set: |setup, text| {
            if !Law::names().contains(&text) {
                return Err(format!(
                    "the simulator has no `{text}`; {}",
                    nearest(text, &Law::names())
                ));
            }
            each_end(setup, |end| text.clone_into(&mut end.congestion_control));
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let other = |name: &&str| ends.iter().any(|end| end.congestion_control != **name);
            // Those of `wansan cc` have to be loaded first; they are asked for by name.
            let others = Law::KERNEL.into_iter().filter(other);
            others
                .map(|name| vec![Setting::new("tcp.congestion_control", name)])
                .collect()
        },
    },
    Knob {
        name: "tcp.wmem",
        get: |setup| Some(Size(setup.first_connection().ends[0].send_buffer_bytes[1]).to_string()),
        set: |setup, text| {
            let most = size(text, 4096, (1 << 31) - 1)?;
            each_end(setup, |end| end.send_buffer_bytes[1] = most);
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let now = ends
                .iter()
                .map(|end| end.send_buffer_bytes[1])
                .min()
                .unwrap_or(0);
            one_each("tcp.wmem", [Size(AMPLE_BUFFER_BYTES.max(now))], Size(now))
        },
    },
    Knob {
        name: "tcp.rmem",
        get: |setup| {
            Some(Size(setup.first_connection().ends[0].receive_buffer_bytes[1]).to_string())
        },
        set: |setup, text| {
            let most = size(text, 4096, (1 << 31) - 1)?;
            each_end(setup, |end| end.receive_buffer_bytes[1] = most);
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let now = ends
                .iter()
                .map(|end| end.receive_buffer_bytes[1])
                .min()
                .unwrap_or(0);
            one_each("tcp.rmem", [Size(AMPLE_BUFFER_BYTES.max(now))], Size(now))
        },
    },
    Knob {
        name: "target.nagle",
        get: |setup| Some(setup.first_connection().ends[1].nagle.to_string()),
        set: |setup, text| {
            let on = flag(text)?;
            setup.connections_mut().for_each(|it| it.ends[1].nagle = on);
            Ok(())
        },
        tries: |setup| match setup.first_connection().ends[1].nagle {
            true => vec![vec![Setting::new("target.nagle", false)]],
            false => Vec::new(),
        },
    },
    Knob {
        name: "target.delayed_ack",
        get: |setup| Some(delayed_ack(setup, 1)),
        set: |setup, text| set_delayed_ack(setup, 1, text),
        tries: |setup| try_quick(setup, 1, "target.delayed_ack"),
    },
    Knob {
        name: "initiator.delayed_ack",
        get: |setup| Some(delayed_ack(setup, 0)),
        set: |setup, text| set_delayed_ack(setup, 0, text),
        tries: |setup| try_quick(setup, 0, "initiator.delayed_ack"),
    },
    Knob {
        name: "workload.parallel",
        get: |setup| Some(setup.initiators[0].load.parallel.to_string()),
        set: |setup, text| {
            let parallel = number(text, 1, MOST_PARALLEL)? as usize;
            each_session(setup, |it| it.load.parallel = parallel);
            Ok(())
        },
        tries: |setup| {
            let now = setup.initiators[0].load.parallel as u64;
            one_each("workload.parallel", [(2 * now).min(MOST_PARALLEL)], now)
        },
    },
    Knob {
        name: "workload.block",
        get: |setup| Some(Size(setup.initiators[0].load.block_bytes.into()).to_string()),
        set: |setup, text| {
            let bytes = size(text, 512, MOST_BLOCK_BYTES)?;
            if !bytes.is_multiple_of(512) {
                return Err(format!("{text} is no multiple of 512 bytes"));
            }
            each_session(setup, |it| it.load.block_bytes = bytes as u32);
            Ok(())
        },
        tries: |setup| {
            let now = u64::from(setup.initiators[0].load.block_bytes);
            one_each(
                "workload.block",
                [Size((2 * now).min(MOST_BLOCK_BYTES))],
                Size(now),
            )
        },
    },
    Knob {
        name: "target.servers",
        get: |setup| Some(setup.store.as_ref()?.servers.to_string()),
        set: |setup, text| {
            let servers = number(text, 1, 65_536)? as u32;
            let store = setup.store.as_mut();
            store.ok_or("the store answers at once")?.servers = servers;
            Ok(())
        },
        tries: |setup| {
            let servers = setup.store.as_ref().map(|store| u64::from(store.servers));
            servers.map_or_else(Vec::new, |now| one_each("target.servers", [2 * now], now))
        },
    },
];

fn each_session(setup: &mut Setup, change: impl FnMut(&mut Initiator)) {
    setup.initiators.iter_mut().for_each(change);
}

fn each_end(setup: &mut Setup, change: impl FnMut(&mut End)) {
    setup
        .connections_mut()
        .flat_map(|it| &mut it.ends)
        .for_each(change);
}

/// So many connections: those beyond the recorded ones are like them in turn, from ports of their own.
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

fn has_writes(setup: &Setup) -> bool {
    setup
        .initiators
        .iter()
        .any(|it| it.load.operation != Operation::Read)
}

/// A key of writes; none where nothing is written.
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

fn delayed_ack(setup: &Setup, end: usize) -> String {
    match setup.first_connection().ends[end].quick_ack {
        true => "quick".to_owned(),
        false => "on".to_owned(),
    }
}

fn set_delayed_ack(setup: &mut Setup, end: usize, text: &str) -> Result<(), String> {
    let quick = match text {
        "on" => false,
        "quick" => true,
        _ => return Err(format!("`{text}` is neither `on` nor `quick`")),
    };
    setup
        .connections_mut()
        .for_each(|it| it.ends[end].quick_ack = quick);
    Ok(())
}

fn try_quick(setup: &Setup, end: usize, name: &str) -> Vec<Vec<Setting>> {
    match setup.first_connection().ends[end].quick_ack {
        true => Vec::new(),
        false => vec![vec![Setting::new(name, "quick")]],
    }
}
