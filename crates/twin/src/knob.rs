//! What can be changed of a twin: a row for each knob, under the name that plans have for it.

use std::fmt::Display;
use std::str::FromStr;

use wansan_mistake::nearest;
use wansan_path::{Limit, LossModel};
use wansan_settings::quantity::{QueueBound, Rate, Share, Size};
use wansan_sim::tcp::congestion::Law;
use wansan_workload::sequence::Operation;

use crate::reading::by_chance;
use crate::setup::{Connection, Direction, End, Setup};

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
/// The longest I/O.
const MOST_BLOCK_BYTES: u64 = 64 << 20;

/// Why a knob was not set. Each is one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// There is none of that name.
    #[error("`{name}` cannot be changed of a recording; {hint}")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest one.
        hint: String,
    },
    /// The value is none for it.
    #[error("`{name}`: {reason}")]
    Value {
        /// The knob's name.
        name: String,
        /// Why not.
        reason: String,
    },
}

/// A change: a knob's name and its value as a plan would have it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// The knob's name.
    pub parameter: String,
    /// Its value.
    pub value: String,
}

impl Setting {
    fn new(parameter: &str, value: impl Display) -> Setting {
        Setting {
            parameter: parameter.to_owned(),
            value: value.to_string(),
        }
    }
}

/// A knob.
struct Knob {
    name: &'static str,
    /// Its value; `None` where the setup has no such knob.
    get: fn(&Setup) -> Option<String>,
    /// Sets it; an error says what it takes.
    set: fn(&mut Setup, &str) -> Result<(), String>,
    /// Changes that are worth a try, each of one knob or of those that belong together.
    tries: fn(&Setup) -> Vec<Vec<Setting>>,
}

