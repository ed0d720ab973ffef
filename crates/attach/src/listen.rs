//! Where programs on this host connect to a disk: a Unix socket or a TCP port.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// Where to listen: `unix:PATH`, or `ADDRESS:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port; port 0 picks a free one.
    Tcp(SocketAddr),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("expected a path after unix:".to_owned()),
                path => Ok(Place::Unix(path.into())),
            };
        }
        let address = text.parse().map_err(|_| {
            format!("`{text}` is neither unix:PATH nor ADDRESS:PORT, such as 127.0.0.1:10809")
        });
        Ok(Place::Tcp(address?))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Tcp(address) => address.fmt(f),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a place cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The kernel refuses.
    #[error("cannot listen at {place}: {source}")]
    Listen {
        /// The place.
        place: Place,
        /// The error.
        source: io::Error,
    },
    /// Another program listens there.
    #[error("a program serves at {0} already")]
    Busy(Place),
}

/// A listening socket. A Unix socket's file is removed on drop.
#[derive(Debug)]
pub struct Listen {
    socket: Socket,
    place: Place,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listen {
    /// Listens at a place. Replaces a Unix socket that nobody listens at; only this user can connect to it.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn at(place: &Place) -> Result<Listen, ListenError> {
        let failed = |source| ListenError::Listen {
            place: place.clone(),
            source,
        };
        let (socket, place) = match place {
            Place::Unix(path) => {
                remove_stale(path).map_err(|error| match error.kind() {
                    ErrorKind::AddrInUse => ListenError::Busy(place.clone()),
                    _ => failed(error),
                })?;
                let socket = private(path).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                (Socket::Unix(socket), place.clone())
            }
            Place::Tcp(address) => {
                let socket = TcpListener::bind(address).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                let address = socket.local_addr().map_err(failed)?;
                (Socket::Tcp(socket), Place::Tcp(address))
            }
        };
        Ok(Listen { socket, place })
    }

    /// The listening address, with the port that the kernel chose.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Accepts the next connection as a nonblocking socket; `None` if none is pending.
    pub(crate) fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            Socket::Unix(socket) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
            Socket::Tcp(socket) => socket.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match accepted {
            Ok(stream) => {
                stream.prepare()?;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        if let Place::Unix(path) = &self.place {
            // It may already have been removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket to a program.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connects to a disk served at `place`.
    pub(crate) fn connect(place: &Place) -> io::Result<Stream> {
        match place {
            Place::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(from),
            Stream::Tcp(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Removes a socket file that nobody listens at.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => match UnixStream::connect(path) {
            Ok(_) => Err(ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(path),
        },
        Ok(_) => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "the file is no socket",
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a socket that only this user can connect to from the moment it exists.
pub(crate) fn private(path: &Path) -> io::Result<UnixListener> {
    use rustix::fs::Mode;
    use rustix::process::umask;

    /// The umask is process-wide.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let socket = UnixListener::bind(path);
    umask(before);
    socket
}
