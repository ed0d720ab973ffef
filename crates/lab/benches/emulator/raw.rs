//! The machine's limits for any emulator: packet rate of a loop that only sends, one by one through a packet socket,
//! and timing of a loop that only waits.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::net::{
    AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketType, netdevice, sendmmsg, socket,
};
use rustix::time::{ClockId, clock_gettime};
use wansan_lab::emulator::prefer;
use wansan_trace::clock;

use super::cores;
use super::flow::HEADER_BYTES;
use super::stamped::set_option;

const BATCH: usize = 64;

/// Lateness of observed times.
pub(crate) struct Late {
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

/// Busy-polls the clock for `time`, on every core as during a flow, and returns how late the last core's loop, the
/// emulator's, observed evenly spaced times, `times_per_s` per second. It includes preemption by a hypervisor.
pub(crate) fn late(times_per_s: u64, time: Duration) -> Late {
    let cores = cores::count();
    let gap = Duration::from_nanos(1_000_000_000 / times_per_s);
    let watch = |core: usize| {
        cores::keep_to([core]);
        if core + 1 == cores {
            prefer();
        }
        let mut late =
            Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).expect("valid bounds");
        let mut due = clock::now();
        let end = due + time;
        while due < end {
            let now = clock::now();
            while due <= now {
                late.saturating_record((now - due).as_nanos() as u64);
                due += gap;
            }
        }
        late
    };
    let late = std::thread::scope(|scope| {
        let watches: Vec<_> = (0..cores)
            .map(|core| scope.spawn(move || watch(core)))
            .collect();
        let mut watches = watches.into_iter().map(|watch| watch.join());
        watches.next_back().expect("a core").expect("no panic")
    });
    Late {
        p50_ns: late.value_at_quantile(0.5),
        p99_ns: late.value_at_quantile(0.99),
        max_ns: late.max(),
    }
}

/// Sends frames of that size to the host with that address (MAC and IPv4) behind an interface of the calling thread's
/// namespace; returns packets per second of processor time.
pub(crate) fn packets_per_core_s(
    interface: &str,
    mac: [u8; 6],
    address: [u8; 4],
    frame_bytes: usize,
    time: Duration,
) -> io::Result<f64> {
    let socket = socket(AddressFamily::PACKET, SocketType::RAW, None)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
    bind(&socket, netdevice::name_to_index(&socket, interface)?)?;
    let frame = frame(mac, address, frame_bytes);
    let end = clock::now() + time;
    let busy_from = processor_s();
    let mut sent = 0;
    while clock::now() < end {
        let slices = [IoSlice::new(&frame)];
        let mut controls = [(); BATCH].map(|()| SendAncillaryBuffer::default());
        let controls = controls.iter_mut();
        let mut messages: Vec<MMsgHdr<'_>> = controls
            .map(|control| MMsgHdr::new(&slices, control))
            .collect();
        sent += sendmmsg(&socket, &mut messages, SendFlags::empty())?;
    }
    Ok(sent as f64 / (processor_s() - busy_from))
}

fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A UDP datagram without a checksum.
fn frame(mac: [u8; 6], address: [u8; 4], frame_bytes: usize) -> Vec<u8> {
    let ip_bytes = (frame_bytes - 14) as u16;
    let udp_bytes = ip_bytes - 20;
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0]);
    frame.extend(ip_bytes.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 83, 0, 250]);
    frame.extend(address);
    let words = frame[14..34].as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend([0, 9, 0, 9]);
    frame.extend(udp_bytes.to_be_bytes());
    frame.extend([0, 0]);
    assert_eq!(frame.len(), HEADER_BYTES);
    frame.resize(frame_bytes, 0);
    frame
}

#[allow(unsafe_code, reason = "rustix knows no addresses of packet(7)")]
fn bind(socket: &OwnedFd, interface_index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: interface_index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads one `sockaddr_ll`.
    let answer = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
