//! The send buffer: the kernel memory it uses, and how it grows with the window (`tcp_sndbuf_expand`,
//! net/core/stream.c).

/// Memory overhead of a buffered packet: `struct sk_buff`, headers and `struct skb_shared_info`
/// (SKB_TRUESIZE(MAX_TCP_HEADER)).
const PACKET_MEMORY: u64 = 1_280;

/// While the peer's window has never been larger, a packet may take all of it instead of half (TCP_MSS_DEFAULT).
const NARROW_WINDOW_BYTES: u64 = 536;

/// The settings of a send buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferConfig {
    /// `net.ipv4.tcp_wmem`: minimum, initial and maximum.
    pub wmem_bytes: [u64; 3],
    /// SO_SNDBUF as the program sets it; the buffer is twice that, and does not grow.
    pub so_sndbuf_bytes: Option<u64>,
    /// Headroom that the kernel reserves for headers (MAX_TCP_HEADER), one of [`BufferConfig::HEADERS_BYTES`].
    pub header_bytes: u64,
    /// Bytes of the largest packet that the device accepts, and segments itself (`gso_max_size`): 64 KiB by default.
    pub gso_max_bytes: u64,
}

impl BufferConfig {
    /// Possible values of MAX_TCP_HEADER: of a kernel without tunnels and wireless LAN, with either, and with both, as
    /// distributions build it.
    pub const HEADERS_BYTES: [u64; 3] = [192, 256, 320];

    /// Data bytes of the largest packet that a sender hands to its device (`sk_gso_max_size`).
    #[must_use]
    pub fn burst_bytes(&self) -> u64 {
        self.gso_max_bytes.saturating_sub(self.header_bytes + 1)
    }

    /// Memory of a packet on the path, as assumed for growth of the buffer: data, timestamps, headers and shared info,
    /// rounded up to a power of two, plus a `struct sk_buff`.
    #[must_use]
    pub fn per_packet_bytes(&self, mss: u32) -> u64 {
        (u64::from(mss) + 12 + self.header_bytes + 320).next_power_of_two() + 256
    }
}

impl Default for BufferConfig {
    fn default() -> Self {
        BufferConfig {
            wmem_bytes: [4_096, 16_384, 4_194_304],
            so_sndbuf_bytes: None,
            header_bytes: Self::HEADERS_BYTES[2],
            gso_max_bytes: 65_536,
        }
    }
}

/// The send buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    most: u64,
    is_fixed: bool,
    limit: u64,
    /// Bytes of data in it.
    held: u64,
    /// [`BufferConfig::per_packet_bytes`].
    per_packet: u64,
    mss: u64,
    /// The largest window of the peer so far, and the maximum data of a buffered packet that follows from it.
    widest_window: u64,
    packet_bytes: u64,
    burst_bytes: u64,
    /// Whether the program found no room (SOCK_NOSPACE).
    was_full: bool,
}

impl Buffer {
    pub(super) fn new(config: BufferConfig, mss: u32) -> Buffer {
        let [least, initial, most] = config.wmem_bytes;
        let fixed = config.so_sndbuf_bytes.map(|bytes| (2 * bytes).max(least));
        Buffer {
            most,
            is_fixed: fixed.is_some(),
            limit: fixed.unwrap_or(initial),
            held: 0,
            per_packet: config.per_packet_bytes(mss),
            mss: u64::from(mss),
            widest_window: 0,
            packet_bytes: packet_bytes(config.burst_bytes(), u64::from(mss)),
            burst_bytes: config.burst_bytes(),
            was_full: false,
        }
    }

    /// Notes the peer's window. The kernel gathers as much into a packet as the device accepts, but no more than half
    /// of the largest window, so that no packet fills most of it (`tcp_xmit_size_goal`, `tcp_bound_to_half_wnd`).
    pub(super) fn see_window(&mut self, bytes: u64) {
        if bytes > self.widest_window {
            self.widest_window = bytes;
            let most = match bytes > NARROW_WINDOW_BYTES {
                true => bytes / 2,
                false => bytes,
            };
            self.packet_bytes = packet_bytes(most.min(self.burst_bytes), self.mss);
        }
    }

