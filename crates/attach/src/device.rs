//! The kernel's block devices for NBD disks: `/dev/nbdN`, set up by netlink (linux/nbd-netlink.h).

mod netlink;
mod upkeep;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use serde::Serialize;
use wansan_nbd::client::{Client, Event, ExportInfo, Wants};

use self::netlink::{Attributes, Family};
use self::upkeep::Upkeep;
use crate::listen::{Place, Stream};
use crate::runtime::{folder, own_folder};

/// Connections of a device: the kernel sends at most this many requests in parallel.
const CONNECTIONS: usize = 4;

/// Request timeout in excess of the session's recovery time: after it, the kernel closes the connection and sends the
/// request again. Requests open when a process crashes wait as long (`nbd_xmit_timeout`).
const REQUEST_MARGIN: Duration = Duration::from_secs(30);

/// Timeout of the disk's process for each step of the NBD handshake.
const NEGOTIATION_TIME: Duration = Duration::from_secs(10);

/// How long requests wait for a process that replaces a crashed one.
const RESTART_TIME: Duration = Duration::from_secs(300);

/// The generic netlink family, with the commands and attributes used here.
const FAMILY: &str = "nbd";
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONNECTION_TIMEOUT: u16 = 8;
const SOCKET: u16 = 1;
const SOCKET_FD: u16 = 1;

/// The device for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceName {
    /// The first free one.
    Any,
    /// `/dev/nbdN`.
    Nbd(u32),
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceName, String> {
        if text == "any" {
            return Ok(DeviceName::Any);
        }
        let name = text.strip_prefix("/dev/").unwrap_or(text);
        let number = name
            .strip_prefix("nbd")
            .and_then(|number| number.parse().ok());
        number.map(DeviceName::Nbd).ok_or_else(|| {
            format!("`{text}` is not a device: write /dev/nbd0 or another number, or any")
        })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Any => f.write_str("any"),
            DeviceName::Nbd(number) => write!(f, "/dev/nbd{number}"),
        }
    }
}

impl Serialize for DeviceName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a device cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The kernel has no NBD support.
    #[error(
        "this kernel has no NBD devices: load them with `modprobe nbd`, or use a kernel with CONFIG_BLK_DEV_NBD"
    )]
    Missing,
    /// The device is in use.
    #[error("{0} is in use: choose another, or `any`")]
    Busy(DeviceName),
    /// The user lacks permission.
    #[error("{0} cannot be set up: only root (CAP_SYS_ADMIN) may")]
    NotPermitted(DeviceName),
    /// Any other system error.
    #[error("{device} cannot be set up: {source}")]
    System {
        /// The device.
        device: DeviceName,
        /// The error.
        source: io::Error,
    },
}

/// A block device. Dropping it disconnects it.
#[derive(Debug)]
pub struct Device {
    number: u32,
    upkeep: Option<Upkeep>,
}

