//! The congestion control algorithms of `wansan cc`, which are loaded into a kernel as programs (crates/tcp/src/bpf):
//! Reno (RFC 5681 §3.1), HighSpeed TCP (RFC 3649) and Scalable TCP (Kelly, 2003), with limited slow start (RFC 3742).
//!
//! Unlike the kernel's own algorithms of these names, they count the packets that an acknowledgement covers, unless
//! configured otherwise, keep growth in fractions of a packet, and round the decrease for a loss up.

use std::sync::Arc;

use wansan_congestion::{Algorithm, Counting, Growth, HighSpeed, Options, Row, Table};

use super::law::Ops;
use super::{Acked, Window};

/// The minimum threshold, in packets (RFC 5681 equation 4).
const LEAST_SSTHRESH: u32 = 2;

/// Scalable TCP's a = 0.01: one packet for every hundred acknowledged.
const SCALABLE_ACKED: u64 = 100;
/// Its b = 0.125.
const SCALABLE_DIVISOR: u32 = 8;
/// Its lwnd: up to this many packets it acts as Reno.
const SCALABLE_LEGACY: u32 = 16;

/// One of these algorithms.
#[derive(Debug, Clone)]
pub struct Loaded {
    law: Growing,
    growth: Growth,
    /// Growth that does not yet amount to a whole packet.
    credit: u64,
}

/// How the window grows and shrinks.
#[derive(Debug, Clone)]
enum Growing {
    Reno,
    HighSpeed(Arc<Table>),
    Scalable,
}

impl Loaded {
    /// An algorithm loaded with valid options ([`Options::check`]).
    #[must_use]
    pub fn new(algorithm: Algorithm, options: &Options) -> Loaded {
        let of_highspeed = |law: &HighSpeed| Growing::HighSpeed(Arc::new(Table::of(law)));
        Loaded {
            law: match algorithm {
                Algorithm::Reno => Growing::Reno,
                Algorithm::HighSpeed => of_highspeed(&options.highspeed),
                Algorithm::Scalable => Growing::Scalable,
            },
            growth: options.growth,
            credit: 0,
        }
    }

    /// Which algorithm it is.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.law {
            Growing::Reno => Algorithm::Reno,
            Growing::HighSpeed(_) => Algorithm::HighSpeed,
            Growing::Scalable => Algorithm::Scalable,
        }
    }

    /// Growth while a whole window is acknowledged, in [`Row::PARTS`] of a packet.
    fn increase(&self, cwnd: u32) -> u64 {
        match &self.law {
            Growing::Scalable if cwnd > SCALABLE_LEGACY => {
                u64::from(cwnd) * u64::from(Row::PARTS) / SCALABLE_ACKED
            }
            Growing::Reno | Growing::Scalable => u64::from(Row::PARTS),
            Growing::HighSpeed(table) => u64::from(table.at(cwnd).increase),
        }
    }

    /// The decrease of a window for a loss event, in packets.
    fn cut(&self, cwnd: u32) -> u32 {
        match &self.law {
            Growing::Scalable if cwnd > SCALABLE_LEGACY => cwnd.div_ceil(SCALABLE_DIVISOR),
            Growing::Reno | Growing::Scalable => cwnd.div_ceil(2),
            Growing::HighSpeed(table) => {
                let parts = u64::from(cwnd) * u64::from(table.at(cwnd).decrease);
                parts.div_ceil(u64::from(Row::WHOLE)) as u32
            }
        }
    }

    /// Slow start up to the threshold: one packet per acknowledged packet; above the bound of RFC 3742 §2, one per K, K
    /// being the window divided by half the bound. Returns what is left of `acked` for congestion avoidance.
    fn slow_start(&mut self, window: &mut Window, acked: u32) -> u32 {
        let room = window.ssthresh - window.cwnd;
        match self.growth.max_ssthresh {
            Some(bound) if window.cwnd > bound => {
                let per = u64::from(window.cwnd / (bound / 2));
                let credit = self.credit + u64::from(acked);
                self.credit = credit % per;
                set(window, room.min((credit / per) as u32));
                0
            }
            _ => {
                let more = acked.min(room);
                set(window, more);
                acked - more
            }
        }
    }
}

/// Grows the window by `more` packets, up to the clamp.
fn set(window: &mut Window, more: u32) {
    window.cwnd = window.cwnd.saturating_add(more).min(window.clamp);
}

impl Ops for Loaded {
    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.credit = 0;
        (window.cwnd - self.cut(window.cwnd)).max(LEAST_SSTHRESH)
    }

    fn avoid(&mut self, window: &mut Window, acked: &Acked) {
        // A window that is not fully used is not validated (RFC 7661 §4.3).
        if !window.is_limited {
            return;
        }
        let mut acked = acked.sample.acked_sacked;
        if window.in_slow_start() {
            acked = self.slow_start(window, acked);
        }
        if acked == 0 {
            return;
        }
        let counted = match self.growth.counting {
            Counting::PerPacket => u64::from(acked),
            Counting::PerAck => 1,
        };
        let whole = u64::from(window.cwnd.max(1)) * u64::from(Row::PARTS);
        let credit = self.credit + self.increase(window.cwnd) * counted;
        self.credit = credit % whole;
        set(window, (credit / whole) as u32);
    }
}

#[cfg(test)]
mod tests;
