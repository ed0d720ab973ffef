//! Connections made by the relay itself: one that came back as a client's would start another, and so on. `cycle`
//! rejects loops that the configuration shows; an address that becomes local while the relay runs shows only here.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::getsockname;

/// A connection by its endpoints: its originator's, and its destination's.
type Endpoints = (SocketAddr, SocketAddr);

/// The relay's own connections, of all threads.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<HashSet<Endpoints>>);

impl Ends {
    /// Adds a connection to `to` that has begun; `None` where it has no local endpoint.
    pub(crate) fn remember(self: &Arc<Ends>, socket: impl AsFd, to: SocketAddr) -> Option<OwnEnd> {
        let own: SocketAddr = getsockname(socket).ok()?.try_into().ok()?;
        // The unspecified address means the local host.
        let ip = if to.ip().is_unspecified() {
            own.ip()
        } else {
            to.ip()
        };
        let connection = endpoints(own, SocketAddr::new(ip, to.port()));
        self.with(|made| made.insert(connection));
        Some(OwnEnd {
            ends: Arc::clone(self),
            connection,
        })
    }

    /// Whether a client's connection is one of the relay's own.
    pub(crate) fn made(&self, client: SocketAddr, socket: impl AsFd) -> bool {
        let Some(here) = getsockname(socket).ok().and_then(|it| it.try_into().ok()) else {
            return false;
        };
        self.with(|made| made.contains(&endpoints(client, here)))
    }

    fn with<T>(&self, what: impl FnOnce(&mut HashSet<Endpoints>) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Without fields that only one of the two kernel sockets reports.
fn endpoints(from: SocketAddr, to: SocketAddr) -> Endpoints {
    let plain = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
    (plain(from), plain(to))
}

/// A connection that is remembered until this is dropped.
#[derive(Debug)]
pub(crate) struct OwnEnd {
    ends: Arc<Ends>,
    connection: Endpoints,
}

impl Drop for OwnEnd {
    fn drop(&mut self) {
        self.ends.with(|made| made.remove(&self.connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_comes_back_is_known_until_it_is_gone() {
        for (listen, to) in [
            ("127.0.0.1:0", "0.0.0.0"),
            ("[::]:0", "127.0.0.1"),
            ("[::1]:0", "[::1]"),
        ] {
            let listener = TcpListener::bind(listen).unwrap();
            let to = format!("{to}:{}", listener.local_addr().unwrap().port());
            let ends = Arc::new(Ends::default());
            let own = TcpStream::connect(&to).unwrap();
            let end = ends.remember(&own, to.parse().unwrap());
            let (back, from) = listener.accept().unwrap();
            let _other = TcpStream::connect(&to).unwrap();
            let (other, from_other) = listener.accept().unwrap();
            assert!(
                ends.made(from, &back) && !ends.made(from_other, &other),
                "{listen}"
            );
            drop(end);
            assert!(!ends.made(from, &back), "{listen}");
        }
    }
}
