//! The summary of a cell's ledger.

use foldhash::HashMap;
use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wansan_schema::{WaitCause, WaitSum};
use wansan_trace::{Layer, SessionId};

use super::sampling::Spread;
use super::{Ledger, Source, Wait, latency_ns};
use crate::cause::{Cause, Limit};
use crate::traffic::FlowDirection;

/// The waits of one cause at one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseSum {
    /// The cause.
    pub cause: Cause,
    /// The layer that the I/Os were in.
    pub layer: Layer,
    /// The direction of the bytes that waited; `None` while a program or the store had them.
    pub way: Option<FlowDirection>,
    /// What it is derived from.
    pub source: Source,
    /// Mean length over all I/Os, in ns.
    pub mean_ns: f64,
    /// How much of that may belong to adjacent waits, in ns.
    pub uncertain_ns: f64,
}

/// What the I/Os of a cell waited for. Lengths are means over the I/Os, in ns; they add up to the
/// latency.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitUse {
    /// Completed I/Os with all crossings recorded.
    pub ios: u64,
    /// Their mean latency.
    pub latency_ns: f64,
    /// The waits, from the top layer down and by cause.
    pub sums: Vec<CauseSum>,
    /// If a sample of the I/Os was recorded, half of the 95 % confidence interval of each cause's share of the latency.
    pub uncertain_shares: Vec<(Cause, f64)>,
    /// The same of the mean latency, in ns; 0 if all I/Os were recorded.
    pub latency_uncertain_ns: f64,
}

impl CauseSum {
    /// Whether this is not a wait, but the path's time for the I/O's own bytes.
    #[must_use]
    pub fn is_crossing(&self) -> bool {
        [Cause::Propagation, Cause::Transmission].contains(&self.cause)
    }
}

impl WaitUse {
    /// Summed over all I/Os of a ledger.
    #[must_use]
    pub fn of(ledger: &Ledger<'_>) -> WaitUse {
        let mut adding = Adding::of(ledger);
        ledger.each(|_, waits| adding.add(latency_ns(waits), waits));
        adding.finish()
    }

    /// Summed over the I/Os of each session.
    #[must_use]
    pub fn by_session(ledger: &Ledger<'_>) -> BTreeMap<SessionId, WaitUse> {
        let mut sessions: BTreeMap<SessionId, Adding> = BTreeMap::new();
        ledger.each(|task, waits| {
            let adding = sessions.entry(task.session);
            let adding = adding.or_insert_with(|| Adding::of(ledger));
            adding.add(latency_ns(waits), waits);
        });
        let finished = sessions.into_iter();
        finished
            .map(|(session, adding)| (session, adding.finish()))
            .collect()
    }

    /// In the form that results have.
    #[must_use]
    pub fn result(&self) -> wansan_schema::WaitUse {
        let causes = Cause::ALL.into_iter().map(|cause| {
            let mean_ns = self.mean_ns(cause);
            let share = mean_ns / self.latency_ns.max(1.0);
            let share_uncertain = self.cause_uncertain(cause);
            let waits = WaitCause {
                mean_ns,
                share,
                share_uncertain,
            };
            (cause.name().to_owned(), waits)
        });
        let sums = self.sums.iter().map(|sum| WaitSum {
            cause: sum.cause.name().to_owned(),
            layer: sum.layer.name().to_owned(),
            way: sum.way.map(|way| way.name().to_owned()),
            source: sum.source.name().to_owned(),
            mean_ns: sum.mean_ns,
            uncertain_ns: sum.uncertain_ns,
        });
        wansan_schema::WaitUse {
            ios: self.ios,
            latency_ns: self.latency_ns,
            latency_uncertain_ns: self.latency_uncertain_ns,
            uncertain_ns: self
                .sums
                .iter()
                .fold(0.0, |all_ns, sum| all_ns + sum.uncertain_ns),
            causes: causes.collect(),
            sums: sums.collect(),
        }
    }

    /// The mean length of the waits with that cause.
    #[must_use]
    pub fn mean_ns(&self, cause: Cause) -> f64 {
        self.sum_ns(|sum| sum.cause == cause)
    }

    /// The same, of waits that PDUs or packets show.
    #[must_use]
    pub fn shown_ns(&self, cause: Cause) -> f64 {
        let is_shown = |sum: &CauseSum| [Source::Pdus, Source::Packets].contains(&sum.source);
        self.sum_ns(|sum| sum.cause == cause && is_shown(sum))
    }

    /// The share of the latency that `limit` accounts for, 0 to 1.
    #[must_use]
    pub fn share(&self, limit: Limit) -> f64 {
        let causes = Cause::ALL
            .into_iter()
            .filter(|cause| cause.limit() == limit);
        causes.map(|cause| self.mean_ns(cause)).sum::<f64>() / self.latency_ns.max(1.0)
    }

    /// Half of the 95 % confidence interval of [`WaitUse::share`], or more; 0 if all I/Os were recorded.
    #[must_use]
    pub fn share_uncertain(&self, limit: Limit) -> f64 {
        let causes = Cause::ALL
            .into_iter()
            .filter(|cause| cause.limit() == limit);
        // The error of a sum is at most the sum of the errors.
        let chosen = causes.fold(0.0, |all, cause| all + self.cause_uncertain(cause));
        // What crosses the path waits for the limit when it is not propagating, and the shortest I/O may not be recorded.
        let is_crossed = |sum: &&CauseSum| sum.cause.limit() == limit && sum.way.is_some();
        let propagation = self
            .sums
            .iter()
            .filter(|sum| sum.cause == Cause::Propagation);
        let is_sampled = !self.uncertain_shares.is_empty();
        let unseen_ns = match is_sampled && self.sums.iter().any(|sum| is_crossed(&sum)) {
            true => propagation.fold(0.0, |all_ns, sum| all_ns + sum.uncertain_ns),
            false => 0.0,
        };
        (chosen + unseen_ns / self.latency_ns.max(1.0)).min(1.0)
    }

