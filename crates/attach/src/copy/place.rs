//! Source and destination of a copy.

use std::ffi::OsString;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use wansan_san::url::IscsiUrl;

/// The port of NBD (IANA).
const NBD_PORT: u16 = 10809;

/// Characters percent-encoded in the path or the query of a URI (RFC 3986 §3.3).
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPlace {
    /// Standard input or standard output: `-`.
    Standard,
    /// A file or a block device.
    File(PathBuf),
    /// A LUN: `iscsi://HOST[:PORT]/TARGET-IQN/LUN`.
    Iscsi(IscsiUrl),
    /// An NBD export, as an NBD URI: `nbd://HOST[:PORT]/[EXPORT]` and `nbd+unix:///[EXPORT]?socket=PATH`.
    Nbd(NbdPlace),
}

/// An export and its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdPlace {
    /// Its name; empty for the default one.
    pub export: String,
    /// The server's address.
    pub at: NbdAddress,
}

/// Address of an NBD server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NbdAddress {
    /// A TCP port.
    Tcp {
        /// Host name or address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl CopyPlace {
    /// Whether both name the same place: one file or device, or one LUN or export of one host. Standard input and
    /// standard output are not the same place.
    pub(super) fn is_same(&self, other: &CopyPlace) -> bool {
        match (self, other) {
            (CopyPlace::Standard, CopyPlace::Standard) => false,
            (CopyPlace::File(one), CopyPlace::File(other)) => {
                one == other || is_same_file(one, other)
            }
            (CopyPlace::Iscsi(one), CopyPlace::Iscsi(other)) => {
                let is_one_unit = one.target == other.target && one.lun == other.lun;
                is_one_unit && share_address((&one.host, one.port), (&other.host, other.port))
            }
            (CopyPlace::Nbd(one), CopyPlace::Nbd(other)) => {
                one.export == other.export && one.at.is_same(&other.at)
            }
            _ => false,
        }
    }
}

impl NbdAddress {
    fn is_same(&self, other: &NbdAddress) -> bool {
        match (self, other) {
            (NbdAddress::Unix(one), NbdAddress::Unix(other)) => {
                one == other || is_same_file(one, other)
            }
            (
                NbdAddress::Tcp { host, port },
                NbdAddress::Tcp {
                    host: other,
                    port: at,
                },
            ) => share_address((host, *port), (other, *at)),
            _ => false,
        }
    }
}

/// Whether both are the same file or device.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (std::fs::metadata(one), std::fs::metadata(other)) else {
        return false;
    };
    let are_devices = one.file_type().is_block_device() && other.file_type().is_block_device();
    (one.dev(), one.ino()) == (other.dev(), other.ino())
        || are_devices && one.rdev() == other.rdev()
}

/// Whether two host names share an address. A name that does not resolve is reported at connection time.
fn share_address(one: (&str, u16), other: (&str, u16)) -> bool {
    let addresses = |place: (&str, u16)| place.to_socket_addrs().into_iter().flatten();
    let others: Vec<SocketAddr> = addresses(other).collect();
    one == other || addresses(one).any(|address| others.contains(&address))
}

impl FromStr for CopyPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<CopyPlace, String> {
        if text == "-" {
            return Ok(CopyPlace::Standard);
        }
        match text.split_once("://") {
            Some(("iscsi", _)) => {
                let url = text.parse().map(CopyPlace::Iscsi);
                url.map_err(|error: wansan_san::url::UrlError| error.to_string())
            }
            Some(("nbd", rest)) => nbd_tcp(rest).map(CopyPlace::Nbd),
            Some(("nbd+unix", rest)) => nbd_unix(rest).map(CopyPlace::Nbd),
            Some((scheme, _))
                if scheme
                    .chars()
                    .all(|char| char.is_ascii_alphanumeric() || char == '+') =>
            {
                Err(format!(
                    "`{scheme}://` is not known: write iscsi://, nbd://, nbd+unix://, a path, or - for standard input or output"
                ))
            }
            _ if text.is_empty() => Err("a place must not be empty".to_owned()),
            _ if ["nbd:", "iscsi:"]
                .iter()
                .any(|scheme| text.starts_with(scheme)) =>
            {
                Err(format!(
                    "`{text}` is neither a URI nor a path: write nbd://HOST/EXPORT, iscsi://HOST/TARGET-IQN/LUN, or ./{text} for a file"
                ))
            }
            _ => Ok(CopyPlace::File(text.into())),
        }
    }
}

