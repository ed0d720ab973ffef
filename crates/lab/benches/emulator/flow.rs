//! A flow of UDP packets between namespaces, each with its number and sending time. Sender and sink are processes of
//! this program, so that the same ones test any emulator.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IoSlice;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use serde::{Deserialize, Serialize};
use wansan_trace::{Instant, clock};

use super::cores;
use super::stamped::{Stamped, set_option};

const PORT: u16 = 9;
/// Headers of Ethernet, IPv4 and UDP.
pub(crate) const HEADER_BYTES: usize = 14 + 20 + 8;
/// Number and sending time.
const STAMP_BYTES: usize = 16;
/// Packets per system call of a sender without segmentation offload.
const BATCH: usize = 32;
/// A sender further behind than this does not catch up.
const LARGEST_BURST_NS: u64 = 20_000_000;
/// The flow is over after this long without a packet.
const SILENCE: Duration = Duration::from_millis(400);
/// Timeout of a sink for the first packet.
const PATIENCE: Duration = Duration::from_secs(20);

/// The flow to send.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// Destination.
    pub(crate) to: Ipv4Addr,
    /// Bytes of each frame.
    pub(crate) frame_bytes: usize,
    /// Packets per second, evenly spaced; 0 for as many as possible.
    pub(crate) packets_per_s: u64,
    /// Packets per segmentation offload (UDP_SEGMENT); 1 for none.
    pub(crate) segments: usize,
    /// Most packets to send.
    pub(crate) packets: u64,
    /// Longest time to send, in ms.
    pub(crate) time_ms: u64,
    /// Time before the first packet.
    pub(crate) wait_ms: u64,
}

/// The ideal path that the sink compares arrivals with.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Ideal {
    /// Bytes of each frame.
    pub(crate) frame_bytes: usize,
    /// The path's rate; 0 for unlimited.
    pub(crate) bits_per_s: u64,
    /// The path's delay.
    pub(crate) delay_ns: u64,
    /// Only counts arrivals, and reads none.
    pub(crate) count_only: bool,
}

/// A sink's result.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Packets received.
    pub(crate) packets: u64,
    /// The highest number among them, plus one.
    pub(crate) sent: u64,
    /// Packets per second between the first and the last.
    pub(crate) packets_per_s: f64,
    /// Gaps in the sequence numbers.
    pub(crate) gaps: u64,
    /// A digest of all numbers in order of arrival.
    pub(crate) digest: u64,
    /// Lateness relative to the ideal: median.
    pub(crate) late_p50_ns: u64,
    /// 99th percentile.
    pub(crate) late_p99_ns: u64,
    /// Maximum.
    pub(crate) late_max_ns: u64,
    /// Packets that arrived earlier than possible.
    pub(crate) early: u64,
}

/// Sends a flow.
pub(crate) fn send(flow: Flow) -> std::io::Result<()> {
    cores::leave_last_to_emulator();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((flow.to, PORT))?;
    let payload_bytes = (flow.frame_bytes - HEADER_BYTES).max(STAMP_BYTES);
    let group = flow.segments.max(1);
    if group > 1 {
        set_option(
            &socket,
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            payload_bytes as i32,
        )?;
    }
    // For comparison with the arrival time, each packet needs its own sending time.
    let groups = if group > 1 || flow.packets_per_s > 0 {
        1
    } else {
        BATCH
    };
    let mut payload = vec![0; payload_bytes * group * groups];
    std::thread::sleep(Duration::from_millis(flow.wait_ms));
    let began = clock::now();
    let end = began + Duration::from_millis(flow.time_ms);
    let mut number = 0u64;
    let mut due = began;
    while number < flow.packets {
        let mut now = clock::now();
        if now >= end {
            break;
        }
        if let Some(gap_ns) = (group as u64 * 1_000_000_000).checked_div(flow.packets_per_s) {
            if now < due {
                std::thread::sleep(due - now);
                now = clock::now();
            }
            due = due.max(Instant::from_ns(now.ns().saturating_sub(LARGEST_BURST_NS)));
            due += Duration::from_nanos(gap_ns);
        }
        for packet in payload.chunks_mut(payload_bytes) {
            packet[..8].copy_from_slice(&number.to_ne_bytes());
            packet[8..16].copy_from_slice(&now.ns().to_ne_bytes());
            number += 1;
        }
        // If the receiver is gone, packets count as lost.
        let _ = send_groups(&socket, &payload, group * payload_bytes);
    }
    Ok(())
}

