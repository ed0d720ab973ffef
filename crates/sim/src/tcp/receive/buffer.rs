//! The receive buffer: how much memory it may take, and the window that this gives.
//!
//! Memory counts packets with their overhead, windows count data. `scaling_ratio`, measured whenever segments become
//! larger, converts between them. Follows `tcp_input.c` (`tcp_grow_window`, `tcp_init_buffer_space`,
//! `tcp_measure_rcv_mss`, `tcp_rcvbuf_grow`) and `tcp_select_initial_window` of Linux 6.18.

use super::config::{Opening, ReceiveConfig};

/// Fractional bits of the ratio (TCP_RMEM_TO_WIN_SCALE).
const RATIO_BITS: u32 = 8;

/// The ratio before the first packet: half of the memory is window (TCP_DEFAULT_SCALING_RATIO).
const FIRST_RATIO: u64 = 1 << (RATIO_BITS - 1);

/// The maximum window scale (RFC 7323 §2.3).
const SCALE_MOST: u32 = 14;

/// The maximum of the window field.
pub(super) const FIELD_MOST: u64 = 65_535;

/// The minimum of SO_RCVBUF (SOCK_MIN_RCVBUF): a packet of 2048 bytes and its `sk_buff`.
const LEAST_BYTES: u64 = 2304;

/// Maximum initial demand, in full segments (TCP_INIT_CWND).
const FIRST_PACKETS: u64 = 10;

/// Data in a page that packets are collapsed into (`SKB_MAX_ORDER(0, 0)`).
const COLLAPSED_BYTES: u64 = 4096 - 320;

/// Memory that such a page takes.
const COLLAPSED_MEMORY_BYTES: u64 = 4096 + 256;

/// The size of the buffer, and the window that it offers.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Maximum memory (`sk_rcvbuf`).
    pub(super) limit: u64,
    /// The limit never grows beyond this (`tcp_rmem[2]`).
    most: u64,
    /// Whether SO_RCVBUF set it.
    is_locked: bool,
    /// Whether it is autotuned.
    is_moderated: bool,
    /// Window per 256 bytes of memory (`scaling_ratio`).
    ratio: u64,
    /// The largest window that it has room for (`window_clamp`).
    pub(super) clamp: u64,
    /// The largest window currently offered (`rcv_ssthresh`).
    pub(super) ssthresh: u64,
    /// The window scale of this end.
    pub(super) scale: u8,
    /// The MSS advertised to the peer, less timestamps (`advmss`).
    mss: u64,
}

impl Buffer {
    /// The buffer of a new connection, and its first window.
    pub(super) fn new(config: &ReceiveConfig, opening: Opening) -> (Self, u64) {
        let most = config.rmem_bytes[2];
        let limit = match config.so_rcvbuf_bytes {
            Some(asked) => (2 * asked.min(config.rmem_max_bytes)).max(LEAST_BYTES),
            None => config.rmem_bytes[1],
        };
        let mut buffer = Buffer {
            limit,
            most,
            is_locked: config.so_rcvbuf_bytes.is_some(),
            is_moderated: config.moderate_rcvbuf && config.so_rcvbuf_bytes.is_none(),
            ratio: FIRST_RATIO,
            clamp: FIELD_MOST << SCALE_MOST,
            ssthresh: 0,
            scale: 0,
            mss: u64::from(config.mss),
        };
        if buffer.is_locked {
            buffer.clamp = buffer.clamp.min(buffer.full_space());
        }
        let mut window = buffer.clamp.min(buffer.full_space());
        let unit = config.first_unit_bytes(opening);
        if window > unit {
            window -= window % unit;
        }
        let widest = window
            .max(most)
            .max(config.rmem_max_bytes)
            .min(buffer.clamp);
        buffer.scale = widest.max(1).ilog2().saturating_sub(15).min(SCALE_MOST) as u8;
        buffer.clamp = buffer.clamp.min(FIELD_MOST << buffer.scale);
        buffer.ssthresh = window;
        buffer.reserve();
        (buffer, window)
    }

    /// Reserves a segment for the application (`tcp_init_buffer_space`, with `tcp_app_win` at its 31).
    fn reserve(&mut self) {
        let full = self.full_space();
        self.clamp = self.clamp.min(full);
        if self.clamp > 2 * self.mss && self.clamp + self.mss > full {
            self.clamp = (2 * self.mss).max(full - self.mss);
        }
        self.ssthresh = self.ssthresh.min(self.clamp);
    }

