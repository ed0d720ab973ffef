//! Waiting for sockets, mail and deadlines: epoll with timeouts in nanoseconds.

use core::mem::MaybeUninit;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use wansan_trace::Instant;

/// What one wait may report at most; more stays for the next wait.
const EVENTS_PER_WAIT: usize = 64;

/// An epoll instance whose sources are named by numbers that its owner hands out.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// One source is ready.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// The source's number.
    pub source: u64,
    /// Reading will not block; it may say that the peer has closed, or give an error.
    pub read: bool,
    /// Writing will not block; it may give an error.
    pub write: bool,
    /// There is urgent data (RFC 9293 §3.8.5).
    pub urgent: bool,
    /// The peer has sent its last byte, or the connection is gone: reading comes to an end.
    pub ending: bool,
    /// The connection is gone in both directions.
    pub gone: bool,
    /// The connection has failed: it was reset, or timed out.
    pub failed: bool,
}

/// Readable while anything that it waits for is ready, so that it can be waited for as well.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Poller {
    /// An instance without sources.
    ///
    /// # Errors
    /// Those of epoll_create1(2): the process or the system has no descriptor left.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    /// Waits for `source` to become readable from now on.
    ///
    /// # Errors
    /// Those of epoll_ctl(2), as for the other methods that change what is waited for.
    pub fn add(&self, fd: impl AsFd, source: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(source),
            EventFlags::IN,
        )?)
    }

    /// Waits for a listening socket that other pollers wait for as well: of the threads that wait, the kernel wakes one
    /// for a connection (EPOLLEXCLUSIVE of epoll_ctl(2)). [`interest`](Poller::interest) cannot change it.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn add_shared(&self, fd: impl AsFd, source: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(source),
            EventFlags::IN | EventFlags::EXCLUSIVE,
        )?)
    }

    /// Tells from now on when a socket *becomes* readable, writable or ended, and says so once (an
    /// edge): who is told has to go on until the socket would block. What holds already is told at
    /// the next wait.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn add_edges(&self, fd: impl AsFd, source: u64) -> io::Result<()> {
        let edges =
            EventFlags::IN | EventFlags::OUT | EventFlags::PRI | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(source),
            edges,
        )?)
    }

    /// Waits for that source no more.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Chooses what to wait for.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn interest(&self, fd: impl AsFd, source: u64, read: bool, write: bool) -> io::Result<()> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, read);
        flags.set(EventFlags::OUT, write);
        Ok(epoll::modify(
            &self.epoll,
            fd,
            EventData::new_u64(source),
            flags,
        )?)
    }

    /// Waits until something is ready or `deadline` has come, and puts what is ready into `ready`.
    ///
    /// # Errors
    /// Those of epoll_pwait2(2); an interrupted wait is none.
    pub fn wait(
        &self,
        now: Instant,
        deadline: Option<Instant>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        let timeout = deadline.map(|deadline| {
            Timespec::try_from(deadline.since(now)).unwrap_or(Timespec {
                tv_sec: i64::MAX,
                tv_nsec: 0,
            })
        });
        let mut space = [const { MaybeUninit::<Event>::uninit() }; EVENTS_PER_WAIT];
        ready.clear();
        let events = match epoll::wait(&self.epoll, &mut space, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        ready.extend(events.iter().map(|event| {
            // A packed field must be copied out before it is used.
            let (flags, data) = (event.flags, event.data);
            let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            Ready {
                source: data.u64(),
                read: gone || flags.contains(EventFlags::IN),
                write: gone || flags.contains(EventFlags::OUT),
                urgent: flags.contains(EventFlags::PRI),
                ending: gone || flags.contains(EventFlags::RDHUP),
                gone,
                failed: flags.contains(EventFlags::ERR),
            }
        }));
        Ok(())
    }
}
