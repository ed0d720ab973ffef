//! A way to a portal that can be cut.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Passes the bytes of TCP connections on, both ways. Its threads end with the test's process.
pub(super) struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cut: bool,
    /// Both ends of every connection.
    ends: Vec<TcpStream>,
}

impl Relay {
    /// A relay at a free port of loopback that leads to the portal `to`.
    pub(super) fn to(to: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::<Mutex<State>>::default();
        let (shared, to) = (state.clone(), to.to_owned());
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // A portal that does not answer closes the connection, as it would without us.
                let Ok(far) = TcpStream::connect(&to) else {
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

    /// Ends all connections, and every later one as soon as it comes.
    pub(super) fn cut(&self) {
        let mut state = lock(&self.state);
        state.cut = true;
        for end in state.ends.drain(..) {
            // An end that is closed already is what is wanted.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes on what both ends send, unless the relay is cut.
fn pass(near: TcpStream, far: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut state = lock(state);
    if state.cut {
        return Ok(());
    }
    for end in [&near, &far] {
        end.set_nodelay(true)?;
        state.ends.push(end.try_clone()?);
    }
    for (mut from, mut to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        std::thread::spawn(move || {
            // Either end may close at any time; the other one then learns of it.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}