/// The knobs of hosts. Those of paths are [`PATH_KNOBS`].
static KNOBS: [Knob; 16] = [
    Knob {
        name: "target.command_window",
        get: |setup| Some(setup.command_window.to_string()),
        set: |setup, text| {
            setup.command_window = number(text, 1, MOST_COMMAND_WINDOW)? as u32;
            Ok(())
        },
        tries: |setup| {
            let wanted = setup.initiators.iter().map(|it| it.load.parallel as u64).max();
            let wanted = wanted.unwrap_or(0).next_multiple_of(8).min(MOST_COMMAND_WINDOW);
            let window = u64::from(setup.command_window);
            let doubled = (2 * window).min(MOST_COMMAND_WINDOW);
            one_each("target.command_window", [doubled, wanted.max(doubled)], window)
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
                one_each("session.max_outstanding_r2t", [bursts.max(now).min(65_535)], now)
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
        get: |setup| of_writes(setup, Size(setup.initiators[0].keys.first_burst_bytes.into())),
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
            writes(setup, || match has_room && !keys.initial_r2t && keys.immediate_data {
                true => Vec::new(),
                // Data that goes unasked needs all three.
                false => vec![vec![
                    Setting::new("session.initial_r2t", false),
                    Setting::new("session.immediate_data", true),
                    Setting::new("session.first_burst", Size(wanted.max(keys.first_burst_bytes.into()))),
                ]],
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
            if !Law::NAMES.contains(&text) {
                return Err(format!("the simulator has no `{text}`; {}", nearest(text, &Law::NAMES)));
            }
            each_end(setup, |end| text.clone_into(&mut end.congestion_control));
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let other = |name: &&str| ends.iter().any(|end| end.congestion_control != **name);
            let others = Law::NAMES.into_iter().filter(other);
            others.map(|name| vec![Setting::new("tcp.congestion_control", name)]).collect()
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
            let now = ends.iter().map(|end| end.send_buffer_bytes[1]).min().unwrap_or(0);
            one_each("tcp.wmem", [Size(AMPLE_BUFFER_BYTES.max(now))], Size(now))
        },
    },
    Knob {
        name: "tcp.rmem",
        get: |setup| Some(Size(setup.first_connection().ends[0].receive_buffer_bytes[1]).to_string()),
        set: |setup, text| {
            let most = size(text, 4096, (1 << 31) - 1)?;
            each_end(setup, |end| end.receive_buffer_bytes[1] = most);
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let now = ends.iter().map(|end| end.receive_buffer_bytes[1]).min().unwrap_or(0);
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
            one_each("workload.block", [Size((2 * now).min(MOST_BLOCK_BYTES))], Size(now))
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

/// A knob of both directions of a path: its name is `path.NAME.` and this.
struct PathKnob {
    name: &'static str,
    get: fn(&Direction) -> String,
    set: fn(&mut Direction, &str) -> Result<(), String>,
    tries: fn(&Setup, &Direction) -> Vec<String>,
}

static PATH_KNOBS: [PathKnob; 3] = [
    PathKnob {
        name: "rate",
        get: |direction| Rate(direction.rate_bits_per_s).to_string(),
        set: |direction, text| {
            direction.rate_bits_per_s = Rate::from_str(text)?.0;
            Ok(())
        },
        tries: |_, direction| {
            let doubled = direction.rate_bits_per_s.and_then(|rate| rate.checked_mul(2));
            doubled.map(|rate| Rate(Some(rate)).to_string()).into_iter().collect()
        },
    },
    PathKnob {
        name: "queue",
        get: |direction| bound_of(direction.queue).to_string(),
        set: |direction, text| {
            direction.queue = match QueueBound::from_str(text)? {
                QueueBound::Bytes(bytes) => Limit::bytes(bytes),
                QueueBound::Packets(packets) => Limit::packets(packets.into()),
            };
            Ok(())
        },
        tries: |setup, direction| {
            let path = path_of(&direction.name);
            let own = setup.directions.iter().filter(|it| path_of(&it.name) == path);
            let round_trip: u128 = own.map(|it| it.delay.as_nanos()).sum();
            let Some(rate) = direction.rate_bits_per_s else {
                return Vec::new();
            };
            // A bandwidth-delay product, in whole KiB.
            let bytes = u128::from(rate) * round_trip / 8_000_000_000;
            let product = u64::try_from(bytes).unwrap_or(u64::MAX).next_multiple_of(1024).max(4096);
            let double = match direction.queue.bytes {
                bytes @ 0..0x1_0000_0000 => vec![QueueBound::Bytes(2 * bytes).to_string()],
                _ => Vec::new(),
            };
            let mut bounds = vec![QueueBound::Bytes(product).to_string()];
            bounds.extend(double);
            bounds
        },
    },
    PathKnob {
        name: "loss",
        get: |direction| Share(direction.loss_share).to_string(),
        set: |direction, text| {
            let Share(share) = Share::from_str(text)?;
            direction.loss_share = share;
            direction.loss = match share {
                0.0 => LossModel::NONE,
                share => by_chance(share),
            };
            Ok(())
        },
        tries: |_, direction| match direction.loss_share {
            0.0 => Vec::new(),
            _ => vec![Share(0.0).to_string()],
        },
    },
];

/// Makes a change.
///
/// # Errors
/// [`KnobError`] when there is no such knob, or it does not take the value.
pub fn set(setup: &mut Setup, setting: &Setting) -> Result<(), KnobError> {
    let Setting { parameter, value } = setting;
    let wrong = |reason| KnobError::Value {
        name: parameter.clone(),
        reason,
    };
    let has_it = |knob: &&Knob| knob.name == parameter && (knob.get)(setup).is_some();
    if let Some(knob) = KNOBS.iter().find(has_it) {
        return (knob.set)(setup, value).map_err(wrong);
    }
    let unknown = |setup: &Setup| {
        let known = settings(setup);
        let known: Vec<&str> = known.iter().map(|it| it.parameter.as_str()).collect();
        KnobError::Unknown {
            name: parameter.clone(),
            hint: nearest(parameter, &known),
        }
    };
    let (path, knob) = path_knob(setup, parameter).ok_or_else(|| unknown(setup))?;
    let directions = setup.directions.iter_mut();
    for direction in directions.filter(|it| path_of(&it.name) == path) {
        (knob.set)(direction, value).map_err(wrong)?;
    }
    Ok(())
}

/// All knobs, as they are set.
#[must_use]
pub fn settings(setup: &Setup) -> Vec<Setting> {
    let knobs = KNOBS.iter();
    let of_hosts = knobs.filter_map(|knob| Some(Setting::new(knob.name, (knob.get)(setup)?)));
    let paths = paths(setup);
    let of_paths = paths.iter().flat_map(|(path, direction)| {
        let each = PATH_KNOBS.iter();
        each.map(move |knob| Setting::new(&named(path, knob), (knob.get)(direction)))
    });
    of_hosts.chain(of_paths).collect()
}

/// Every change that is worth a try.
#[must_use]
pub fn tries(setup: &Setup) -> Vec<Vec<Setting>> {
    let of_hosts = KNOBS.iter().filter(|knob| (knob.get)(setup).is_some());
    let mut tries: Vec<Vec<Setting>> = of_hosts.flat_map(|knob| (knob.tries)(setup)).collect();
    for (path, direction) in paths(setup) {
        for knob in &PATH_KNOBS {
            let values = (knob.tries)(setup, direction).into_iter();
            tries.extend(values.map(|value| vec![Setting::new(&named(&path, knob), value)]));
        }
    }
    tries
}

/// The path of a direction's name: what stands before `:forward` or `:back`.
fn path_of(direction: &str) -> &str {
    direction.split(':').next().unwrap_or(direction)
}

fn named(path: &str, knob: &PathKnob) -> String {
    format!("path.{path}.{}", knob.name)
}

/// The paths, each with the direction that loses most, or else has the least rate.
fn paths(setup: &Setup) -> Vec<(String, &Direction)> {
    let mut paths: Vec<(String, &Direction)> = Vec::new();
    for direction in &setup.directions {
        let path = path_of(&direction.name);
        let rate = |it: &Direction| it.rate_bits_per_s.unwrap_or(u64::MAX);
        match paths.iter_mut().find(|(known, _)| known == path) {
            Some((_, known)) => {
                let loses_more = direction.loss_share > known.loss_share;
                let is_slower = direction.loss_share == known.loss_share && rate(direction) < rate(known);
                if loses_more || is_slower {
                    *known = direction;
                }
            }
            None => paths.push((path.to_owned(), direction)),
        }
    }
    paths
}

/// The path and the knob of a name; the path's may be left out when it is the only one.
fn path_knob(setup: &Setup, name: &str) -> Option<(String, &'static PathKnob)> {
    let rest = name.strip_prefix("path.")?;
    let paths = paths(setup);
    let (path, key) = match (rest.rsplit_once('.'), &paths[..]) {
        (Some(named), _) => named,
        (None, [(only, _)]) => (only.as_str(), rest),
        _ => return None,
    };
    let knob = PATH_KNOBS.iter().find(|knob| knob.name == key)?;
    let is_known = paths.iter().any(|(known, _)| known == path);
    is_known.then(|| (path.to_owned(), knob))
}

fn each_session(setup: &mut Setup, change: impl FnMut(&mut crate::setup::Initiator)) {
    setup.initiators.iter_mut().for_each(change);
}

fn each_end(setup: &mut Setup, change: impl FnMut(&mut End)) {
    setup.connections_mut().flat_map(|it| &mut it.ends).for_each(change);
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
    setup.initiators.iter().any(|it| it.load.operation != Operation::Read)
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
    let blocks = setup.initiators.iter().map(|it| u64::from(it.load.block_bytes));
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
    setup.connections_mut().for_each(|it| it.ends[end].quick_ack = quick);
    Ok(())
}

fn try_quick(setup: &Setup, end: usize, name: &str) -> Vec<Vec<Setting>> {
    match setup.first_connection().ends[end].quick_ack {
        true => Vec::new(),
        false => vec![vec![Setting::new(name, "quick")]],
    }
}

fn bound_of(limit: Limit) -> QueueBound {
    match limit.bytes {
        u64::MAX => QueueBound::Packets(u32::try_from(limit.packets).unwrap_or(u32::MAX)),
        bytes => QueueBound::Bytes(bytes),
    }
}

/// A change for each of the values that is another than now, each once.
fn one_each<T: Display + PartialEq, const N: usize>(
    name: &str,
    values: [T; N],
    now: T,
) -> Vec<Vec<Setting>> {
    let mut tries: Vec<Vec<Setting>> = Vec::new();
    for value in values.into_iter().filter(|value| *value != now) {
        let one = vec![Setting::new(name, value)];
        if !tries.contains(&one) {
            tries.push(one);
        }
    }
    tries
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.trim().parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("`{text}` is no number from {least} to {most}"))
}

fn size(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let bytes = Size::from_str(text)?.0;
    match (least..=most).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("{text} is not from {} to {}", Size(least), Size(most))),
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err(format!("`{text}` is neither `yes` nor `no`")),
    }
}