    /// The same of one cause's share.
    #[must_use]
    pub fn cause_uncertain(&self, cause: Cause) -> f64 {
        let mut all = self.uncertain_shares.iter();
        all.find(|(of, _)| *of == cause)
            .map_or(0.0, |(_, half)| *half)
    }

    fn sum_ns(&self, of: impl Fn(&CauseSum) -> bool) -> f64 {
        let lengths = self.sums.iter().filter(|sum| of(sum));
        // The sum of an empty iterator of floating-point numbers is -0.0.
        lengths.fold(0.0, |all_ns, sum| all_ns + sum.mean_ns)
    }
}

/// In the form of [`WaitUse::result`].
impl Serialize for WaitUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.result().serialize(serializer)
    }
}

/// In the form of [`WaitUse::result`].
impl<'de> Deserialize<'de> for WaitUse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WaitUse, D::Error> {
        let result = wansan_schema::WaitUse::deserialize(deserializer)?;
        let unknown = || D::Error::custom("a wait of an unknown cause, layer, way or source");
        let sum = |sum: &WaitSum| {
            Some(CauseSum {
                cause: Cause::by_name(&sum.cause)?,
                layer: Layer::from_name(&sum.layer)?,
                way: match &sum.way {
                    Some(way) => Some(FlowDirection::by_name(way)?),
                    None => None,
                },
                source: Source::by_name(&sum.source)?,
                mean_ns: sum.mean_ns,
                uncertain_ns: sum.uncertain_ns,
            })
        };
        let sums = result.sums.iter().map(|it| sum(it).ok_or_else(unknown));
        Ok(WaitUse {
            ios: result.ios,
            latency_ns: result.latency_ns,
            latency_uncertain_ns: result.latency_uncertain_ns,
            sums: sums.collect::<Result<_, _>>()?,
            uncertain_shares: { result.causes.iter() }
                .filter(|(_, waits)| waits.share_uncertain > 0.0)
                .map(|(name, waits)| {
                    let cause = Cause::by_name(name).ok_or_else(unknown)?;
                    Ok((cause, waits.share_uncertain))
                })
                .collect::<Result<_, _>>()?,
        })
    }
}

/// What is summed separately: the waits at a layer, in a direction, with a cause from one source.
type Key = (Layer, Option<FlowDirection>, Cause, Source);

/// Sums over accounts.
#[derive(Default)]
pub(super) struct Adding {
    ios: u64,
    latency_ns: u128,
    /// Total length, and how much of it is uncertain, in ns.
    sums: Vec<(Key, (u128, u128))>,
    /// The index of each key in `sums`.
    places: HashMap<Key, usize>,
    /// If the accounts are of a sample of the I/Os.
    spread: Option<Box<Spread>>,
}

impl Adding {
    /// Nothing yet of a ledger's I/Os.
    fn of(ledger: &Ledger<'_>) -> Adding {
        Adding {
            spread: Spread::of(&ledger.cell.joined),
            ..Adding::default()
        }
    }

    /// Adds an account with that latency.
    pub(super) fn add(&mut self, latency_ns: u64, waits: &[Wait]) {
        self.ios += 1;
        self.latency_ns += u128::from(latency_ns);
        if let Some(spread) = &mut self.spread {
            spread.add(latency_ns, waits);
        }
        let mut all_ns = 0;
        // Most I/Os have the same waits in the same order.
        let mut likely = 0;
        for wait in waits {
            let key = (wait.layer, wait.way, wait.cause, wait.source);
            let place = match self.sums.get(likely) {
                Some((known, _)) if *known == key => likely,
                _ => self.place(key),
            };
            likely = place + 1;
            let (_, (length_ns, uncertain_ns)) = &mut self.sums[place];
            *length_ns += u128::from(wait.length_ns());
            *uncertain_ns += u128::from(wait.uncertain_ns);
            all_ns += wait.length_ns();
        }
        assert_eq!(all_ns, latency_ns, "each moment of a latency has one cause");
    }

    fn place(&mut self, key: Key) -> usize {
        *self.places.entry(key).or_insert_with(|| {
            self.sums.push((key, Default::default()));
            self.sums.len() - 1
        })
    }

    pub(super) fn finish(self) -> WaitUse {
        let mean = |sum_ns: u128| sum_ns as f64 / self.ios.max(1) as f64;
        let spread = self.spread.as_ref();
        let latency_uncertain_ns = spread.map_or(0.0, |spread| spread.latency_uncertain_ns());
        let uncertain_shares = spread.map_or_else(Vec::new, |spread| spread.uncertain_shares());
        let sums: BTreeMap<Key, (u128, u128)> = self.sums.into_iter().collect();
        let sums =
            sums.into_iter()
                .map(
                    |((layer, way, cause, source), (length_ns, uncertain_ns))| CauseSum {
                        cause,
                        layer,
                        way,
                        source,
                        mean_ns: mean(length_ns),
                        uncertain_ns: mean(uncertain_ns),
                    },
                );
        WaitUse {
            ios: self.ios,
            latency_ns: mean(self.latency_ns),
            sums: sums.collect(),
            uncertain_shares,
            latency_uncertain_ns,
        }
    }
}
