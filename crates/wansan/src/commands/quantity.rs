//! Quantities among the arguments, and the range that each must be in.

use std::time::Duration;

use wansan_tcp::buffers::Buffer;
use wansan_trace::units::{format_bytes, parse_bytes, parse_duration};

/// A size from `least` to `most`, which fits in 32 bits.
pub(super) fn bytes_within(text: &str, least: u64, most: u64) -> Result<u32, String> {
    let range = || format!("give {} to {}", format_bytes(least), format_bytes(most));
    let bytes = parse_bytes(text).map_err(|error| format!("{error}; {}", range()))?;
    u32::try_from(bytes)
        .ok()
        .filter(|_| (least..=most).contains(&bytes))
        .ok_or_else(range)
}

/// The size of a socket's buffer.
pub(super) fn socket_buffer(text: &str) -> Result<u32, String> {
    let (least, most) = Buffer::RANGE_BYTES;
    bytes_within(text, least, most)
}

/// A time that passes: above 0.
pub(super) fn time_span(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("give a time above 0, such as 10ms or 5s".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}
