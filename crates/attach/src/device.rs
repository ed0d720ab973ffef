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

/// Connections of a device: as many requests as these are sent at the same time.
const CONNECTIONS: usize = 4;

/// How much longer a request may take than a lost session is recovered for, before the kernel closes its connection and
/// sends the request again. What was open when a process crashed waits for as long (`nbd_xmit_timeout`).
const REQUEST_MARGIN: Duration = Duration::from_secs(30);

/// How long the disk's process may take for each step of a connection's negotiation.
const NEGOTIATION_TIME: Duration = Duration::from_secs(10);

/// How long requests wait for a process that takes the place of one that has crashed.
const RESTART_TIME: Duration = Duration::from_secs(300);

/// The generic netlink family, and what is used of it.
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

/// Which device a disk is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceName {
    /// The first that is free.
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
            format!("`{text}` is no device: write /dev/nbd0 or another number, or any")
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

/// A disk cannot become a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The kernel has no NBD.
    #[error(
        "this kernel has no NBD devices: load them with `modprobe nbd`, or use a kernel with CONFIG_BLK_DEV_NBD"
    )]
    Missing,
    /// The device is taken.
    #[error("{0} is in use: choose another, or `any`")]
    Busy(DeviceName),
    /// The user may not.
    #[error("{0} cannot be set up: only root (CAP_SYS_ADMIN) may")]
    NotPermitted(DeviceName),
    /// Anything else that the system says.
    #[error("{device} cannot be set up: {source}")]
    System {
        /// Which.
        device: DeviceName,
        /// What it said.
        source: io::Error,
    },
}

/// A device. It is taken down when dropped.
#[derive(Debug)]
pub struct Device {
    number: u32,
    upkeep: Option<Upkeep>,
}

impl Device {
    /// Has the kernel use the disk that is served at a place, where a lost session is recovered for `patience`.
    ///
    /// # Errors
    /// [`DeviceError`] says why it cannot be.
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
            // A process before this one has left it: whoever uses it goes on.
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
        // Without the note a process after this one cannot take the device over.
        let _ =
            own_folder().and_then(|_| std::fs::write(note(number), std::process::id().to_string()));
        let streams = connections.into_iter().map(|(stream, _)| stream);
        let upkeep = Upkeep::begin(number, place.clone(), streams.collect());
        let mut device = Device {
            number,
            upkeep: None,
        };
        // A device that cannot be kept up is taken down.
        device.upkeep = Some(upkeep.map_err(failed)?);
        Ok(device)
    }

    /// Which it is.
    #[must_use]
    pub fn name(&self) -> DeviceName {
        DeviceName::Nbd(self.number)
    }

    /// Whether something uses it exclusively: a mounted file system, a volume.
    #[must_use]
    pub fn is_used(&self) -> bool {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::EXCL.bits() as i32)
            .open(self.name().to_string());
        opened.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }

    fn take_down(&self) -> io::Result<()> {
        // What the kernel has in its page cache goes to the disk first. The device goes in any case.
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
        // No connection is to come back.
        self.upkeep = None;
        // A device that somebody else has taken down is down.
        let _ = self.take_down();
    }
}

/// Adds sockets for a device.
fn add_sockets(request: &mut Attributes, streams: &[BorrowedFd<'_>]) {
    request.nested(SOCKETS, |sockets| {
        for stream in streams {
            let descriptor = stream.as_raw_fd() as u32;
            sockets.nested(SOCKET, |socket| socket.u32(SOCKET_FD, descriptor));
        }
    });
}

/// Where it stands which process has set a device up: the kernel does not tell.
fn note(number: u32) -> PathBuf {
    folder().join(format!("nbd{number}"))
}

/// Whether this process has set the device up, and none after it.
fn is_ours(number: u32) -> bool {
    let process = std::fs::read_to_string(note(number));
    process.is_ok_and(|process| process.trim() == std::process::id().to_string())
}

/// Whether the device was set up by a process of ours that is no more.
fn is_abandoned(number: u32) -> bool {
    let process = std::fs::read_to_string(note(number));
    process.is_ok_and(|process| !Path::new("/proc").join(process.trim()).exists())
}

/// A connection to the disk that is ready for requests, as the kernel takes it: with simple replies.
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
