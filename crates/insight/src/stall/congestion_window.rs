//! Bounds on a sender's congestion window: TCP samples give its size at times; between two samples only bounds are
//! known, whatever the congestion control.

/// Initial window of a new connection, in segments (RFC 6928). After idle time, the window is at least the smaller of
/// this and its previous size (RFC 5681 §4.1).
const INITIAL_WINDOW: u64 = 10;

/// A lower and an upper bound, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bounds {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// What is known about a sender's congestion window.
#[derive(Debug, Clone, Copy)]
pub(super) struct CongestionWindow {
    mss: u64,
    pub(super) now: Bounds,
    /// Its size before an idle period: the maximum since the last loss.
    pub(super) before_idle: Bounds,
}

impl CongestionWindow {
    /// For a new connection.
    pub(super) fn new(mss: u64) -> CongestionWindow {
        let initial = INITIAL_WINDOW * mss;
        CongestionWindow {
            mss,
            now: Bounds {
                least: initial,
                most: initial,
            },
            before_idle: Bounds::default(),
        }
    }

    /// TCP reported its size.
    pub(super) fn told(&mut self, bytes: u64) {
        self.now = Bounds {
            least: bytes,
            most: bytes,
        };
    }

    /// `bytes` in `segments` were acknowledged. No congestion control grows the window by more than that, with each
    /// segment counted as full-sized: some count segments, and congestion avoidance counts acknowledgements, however
    /// little each covers (RFC 5681 §3.1).
    pub(super) fn acknowledged(&mut self, bytes: u64, segments: u64) {
        self.now.most += bytes.max(segments.max(1) * self.mss);
    }

    /// `bytes` are in flight, so the window must have allowed them.
    pub(super) fn in_flight(&mut self, bytes: u64) {
        self.now.least = self.now.least.max(bytes);
        self.now.most = self.now.most.max(bytes);
    }

    /// Nothing was sent for so long that the sender may slow-start again (RFC 5681 §4.1).
    pub(super) fn idle(&mut self) {
        self.before_idle.least = self.before_idle.least.max(self.now.least);
        self.before_idle.most = self.before_idle.most.max(self.now.most);
        self.now.least = self.now.least.min(INITIAL_WINDOW * self.mss);
    }

    /// A segment was lost: the window shrinks, and a small window is due to that rather than to idle time.
    pub(super) fn lost(&mut self) {
        self.now.least = self.now.least.min(self.mss);
        self.before_idle = Bounds::default();
    }

    /// The sender may have considered a segment lost.
    pub(super) fn perhaps_lost(&mut self) {
        self.now.least = self.now.least.min(self.mss);
        self.before_idle.least = 0;
    }
}
