//! Accepting connections at several listeners, in turns, with pauses.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

use crate::poller::Poller;
use crate::threads::LISTENER;

/// Connections that are accepted at one listener in one turn, at most.
pub const ACCEPTS_PER_TURN: usize = 64;

/// The listeners of a server, on a thread that accepts: one for all, or each its own connections. They are non-blocking
/// sockets in that thread's poller, as source [`LISTENER`].
#[derive(Debug)]
pub struct Acceptor<L> {
    listeners: Vec<L>,
    is_paused: bool,
}

/// What one turn accepted.
#[derive(Debug)]
pub struct Batch<S = ()> {
    /// New connections.
    pub connections: Vec<Connection<S>>,
    /// Whether more may wait.
    pub more: bool,
    /// Why a pause began: nothing is accepted until [`Acceptor::resume`].
    pub pause: Option<Pause>,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Connection<S = ()> {
    /// Its socket, which does not block.
    pub socket: OwnedFd,
    /// The client's address.
    pub client: SocketAddr,
    /// The place of the listener among [`Acceptor::listeners`].
    pub listener: usize,
    /// The place that it has taken.
    pub seat: S,
}

/// Why accepting pauses. What waits would wake the thread for ever.
#[derive(Debug)]
pub enum Pause {
    /// There is no room for another connection.
    Full,
    /// The machine gives no connection: it is out of descriptors, as a rule.
    Failed(io::Error),
}

impl<L> Default for Acceptor<L> {
    fn default() -> Acceptor<L> {
        Acceptor {
            listeners: Vec::new(),
            is_paused: false,
        }
    }
}

impl<L: AsFd> Acceptor<L> {
    /// The listeners.
    #[must_use]
    pub fn listeners(&self) -> &[L] {
        &self.listeners
    }

    /// Whether accepting pauses.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Listens at these only. `failed` hears of those that the poller does not take.
    pub fn replace(
        &mut self,
        poller: &Poller,
        listeners: Vec<L>,
        mut failed: impl FnMut(&L, io::Error),
    ) {
        for listener in &self.listeners {
            // Without it the poller would be woken by a descriptor that is closed now.
            let _ = poller.remove(listener);
        }
        self.is_paused = false;
        self.listeners = listeners;
        for listener in &self.listeners {
            if let Err(error) = poller.add_shared(listener, LISTENER) {
                failed(listener, error);
            }
        }
    }

    /// Ends a pause, if there is one.
    pub fn resume(&mut self, poller: &Poller) {
        self.set_paused(poller, false);
    }

    fn set_paused(&mut self, poller: &Poller, is_paused: bool) {
        if self.is_paused != is_paused {
            // Also after an attempt that failed halfway, some listeners are as they are to be.
            let set = |listener| {
                let (done, was_so) = match is_paused {
                    true => (poller.remove(listener), Errno::NOENT),
                    false => (poller.add_shared(listener, LISTENER), Errno::EXIST),
                };
                done.or_else(|error| match Errno::from_io_error(&error) == Some(was_so) {
                    true => Ok(()),
                    false => Err(error),
                })
            };
            let all = self.listeners.iter().map(set);
            if all.fold(true, |all, done| all & done.is_ok()) {
                self.is_paused = is_paused;
            }
        }
    }

    /// Accepts what waits, each where there is a `seat` for it; nothing during a pause.
    pub fn accept<S>(&mut self, poller: &Poller, mut seat: impl FnMut() -> Option<S>) -> Batch<S> {
        let mut batch = Batch {
            connections: Vec::new(),
            more: false,
            pause: None,
        };
        if self.is_paused {
            return batch;
        }
        for (place, listener) in self.listeners.iter().enumerate() {
            let mut left = ACCEPTS_PER_TURN;
            while left > 0 && batch.pause.is_none() {
                let Some(seat) = seat() else {
                    batch.pause = Some(Pause::Full);
                    break;
                };
                match accept(listener) {
                    Ok((socket, client)) => batch.connections.push(Connection {
                        socket,
                        client,
                        listener: place,
                        seat,
                    }),
                    Err(Errno::AGAIN) => break,
                    // The client has gone again.
                    Err(Errno::CONNABORTED | Errno::PROTO) => {}
                    Err(errno) => batch.pause = Some(Pause::Failed(errno.into())),
                }
                left -= 1;
            }
            batch.more |= left == 0;
        }
        if batch.pause.is_some() {
            batch.more = false;
            self.set_paused(poller, true);
        }
        batch
    }
}

fn accept(listener: &impl AsFd) -> Result<(OwnedFd, SocketAddr), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, client) = acceptfrom_with(listener, flags)?;
    // TCP always has one.
    let client = client.ok_or(Errno::CONNABORTED)?;
    Ok((socket, SocketAddr::try_from(client)?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use std::time::Duration;

    use wansan_trace::clock;

    use super::*;
    use crate::Seats;

    /// How long a connection may take to wait at its listener.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn accepting_keeps_to_its_room_and_goes_on_after_a_pause() {
        let poller = Poller::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::default();
        acceptor.replace(&poller, vec![listener], |_, error| panic!("{error}"));
        let clients: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let seats = Seats::new(2);
        let batch = acceptor.accept(&poller, || seats.take());
        assert_eq!(batch.connections.len(), 2);
        assert!(matches!(batch.pause, Some(Pause::Full)) && acceptor.is_paused());
        drop(batch);
        assert_eq!(
            acceptor.accept(&poller, || seats.take()).connections.len(),
            0
        );
        acceptor.resume(&poller);
        let batch = acceptor.accept(&poller, || seats.take());
        assert!(batch.pause.is_none() && !batch.more);
        let accepted: Vec<SocketAddr> = batch.connections.iter().map(|it| it.client).collect();
        assert_eq!(accepted, [clients[2].local_addr().unwrap()]);
    }

    #[test]
    fn a_pause_ends_whatever_the_poller_has_of_the_listeners() {
        let poller = Poller::new().unwrap();
        let listeners: Vec<TcpListener> = (0..2)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let addresses = [0, 1].map(|place| {
            let listener: &TcpListener = &listeners[place];
            listener.set_nonblocking(true).unwrap();
            listener.local_addr().unwrap()
        });
        let mut acceptor = Acceptor::default();
        acceptor.replace(&poller, listeners, |_, error| panic!("{error}"));
        // As if it had not been added, and as if it was added by a resumption that failed at the other.
        poller.remove(&acceptor.listeners()[0]).unwrap();
        assert!(acceptor.accept(&poller, || None::<()>).pause.is_some());
        poller
            .add_shared(&acceptor.listeners()[1], LISTENER)
            .unwrap();
        acceptor.resume(&poller);
        assert!(!acceptor.is_paused());
        for address in addresses {
            let _client = TcpStream::connect(address).unwrap();
            let mut ready = Vec::new();
            let now = clock::now();
            poller.wait(now, Some(now + PATIENCE), &mut ready).unwrap();
            assert!(!ready.is_empty());
            let batch = acceptor.accept(&poller, || Some(()));
            assert_eq!(batch.connections.len(), 1);
        }
    }
}