    /// The MSS advertised to the peer, less timestamps.
    pub(super) fn mss(&self) -> u32 {
        self.mss as u32
    }

    /// The initial demand: the buffer grows when a round trip brings more (`rcvq_space.space`).
    pub(super) fn first_demand(&self, window: u64) -> u64 {
        self.ssthresh.min(window).min(FIRST_PACKETS * self.mss)
    }

    /// The window that an amount of memory gives; negative if more is used than there is (`tcp_win_from_space`).
    fn window_of(&self, memory: i64) -> i64 {
        (memory * self.ratio as i64) >> RATIO_BITS
    }

    /// The window left with `used` bytes of memory in use (`tcp_space`).
    pub(super) fn space(&self, used: u64) -> i64 {
        self.window_of(self.limit as i64 - used as i64)
    }

    /// The window of the whole buffer (`tcp_full_space`).
    pub(super) fn full_space(&self) -> u64 {
        self.window_of(self.limit as i64) as u64
    }

    /// Measures how much of a packet is data (`tcp_measure_rcv_mss`). The caller does so when segments become larger,
    /// and then limits its demand to the clamp.
    pub(super) fn measure(&mut self, data_bytes: u32, truesize: u64, window: u64) {
        let ratio = ((u64::from(data_bytes) << RATIO_BITS) / truesize).clamp(1, 255);
        if ratio == self.ratio {
            return;
        }
        self.ratio = ratio;
        self.set_clamp(self.full_space(), window);
    }

    /// Bounds the window; `window` is the last one advertised (`tcp_set_window_clamp`).
    pub(super) fn set_clamp(&mut self, bytes: u64, window: u64) {
        let clamp = bytes.max(LEAST_BYTES / 2);
        if clamp == self.clamp {
            return;
        }
        self.ssthresh = match clamp < self.clamp {
            true => self.ssthresh.min(clamp),
            false => self.ssthresh.max(window.min(clamp)),
        };
        self.clamp = clamp;
    }

    /// Sets the size without an upper limit (SO_RCVBUFFORCE, `__sock_set_rcvbuf`).
    pub(super) fn set(&mut self, bytes: u64) {
        self.limit = (2 * bytes).max(LEAST_BYTES);
        self.is_locked = true;
        self.is_moderated = false;
    }

    /// Offers a larger window after a packet, as long as such packets fit (`tcp_grow_window`); returns whether it did.
    pub(super) fn offer_more(
        &mut self,
        data_bytes: u32,
        truesize: u64,
        used: u64,
        rcv_mss: u32,
    ) -> bool {
        let room = (self.clamp as i64).min(self.space(used)) - self.ssthresh as i64;
        if room <= 0 {
            return false;
        }
        let data = i64::from(data_bytes);
        let more = match self.window_of(truesize as i64) <= data {
            true => 2 * self.mss as i64,
            false => self.more_of_bloated(data, truesize, rcv_mss),
        };
        if more == 0 {
            return false;
        }
        self.ssthresh += room.min(more.max(2 * data)) as u64;
        true
    }

    /// The increase for packets with more overhead than the ratio allows: the closer the window is to its maximum, the
    /// less overhead they may have (`__tcp_grow_window`).
    fn more_of_bloated(&self, data: i64, truesize: u64, rcv_mss: u32) -> i64 {
        let mut truesize = self.window_of(truesize as i64) >> 1;
        let mut window = self.window_of(self.most as i64) >> 1;
        while self.ssthresh as i64 <= window {
            if truesize <= data {
                return 2 * i64::from(rcv_mss);
            }
            truesize >>= 1;
            window >>= 1;
        }
        0
    }

    /// Makes room for twice the data of a round trip, plus twice that times its relative growth since `before`, since
    /// in slow start the measurement is a round trip late (dynamic right-sizing; `tcp_rcvbuf_grow` as in 6.18).
    /// `beyond` is the extent of out-of-order data.
    pub(super) fn grow(&mut self, before: u64, demand: u64, beyond: u64) {
        if !self.is_moderated {
            return;
        }
        let twice = 2 * demand;
        let growth = twice * demand.saturating_sub(before) / before.max(1);
        let window = twice + 2 * growth + beyond;
        let limit = ((window << RATIO_BITS) / self.ratio).min(self.most);
        if limit > self.limit {
            self.limit = limit;
            self.clamp = self.full_space();
        }
    }

