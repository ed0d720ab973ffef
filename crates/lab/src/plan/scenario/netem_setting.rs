//! netem's parameters for a direction of a path.

use std::fmt;
use std::time::Duration;

use wansan_path::{Capacity, Discipline, Distribution, Effects, LossModel, Probability, Rate};
use wansan_trace::time::duration_ns;
use wansan_trace::units::{format_bytes, format_duration};

use super::Direction;

/// Length of the Ethernet header, which counts for the rate.
const ETHERNET_HEADER_BYTES: u32 = 14;
/// netem's limit if a plan sets none: without a rate nothing queues.
const NO_LIMIT_PACKETS: u32 = 1 << 20;
/// netem stores jitter in 31 bits of nanoseconds.
const MAX_JITTER: Duration = Duration::from_nanos(i32::MAX as u64);

/// netem's parameters for one direction. Displays as the text after `netem` in a command of tc(8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetemSetting {
    limit_packets: u32,
    /// All parameters but the limit.
    effects: Vec<String>,
}

/// A path's effect that netem does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inexpressible {
    /// The key of `[[path]]`.
    pub key: &'static str,
    /// The reason, and an alternative.
    pub what: String,
}

impl NetemSetting {
    /// The parameters for that direction of a path with packets of at most `mtu_bytes`.
    ///
    /// # Errors
    /// [`Inexpressible`] if netem would deviate from the plan.
    pub fn of(direction: &Direction, mtu_bytes: u32) -> Result<NetemSetting, Inexpressible> {
        let effects = &direction.effects;
        let frame_bytes = mtu_bytes + ETHERNET_HEADER_BYTES + direction.overhead_bytes;
        let rate = match &effects.capacity {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(*rate),
            Capacity::Trace(_) => return no("rate", "netem's rate does not change"),
        };
        let mut setting = NetemSetting {
            limit_packets: limit(effects, rate, frame_bytes)?,
            effects: delay(effects, rate.is_some())?,
        };
        let mut add = |text: String| setting.effects.push(text);
        match &effects.loss {
            LossModel::Bernoulli(loss) if *loss == Probability::NEVER => {}
            LossModel::Bernoulli(loss) => add(format!("loss random {}", percent(*loss))),
            LossModel::GilbertElliott(channel) => {
                // tc's arguments are 1 − h and 1 − k: the loss in the bad and in the good state.
                let [p, r, good, bad] = channel.parameters().map(percent);
                add(format!("loss gemodel {p} {r} {bad} {good}"));
            }
            LossModel::Listed(_) => return no("loss", "netem does not number packets"),
        }
        for (name, share) in [
            ("duplicate", effects.duplicate),
            ("corrupt", effects.corrupt),
        ] {
            if share != Probability::NEVER {
                add(format!("{name} {}", percent(share)));
            }
        }
        if effects.mark != Probability::NEVER {
            return no("mark", "netem marks only packets that it would lose");
        }
        if let Some(rate) = rate {
            let overhead = match direction.overhead_bytes {
                0 => String::new(),
                bytes => format!(" {bytes}"),
            };
            add(format!("rate {}bit{overhead}", rate.bits_per_s()));
        }
        Ok(setting)
    }

    /// The same with this random seed.
    pub(crate) fn seeded(mut self, seed: Option<u64>) -> NetemSetting {
        self.effects.extend(seed.map(|seed| format!("seed {seed}")));
        self
    }

    /// Most packets that netem holds, including those on the delay line.
    #[must_use]
    pub const fn limit_packets(&self) -> u32 {
        self.limit_packets
    }
}

impl fmt::Display for NetemSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}", self.limit_packets)?;
        self.effects
            .iter()
            .try_for_each(|part| write!(f, " {part}"))
    }
}

fn no<T>(key: &'static str, what: impl Into<String>) -> Result<T, Inexpressible> {
    let what = what.into();
    Err(Inexpressible { key, what })
}

/// The queue, the packet being sent, and as many of the longest packets as the delay line holds at that rate.
fn limit(effects: &Effects, rate: Option<Rate>, frame_bytes: u32) -> Result<u32, Inexpressible> {
    match effects.discipline {
        Discipline::DropTail => {}
        Discipline::Red(_) => return no("queue", "netem has no RED"),
        Discipline::CoDel(_) => return no("queue", "netem has no CoDel"),
        Discipline::Priority(_) => return no("queue", "netem has no priorities"),
    }
    let Some(rate) = rate else {
        return Ok(NO_LIMIT_PACKETS);
    };
    let waiting = effects.queue_limit;
    if waiting.bytes != u64::MAX {
        let packets = (waiting.bytes / u64::from(frame_bytes)).max(1);
        let bytes = format_bytes(waiting.bytes);
        let what = format!(
            "netem counts packets, and {bytes} are bytes: write `queue = \"{packets}packets\"`"
        );
        return no("queue", what);
    }
    let nanobits = u128::from(rate.bits_per_s()) * u128::from(duration_ns(effects.delay));
    let on_line = nanobits.div_ceil(8_000_000_000 * u128::from(frame_bytes));
    let limit = u128::from(waiting.packets) + 1 + on_line;
    u32::try_from(limit).or_else(|_| no("queue", format!("netem cannot hold {limit} packets")))
}

