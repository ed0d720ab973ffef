//! A TUN device: the kernel's routing on one side, this process on the other.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// A TUN device in the calling thread's network namespace. It is created down, and removed on drop.
#[derive(Debug)]
pub(crate) struct Device {
    file: File,
}

impl Device {
    /// Creates a device with that name, which must not exist yet.
    pub(crate) fn make(name: &str) -> io::Result<Device> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        attach(&file, name)?;
        Ok(Device { file })
    }

    /// Reads the next packet that the kernel has routed into the device, if there is one; returns its length.
    pub(crate) fn read(&self, packet: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(packet)
    }

    /// Passes a packet to the kernel as received from the device.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// TUNSETIFF (Documentation/networking/tuntap.rst): IP packets without the packet information header (IFF_NO_PI).
#[allow(unsafe_code, reason = "an ioctl is unsafe to call")]
fn attach(file: &File, name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a device's name has 1 to 15 bytes",
        ));
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: flags as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `request` is and which outlives
    // the call; its name ends in a zero byte since it is shorter than the field.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
