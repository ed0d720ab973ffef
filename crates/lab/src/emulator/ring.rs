//! Raw frames at one end of a virtual Ethernet link: a packet socket (packet(7)) with a receive ring shared with the
//! kernel.
//!
//! The kernel writes each arriving frame and its timestamp into the next slot of the ring (TPACKET_V2), so a frame
//! costs no system call, and its timestamp does not depend on when we wake. TPACKET_V3 is not used: it delivers blocks,
//! and a partly filled one only after a timeout of at least a millisecond. Nor is AF_XDP: a loop that only forwards carried
//! 1.03 million packets of 64 bytes a second of a core from one veth to another with it (1.09 in native mode), 0.93 of
//! 1514 bytes, and with a ring of blocks and `sendmmsg` 1.44 and 1.13. There is no transmit ring: the kernel would
//! send our pages without copying and mark them free while the receiving host's TCP still holds them.
//!
//! Each frame has a header that states the remaining segmentation and checksum work (PACKET_VNET_HDR), so a host's
//! kernel passes many packets of a flow at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketType, netdevice, socket};

use wansan_path::SUPER_FRAME_MAX_BYTES;

use super::virtio::{self, Offload};

/// Size of a slot, and of the kernel memory blocks that contain slots, in bytes: a super-frame behind the kernel's header
/// (76 bytes, with that of the offload) and an Ethernet header with a VLAN tag.
const SLOT_BYTES: usize = SUPER_FRAME_MAX_BYTES as usize + 128;
/// Blocks are pages, and each holds a whole number of slots.
const _: () = assert!(SLOT_BYTES.is_power_of_two());
/// The same on a real router, whose interfaces may join packets up to IPv4's maximum.
const ROUTED_SLOT_BYTES: usize = 128 << 10;
/// Memory of all rings together, in bytes.
const RINGS_BYTES: usize = 64 << 20;
/// Slots of a ring if there are few rings. The driver polls it at least every half millisecond, in which a host that
/// sends a million frames a second fills a quarter of it.
const MAX_SLOTS: usize = 2048;
/// Slots of a ring if there are many rings.
const MIN_SLOTS: usize = 128;

/// A frame in the ring.
pub(super) struct Received<'a> {
    /// Kernel receive time: CLOCK_REALTIME, in ns.
    pub(super) realtime_ns: u64,
    /// The frame, including the Ethernet header.
    pub(super) bytes: &'a [u8],
    /// The remaining offload work; `None` if it exceeds what a network card would do, or if the frame is truncated.
    pub(super) offload: Option<Offload>,
}

/// A packet socket and its ring.
pub(super) struct PacketSocket {
    socket: OwnedFd,
    ring: Ring,
}

impl PacketSocket {
    /// Opens an interface in the calling thread's network namespace, one of `ports` that share the ring memory. With a
    /// socket filter program ([`pairs`](super::pairs)) it belongs to a real router, which others share.
    pub(super) fn open(
        interface: &str,
        ports: usize,
        program: Option<&[libc::sock_filter]>,
    ) -> io::Result<Self> {
        // Protocol 0: no frames arrive before the ring and the interface are set up.
        let socket = socket(AddressFamily::PACKET, SocketType::RAW, None)?;
        let index = netdevice::name_to_index(&socket, interface)?;
        set_option(&socket, libc::PACKET_VERSION, &TPACKET_V2)?;
        set_option(&socket, libc::PACKET_IGNORE_OUTGOING, &1)?;
        set_option(&socket, libc::PACKET_VNET_HDR, &1)?;
        let slot_bytes = match program {
            // The kernel then cuts none of our super-frames: it rejects those that the interface would not accept
            // whole; veth accepts up to 64 KiB.
            None => {
                set_option(&socket, libc::PACKET_QDISC_BYPASS, &1)?;
                SLOT_BYTES
            }
            // A real interface may need them cut.
            Some(program) => {
                attach(&socket, program)?;
                ROUTED_SLOT_BYTES
            }
        };
        let slots = (RINGS_BYTES / slot_bytes / ports).clamp(MIN_SLOTS, MAX_SLOTS);
        let ring = Ring::map(&socket, slots, slot_bytes)?;
        bind(&socket, index)?;
        Ok(PacketSocket { socket, ring })
    }

