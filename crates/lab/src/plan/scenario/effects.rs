//! Effects of a path on packets in one direction.

use std::path::Path;
use std::time::Duration;

use wansan_mistake::nearest;
use wansan_path::{
    Capacity, CoDelParameters, Discipline, Distribution, Effects, EffectsError, GilbertElliott,
    Jitter, Limit, Listed, LossModel, Priority, Probability, Rate, RedParameters, Unit,
};
use wansan_trace::units::format_duration;

use super::listing;
use crate::plan::document::{self, EffectsTable, JitterTable, LossTable, QueueTable, TextOr};
use crate::plan::quantity::{QueueBound, Share, Span};

/// Longest delay, and longest time that reordering holds a packet.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Largest overhead per packet, in bytes.
const MAX_OVERHEAD_BYTES: u64 = 1024;
/// Length of the Ethernet header, which counts on a path.
const ETHERNET_HEADER_BYTES: u32 = 14;
/// Default queue capacity.
const QUEUE_BYTES: u64 = 1 << 20;

/// One direction of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// Effects on packets.
    pub effects: Effects,
    /// Overhead per packet beyond its Ethernet frame, in bytes.
    pub overhead_bytes: u32,
    /// With a priority queue, indices of `[[route]]`s in order of priority; packets of no listed route come last.
    pub priorities: Vec<usize>,
}

impl Direction {
    /// The class of a packet of the `[[route]]` with that index, or of none; 0 has the highest priority.
    #[must_use]
    pub fn class_of(&self, route: Option<usize>) -> u8 {
        let mut places = self.priorities.iter();
        let place = places.position(|place| Some(*place) == route);
        place.unwrap_or(self.priorities.len()) as u8
    }
}

/// The context of a plan's effects.
pub(super) struct Surroundings<'a> {
    /// The folder of files.
    pub(super) folder: &'a Path,
    /// The longest IP packet.
    pub(super) mtu_bytes: u32,
    /// The names of the `[[route]]`s.
    pub(super) routes: Vec<&'a str>,
}

/// A key, and the mistake in its value.
pub(super) type Wrong = (&'static str, String);

impl Surroundings<'_> {
    pub(super) fn resolve(&self, table: &EffectsTable) -> Result<Direction, Wrong> {
        let overhead_bytes = overhead(table).map_err(|wrong| ("overhead", wrong))?;
        let mut direction = Direction {
            effects: Effects::default(),
            overhead_bytes,
            priorities: Vec::new(),
        };
        self.queue(table, &mut direction)
            .map_err(|wrong| ("queue", wrong))?;
        let effects = &mut direction.effects;
        effects.delay = within("delay", table.delay)?;
        if let Some(reorder) = table.reorder {
            effects.reorder_by = within("reorder", Some(reorder.by))?;
            effects.reorder_share = probability(reorder.share);
        }
        if let Some(jitter) = &table.jitter {
            let jitter = self.jitter(jitter).map_err(|wrong| ("jitter", wrong))?;
            effects.jitter = Some(jitter);
        }
        match &table.rate {
            None => {}
            Some(TextOr::Text(rate)) => {
                let rate = rate.0.map(|bits_per_s| {
                    Rate::from_bits_per_s(bits_per_s).expect("no plan has rate 0")
                });
                effects.capacity = rate.map_or(Capacity::Unlimited, Capacity::from);
            }
            Some(TextOr::Table(trace)) => {
                let trace =
                    listing::rates(self.folder, &trace.file).map_err(|wrong| ("rate", wrong))?;
                effects.capacity = Capacity::Trace(trace);
            }
        }
        if let Some(loss) = &table.loss {
            effects.loss = self::loss(loss).map_err(|wrong| ("loss", wrong))?;
        }
        effects.duplicate = table.duplicate.map_or(Probability::NEVER, probability);
        effects.corrupt = table.corrupt.map_or(Probability::NEVER, probability);
        effects.mark = table.mark.map_or(Probability::NEVER, probability);
        effects.chain::<()>(0).map_err(|error| {
            let key = match error {
                EffectsError::Jitter(_) => "jitter",
                EffectsError::Red(_) | EffectsError::CoDel(_) => "queue",
            };
            (key, error.to_string())
        })?;
        Ok(direction)
    }

    fn jitter(&self, jitter: &document::Jitter) -> Result<Jitter, String> {
        let (distribution, overtaking) = match jitter {
            TextOr::Text(spread) => (Distribution::Uniform { spread: spread.0 }, false),
            TextOr::Table(JitterTable::Uniform { spread, reorder }) => {
                (Distribution::Uniform { spread: spread.0 }, *reorder)
            }
            TextOr::Table(JitterTable::Normal { deviation, reorder }) => {
                let deviation = short(deviation.0)?;
                (Distribution::Normal { deviation }, *reorder)
            }
            TextOr::Table(JitterTable::File { file, reorder }) => {
                let quantiles = listing::quantiles(self.folder, file)?;
                (Distribution::Empirical(quantiles), *reorder)
            }
        };
        Ok(Jitter {
            distribution,
            overtaking,
        })
    }

    fn queue(&self, table: &EffectsTable, direction: &mut Direction) -> Result<(), String> {
        let default = TextOr::Text(QueueBound::Bytes(QUEUE_BYTES));
        let queue = table.queue.as_ref().unwrap_or(&default);
        let (bound, discipline) = match queue {
            TextOr::Text(bound) => (*bound, Discipline::DropTail),
            TextOr::Table(QueueTable::DropTail { limit }) => (*limit, Discipline::DropTail),
            TextOr::Table(QueueTable::Red {
                limit,
                min,
                max,
                probability,
                weight,
                packet,
                gentle,
                ecn,
            }) => {
                let (unit, min_threshold, max_threshold) = thresholds(*min, *max)?;
                let parameters = RedParameters {
                    unit,
                    min_threshold,
                    max_threshold,
                    max_probability: probability.0,
                    weight: *weight,
                    packet_bytes: u32::try_from(packet.0).unwrap_or(u32::MAX),
                    gentle: *gentle,
                    ecn: *ecn,
                };
                (*limit, Discipline::Red(parameters))
            }
            TextOr::Table(QueueTable::CoDel {
                limit,
                target,
                interval,
                ecn,
            }) => {
                let parameters = CoDelParameters {
                    target: target.0,
                    interval: short(interval.0)?,
                    largest_packet_bytes: self.mtu_bytes
                        + ETHERNET_HEADER_BYTES
                        + direction.overhead_bytes,
                    ecn: *ecn,
                };
                (*limit, Discipline::CoDel(parameters))
            }
            TextOr::Table(QueueTable::Priority { limit, routes }) => {
                direction.priorities = self.priorities(routes)?;
                // One more class for packets of no listed route.
                (*limit, Discipline::Priority(routes.len() as u8 + 1))
            }
        };
        direction.effects.queue_limit = match bound {
            QueueBound::Bytes(bytes) => Limit::bytes(bytes),
            QueueBound::Packets(packets) => Limit::packets(u64::from(packets)),
        };
        direction.effects.discipline = discipline;
        Ok(())
    }

    fn priorities(&self, routes: &[String]) -> Result<Vec<usize>, String> {
        let most = usize::from(Priority::<()>::MAX_CLASSES) - 1;
        if routes.is_empty() || routes.len() > most {
            let count = routes.len();
            return Err(format!(
                "`routes` has {count} names: 1 to {most} take priority"
            ));
        }
        let mut places = Vec::with_capacity(routes.len());
        for name in routes {
            let place = self.routes.iter().position(|route| route == name);
            let place = place.ok_or_else(|| {
                let near = nearest(name, &self.routes);
                format!("no [[route]] is named `{name}`; {near}")
            })?;
            if places.contains(&place) {
                return Err(format!("`routes` names `{name}` twice"));
            }
            places.push(place);
        }
        Ok(places)
    }
}