fn send_groups(socket: &UdpSocket, payload: &[u8], group_bytes: usize) -> std::io::Result<()> {
    let mut slices: Vec<[IoSlice<'_>; 1]> = payload
        .chunks(group_bytes)
        .map(|group| [IoSlice::new(group)])
        .collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = slices
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let mut messages: Vec<MMsgHdr<'_>> = slices
        .iter_mut()
        .zip(&mut controls)
        .map(|(slice, control)| MMsgHdr::new(slice, control))
        .collect();
    let mut left = &mut messages[..];
    while !left.is_empty() {
        let sent = sendmmsg(socket, left, SendFlags::empty())?;
        left = &mut left[sent..];
    }
    Ok(())
}

/// Receives a flow; prints the result as a line of JSON.
pub(crate) fn sink(ideal: Ideal) -> std::io::Result<()> {
    cores::leave_last_to_emulator();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    println!("ready");
    let seen = if ideal.count_only {
        count()
    } else {
        read(&Stamped::new(socket)?, ideal)
    };
    println!("{}", serde_json::to_string(&seen)?);
    Ok(())
}

/// Counts the packets that UDP received, whether read or not, in the middle of the flow.
fn count() -> Seen {
    let mut samples = vec![(clock::now(), received())];
    let patience = clock::now() + PATIENCE;
    let mut last_change = clock::now();
    while clock::now() < patience && (samples.len() < 2 || clock::now() - last_change < SILENCE) {
        std::thread::sleep(Duration::from_millis(20));
        let (now, received) = (clock::now(), received());
        if samples
            .last()
            .is_some_and(|&(_, before)| before != received)
        {
            samples.push((now, received));
            last_change = now;
        }
    }
    let middle = &samples[samples.len() / 5..=samples.len() * 4 / 5];
    let (Some(first), Some(last)) = (middle.first(), middle.last()) else {
        return Seen::default();
    };
    let time_s = (last.0 - first.0).as_secs_f64();
    Seen {
        packets: received() - samples[0].1,
        packets_per_s: if time_s > 0.0 {
            (last.1 - first.1) as f64 / time_s
        } else {
            0.0
        },
        ..Seen::default()
    }
}

/// Datagrams delivered to this namespace's UDP (RFC 4113): those read, and those dropped for lack of buffer space.
fn received() -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    let counted = names
        .zip(values)
        .filter(|(name, _)| ["InDatagrams", "RcvbufErrors"].contains(name));
    counted
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum()
}

fn read(socket: &Stamped, ideal: Ideal) -> Seen {
    let mut late = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).expect("valid bounds");
    let mut seen = Seen::default();
    let mut digest = DefaultHasher::new();
    let (mut first_ns, mut last_ns) = (0, 0);
    let mut free_at_ns = 0f64;
    let sending_ns = match ideal.bits_per_s {
        0 => 0.0,
        rate => ideal.frame_bytes as f64 * 8e9 / rate as f64,
    };
    let mut buffer = vec![0; 1 << 16];
    let mut last_came = clock::now();
    while clock::now() - last_came < if seen.packets > 0 { SILENCE } else { PATIENCE } {
        let Some(arrival) = socket.receive(&mut buffer) else {
            std::thread::sleep(Duration::from_micros(300));
            continue;
        };
        last_came = clock::now();
        let mut lateness = |sent_ns: u64| {
            free_at_ns = f64::max(free_at_ns, sent_ns as f64) + sending_ns;
            let error_ns = arrival.stamped_ns as f64 - free_at_ns - ideal.delay_ns as f64;
            seen.early += u64::from(error_ns < 0.0);
            late.saturating_record(error_ns.max(0.0) as u64);
        };
        for packet in buffer[..arrival.bytes].chunks(arrival.segment_bytes) {
            let word = |at: usize| packet.get(at..at + 8).and_then(|word| word.try_into().ok());
            let (Some(number), Some(sent_ns)) = (word(0), word(8)) else {
                continue;
            };
            let number = u64::from_ne_bytes(number);
            lateness(u64::from_ne_bytes(sent_ns));
            number.hash(&mut digest);
            seen.gaps += u64::from(number > seen.sent);
            seen.sent = seen.sent.max(number + 1);
            seen.packets += 1;
        }
        if first_ns == 0 {
            first_ns = arrival.stamped_ns;
        }
        last_ns = arrival.stamped_ns;
    }
    seen.digest = digest.finish();
    seen.packets_per_s =
        seen.packets.saturating_sub(1) as f64 * 1e9 / (last_ns - first_ns).max(1) as f64;
    seen.late_p50_ns = late.value_at_quantile(0.5);
    seen.late_p99_ns = late.value_at_quantile(0.99);
    seen.late_max_ns = late.max();
    seen
}