/// Delay, jitter and reordering, which netem implements by the delay.
fn delay(effects: &Effects, has_rate: bool) -> Result<Vec<String>, Inexpressible> {
    // tc has no shorter unit, but accepts fractions.
    let us = |time: Duration| format!("{}us", duration_ns(time) as f64 / 1e3);
    let reorders =
        effects.reorder_share != Probability::NEVER && effects.reorder_by > Duration::ZERO;
    if reorders {
        if effects.delay > Duration::ZERO || effects.jitter.is_some() || has_rate {
            return no(
                "reorder",
                "netem holds packets back only on a path without delay, jitter and rate",
            );
        }
        // netem reorders by sending some packets without delay.
        let at_once = 1.0 - effects.reorder_share.value();
        let at_once = Probability::new(at_once).expect("a share less than 1");
        return Ok(vec![format!(
            "delay {} reorder {}",
            us(effects.reorder_by),
            percent(at_once)
        )]);
    }
    let Some(jitter) = &effects.jitter else {
        return Ok(match effects.delay {
            Duration::ZERO => Vec::new(),
            delay => vec![format!("delay {}", us(delay))],
        });
    };
    let (deviation, distribution) = match &jitter.distribution {
        Distribution::Uniform { spread } => (*spread, ""),
        Distribution::Normal { deviation } => (*deviation, " distribution normal"),
        Distribution::Empirical(_) => {
            return no("jitter", "netem takes no quantiles from a plan's file");
        }
    };
    if deviation > MAX_JITTER {
        let longest = format_duration(MAX_JITTER);
        return no("jitter", format!("netem's is {longest} at most"));
    }
    match (jitter.overtaking, has_rate) {
        (false, false) => no(
            "jitter",
            "netem lets packets overtake on a path without a rate: write `reorder = true` in a \
             table, or a `rate`",
        ),
        (true, true) => no(
            "jitter",
            "netem keeps packets in order on a path with a rate: leave `reorder = true` out",
        ),
        _ => Ok(vec![format!(
            "delay {} {}{distribution}",
            us(effects.delay),
            us(deviation)
        )]),
    }
}

/// In tc's format, with more digits than netem's 32 bits.
fn percent(probability: Probability) -> String {
    let text = format!("{:.8}", probability.value() * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_path::{GilbertElliott, Jitter, Limit, Listed};

    fn share(value: f64) -> Probability {
        Probability::new(value).unwrap()
    }

    fn rate(bits_per_s: u64) -> Capacity {
        Rate::from_bits_per_s(bits_per_s).unwrap().into()
    }

    fn told(effects: Effects) -> Result<String, &'static str> {
        let direction = Direction {
            effects,
            overhead_bytes: 24,
            priorities: Vec::new(),
        };
        let setting = NetemSetting::of(&direction, 1500);
        setting.map(|s| s.to_string()).map_err(|wrong| wrong.key)
    }

    fn jitter(distribution: Distribution, overtaking: bool) -> Option<Jitter> {
        Some(Jitter {
            distribution,
            overtaking,
        })
    }

    const SPREAD: Distribution = Distribution::Uniform {
        spread: Duration::from_millis(1),
    };

    #[test]
    fn effects_are_told_as_tc_takes_them() {
        let ms = Duration::from_millis;
        let cases = [
            (Effects::default(), "limit 1048576"),
            (
                Effects {
                    delay: ms(10),
                    capacity: rate(10_000_000),
                    queue_limit: Limit::packets(100),
                    loss: LossModel::Bernoulli(share(0.001)),
                    ..Effects::default()
                },
                // 12500 bytes in transit are nine frames of 1538 bytes.
                "limit 110 delay 10000us loss random 0.1% rate 10000000bit 24",
            ),
            (
                Effects {
                    delay: ms(10),
                    jitter: jitter(SPREAD, true),
                    loss: LossModel::GilbertElliott(
                        GilbertElliott::new(0.01, 0.3, 0.0, 1.0).unwrap(),
                    ),
                    duplicate: share(0.5),
                    corrupt: share(0.000_001),
                    ..Effects::default()
                },
                "limit 1048576 delay 10000us 1000us loss gemodel 1% 30% 100% 0% \
                 duplicate 50% corrupt 0.0001%",
            ),
            (
                Effects {
                    delay: ms(10),
                    jitter: jitter(Distribution::Normal { deviation: ms(2) }, true),
                    ..Effects::default()
                },
                "limit 1048576 delay 10000us 2000us distribution normal",
            ),
            (
                Effects {
                    reorder_share: share(0.01),
                    reorder_by: ms(5),
                    ..Effects::default()
                },
                "limit 1048576 delay 5000us reorder 99%",
            ),
        ];
        for (effects, expected) in cases {
            assert_eq!(told(effects).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_netem_cannot_do_is_named() {
        let limited = Effects {
            capacity: rate(10_000_000),
            queue_limit: Limit::packets(100),
            delay: Duration::from_millis(5),
            ..Effects::default()
        };
        let cases = [
            (
                "queue",
                Effects {
                    queue_limit: Limit::bytes(1 << 20),
                    ..limited.clone()
                },
            ),
            (
                "queue",
                Effects {
                    discipline: Discipline::Priority(2),
                    ..limited.clone()
                },
            ),
            (
                "loss",
                Effects {
                    loss: LossModel::Listed(Listed::new(vec![10]).unwrap()),
                    ..limited.clone()
                },
            ),
            (
                "mark",
                Effects {
                    mark: share(0.01),
                    ..limited.clone()
                },
            ),
            (
                "reorder",
                Effects {
                    reorder_share: share(0.01),
                    reorder_by: Duration::from_millis(1),
                    ..limited.clone()
                },
            ),
            (
                "jitter",
                Effects {
                    jitter: jitter(SPREAD, true),
                    ..limited.clone()
                },
            ),
            (
                "jitter",
                Effects {
                    jitter: jitter(SPREAD, false),
                    capacity: Capacity::Unlimited,
                    ..limited.clone()
                },
            ),
        ];
        for (key, effects) in cases {
            assert_eq!(told(effects), Err(key));
        }
        assert!(told(limited).is_ok());
    }
}
