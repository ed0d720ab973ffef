//! How a sender spends its time (`tcp_chrono_start`, `tcp_chrono_stop`).

/// What the sender waits for while it has something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    /// Acknowledgements, the congestion window or the path.
    Sending,
    /// The peer's window.
    PeersWindow,
    /// Room in its own buffer: all that fits is in flight, and the program has more.
    Buffer,
}

/// Time spent per state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chrono {
    /// The current state; `None` with nothing to send.
    now: Option<Busy>,
    since_ns: u64,
    totals_ns: [u64; 3],
}

impl Chrono {
    /// Enters a state.
    pub(super) fn set(&mut self, now_ns: u64, what: Option<Busy>) {
        if self.now == what {
            return;
        }
        if let Some(before) = self.now {
            self.totals_ns[before as usize] += now_ns - self.since_ns;
        }
        (self.now, self.since_ns) = (what, now_ns);
    }

    /// Total time with something to send, and the parts of it limited by the peer's window and by the send buffer.
    pub(super) fn totals_ns(&self, now_ns: u64) -> [u64; 3] {
        let mut until_now = *self;
        until_now.set(now_ns, None);
        let [sending, window, buffer] = until_now.totals_ns;
        [sending + window + buffer, window, buffer]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_counts_once() {
        let mut chrono = Chrono::default();
        chrono.set(100, Some(Busy::Sending));
        chrono.set(150, Some(Busy::PeersWindow));
        chrono.set(160, Some(Busy::Sending));
        chrono.set(200, None);
        chrono.set(1_000, Some(Busy::Buffer));
        assert_eq!(chrono.totals_ns(1_007), [107, 10, 7]);
    }
}
