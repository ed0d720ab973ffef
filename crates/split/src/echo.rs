//! ECE towards one side of a flow: the orders of the signalling laws, and their effect.

use std::fmt;
use std::time::Duration;

use wansan_trace::Instant;

use super::plateau::Plateau;
use super::shares::drained_bytes;
use super::{CLIENT, Law, NAMES, Order, Reading, Signals};

/// Interval between checks of the orders' effect.
const LOOK: Duration = Duration::from_millis(20);

/// Why signals have no effect. The window alone then bounds a flow's backlog; under P5's laws nothing does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// ECN was not negotiated with the side that is to be signalled.
    NoEcn,
    /// The round trip is so short that a sender with the minimum window is faster than the other side.
    Powerless,
}

impl Fallback {
    /// All reasons.
    pub const ALL: [Fallback; 2] = [Fallback::NoEcn, Fallback::Powerless];

    /// Name in counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fallback::NoEcn => "no_ecn",
            Fallback::Powerless => "powerless",
        }
    }
}

/// Parameters of P5's laws, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignalSettings {
    /// Bound on the backlog; `None` for as much as drains in the law's latency.
    pub bound: Option<u64>,
    /// [`Law::EceRed`]: how far below the bound signalling starts; `None` for half the bound.
    pub ramp: Option<u64>,
    /// A decision is made each time this many bytes were read.
    pub every: u64,
}

/// Reports that a flow's signals have no effect, for the log.
#[derive(Debug, Clone, Copy)]
pub struct FellBack {
    /// The reason.
    pub why: Fallback,
    law: Law,
    side: usize,
}

impl fmt::Display for FellBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FellBack { why, law, side } = self;
        f.write_str(match law {
            Law::EceBound | Law::EceRed => "nothing holds its latency",
            _ => "only the window holds its latency",
        })?;
        match (why, *side) {
            (Fallback::NoEcn, CLIENT) => f.write_str(
                ": the client's connection has no ECN (net.ipv4.tcp_ecn=1 there has it offered, 1 or 2 here has \
                 it taken up)",
            ),
            (Fallback::NoEcn, _) => f.write_str(
                ": the connection to the target has no ECN (net.ipv4.tcp_ecn=1 here has it offered, 1 or 2 \
                 there has it taken up)",
            ),
            (Fallback::Powerless, side) => write!(
                f,
                ": two segments in a round trip {}, a sender's least, are more than the other side takes",
                NAMES[side]
            ),
        }
    }
}

/// ECE signalling of one flow.
#[derive(Debug)]
pub(super) struct Echo {
    law: Law,
    latency: Duration,
    settings: SignalSettings,
    /// The side whose sender is signalled.
    side: usize,
    order: Order,
    signals: Signals,
    next_look: Instant,
    /// Plateau of the other side's drain rate, tracked while signals are powerless.
    plateau: Plateau,
    fallback: Option<Fallback>,
    /// Whether the fallback has not been reported yet.
    is_news: bool,
    /// Bytes read as of the last decision.
    read_bytes: u64,
    /// State of the random generator of [`Law::EceRed`].
    seed: u64,
}

impl Echo {
    /// Signalling to `side` under a signalling law; `number` is the flow's, and seeds its random numbers.
    pub(super) fn new(
        law: Law,
        latency: Duration,
        settings: SignalSettings,
        side: usize,
        number: u64,
    ) -> Echo {
        Echo {
            law,
            latency,
            settings,
            side,
            order: Order::default(),
            signals: Signals::default(),
            next_look: Instant::ZERO,
            plateau: Plateau::default(),
            fallback: None,
            is_news: false,
            read_bytes: 0,
            seed: number,
        }
    }

    /// The side whose sender is signalled.
    pub(super) fn side(&self) -> usize {
        self.side
    }

    /// Effect of the orders, as of the last check.
    pub(super) fn signals(&self) -> Signals {
        self.signals
    }

    /// Why signals have no effect at present, if they have none.
    pub(super) fn fallback(&self) -> Option<Fallback> {
        self.fallback
    }

    /// A fallback that was not reported before.
    pub(super) fn take_news(&mut self) -> Option<FellBack> {
        let why = self
            .fallback
            .filter(|_| std::mem::take(&mut self.is_news))?;
        Some(FellBack {
            why,
            law: self.law,
            side: self.side,
        })
    }