/// Largest packet number: TOML's largest integer.
const MAX_LISTED: u64 = i64::MAX as u64;

fn overhead(table: &EffectsTable) -> Result<u32, String> {
    let bytes = table.overhead.map_or(0, |size| size.0);
    if bytes > MAX_OVERHEAD_BYTES {
        return Err(format!("{bytes}B are more than {MAX_OVERHEAD_BYTES}B"));
    }
    Ok(bytes as u32)
}

fn within(key: &'static str, time: Option<Span>) -> Result<Duration, Wrong> {
    short(time.map_or(Duration::ZERO, |time| time.0)).map_err(|wrong| (key, wrong))
}

fn short(time: Duration) -> Result<Duration, String> {
    if time > MAX_DELAY {
        return Err(format!("{} is more than 60s", format_duration(time)));
    }
    Ok(time)
}

fn probability(share: Share) -> Probability {
    Probability::new(share.0).expect("a share is from 0 to 1")
}

fn thresholds(min: QueueBound, max: QueueBound) -> Result<(Unit, f64, f64), String> {
    match (min, max) {
        (QueueBound::Packets(min), QueueBound::Packets(max)) => {
            Ok((Unit::Packets, f64::from(min), f64::from(max)))
        }
        (QueueBound::Bytes(min), QueueBound::Bytes(max)) => {
            Ok((Unit::Bytes, min as f64, max as f64))
        }
        _ => Err(format!(
            "min = {min} and max = {max}: both in bytes, or both in packets"
        )),
    }
}

fn loss(loss: &document::Loss) -> Result<LossModel, String> {
    let table = match loss {
        TextOr::Text(share) => return Ok(LossModel::Bernoulli(probability(*share))),
        TextOr::Table(table) => table,
    };
    match table {
        LossTable {
            packets: Some(packets),
            kind: None,
            p: None,
            r: None,
            good: None,
            bad: None,
        } => {
            if let Some(packet) = packets.iter().find(|packet| **packet > MAX_LISTED) {
                return Err(format!("`packets`: {packet} is more than {MAX_LISTED}"));
            }
            Listed::new(packets.clone())
                .map(LossModel::Listed)
                .map_err(|error| error.to_string())
        }
        LossTable {
            packets: None,
            kind: Some(document::LossKind::GilbertElliott),
            p: Some(p),
            r: Some(r),
            good,
            bad,
        } => {
            let good = good.map_or(0.0, |share| share.0);
            let bad = bad.map_or(1.0, |share| share.0);
            GilbertElliott::new(p.0, r.0, good, bad)
                .map(LossModel::GilbertElliott)
                .map_err(|error| error.to_string())
        }
        _ => Err(
            "write `{ packets = [10, 11] }`, or `{ kind = \"gilbert-elliott\", p = \"1%\", \
                  r = \"30%\" }` (and `good` and `bad`)"
                .to_owned(),
        ),
    }
}