    /// More memory is used than allowed: raises the limit to it if permitted, else offers only two segments
    /// (`tcp_clamp_window`).
    pub(super) fn overrun(&mut self, used: u64) {
        if self.limit < self.most && !self.is_locked {
            self.limit = used.min(self.most);
        }
        if used > self.limit {
            self.ssthresh = self.clamp.min(2 * self.mss);
        }
    }

    /// The memory of data once it is copied into full pages, if that is worthwhile (`tcp_collapse`: only data with more
    /// overhead than the ratio allows).
    pub(super) fn collapsed(&self, data: u64, memory: u64) -> u64 {
        if self.window_of(memory as i64) <= data as i64 {
            return memory;
        }
        memory.min(data.div_ceil(COLLAPSED_BYTES) * COLLAPSED_MEMORY_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(so_rcvbuf_bytes: Option<u64>) -> ReceiveConfig {
        ReceiveConfig {
            so_rcvbuf_bytes,
            ..ReceiveConfig::default()
        }
    }

    #[test]
    fn the_first_window_is_what_captures_of_linux_show() {
        // 64240 in the SYN and 65160 in the SYN-ACK: multiples of 1460 and 1448 within half of 131072.
        assert_eq!(Buffer::new(&config(None), Opening::Active).1, 44 * 1460);
        assert_eq!(Buffer::new(&config(None), Opening::Passive).1, 45 * 1448);
    }

    #[test]
    fn the_scale_lets_the_field_reach_the_greatest_buffer() {
        // 2^25 of tcp_rmem[2] needs 10 bits beyond the field's 15.
        assert_eq!(Buffer::new(&config(None), Opening::Passive).0.scale, 10);
        let six = ReceiveConfig {
            rmem_bytes: [4096, 131_072, 6_291_456],
            ..config(None)
        };
        assert_eq!(Buffer::new(&six, Opening::Passive).0.scale, 7);
    }

    #[test]
    fn so_rcvbuf_is_doubled_clamped_and_bounds_the_scale() {
        let (buffer, window) = Buffer::new(&config(Some(65_536)), Opening::Passive);
        assert_eq!((buffer.limit, buffer.scale), (131_072, 1));
        assert_eq!(window, 45 * 1448);
        let (buffer, _) = Buffer::new(&config(Some(1 << 30)), Opening::Passive);
        assert_eq!(buffer.limit, 2 * 4_194_304);
        let (buffer, _) = Buffer::new(&config(Some(1)), Opening::Passive);
        assert_eq!(buffer.limit, 2304);
    }

    #[test]
    fn a_larger_share_of_data_raises_the_clamp_and_a_smaller_one_lowers_the_window() {
        let (mut buffer, window) = Buffer::new(&config(None), Opening::Passive);
        buffer.measure(1448, 2304, window);
        assert_eq!(buffer.clamp, 131_072 * 160 / 256);
        assert_eq!(buffer.ssthresh, window);
        buffer.measure(536, 2304, window);
        assert_eq!(buffer.clamp, 131_072 * 59 / 256);
        assert_eq!(buffer.ssthresh, buffer.clamp);
    }

    #[test]
    fn a_locked_buffer_neither_grows_nor_takes_what_overran_it() {
        let (mut buffer, _) = Buffer::new(&config(Some(65_536)), Opening::Passive);
        buffer.grow(14_480, 10_000_000, 0);
        buffer.overrun(140_000);
        assert_eq!(buffer.limit, 131_072);
        assert_eq!(buffer.ssthresh, 2 * 1448);
    }

    #[test]
    fn growth_follows_the_rise_of_a_round_trip() {
        let (mut buffer, _) = Buffer::new(&config(None), Opening::Passive);
        // Twice as much as before: 2 · 200 kB, and twice that for the rise; half of the memory is window.
        buffer.grow(100_000, 200_000, 0);
        assert_eq!(buffer.limit, 2 * (400_000 + 2 * 400_000));
        // No rise: 2 · 1 MB, plus the out-of-order data.
        buffer.grow(1_000_000, 1_000_000, 50_000);
        assert_eq!(buffer.limit, 2 * 2_050_000);
        buffer.grow(1_000_000, 1_000_000_000, 0);
        assert_eq!(buffer.limit, 33_554_432);
    }
}