    /// The oldest frame not yet released, if any.
    pub(super) fn oldest(&self) -> Option<Received<'_>> {
        self.ring.oldest()
    }

    /// Returns the oldest frame's slot to the kernel.
    pub(super) fn release(&mut self) {
        self.ring.release();
    }

    /// Frames that the kernel dropped because the ring was full, since the last call.
    pub(super) fn take_drops(&self) -> io::Result<u64> {
        statistics(&self.socket).map(|statistics| u64::from(statistics.tp_drops))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// linux/if_packet.h, `enum tpacket_versions`.
const TPACKET_V2: libc::c_int = 1;

/// The mapped ring: slots of equal size, filled by the kernel in order.
struct Ring {
    memory: NonNull<u8>,
    slots: usize,
    slot_bytes: usize,
    next: usize,
}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
// SAFETY: the mapping belongs to this value alone; nothing about it is tied to a thread.
unsafe impl Send for Ring {}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
impl Ring {
    fn map(socket: &OwnedFd, slots: usize, slot_bytes: usize) -> io::Result<Self> {
        let memory_bytes = slot_bytes * slots;
        let request = libc::tpacket_req {
            tp_block_size: slot_bytes as u32,
            tp_block_nr: slots as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slots as u32,
        };
        set_option(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                memory_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            memory: NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            slots,
            slot_bytes,
            next: 0,
        })
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: `next` is below `slots`, so the slot lies inside the mapping.
        unsafe { self.memory.add(self.next * self.slot_bytes) }
    }

    /// The status word that transfers a slot's ownership: 0 is the kernel's, TP_STATUS_USER ours.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with a `tpacket2_hdr`, that with its 32-bit status; slots are
        // aligned to their power of two, and both sides access the word atomically.
        unsafe { self.slot().cast::<AtomicU32>().as_ref() }
    }

    fn oldest(&self) -> Option<Received<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that the slot is ours until we release it, which needs this
        // ring mutably and so ends every borrow; the kernel has filled in the header, whose
        // padding and alignment the type has as well.
        let header = unsafe { self.slot().cast::<libc::tpacket2_hdr>().as_ref() };
        let start = usize::from(header.tp_mac).min(self.slot_bytes);
        let length = (header.tp_snaplen as usize).min(self.slot_bytes - start);
        // SAFETY: `start + length` is at most the slot's size, and the slot is ours as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.slot().add(start).as_ptr(), length) };
        let offload = (header.tp_len as usize == length && start >= virtio::HEADER_BYTES)
            // SAFETY: the kernel has put the header right before the frame, inside the slot.
            .then(|| unsafe {
                let offload = self.slot().add(start - virtio::HEADER_BYTES);
                offload.cast::<[u8; virtio::HEADER_BYTES]>().read()
            })
            .and_then(Offload::parse);
        Some(Received {
            realtime_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            bytes,
            offload,
        })
    }

    fn release(&mut self) {
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
    }
}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.slot_bytes * self.slots) };
    }
}

/// Limits the socket to packets that a program accepts.
fn attach(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        // The kernel copies the program.
        filter: program.as_ptr().cast_mut(),
    };
    set_option_of(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set_option<V: Copy>(socket: &OwnedFd, option: libc::c_int, value: &V) -> io::Result<()> {
    set_option_of(socket, libc::SOL_PACKET, option, value)
}

#[allow(unsafe_code, reason = "rustix knows no socket options of packet(7)")]
fn set_option_of<V: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &V,
) -> io::Result<()> {
    // SAFETY: the kernel reads at most the given number of bytes, all of them `value`'s, and the program
    // that `value` may point to.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<V>() as libc::socklen_t,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[allow(unsafe_code, reason = "rustix knows no socket options of packet(7)")]
fn statistics(socket: &OwnedFd) -> io::Result<libc::tpacket_stats> {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `statistics`.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            std::ptr::from_mut(&mut statistics).cast(),
            &raw mut length,
        )
    };
    if answer == 0 {
        Ok(statistics)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[allow(unsafe_code, reason = "rustix knows no addresses of packet(7)")]
fn bind(socket: &OwnedFd, interface_index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
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
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