impl Device {
    /// Connects a kernel device to the disk served at `place`; `patience` is how long a lost session is recovered for.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn set_up(
        name: DeviceName,
        place: &Place,
        patience: Duration,
    ) -> Result<Device, DeviceError> {
        let failed = |source: io::Error| match (source.kind(), source.raw_os_error()) {
            (io::ErrorKind::NotFound, _) => DeviceError::Missing,
            (io::ErrorKind::PermissionDenied, _) => DeviceError::NotPermitted(name),
            (io::ErrorKind::ResourceBusy, _) => DeviceError::Busy(name),
            _ => DeviceError::System {
                device: name,
                source,
            },
        };
        let mut family = Family::open(FAMILY).map_err(failed)?;
        let connections = (0..CONNECTIONS).map(|_| negotiated(place));
        let connections = connections
            .collect::<io::Result<Vec<_>>>()
            .map_err(failed)?;
        let Some((_, info)) = connections.first() else {
            return Err(DeviceError::Missing);
        };
        let streams = connections.iter().map(|(stream, _)| stream.as_fd());
        let streams: Vec<BorrowedFd<'_>> = streams.collect();
        let timeout = patience + REQUEST_MARGIN;
        let mut request = Attributes::default();
        if let DeviceName::Nbd(number) = name {
            request.u32(INDEX, number);
        }
        request.u64(SIZE_BYTES, info.export.size_bytes);
        request.u64(
            BLOCK_SIZE_BYTES,
            info.export.block.minimum_bytes.max(512).into(),
        );
        request.u64(TIMEOUT, timeout.as_secs());
        request.u64(DEAD_CONNECTION_TIMEOUT, RESTART_TIME.as_secs());
        request.u64(
            SERVER_FLAGS,
            info.export.abilities.to_flags().to_wire().into(),
        );
        add_sockets(&mut request, &streams);
        let answer = match (family.ask(CONNECT, &request), name) {
            // A previous process left it: its users continue with us.
            (Err(error), DeviceName::Nbd(number))
                if error.kind() == io::ErrorKind::ResourceBusy && is_abandoned(number) =>
            {
                let mut request = Attributes::default();
                request.u32(INDEX, number);
                request.u64(TIMEOUT, timeout.as_secs());
                add_sockets(&mut request, &streams);
                family.ask(RECONFIGURE, &request)
            }
            (answer, _) => answer,
        };
        let number = answer
            .map_err(failed)?
            .and_then(|answer| answer.find_u32(INDEX));
        let number = match (number, name) {
            (Some(number), _) | (None, DeviceName::Nbd(number)) => number,
            (None, DeviceName::Any) => {
                return Err(failed(io::Error::other(
                    "the kernel does not say which device it is",
                )));
            }
        };
        // Without the note, a later process cannot take the device over.
        let _ =
            own_folder().and_then(|_| std::fs::write(note(number), std::process::id().to_string()));
        let streams = connections.into_iter().map(|(stream, _)| stream);
        let upkeep = Upkeep::begin(number, place.clone(), streams.collect());
        let mut device = Device {
            number,
            upkeep: None,
        };
        // Disconnect a device whose connections cannot be maintained.
        device.upkeep = Some(upkeep.map_err(failed)?);
        Ok(device)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> DeviceName {
        DeviceName::Nbd(self.number)
    }

    /// Whether it has an exclusive user: a mounted file system, a volume.
    #[must_use]
    pub fn is_used(&self) -> bool {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::EXCL.bits() as i32)
            .open(self.name().to_string());
        opened.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }

    fn take_down(&self) -> io::Result<()> {
        // Sync the kernel's page cache first. The device is disconnected even if that fails.
        let synced = File::open(self.name().to_string()).and_then(|device| device.sync_all());
        let mut request = Attributes::default();
        request.u32(INDEX, self.number);
        let down = Family::open(FAMILY)?.ask(DISCONNECT, &request).map(|_| ());
        let _ = std::fs::remove_file(note(self.number));
        synced.and(down)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Stop replacing connections.
        self.upkeep = None;
        // Ignore the error: somebody else may have disconnected it already.
        let _ = self.take_down();
    }
}

/// Adds the sockets' attributes for a device.
fn add_sockets(request: &mut Attributes, streams: &[BorrowedFd<'_>]) {
    request.nested(SOCKETS, |sockets| {
        for stream in streams {
            let descriptor = stream.as_raw_fd() as u32;
            sockets.nested(SOCKET, |socket| socket.u32(SOCKET_FD, descriptor));
        }
    });
}

/// The file that notes which process set the device up: the kernel does not report it.
fn note(number: u32) -> PathBuf {
    folder().join(format!("nbd{number}"))
}

/// Whether this process set the device up and no later one took it over.
fn is_ours(number: u32) -> bool {
    let process = std::fs::read_to_string(note(number));
    process.is_ok_and(|process| process.trim() == std::process::id().to_string())
}

/// Whether the device was set up by a process of ours that no longer exists.
fn is_abandoned(number: u32) -> bool {
    let process = std::fs::read_to_string(note(number));
    process.is_ok_and(|process| !Path::new("/proc").join(process.trim()).exists())
}

/// A negotiated connection to the disk, in the mode that the kernel supports: simple replies.
fn negotiated(place: &Place) -> io::Result<(Stream, ExportInfo)> {
    let mut stream = Stream::connect(place)?;
    set_socket_timeout(&stream, Timeout::Recv, Some(NEGOTIATION_TIME))?;
    let wants = Wants {
        extended_headers: false,
        structured_replies: false,
        block_status: false,
    };
    let mut client = Client::new("", wants).map_err(|error| io::Error::other(error.to_string()))?;
    loop {
        match client.poll_event().map_err(io::Error::other)? {
            Some(Event::Ready(info)) => {
                set_socket_timeout(&stream, Timeout::Recv, None)?;
                return Ok((stream, info));
            }
            Some(Event::Refused(refusal)) => return Err(io::Error::other(refusal.to_string())),
            Some(_) => {}
            None => {
                let sent = client.pending().len();
                stream.write_all(client.pending())?;
                client.sent(sent);
                let received = stream.read(client.space())?;
                if received == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                client.received(received);
            }
        }
    }
}
