//! Disables offloads that would alter packets arriving one by one at a host's end of a link, with ethtool's ioctl
//! (SIOCETHTOOL).
//!
//! Segmentation and checksums are offloaded to the link: the emulator cuts what hosts send into wire packets, and joins
//! what they receive by arrival time.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};

/// linux/sockios.h.
const SIOCETHTOOL: Opcode = 0x8946;

/// The offloads in the order of disabling, with their ethtool commands (linux/ethtool.h).
pub(super) const SWITCHES: [(&str, u32); 1] = [("generic-receive-offload", 0x2c)];

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `struct ifreq` with `ifr_data` in use; the union is 24 bytes long.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    data: *mut EthtoolValue,
    rest: [u8; 16],
}

/// An ethtool command on one interface.
struct Ethtool<'a> {
    request: InterfaceRequest,
    _value: std::marker::PhantomData<&'a mut EthtoolValue>,
}

impl<'a> Ethtool<'a> {
    fn new(interface: &str, value: &'a mut EthtoolValue) -> io::Result<Self> {
        let mut name = [0; 16];
        let bytes = interface.as_bytes();
        if bytes.len() >= name.len() {
            return Err(Errno::NAMETOOLONG.into());
        }
        name[..bytes.len()].copy_from_slice(bytes);
        Ok(Ethtool {
            request: InterfaceRequest {
                name,
                data: value,
                rest: [0; 16],
            },
            _value: std::marker::PhantomData,
        })
    }
}

#[allow(unsafe_code, reason = "the kernel offers these switches to ioctl(2)")]
// SAFETY: SIOCETHTOOL takes a `struct ifreq` (same layout and size as InterfaceRequest) whose
// `ifr_data` points to the command's own struct; both live as long as the call, since `Ethtool`
// borrows the value mutably. The commands used read and write an `ethtool_value` and nothing else.
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

/// Disables every listed offload on an interface of the calling thread's namespace. One that the kernel does not
/// support is off already.
pub(super) fn turn_off(interface: &str) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    for (_, command) in SWITCHES {
        match set(socket.as_fd(), interface, command) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[allow(unsafe_code, reason = "the kernel offers these switches to ioctl(2)")]
fn set(socket: std::os::fd::BorrowedFd<'_>, interface: &str, command: u32) -> io::Result<()> {
    let mut value = EthtoolValue { command, data: 0 };
    let request = Ethtool::new(interface, &mut value)?;
    // SAFETY: `Ethtool` describes its memory truly, see its implementation of `Ioctl`.
    unsafe { ioctl(socket, request)? };
    Ok(())
}
