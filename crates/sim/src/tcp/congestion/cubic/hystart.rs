//! HyStart (`hystart_update`; Ha and Rhee, "Taming the Elephants", 2011): leaves slow start before it overflows
//! the queue, when acknowledgements of one window arrive without a gap for half a round trip (the path is full), or
//! when the RTT grows (there is a queue).

use super::Window;

/// Smaller windows stay in slow start.
const LOW_WINDOW: u32 = 16;
/// Maximum gap between the acknowledgements of a train.
const TRAIN_GAP_US: u64 = 2_000;
/// RTT samples to take before their minimum counts.
const SAMPLES: u8 = 8;
/// The RTT has grown when it is longer by an eighth; minimum and maximum of that eighth.
const GROWTH_US: (u32, u32) = (4_000, 16_000);
/// Maximum delay attributed to large packets.
const LARGEST_CUSHION_US: u64 = 1_000;

/// The state of the current round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HyStart {
    /// Whether it has ended slow start. It then stays inactive unless a timeout resets it.
    is_done: bool,
    /// The sequence number that ends the round trip.
    round_end: u64,
    /// When it began.
    began_us: u64,
    /// When the last acknowledgement of the train arrived.
    train_us: u64,
    samples: u8,
    /// The minimum RTT of this round trip.
    least_us: u32,
}

impl HyStart {
    /// Starts a round trip now.
    pub(super) fn new(window: &Window, now_ns: u64) -> Self {
        HyStart {
            is_done: false,
            round_end: window.next,
            began_us: now_ns / 1_000,
            train_us: now_ns / 1_000,
            samples: 0,
            least_us: u32::MAX,
        }
    }

    /// Processes an acknowledgement in slow start, and may end slow start by setting the threshold.
    pub(super) fn on_acked(&mut self, window: &mut Window, rtt_us: u32, min_us: u32, now_ns: u64) {
        if self.is_done {
            return;
        }
        if window.una > self.round_end {
            *self = HyStart::new(window, now_ns);
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        // Both checks must see each acknowledgement.
        let fills = self.train_fills_the_path(window, min_us, now_ns / 1_000);
        if self.round_trip_grows(rtt_us, min_us) || fills {
            self.is_done = true;
            window.ssthresh = window.cwnd;
        }
    }

    fn train_fills_the_path(&mut self, window: &Window, min_us: u32, now_us: u64) -> bool {
        if now_us - self.train_us > TRAIN_GAP_US {
            return false;
        }
        self.train_us = now_us;
        // Allow for two packets of maximum size, doubled as the pacing rate is doubled in slow start
        // (`hystart_ack_delay`).
        let cushion_us = match window.pacing_bytes_per_s {
            None | Some(0) => 0,
            Some(rate) => (window.burst_bytes * 4 * 1_000_000 / rate).min(LARGEST_CUSHION_US),
        };
        let whole_us = u64::from(min_us) + cushion_us;
        // Pacing itself can spread a window over half a round trip.
        let full_us = if window.is_paced {
            whole_us
        } else {
            whole_us / 2
        };
        now_us - self.began_us > full_us
    }

    fn round_trip_grows(&mut self, rtt_us: u32, min_us: u32) -> bool {
        self.least_us = self.least_us.min(rtt_us);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let growth_us = (min_us >> 3).clamp(GROWTH_US.0, GROWTH_US.1);
        self.least_us > min_us + growth_us
    }
}
