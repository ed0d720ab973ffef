//! Captures packets of some TCP ports: a packet socket (packet(7)) with a receive ring of blocks (TPACKET_V3) and a
//! filter in the kernel. No packets are written to disk.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use wansan_insight::capture::PassingPacket;

use crate::filter;

/// A block holds the longest super-frame many times over.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS: usize = 32;
/// Timeout after which the kernel hands over a partly filled block, in ms.
const RETIRE_MS: u32 = 20;

/// linux/if_packet.h, `enum tpacket_versions`.
const TPACKET_V3: libc::c_int = 2;

/// A packet socket with its ring.
#[derive(Debug)]
pub struct Packets {
    socket: OwnedFd,
    ring: NonNull<u8>,
    next: usize,
}

impl Packets {
    /// Starts capturing packets with one of `ports` at either end, on all interfaces of the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// The system call's error: packet sockets need CAP_NET_RAW.
    pub fn open(ports: &BTreeSet<u16>) -> io::Result<Packets> {
        // Protocol 0: no packets arrive before ring and filter are set up.
        let socket = socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let loopback = netdevice::name_to_index(&socket, "lo").ok();
        attach(&socket, &filter::program(ports, loopback))?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V3)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            // Packets use as much of a block as they need.
            tp_frame_size: BLOCK_BYTES as u32,
            tp_frame_nr: BLOCKS as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let ring = map(&socket)?;
        let packets = Packets {
            socket,
            ring,
            next: 0,
        };
        packets.resume()?;
        Ok(packets)
    }

    /// Resumes capture.
    ///
    /// # Errors
    /// The system call's error.
    pub fn resume(&self) -> io::Result<()> {
        bind(&self.socket, libc::ETH_P_ALL)
    }

    /// Pauses capture, so that it costs the host's traffic nothing. Packets in the ring stay there.
    ///
    /// # Errors
    /// The system call's error.
    pub fn pause(&self) -> io::Result<()> {
        // An Ethernet loopback test, which nothing sends: in some kernels, binding a socket to protocol 0 keeps its
        // previous protocol.
        bind(&self.socket, libc::ETH_P_LOOP)
    }

    /// Waits until packets arrive, for at most `most`.
    ///
    /// # Errors
    /// The socket fails.
    pub fn wait(&self, most: Duration) -> io::Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = Timespec::try_from(most).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Passes all packets in the ring to `take`, oldest first.
    pub fn drain(&mut self, mut take: impl FnMut(PassingPacket<'_>)) {
        while self.is_ours() {
            self.each(&mut take);
            self.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
    }

    /// Packets that the kernel dropped because the ring was full, since the last call.
    ///
    /// # Errors
    /// The system call's error.
    pub fn take_drops(&self) -> io::Result<u64> {
        statistics(&self.socket)
    }

    fn is_ours(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }
}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
// SAFETY: the mapping belongs to this value alone; nothing about it is tied to a thread.
unsafe impl Send for Packets {}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
impl Packets {
    /// The current block.
    fn block(&self) -> NonNull<u8> {
        // SAFETY: `next` is below BLOCKS, so the block lies inside the mapping.
        unsafe { self.ring.add(self.next * BLOCK_BYTES) }
    }

    /// The status word that transfers a block's ownership.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a block begins with a `tpacket_block_desc`, whose header begins with the status behind two 32-bit
        // words; blocks are aligned to pages, and both sides access the word atomically.
        unsafe { self.block().add(8).cast::<AtomicU32>().as_ref() }
    }

    /// Passes each packet of the current block, which user space must own.
    fn each(&self, take: &mut impl FnMut(PassingPacket<'_>)) {
        let block = self.block();
        // SAFETY: the status says that user space owns the block, and the kernel has filled its header in.
        let header = unsafe { block.cast::<libc::tpacket_block_desc>().as_ref().hdr.bh1 };
        let mut at = header.offset_to_first_pkt as usize;
        for _ in 0..header.num_pkts {
            if at + size_of::<libc::tpacket3_hdr>() + size_of::<libc::sockaddr_ll>() > BLOCK_BYTES {
                return;
            }
            // SAFETY: the header lies inside the block, which user space owns, and the kernel aligns headers to 16
            // bytes.
            let (packet, from) = unsafe {
                let packet = block.add(at).cast::<libc::tpacket3_hdr>();
                let behind =
                    size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
                let from = block.add(at + behind).cast::<libc::sockaddr_ll>();
                (packet.read(), from.read())
            };
            let start = at + usize::from(packet.tp_net);
            let length = (packet.tp_snaplen as usize).min(BLOCK_BYTES.saturating_sub(start));
            if start < BLOCK_BYTES {
                // SAFETY: `start + length` is at most the block's size, and user space owns the block until it is given
                // back, which needs this value mutably.
                let bytes =
                    unsafe { std::slice::from_raw_parts(block.add(start).as_ptr(), length) };
                take(PassingPacket {
                    time_ns: u64::from(packet.tp_sec) * 1_000_000_000 + u64::from(packet.tp_nsec),
                    interface: u32::try_from(from.sll_ifindex).unwrap_or(0),
                    bytes,
                });
            }
            match packet.tp_next_offset {
                0 => return,
                next => at += next as usize,
            }
        }
    }
}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
impl Drop for Packets {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), BLOCK_BYTES * BLOCKS) };
    }
}

#[allow(unsafe_code, reason = "the ring is memory shared with the kernel")]
fn map(socket: &OwnedFd) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address that the kernel chooses does not touch other memory of the process.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            BLOCK_BYTES * BLOCKS,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            socket.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?)
}

fn attach(socket: &OwnedFd, program: &[(u16, u8, u8, u32)]) -> io::Result<()> {
    let mut instructions: Vec<libc::sock_filter> = program
        .iter()
        .map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
        .collect();
    let program = libc::sock_fprog {
        len: instructions.len() as u16,
        filter: instructions.as_mut_ptr(),
    };
    // The kernel copies the instructions, which live until then.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

#[allow(unsafe_code, reason = "rustix knows no socket options of packet(7)")]
fn set_option<V: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &V,
) -> io::Result<()> {
    // SAFETY: the kernel reads at most the given number of bytes, all of them `value`'s.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<V>() as libc::socklen_t,
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[allow(unsafe_code, reason = "rustix knows no socket options of packet(7)")]
fn statistics(socket: &OwnedFd) -> io::Result<u64> {
    let mut statistics = libc::tpacket_stats_v3 {
        tp_packets: 0,
        tp_drops: 0,
        tp_freeze_q_cnt: 0,
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
    match answer {
        0 => Ok(u64::from(statistics.tp_drops)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[allow(unsafe_code, reason = "rustix knows no addresses of packet(7)")]
fn bind(socket: &OwnedFd, protocol: libc::c_int) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads one `sockaddr_ll`.
    let answer = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
