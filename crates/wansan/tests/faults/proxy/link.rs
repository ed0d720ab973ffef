//! One connection through the proxy: a socket to either end, and the bytes between them.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::login::Login;
use super::{Cut, Direction, Fault, Harm};

/// Bytes of one direction that the proxy keeps; beyond it the sender's TCP waits.
const MOST_KEPT_BYTES: usize = 1 << 20;
/// A buffer to read into.
pub(super) const READ_BYTES: usize = 64 << 10;

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    to_target: Stream,
    to_initiator: Stream,
    login: Login,
    is_silent: bool,
    /// Cut already: what comes is thrown away, until both ends have closed.
    is_cut: bool,
    is_over: bool,
}

/// One direction.
#[derive(Debug)]
struct Stream {
    from: TcpStream,
    to: TcpStream,
    /// What is on its way, with the time of its arrival.
    kept: VecDeque<(Instant, Vec<u8>)>,
    kept_bytes: usize,
    /// Faults that wait for their byte.
    traps: Vec<Fault>,
    /// The cut that comes once everything before it has arrived.
    end: Option<Cut>,
    /// Nothing more comes.
    has_ended: bool,
    /// The other end has been told so.
    has_told: bool,
}

/// Ends a connection with a RST.
pub(super) fn reset(stream: &TcpStream) {
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
}

impl Link {
    pub(super) fn new(initiator: &TcpStream, target: &TcpStream) -> io::Result<Link> {
        for stream in [initiator, target] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        let stream = |from: &TcpStream, to: &TcpStream| -> io::Result<Stream> {
            Ok(Stream {
                from: from.try_clone()?,
                to: to.try_clone()?,
                kept: VecDeque::new(),
                kept_bytes: 0,
                traps: Vec::new(),
                end: None,
                has_ended: false,
                has_told: false,
            })
        };
        Ok(Link {
            to_target: stream(initiator, target)?,
            to_initiator: stream(target, initiator)?,
            login: Login::default(),
            is_silent: false,
            is_cut: false,
            is_over: false,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether it is in full feature phase and nothing has ended it yet.
    pub(super) fn has_logged_in(&self) -> bool {
        let streams = [&self.to_target, &self.to_initiator];
        self.login.is_over()
            && !self.is_cut
            && !self.is_silent
            && streams
                .iter()
                .all(|stream| !stream.has_ended && stream.end.is_none())
    }

    pub(super) fn set_trap(&mut self, fault: Fault) {
        match fault.direction {
            Direction::ToTarget => self.to_target.traps.push(fault),
            Direction::ToInitiator => self.to_initiator.traps.push(fault),
        }
    }

    /// The faults that have not struck.
    pub(super) fn take_traps(&mut self) -> impl Iterator<Item = Fault> {
        let there = std::mem::take(&mut self.to_target.traps);
        let back = std::mem::take(&mut self.to_initiator.traps);
        there.into_iter().chain(back)
    }

    pub(super) fn release(&mut self) {
        self.is_silent = false;
    }

    /// Moves what can be moved, with a buffer to read into; gives how many traps have sprung.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        delay: Duration,
        is_held: bool,
        buffer: &mut [u8],
    ) -> u64 {
        let (due, is_cut) = (now + delay, self.is_cut);
        let (there, back) = (&mut self.to_target, &mut self.to_initiator);
        let struck = there.take_in(due, is_cut, buffer, |_| {})
            + back.take_in(due, is_cut, buffer, |bytes| self.login.follow(bytes));
        for stream in [there, back] {
            if stream.end == Some(Cut::Silence) {
                self.is_silent = true;
                stream.end = None;
            }
        }
        if is_held || self.is_silent {
            return struck;
        }
        for stream in [&mut self.to_target, &mut self.to_initiator] {
            stream.pass_on(now);
            match stream.end.filter(|_| stream.kept.is_empty()) {
                None | Some(Cut::Silence) => {}
                Some(Cut::Reset) => {
                    reset(&stream.from);
                    reset(&stream.to);
                    self.is_over = true;
                }
                Some(Cut::Finish) => {
                    stream.end = None;
                    let _ = stream.from.shutdown(Shutdown::Write);
                    let _ = stream.to.shutdown(Shutdown::Write);
                    self.is_cut = true;
                }
            }
        }
        let is_done = |stream: &Stream| stream.has_ended && (self.is_cut || stream.has_told);
        self.is_over |= is_done(&self.to_target) && is_done(&self.to_initiator);
        struck
    }

    /// Adds what the link waits for; gives when it wants a turn at the latest.
    pub(super) fn wait_for<'a>(
        &'a self,
        fds: &mut Vec<PollFd<'a>>,
        now: Instant,
        is_held: bool,
    ) -> Option<Instant> {
        let is_held = is_held || self.is_silent;
        let mut wake = None;
        for stream in [&self.to_target, &self.to_initiator] {
            if stream.may_read(self.is_cut) {
                fds.push(PollFd::new(&stream.from, PollFlags::IN));
            }
            let Some((due, _)) = stream.kept.front().filter(|_| !is_held) else {
                continue;
            };
            if *due > now {
                wake = wake.into_iter().chain([*due]).min();
            } else {
                fds.push(PollFd::new(&stream.to, PollFlags::OUT));
            }
        }
        wake
    }
}

impl Stream {
    fn may_read(&self, is_cut: bool) -> bool {
        !self.has_ended && (is_cut || (self.end.is_none() && self.kept_bytes < MOST_KEPT_BYTES))
    }

