//! A TCP proxy that breaks what passes it when it is told to.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a connection's threads look at what they were told.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug)]
struct State {
    upstream: Mutex<SocketAddr>,
    /// Both sockets of each connection that passes.
    passing: Mutex<Vec<(TcpStream, TcpStream)>>,
    is_holding: AtomicBool,
    /// Bytes that are still to be changed.
    to_corrupt: AtomicU32,
    is_over: AtomicBool,
}

/// A proxy in front of a target. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    state: Arc<State>,
    address: SocketAddr,
}

impl Proxy {
    pub(crate) fn start(upstream: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            upstream: Mutex::new(upstream),
            passing: Mutex::new(Vec::new()),
            is_holding: AtomicBool::new(false),
            to_corrupt: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let near = near.unwrap();
                // A target that is being started again refuses; its initiator tries again.
                if let Ok(far) = TcpStream::connect(*accepting.upstream.lock().unwrap()) {
                    pass(&accepting, near, far);
                }
            }
        });
        Proxy { state, address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where new connections go from now on.
    pub(crate) fn turn_to(&self, upstream: SocketAddr) {
        *self.state.upstream.lock().unwrap() = upstream;
    }

    /// Closes one of the connections, chosen by `random`.
    pub(crate) fn cut_one(&self, random: u64) {
        let mut passing = self.state.passing.lock().unwrap();
        passing.retain(|(near, far)| near.peer_addr().is_ok() && far.peer_addr().is_ok());
        if !passing.is_empty() {
            let place = (random % passing.len() as u64) as usize;
            close(&passing.swap_remove(place));
        }
    }

    /// Closes all connections.
    pub(crate) fn cut_all(&self) {
        self.state
            .passing
            .lock()
            .unwrap()
            .drain(..)
            .for_each(|pair| close(&pair));
    }

    /// Lets nothing pass, or everything again.
    pub(crate) fn hold(&self, holds: bool) {
        self.state.is_holding.store(holds, Ordering::Relaxed);
    }

    /// Changes a byte in the next piece that passes, whichever way it goes.
    pub(crate) fn corrupt(&self) {
        self.state.to_corrupt.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        self.cut_all();
        let _ = TcpStream::connect(self.address);
    }
}

fn close((near, far): &(TcpStream, TcpStream)) {
    let _ = near.shutdown(Shutdown::Both);
    let _ = far.shutdown(Shutdown::Both);
}

fn pass(state: &Arc<State>, near: TcpStream, far: TcpStream) {
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LOOK)).unwrap();
    }
    let ways = [(&near, &far), (&far, &near)];
    for (from, to) in ways.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap())) {
        let state = Arc::clone(state);
        std::thread::spawn(move || copy(&state, from, to));
    }
    state.passing.lock().unwrap().push((near, far));
}

fn copy(state: &State, mut from: TcpStream, mut to: TcpStream) {
    let mut piece = vec![0; 64 << 10];
    while !state.is_over.load(Ordering::Relaxed) {
        if state.is_holding.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            continue;
        }
        let bytes = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        let take = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if state.to_corrupt.fetch_update(order, order, take).is_ok() {
            piece[bytes / 2] ^= 0x10;
        }
        while state.is_holding.load(order) && !state.is_over.load(order) {
            std::thread::sleep(LOOK);
        }
        if to.write_all(&piece[..bytes]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
