//! The knobs of paths, each for both directions.

use std::str::FromStr;

use wansan_path::{Change, Limit};
use wansan_settings::quantity::{QueueBound, Rate, Share};

use crate::loss::LossShare;
use crate::setup::{Direction, Setup};

/// A knob for both directions of a path, named `path.NAME.` followed by `name`.
pub(super) struct PathKnob {
    name: &'static str,
    pub(super) get: fn(&Direction) -> String,
    pub(super) set: fn(&mut Direction, &str) -> Result<(), String>,
    /// Values worth trying.
    pub(super) tries: fn(&Setup, &Direction) -> Vec<String>,
}

/// The knobs of paths.
pub(super) static PATH_KNOBS: [PathKnob; 3] = [
    PathKnob {
        name: "rate",
        get: |direction| Rate(direction.rate_bits_per_s).to_string(),
        set: |direction, text| {
            direction.rate_bits_per_s = Rate::from_str(text)?.0;
            let changes = &mut direction.changes;
            changes.retain(|(_, change)| !matches!(change, Change::Rate(_)));
            Ok(())
        },
        tries: |_, direction| {
            let doubled = direction
                .rate_bits_per_s
                .and_then(|rate| rate.checked_mul(2));
            doubled
                .map(|rate| Rate(Some(rate)).to_string())
                .into_iter()
                .collect()
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
            let changes = &mut direction.changes;
            changes.retain(|(_, change)| !matches!(change, Change::QueueLimit(_)));
            Ok(())
        },
        tries: |setup, direction| {
            let path = path_of(&direction.name);
            let own = setup
                .directions
                .iter()
                .filter(|it| path_of(&it.name) == path);
            let round_trip: u128 = own.map(|it| it.delay.as_nanos()).sum();
            let Some(rate) = direction.rate_bits_per_s else {
                return Vec::new();
            };
            // Bandwidth-delay product, rounded up to whole KiB.
            let bytes = u128::from(rate) * round_trip / 8_000_000_000;
            let product = u64::try_from(bytes)
                .unwrap_or(u64::MAX)
                .next_multiple_of(1024)
                .max(4096);
            let now = direction.queue.bytes;
            let mut bounds = vec![product];
            bounds.extend((now < 1 << 32).then(|| 2 * now));
            bounds.dedup();
            bounds.retain(|bytes| *bytes != now);
            bounds
                .into_iter()
                .map(|bytes| QueueBound::Bytes(bytes).to_string())
                .collect()
        },
    },
    PathKnob {
        name: "loss",
        get: |direction| Share(direction.loss_share.estimate()).to_string(),
        set: |direction, text| {
            let Share(share) = Share::from_str(text)?;
            direction.loss_share = LossShare::Set(share);
            direction.loss = direction.loss_share.model();
            Ok(())
        },
        tries: |_, direction| match direction.loss_share.estimate() {
            0.0 => Vec::new(),
            _ => vec![Share(0.0).to_string()],
        },
    },
];

/// The path of a direction: the part of its name before `:forward` or `:back`.
pub(super) fn path_of(direction: &str) -> &str {
    direction.split(':').next().unwrap_or(direction)
}

/// The name of a path's knob.
pub(super) fn named(path: &str, knob: &PathKnob) -> String {
    format!("path.{path}.{}", knob.name)
}

/// The paths, each with the direction that has the highest loss, or else the lowest rate.
pub(super) fn paths(setup: &Setup) -> Vec<(String, &Direction)> {
    let mut paths: Vec<(String, &Direction)> = Vec::new();
    for direction in &setup.directions {
        let path = path_of(&direction.name);
        let rate = |it: &Direction| it.rate_bits_per_s.unwrap_or(u64::MAX);
        match paths.iter_mut().find(|(known, _)| known == path) {
            Some((_, known)) => {
                let [loss, most] = [direction, *known].map(|it| it.loss_share.estimate());
                let is_slower = loss == most && rate(direction) < rate(known);
                if loss > most || is_slower {
                    *known = direction;
                }
            }
            None => paths.push((path.to_owned(), direction)),
        }
    }
    paths
}

/// The path and the knob for a name; a path's name may be omitted if it is the only one.
pub(super) fn path_knob(setup: &Setup, name: &str) -> Option<(String, &'static PathKnob)> {
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

fn bound_of(limit: Limit) -> QueueBound {
    match limit.bytes {
        u64::MAX => QueueBound::Packets(u32::try_from(limit.packets).unwrap_or(u32::MAX)),
        bytes => QueueBound::Bytes(bytes),
    }
}