    /// Reads what has come, which arrives at `due`. Gives how many traps have sprung.
    fn take_in(
        &mut self,
        due: Instant,
        is_cut: bool,
        buffer: &mut [u8],
        mut follow: impl FnMut(&[u8]),
    ) -> u64 {
        let mut struck = 0;
        while self.may_read(is_cut) {
            let bytes = match recv(&self.from, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    self.has_ended = true;
                    break;
                }
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => {
                    // The other end is told by a RST as well, behind what was on its way.
                    self.has_ended = true;
                    self.end = self.end.or(Some(Cut::Reset));
                    break;
                }
            };
            if is_cut {
                continue;
            }
            let bytes = &mut buffer[..bytes];
            let kept = self.spring(bytes, &mut struck);
            follow(&bytes[..kept]);
            self.kept.push_back((due, bytes[..kept].to_vec()));
            self.kept_bytes += kept;
        }
        struck
    }

    /// Springs the traps that lie in `bytes`; gives how many of them are still passed on.
    fn spring(&mut self, bytes: &mut [u8], struck: &mut u64) -> usize {
        let all = bytes.len() as u64;
        let (mut passed, end) = (bytes.len(), &mut self.end);
        self.traps.sort_by_key(|trap| trap.after_bytes);
        self.traps.retain_mut(|trap| {
            let at = trap.after_bytes as usize;
            if at >= passed {
                trap.after_bytes = trap.after_bytes.saturating_sub(all);
                return true;
            }
            match trap.harm {
                Harm::Corrupt(pattern) => bytes[at] ^= pattern,
                // What a silent path has taken is still on its way.
                Harm::Cut(Cut::Silence) => *end = Some(Cut::Silence),
                Harm::Cut(cut) => (passed, *end) = (at, Some(cut)),
            }
            *struck += 1;
            false
        });
        passed
    }

    /// Sends what has arrived by `now`.
    fn pass_on(&mut self, now: Instant) {
        while let Some((due, bytes)) = self.kept.front_mut() {
            if *due > now {
                return;
            }
            match send(&self.to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.kept_bytes -= sent;
                    bytes.drain(..sent);
                    if bytes.is_empty() {
                        self.kept.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(_) => {
                    // Nobody is there to take it, which the sender hears.
                    self.kept.clear();
                    self.kept_bytes = 0;
                    self.has_ended = true;
                    self.end = Some(Cut::Reset);
                }
            }
        }
        if self.has_ended && self.end.is_none() && !self.has_told {
            self.has_told = true;
            let _ = self.to.shutdown(Shutdown::Write);
        }
    }
}
