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

/// Features in a block of `struct ethtool_sfeatures` and `struct ethtool_gfeatures`.
const BLOCK_FEATURES: usize = 32;
/// Bytes of a feature's name (ETH_GSTRING_LEN).
const NAME_BYTES: usize = 32;

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
///
/// # Errors
/// The kernel's, or that it keeps one enabled.
pub(super) fn turn_off(interface: &str) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    let ask = |command: Command| ask(socket.as_fd(), interface, command);
    for name in off() {
        let result = match name {
            GRO => ask(Command::DisableGro).map(drop),
            _ => disable_feature(ask, name),
        };
        match result {
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Disables the feature of that name, if there is one.
fn disable_feature(ask: impl Fn(Command) -> io::Result<Vec<u32>>, name: &str) -> io::Result<()> {
    let features = ask(Command::CountFeatures)?[4] as usize;
    let names = ask(Command::NameFeatures { features })?;
    let names: Vec<u8> = names[3..].iter().flat_map(|it| it.to_ne_bytes()).collect();
    let is_wanted = |string: &[u8]| string.split(|byte| *byte == 0).next() == Some(name.as_bytes());
    let Some(place) = names.chunks(NAME_BYTES).position(is_wanted) else {
        return Ok(());
    };
    ask(Command::DisableFeature { place, features })?;
    let (block, bit) = (place / BLOCK_FEATURES, place % BLOCK_FEATURES);
    let active = ask(Command::GetFeatures { features })?[2 + 4 * block + 2];
    match active >> bit & 1 {
        0 => Ok(()),
        _ => Err(io::Error::other(format!("the kernel keeps {name} enabled"))),
    }
}

/// A command of linux/ethtool.h.
#[derive(Clone, Copy)]
enum Command {
    /// `struct ethtool_value`: the command, and the value.
    DisableGro,
    /// `struct ethtool_sset_info`: the command, a reserved word, a mask of 64 bits with one set (ETH_SS_FEATURES), and its
    /// size.
    CountFeatures,
    /// `struct ethtool_gstrings`: the command, the set, its size, and the strings.
    NameFeatures { features: usize },
    /// `struct ethtool_sfeatures`: the command, the number of blocks, and of each block the features to change, and those to
    /// enable.
    DisableFeature { place: usize, features: usize },
    /// `struct ethtool_gfeatures`: the command, the number of blocks, and of each block the features that are available,
    /// requested, active, and never changed.
    GetFeatures { features: usize },
}

/// ETH_SS_FEATURES: the set of strings that names the features.
const FEATURES: u32 = 4;

impl Command {
    /// Its struct, with room for all that the kernel writes.
    fn words(&self) -> Vec<u32> {
        let with_room = |head: &[u32], room: usize| {
            let mut words = head.to_vec();
            words.resize(head.len() + room, 0);
            words
        };
        let blocks = |features: usize| features.div_ceil(BLOCK_FEATURES);
        match *self {
            Command::DisableGro => vec![0x2c, 0],
            Command::CountFeatures => {
                let mask = (1_u64 << FEATURES).to_ne_bytes();
                let words = mask.as_chunks::<4>().0.iter();
                let mut info = vec![0x37, 0];
                info.extend(words.map(|word| u32::from_ne_bytes(*word)));
                with_room(&info, 1)
            }
            Command::NameFeatures { features } => {
                let head = [0x1b, FEATURES, features as u32];
                with_room(&head, features * NAME_BYTES / size_of::<u32>())
            }
            Command::DisableFeature { place, features } => {
                let head = [0x3b, blocks(features) as u32];
                let mut change = with_room(&head, 2 * blocks(features));
                change[2 + 2 * (place / BLOCK_FEATURES)] = 1 << (place % BLOCK_FEATURES);
                change
            }
            Command::GetFeatures { features } => {
                with_room(&[0x3a, blocks(features) as u32], 4 * blocks(features))
            }
        }
    }
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

/// Has the kernel carry out a command; returns the command's words with its answer.
#[allow(unsafe_code, reason = "the kernel offers these switches to ioctl(2)")]
fn ask(socket: BorrowedFd<'_>, interface: &str, command: Command) -> io::Result<Vec<u32>> {
    let mut words = command.words();
    let request = Ethtool::new(interface, &mut words)?;
    // SAFETY: `Ethtool` describes its memory truly, see its implementation of `Ioctl`, and a command's words have room for
    // the answer.
    unsafe { ioctl(socket, request)? };
    Ok(words)
}
