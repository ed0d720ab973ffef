//! How much of its command window a session may use while others need the same thread.
//!
//! A session with 1,024 commands in flight gets 256 times as much of a busy thread as one with 4: each command waits
//! behind all others, whichever session is served first. Commands in flight beyond those that keep the thread busy only
//! wait, so the window is reduced, by letting MaxCmdSN lag (RFC 7143 §4.2.2.1), until the session gets little more than
//! an equal share.

use core::num::NonZeroU64;

/// Cost of a command for a thread, in socket bytes of equal cost.
const COMMAND_BYTES: u64 = 4096;

/// A session's use of its thread in a period ([`Session::take_stock`](super::Session::take_stock)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of times it was served.
    pub turns: u64,
    /// Its cost: bytes through its sockets, plus the equivalent of each command.
    pub bytes: u64,
}

/// A period of a thread that serves several sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Period {
    /// An equal share of the use by always-backlogged sessions, if the thread was busy.
    equal: Option<NonZeroU64>,
}

impl Period {
    /// The period with this use by sessions. `is_busy`: the thread was busy; if not, no session waited long because of
    /// another.
    ///
    /// Backlogged sessions get a turn in each round of the thread, with few commands or many. One with fewer than half
    /// as many turns as another waits for its initiator or its path, and a smaller window of others would not help it.
    pub fn of(taken: impl Iterator<Item = Taken> + Clone, is_busy: bool) -> Period {
        let most_turns = taken.clone().map(|taken| taken.turns).max().unwrap_or(0);
        let wants_more = |taken: &Taken| 2 * taken.turns >= most_turns;
        let (sessions, bytes) = taken
            .filter(wants_more)
            .fold((0, 0), |(sessions, bytes), taken| {
                (sessions + 1, bytes + taken.bytes)
            });
        Period {
            equal: is_busy
                .then(|| NonZeroU64::new(bytes / sessions.max(1)))
                .flatten(),
        }
    }
}

/// A session's window: from 1 to that set at login.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    window: u32,
    full: u32,
    /// The session's use at the last call.
    counted_bytes: u64,
}

impl Allowance {
    pub(super) fn full(window: u32) -> Allowance {
        Allowance {
            window,
            full: window,
            counted_bytes: 0,
        }
    }

    /// Counts a session's use since the last call: `commands` and `bytes` are totals, `turns` is new.
    pub(super) fn take_stock(&mut self, turns: u64, commands: u64, bytes: u64) -> Taken {
        let before_bytes = self.counted_bytes;
        self.counted_bytes = commands * COMMAND_BYTES + bytes;
        Taken {
            turns,
            // Bytes of connections that have left no longer count.
            bytes: self.counted_bytes.saturating_sub(before_bytes),
        }
    }

    /// The window, in commands, after a period with this use by the session. One that used more than one and a half
    /// equal shares gets less from now on, but no less than half of its window: commands in flight need time to drain.
    /// One that used less than a share, and all when the thread was not busy, get a quarter more.
    pub(super) fn after(&mut self, period: Period, taken: Taken) -> u32 {
        // A session whose turn came just before the end of the period has had one turn more by chance.
        let without_one = taken.bytes - taken.bytes / taken.turns.max(1);
        let window = u64::from(self.window);
        let next = match period.equal {
            Some(equal) if 2 * without_one > 3 * equal.get() => {
                (window * 3 * equal.get() / (2 * taken.bytes)).max(window.div_ceil(2))
            }
            Some(equal) if taken.bytes > equal.get() => window,
            _ => (window + window.div_ceil(4)).min(u64::from(self.full)),
        };
        self.window = next as u32;
        self.window
    }
}

#[cfg(test)]
mod tests;