    /// Maximum data bytes of a buffered packet.
    pub(super) fn packet_bytes(&self) -> u64 {
        self.packet_bytes
    }

    /// `sk_wmem_queued` for `held` bytes of data.
    fn memory(&self, held: u64) -> u64 {
        held + held.div_ceil(self.packet_bytes) * PACKET_MEMORY
    }

    /// Accepts as much as fits: a packet may begin while the memory is below the limit and less than `room` has been
    /// taken, and is then filled (`sk_stream_memory_free`).
    pub(super) fn take(&mut self, bytes: u64, room: u64) -> u64 {
        let mut taken = 0;
        while taken < bytes && taken < room && self.memory(self.held) < self.limit {
            let left_of_packet = self.packet_bytes - self.held % self.packet_bytes;
            let part = left_of_packet.min(bytes - taken);
            self.held += part;
            taken += part;
        }
        self.was_full |= taken < bytes;
        taken
    }

    /// Frees acknowledged data.
    pub(super) fn free(&mut self, bytes: u64) {
        self.held -= bytes.min(self.held);
    }

    /// Whether at least a third of it is free (`sk_stream_wspace`, `sk_stream_min_wspace`).
    pub(super) fn is_writable(&self) -> bool {
        let memory = self.memory(self.held);
        memory < self.limit && self.limit - memory >= memory >> 1
    }

    /// The memory in use (`sk_wmem_queued`).
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory(self.held)
    }

    /// The maximum memory (`sk_sndbuf`).
    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit
    }

    /// Whether the program waits for room.
    pub(super) fn was_full(&self) -> bool {
        self.was_full
    }

    /// Makes room for this many windows of this many packets (`tcp_sndbuf_expand`).
    pub(super) fn expand(&mut self, windows: u32, packets: u32) {
        if !self.is_fixed {
            let wanted = u64::from(windows) * u64::from(packets) * self.per_packet;
            self.limit = self.limit.max(wanted.min(self.most));
        }
    }

    /// Ends the program's wait if there is room (`sk_stream_write_space`).
    pub(super) fn settle(&mut self) {
        if self.is_writable() {
            self.was_full = false;
        }
    }
}

/// Bytes of the full segments that fit into `most` bytes, but at least one.
fn packet_bytes(most: u64, mss: u64) -> u64 {
    (most / mss).max(1) * mss
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the packet limit of a host's link into an emulated path.
    #[test]
    fn a_packet_takes_no_more_than_the_device() {
        for header_bytes in BufferConfig::HEADERS_BYTES {
            let config = BufferConfig {
                header_bytes,
                gso_max_bytes: u64::from(wansan_path::SUPER_FRAME_MAX_BYTES),
                ..BufferConfig::default()
            };
            let mut buffer = Buffer::new(config, 1_448);
            assert_eq!(buffer.packet_bytes(), 11 * 1_448);
            buffer.see_window(1 << 20);
            assert_eq!(buffer.packet_bytes(), 11 * 1_448);
        }
    }

    #[test]
    fn a_packet_takes_no_more_than_half_of_the_widest_window() {
        let config = BufferConfig {
            wmem_bytes: [4_096, 46_080, 4_194_304],
            ..BufferConfig::default()
        };
        let mut buffer = Buffer::new(config, 1_448);
        buffer.see_window(64_256);
        // 22 segments each: memory is still below the limit before the second.
        assert_eq!(buffer.take(1 << 20, u64::MAX), 2 * 22 * 1_448);
        buffer.see_window(150_000);
        buffer.see_window(64_256);
        assert_eq!(buffer.packet_bytes(), 45 * 1_448);
        let mut narrow = Buffer::new(config, 1_448);
        narrow.see_window(400);
        assert_eq!(narrow.packet_bytes(), 1_448);
    }
}
