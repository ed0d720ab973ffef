//! Bounds on a sender's congestion window: TCP samples give it at times, and between two
//! samples it is known only within bounds, whatever congestion control is in use.

/// Segments that a new connection may have in flight (RFC 6928), and one that was idle at the least
/// (RFC 5681 §4.1).
const INITIAL_WINDOW: u64 = 10;

/// Its lower and upper bound, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bounds {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// What is known of a sender's congestion window.
#[derive(Debug, Clone, Copy)]
pub(super) struct CongestionWindow {
    mss: u64,
    pub(super) now: Bounds,
    /// Its value before an idle period, the maximum since the last loss.
    pub(super) before_idle: Bounds,
}

impl CongestionWindow {
    /// A new connection's.
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

    /// TCP tells it.
    pub(super) fn told(&mut self, bytes: u64) {
        self.now = Bounds {
            least: bytes,
            most: bytes,
        };
    }

    /// So much was acknowledged, in so many segments. No congestion control makes the window grow by
    /// more than that, each segment being as long as one can be: some count segments, and congestion
    /// avoidance an acknowledgement, however little it acknowledges (RFC 5681 §3.1).
    pub(super) fn acknowledged(&mut self, bytes: u64, segments: u64) {
        self.now.most += bytes.max(segments.max(1) * self.mss);
    }

    /// So much is in flight, which the window must have let out.
    pub(super) fn in_flight(&mut self, bytes: u64) {
        self.now.least = self.now.least.max(bytes);
        self.now.most = self.now.most.max(bytes);
    }

    /// Nothing was sent for so long that senders may begin anew (RFC 5681 §4.1).
    pub(super) fn idle(&mut self) {
        self.before_idle.least = self.before_idle.least.max(self.now.least);
        self.before_idle.most = self.before_idle.most.max(self.now.most);
        self.now.least = self.now.least.min(INITIAL_WINDOW * self.mss);
    }

    /// A segment was lost: the window shrinks, and its size is due to that.
    pub(super) fn lost(&mut self) {
        self.now.least = self.now.least.min(self.mss);
        self.before_idle = Bounds::default();
    }

    /// The sender may have taken a segment for lost.
    pub(super) fn perhaps_lost(&mut self) {
        self.now.least = self.now.least.min(self.mss);
        self.before_idle.least = 0;
    }
}
