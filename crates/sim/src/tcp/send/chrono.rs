//! What a sender's time went into (`tcp_chrono_start`, `tcp_chrono_stop`).

/// What it waits for while it has something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    /// Acknowledgements, the congestion window or the path.
    Sending,
    /// The peer's window.
    PeersWindow,
    /// Room in its own buffer: all that fits is on its way, and the program has more.
    Buffer,
}

/// Time by what it went into.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chrono {
    /// Nothing to send: `None`.
    now: Option<Busy>,
    since_ns: u64,
    totals_ns: [u64; 3],
}

impl Chrono {
    /// From now on it goes into this.
    pub(super) fn set(&mut self, now_ns: u64, what: Option<Busy>) {
        if self.now == what {
            return;
        }
        if let Some(before) = self.now {
            self.totals_ns[before as usize] += now_ns - self.since_ns;
        }
        (self.now, self.since_ns) = (what, now_ns);
    }

    /// With something to send; the part of it stopped by the peer's window; that by the send buffer.
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