fn nbd_tcp(rest: &str) -> Result<NbdPlace, String> {
    let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port = port
                .parse()
                .map_err(|_| format!("`{port}` is not a port"))?;
            (host, port)
        }
        _ => (authority, NBD_PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err("nbd:// needs a host, as in nbd://127.0.0.1:10809/EXPORT".to_owned());
    }
    Ok(NbdPlace {
        export: decoded(export)?,
        at: NbdAddress::Tcp {
            host: host.to_owned(),
            port,
        },
    })
}

fn nbd_unix(rest: &str) -> Result<NbdPlace, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let socket = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("socket="));
    let socket = socket.filter(|socket| !socket.is_empty());
    let socket = socket
        .ok_or("nbd+unix:// needs its socket, as in nbd+unix:///EXPORT?socket=/run/disk.sock")?;
    Ok(NbdPlace {
        export: decoded(path.strip_prefix('/').unwrap_or(path))?,
        at: NbdAddress::Unix(OsString::from_vec(percent_decode_str(socket).collect()).into()),
    })
}

/// Decodes the export name from the URI.
fn decoded(export: &str) -> Result<String, String> {
    let name = percent_decode_str(export).decode_utf8();
    let name = name.map_err(|_| format!("the export's name `{export}` is not UTF-8"))?;
    Ok(name.into_owned())
}

impl fmt::Display for CopyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyPlace::Standard => f.write_str("-"),
            CopyPlace::File(path) => path.display().fmt(f),
            CopyPlace::Iscsi(url) => url.fmt(f),
            CopyPlace::Nbd(place) => place.fmt(f),
        }
    }
}

impl fmt::Display for NbdPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = percent_encode(self.export.as_bytes(), ENCODED);
        match &self.at {
            NbdAddress::Tcp { host, port } if host.contains(':') => {
                write!(f, "nbd://[{host}]:{port}/{export}")
            }
            NbdAddress::Tcp { host, port } => write!(f, "nbd://{host}:{port}/{export}"),
            NbdAddress::Unix(path) => {
                let path = percent_encode(path.as_os_str().as_bytes(), ENCODED);
                write!(f, "nbd+unix:///{export}?socket={path}")
            }
        }
    }
}

impl NbdAddress {
    /// Connects to the server.
    pub(super) fn connect(&self) -> std::io::Result<crate::listen::Stream> {
        use std::net::TcpStream;
        use std::os::unix::net::UnixStream;

        use crate::listen::Stream;

        match self {
            NbdAddress::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
            NbdAddress::Tcp { host, port } => {
                let mut last = None;
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect(address) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return Ok(Stream::Tcp(stream));
                        }
                        Err(error) => last = Some(error),
                    }
                }
                Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in [
            "-",
            "/dev/sdb",
            "disk.img",
            "iscsi://192.0.2.1:3260/iqn.2026-01.net.example:disk/0",
            "nbd://127.0.0.1:10809/",
            "nbd://[::1]:10810/backup",
            "nbd+unix:///?socket=/run/disk.sock",
            "nbd+unix:///disk?socket=/run/disk.sock",
            "nbd://127.0.0.1:10809/my%20disk/%C3%A4%25",
            "nbd+unix:///a%3Fb?socket=/run/my%20disk.sock",
        ] {
            let place: CopyPlace = text.parse().expect(text);
            assert_eq!(place.to_string(), text);
        }
        let usual: CopyPlace = "nbd://host/x".parse().expect("a port is not needed");
        assert_eq!(usual.to_string(), "nbd://host:10809/x");
    }

    #[test]
    fn percent_signs_stand_for_bytes() {
        let place: CopyPlace = "nbd+unix:///my%20%C3%A4?socket=/run/a%26b%FF"
            .parse()
            .unwrap();
        let socket = OsString::from_vec(b"/run/a&b\xff".to_vec());
        let expected = NbdPlace {
            export: "my \u{e4}".to_owned(),
            at: NbdAddress::Unix(socket.into()),
        };
        assert_eq!(place, CopyPlace::Nbd(expected));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "",
            "ftp://host/x",
            "nbd:///x",
            "nbd+unix:///x",
            "nbd://host:x/",
            "iscsi://host/",
            "nbd:host:10809",
            "nbd://host/%FF",
        ] {
            assert!(text.parse::<CopyPlace>().is_err(), "{text}");
        }
    }
}
