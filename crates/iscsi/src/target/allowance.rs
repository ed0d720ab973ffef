//! How much of its command window a session may use while others need the same thread.
//!
//! One that has 1,024 commands in flight gets 256 times as much of a busy thread as one that has 4: each command waits
//! behind all others, whoever is served first. What a session has in flight beyond what keeps the thread busy only waits,
//! so it is taken back, by letting MaxCmdSN lag (RFC 7143 §4.2.2.1), until the session gets little more than an equal share.

use core::num::NonZeroU64;

/// What a command takes of a thread, in bytes through its socket that take as much.
const COMMAND_BYTES: u64 = 4096;

/// What one session has taken of its thread in a period ([`Session::take_stock`](super::Session::take_stock)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// How often it was served.
    pub turns: u64,
    /// How much it took: bytes through its sockets, and for each command as many as take as long.
    pub bytes: u64,
}

/// A period of a thread that serves several sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Period {
    /// An equal share of what those took that always want more, if the thread had much to do.
    equal: Option<NonZeroU64>,
}

impl Period {
    /// The period in which sessions took this. `is_busy`: the thread had much to do; if it had not, nobody waited long
    /// because of another.
    ///
    /// Sessions that want more have a turn in each round of the thread, few commands or many. One that has fewer than half
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

/// The window that a session has: from 1 to what was agreed at its login.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    window: u32,
    full: u32,
    /// What the session had taken when stock was taken last.
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

    /// Takes stock of a session that has had so many commands and bytes in all; what it has taken since the last time,
    /// in so many turns.
    pub(super) fn take_stock(&mut self, turns: u64, commands: u64, bytes: u64) -> Taken {
        let before_bytes = self.counted_bytes;
        self.counted_bytes = commands * COMMAND_BYTES + bytes;
        Taken {
            turns,
            // The bytes of a connection that has left count no more.
            bytes: self.counted_bytes.saturating_sub(before_bytes),
        }
    }

    /// The window, in commands, after a period in which the session took so much. One that took more than half as much
    /// again as an equal share has less from now on, but no less than half of what it had: what is in flight needs time
    /// to become less. One that took less than a share, and all when the thread had little to do, get a quarter more.
    pub(super) fn after(&mut self, period: Period, taken: Taken) -> u32 {
        // Whose turn came just before the end of the period has had one more than others by chance.
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
