//! A way to a portal that can be cut.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Passes the bytes of TCP connections on, both ways. Its threads end with the test's process.
pub(super) struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    /// Both ends of every connection that is up, by a number that grows with each.
    connections: BTreeMap<u64, [TcpStream; 2]>,
    taken: u64,
    passed_bytes: u64,
}

impl Relay {
    /// A relay at a free port of loopback that leads to the portal `to`.
    pub(super) fn to(to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // A portal that does not answer closes the connection, as it would without us.
                let Ok(far) = TcpStream::connect(to) else {
                    continue;
                };
                let _ = pass(near, far, &shared);
            }
        });
        Ok(Self { address, state })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has passed on, both ways together.
    pub(super) fn passed_bytes(&self) -> u64 {
        lock(&self.state).passed_bytes
    }

    /// Ends all connections, and every later one as soon as it comes.
    pub(super) fn cut(&self) {
        let mut state = lock(&self.state);
        state.is_cut = true;
        std::mem::take(&mut state.connections)
            .into_values()
            .for_each(end);
    }

    /// Lets connections through again.
    pub(super) fn mend(&self) {
        lock(&self.state).is_cut = false;
    }

    /// Ends the oldest connection.
    pub(super) fn end_oldest(&self) {
        let oldest = lock(&self.state).connections.pop_first();
        if let Some((_, connection)) = oldest {
            end(connection);
        }
    }
}

fn end(connection: [TcpStream; 2]) {
    for end in connection {
        // An end that is closed already is what is wanted.
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes on what both ends send, unless the relay is cut.
fn pass(near: TcpStream, far: TcpStream, shared: &Arc<Mutex<State>>) -> io::Result<()> {
    let mut state = lock(shared);
    if state.is_cut {
        return Ok(());
    }
    for end in [&near, &far] {
        end.set_nodelay(true)?;
    }
    let ends = [near.try_clone()?, far.try_clone()?];
    state.taken += 1;
    let number = state.taken;
    state.connections.insert(number, ends);
    for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        let shared = shared.clone();
        std::thread::spawn(move || {
            // Either end may close at any time; the other one then learns of it.
            let _ = copy(&from, &to, &shared);
            let connection = lock(&shared).connections.remove(&number);
            if let Some(connection) = connection {
                end(connection);
            }
        });
    }
    Ok(())
}

/// Passes on what comes `from` one end, until it closes.
fn copy(mut from: &TcpStream, mut to: &TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
        lock(state).passed_bytes += read as u64;
    }
}
