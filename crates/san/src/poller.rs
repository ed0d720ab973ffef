//! Waiting for sockets, mail and deadlines: epoll with timeouts in nanoseconds.

use core::mem::MaybeUninit;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use wansan_trace::Instant;

/// What one wait may report at most; more stays for the next wait.
const EVENTS_PER_WAIT: usize = 64;

/// An epoll instance whose sources are named by numbers that its owner hands out.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// One source is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    /// The source's number.
    pub(crate) source: u64,
    /// Reading will not block (it may say that the peer has closed); else it is writing that will
    /// not.
    pub(crate) read: bool,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    /// Waits for `source` to become readable from now on.
    pub(crate) fn add(&self, fd: impl AsFd, source: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(source),
            EventFlags::IN,
        )?)
    }

    /// Waits for that source no more.
    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Chooses what to wait for.
    pub(crate) fn interest(
        &self,
        fd: impl AsFd,
        source: u64,
        read: bool,
        write: bool,
    ) -> io::Result<()> {
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
    pub(crate) fn wait(
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
            let ended = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            Ready {
                source: data.u64(),
                read: ended || flags.contains(EventFlags::IN),
            }
        }));
        Ok(())
    }
}
