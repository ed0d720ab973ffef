//! Disables offloads that would alter packets arriving one by one at a host's end of a link, or that the emulator cannot
//! receive, with ethtool's ioctl (SIOCETHTOOL).
//!
//! Segmentation and checksums are offloaded to the link: the emulator cuts what hosts send into wire packets, and joins
//! what they receive by arrival time.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};

use crate::kernel;

/// linux/sockios.h.
const SIOCETHTOOL: Opcode = 0x8946;

/// Commands of linux/ethtool.h.
const SET_GRO: u32 = 0x2c;
const GET_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const SET_FEATURES: u32 = 0x3b;
/// The set of strings that names the features (ETH_SS_FEATURES), and the bytes of each (ETH_GSTRING_LEN).
const FEATURES: u32 = 4;
const STRING_BYTES: usize = 32;

const GRO: &str = "generic-receive-offload";
const UDP_SEGMENTATION: &str = "tx-udp-segmentation";

/// The offloads that [`turn_off`] disables, by ethtool's names.
pub(super) fn off() -> Vec<&'static str> {
    if kernel::passes_udp_super_frames() {
        vec![GRO]
    } else {
        vec![GRO, UDP_SEGMENTATION]
    }
}

/// Disables them on an interface of the calling thread's namespace. One that the kernel does not support is off already.
pub(super) fn turn_off(interface: &str) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    let command = |words: &mut [u32]| ask(socket.as_fd(), interface, words);
    for name in off() {
        let result = match name {
            GRO => command(&mut [SET_GRO, 0]),
            _ => turn_feature_off(command, name),
        };
        match result {
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Disables the feature of that name, if there is one.
fn turn_feature_off(
    mut command: impl FnMut(&mut [u32]) -> io::Result<()>,
    name: &str,
) -> io::Result<()> {
    // `struct ethtool_sset_info`: the command, a reserved word, a mask of 64 bits, and the size of the set.
    let mut info = [GET_SET_INFO, 0, 0, 0, 0];
    info[2..4].copy_from_slice(&words_of(1 << FEATURES));
    command(&mut info)?;
    let count = info[4] as usize;
    // `struct ethtool_gstrings`: the command, the set, its size, and the strings.
    let mut strings = vec![0; 3 + count * STRING_BYTES / 4];
    strings[..3].copy_from_slice(&[GET_STRINGS, FEATURES, count as u32]);
    command(&mut strings)?;
    let names: Vec<u8> = strings[3..]
        .iter()
        .flat_map(|it| it.to_ne_bytes())
        .collect();
    let is_wanted = |string: &[u8]| string.split(|byte| *byte == 0).next() == Some(name.as_bytes());
    let Some(place) = names.chunks(STRING_BYTES).position(is_wanted) else {
        return Ok(());
    };
    // `struct ethtool_sfeatures`: the command, the number of blocks, and per block of 32 features those to change and
    // those to enable.
    let blocks = count.div_ceil(32);
    let mut change = vec![0; 2 + 2 * blocks];
    change[..2].copy_from_slice(&[SET_FEATURES, blocks as u32]);
    change[2 + 2 * (place / 32)] = 1 << (place % 32);
    command(&mut change)
}

/// A number of 64 bits in memory order.
fn words_of(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    [0, 4].map(|at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

/// `struct ifreq` with `ifr_data` in use; the union is 24 bytes long.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    data: *mut u32,
    rest: [u8; 16],
}

/// An ethtool command on one interface.
struct Ethtool<'a> {
    request: InterfaceRequest,
    _words: std::marker::PhantomData<&'a mut [u32]>,
}

impl<'a> Ethtool<'a> {
    fn new(interface: &str, words: &'a mut [u32]) -> io::Result<Self> {
        let mut name = [0; 16];
        let bytes = interface.as_bytes();
        if bytes.len() >= name.len() {
            return Err(Errno::NAMETOOLONG.into());
        }
        name[..bytes.len()].copy_from_slice(bytes);
        Ok(Ethtool {
            request: InterfaceRequest {
                name,
                data: words.as_mut_ptr(),
                rest: [0; 16],
            },
            _words: std::marker::PhantomData,
        })
    }
}

#[allow(unsafe_code, reason = "the kernel offers these switches to ioctl(2)")]
// SAFETY: SIOCETHTOOL takes a `struct ifreq` (same layout and size as InterfaceRequest) whose
// `ifr_data` points to the command's own struct; both live as long as the call, since `Ethtool`
// borrows the words mutably.
unsafe impl Ioctl for Ethtool<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SIOCETHTOOL
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(&mut self.request).cast()
    }

    unsafe fn output_from_ptr(
        _out: IoctlOutput,
        _extract_output: *mut c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Has the kernel carry out a command, and write its answer into the command's `words`. They have to be as long as the
/// command's struct with what it states to follow.
#[allow(unsafe_code, reason = "the kernel offers these switches to ioctl(2)")]
fn ask(socket: BorrowedFd<'_>, interface: &str, words: &mut [u32]) -> io::Result<()> {
    let request = Ethtool::new(interface, words)?;
    // SAFETY: `Ethtool` describes its memory truly, see its implementation of `Ioctl`. Of the callers' commands, the
    // kernel reads and writes a value (SET_GRO), one size (GET_SET_INFO with one set), as many strings as the set's size
    // (GET_STRINGS), or as many blocks as stated (SET_FEATURES); all fit in their words.
    unsafe { ioctl(socket, request)? };
    Ok(())
}