    /// [`Law::Arrival`]: the order that tells the receiving side how far the other side has progressed. `moved_bytes`
    /// of the received bytes were written there; `unsent_bytes` of them are still unsent, and drain at `rate` bytes
    /// per second even if the relay does not run. The signalling threshold is half of the permitted backlog, so that
    /// the window rarely has to stop the sender; a quarter of the threshold must remain at the lowest point.
    pub(super) fn arrival(
        &mut self,
        moved_bytes: u64,
        unsent_bytes: u64,
        rate: u64,
        now: Instant,
    ) -> Order {
        let bound = drained_bytes(rate, self.latency) / 2;
        self.order = Order {
            passed_bytes: moved_bytes.saturating_sub(unsent_bytes),
            passed_at: now,
            going_bytes: unsent_bytes,
            drain_bytes_per_s: rate,
            bound_bytes: bound.max(1),
            least_bytes: bound / 4,
            ..self.order
        };
        self.order
    }

    /// P5's laws, after a read: `read_bytes` have been read in total from the signalled side, `waiting` bytes wait,
    /// and `rate` bytes per second drain. Returns an order if a signal is due.
    pub(super) fn after_read(&mut self, read_bytes: u64, waiting: u64, rate: u64) -> Option<Order> {
        let settings = self.settings;
        // The total falls when bytes held for a lost side are dropped.
        let new_bytes = read_bytes.saturating_sub(self.read_bytes);
        if new_bytes == 0 || new_bytes < settings.every {
            return None;
        }
        self.read_bytes = read_bytes;
        let drained = || drained_bytes(rate, self.latency);
        let bound = settings.bound.unwrap_or_else(drained);
        let ramp = match self.law {
            Law::EceRed => settings.ramp.unwrap_or(bound / 2),
            _ => 0,
        };
        (chance(waiting, bound, ramp) > self.random()).then(|| {
            self.order.asked += 1;
            self.order
        })
    }

    /// Whether the next check of the orders' effect is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// Checks the effect of the orders to the signalled side, whose TCP state is `incoming`, and whether signals have
    /// any: the other side, in state `outgoing`, drains at `rate` bytes per second. A short round trip counts as
    /// powerless only once that rate has reached its plateau: at the start of a flow every rate is below two segments
    /// per round trip.
    pub(super) fn look(
        &mut self,
        signals: Signals,
        incoming: &Reading,
        outgoing: &Reading,
        rate: u64,
        now: Instant,
    ) {
        self.next_look = now + LOOK;
        let before = std::mem::replace(&mut self.signals, signals);
        let fallback = if !incoming.has_ecn {
            Some(Fallback::NoEcn)
        } else if self.signals.signals > before.signals {
            None
        } else if self.signals.powerless > before.powerless
            && self
                .plateau
                .note(rate, Duration::from_nanos(outgoing.srtt_ns), now)
        {
            Some(Fallback::Powerless)
        } else {
            return;
        };
        self.is_news |= fallback.is_some() && self.fallback.is_none();
        self.fallback = fallback;
    }

    /// A number from 0 to below 1 (splitmix64 by G. Steele, D. Lea and C. Flood, 2014).
    fn random(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Probability of a signal with `waiting` bytes of backlog (P5 §5.6): 0 up to `ramp` below the bound, then rising
/// linearly to 1 at the bound. A bound of 0 is always reached.
fn chance(waiting: u64, bound: u64, ramp: u64) -> f64 {
    if waiting >= bound {
        return 1.0;
    }
    let above = waiting.saturating_sub(bound.saturating_sub(ramp));
    match above {
        0 => 0.0,
        above => above as f64 / ramp as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_grows_from_the_ramp_to_the_bound() {
        for (waiting, bound, ramp, expected) in [
            (99, 100, 0, 0.0),
            (100, 100, 0, 1.0),
            (0, 0, 0, 1.0),
            (50, 100, 50, 0.0),
            (75, 100, 50, 0.5),
            (100, 100, 50, 1.0),
            (1000, 100, 50, 1.0),
            (50, 100, 200, 0.25),
        ] {
            assert_eq!(
                chance(waiting, bound, ramp),
                expected,
                "{waiting} {bound} {ramp}"
            );
        }
    }
}
