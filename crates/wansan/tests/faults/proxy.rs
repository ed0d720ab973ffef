//! A TCP proxy that can do to a session what a long path does: cut a connection, hold it, delay its
//! bytes and change one of them.

mod link;
mod login;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::link::{Link, READ_BYTES};

/// How a connection comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Both ends get a RST.
    Reset,
    /// Both ends get a FIN, behind what was sent to them before.
    Finish,
    /// Nothing passes any more and nobody is told. What was on its way arrives when the path is
    /// released, however late that is.
    Silence,
}

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToTarget,
    ToInitiator,
}

/// What a fault does to the connection that it strikes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Harm {
    /// Ends it.
    Cut(Cut),
    /// Changes the next byte by this pattern, which is not 0.
    Corrupt(u8),
}

/// A fault for one connection, on a byte of its stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// Which connection: the remainder by how many there are. One that is still logging in is
    /// spared, as login has no digests.
    pub(crate) pick: u64,
    pub(crate) direction: Direction,
    /// How many more bytes pass before.
    pub(crate) after_bytes: u64,
    pub(crate) harm: Harm,
}

enum Order {
    Upstream(SocketAddr),
    Hold,
    Release,
    Strike(Fault),
    Stop,
}

/// The proxy; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    orders: Sender<Order>,
    waker: UnixStream,
    struck: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Passes on to `upstream`, each byte after `delay`.
    pub(crate) fn start(upstream: SocketAddr, delay: Duration) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let (orders, inbox) = mpsc::channel();
        let struck = Arc::new(AtomicU64::new(0));
        let mut server = Server {
            listener,
            upstream,
            delay,
            woken,
            inbox,
            struck: Arc::clone(&struck),
            is_held: false,
            waiting: Vec::new(),
            links: Vec::new(),
        };
        let thread = std::thread::spawn(move || server.serve());
        Ok(Proxy {
            address,
            orders,
            waker,
            struck,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes new connections on to `upstream` from now on.
    pub(crate) fn set_upstream(&self, upstream: SocketAddr) {
        self.order(Order::Upstream(upstream));
    }

    /// Black-holes the path: bytes are taken and kept, and nobody is told of anything.
    pub(crate) fn hold(&self) {
        self.order(Order::Hold);
    }

    /// Lets pass again what is held, silenced connections as well.
    pub(crate) fn release(&self) {
        self.order(Order::Release);
    }

    /// Strikes one connection as soon as there is one.
    pub(crate) fn strike(&self, fault: Fault) {
        self.order(Order::Strike(fault));
    }

    /// How many faults have struck.
    pub(crate) fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    fn order(&self, order: Order) {
        // The proxy ends only when it is dropped; a full pipe wakes it as well.
        let _ = self.orders.send(order);
        let _ = (&self.waker).write(&[0]);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the proxy's thread has.
struct Server {
    listener: TcpListener,
    upstream: SocketAddr,
    delay: Duration,
    woken: UnixStream,
    inbox: Receiver<Order>,
    struck: Arc<AtomicU64>,
    is_held: bool,
    /// Faults that have no connection yet.
    waiting: Vec<Fault>,
    links: Vec<Link>,
}

impl Server {
    fn serve(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        while self.take_orders() {
            if !self.is_held {
                self.accept();
            }
            self.set_traps();
            let now = Instant::now();
            for link in &mut self.links {
                let struck = link.turn(now, self.delay, self.is_held, &mut buffer);
                self.struck.fetch_add(struck, Ordering::Relaxed);
                if !link.has_logged_in() {
                    // It has come to its end in another way: the faults are for the next one.
                    self.waiting.extend(link.take_traps());
                }
            }
            self.links.retain(|link| !link.is_over());
            self.wait(now);
        }
    }

    /// Says whether to go on.
    fn take_orders(&mut self) -> bool {
        let _ = self.woken.read(&mut [0; 64]);
        while let Ok(order) = self.inbox.try_recv() {
            match order {
                Order::Upstream(upstream) => self.upstream = upstream,
                Order::Hold => self.is_held = true,
                Order::Release => {
                    self.is_held = false;
                    self.links.iter_mut().for_each(Link::release);
                }
                Order::Strike(fault) => self.waiting.push(fault),
                Order::Stop => return false,
            }
        }
        true
    }

    fn accept(&mut self) {
        while let Ok((initiator, _)) = self.listener.accept() {
            // A target that is not there: the initiator's connection is reset.
            let linked =
                TcpStream::connect(self.upstream).and_then(|target| Link::new(&initiator, &target));
            match linked {
                Ok(link) => self.links.push(link),
                Err(_) => link::reset(&initiator),
            }
        }
    }

    /// Gives the waiting faults to connections, as far as there are any in full feature phase.
    fn set_traps(&mut self) {
        let mut fair: Vec<&mut Link> = self
            .links
            .iter_mut()
            .filter(|link| link.has_logged_in())
            .collect();
        if fair.is_empty() {
            return;
        }
        for fault in self.waiting.drain(..) {
            let picked = (fault.pick % fair.len() as u64) as usize;
            fair[picked].set_trap(fault);
        }
    }

    fn wait(&self, now: Instant) {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if !self.is_held {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let mut wake: Option<Instant> = None;
        for link in &self.links {
            let next = link.wait_for(&mut fds, now, self.is_held);
            wake = wake.into_iter().chain(next).min();
        }
        let left = wake.map(|wake| wake.saturating_duration_since(now));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // Interrupted or not, the loop looks at everything again.
        let _ = poll(&mut fds, left.as_ref());
    }
}
