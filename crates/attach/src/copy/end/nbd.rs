//! An NBD export.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wansan_cache::{Action, Answer, Extent, Failure, Outcome};
use wansan_nbd::client::{Client, Command, Done, Event, ExportInfo, SubmitError, Wants};
use wansan_nbd::wire::Errno;
use wansan_trace::{Instant, clock};

use super::{End, drain};
use crate::copy::place::NbdPlace;
use crate::copy::{CopyError, PIECE_BYTES};
use crate::listen::Stream;

/// Timeout for opening an export. After that, an attached disk may wait for its path indefinitely, and TCP detects a
/// dead host.
const PATIENCE: Duration = Duration::from_secs(60);

/// An export of an NBD server.
pub(in crate::copy) struct NbdEnd {
    stream: Stream,
    client: Client,
    info: Option<ExportInfo>,
    name: String,
    waker: OwnedFd,
    reason: Option<String>,
    done: VecDeque<(u64, Outcome)>,
}

impl NbdEnd {
    pub(in crate::copy) fn open(place: &NbdPlace, waker: OwnedFd) -> Result<NbdEnd, CopyError> {
        let name = place.to_string();
        let failed = |why: String| CopyError::End {
            place: name.clone(),
            why,
        };
        let stream = place
            .at
            .connect()
            .map_err(|error| failed(error.to_string()))?;
        let client = Client::new(&place.export, Wants::default());
        let client = client.map_err(|error| failed(format!("the export's name {error}")))?;
        let mut end = NbdEnd {
            stream,
            client,
            info: None,
            name: name.clone(),
            waker,
            reason: None,
            done: VecDeque::new(),
        };
        let deadline = clock::now() + PATIENCE;
        while end.info.is_none() {
            if clock::now() >= deadline {
                return Err(end.error("the server does not open the export"));
            }
            end.turn(deadline)?;
        }
        Ok(end)
    }

    fn error(&self, why: &(impl ToString + ?Sized)) -> CopyError {
        CopyError::End {
            place: self.name.clone(),
            why: why.to_string(),
        }
    }

    fn send(&mut self) -> Result<(), CopyError> {
        while !self.client.pending().is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, self.client.pending(), flags) {
                Ok(bytes) => self.client.sent(bytes),
                Err(SystemErrno::AGAIN) => break,
                Err(SystemErrno::INTR) => {}
                Err(errno) => return Err(self.error(&io::Error::from(errno))),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), CopyError> {
        loop {
            while let Some(event) = self
                .client
                .poll_event()
                .map_err(|error| self.error(&error))?
            {
                self.take(event)?;
            }
            match recv(&self.stream, self.client.space(), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(self.error("the server closed the connection")),
                Ok((_, bytes)) => self.client.received(bytes),
                Err(SystemErrno::AGAIN) => return Ok(()),
                Err(SystemErrno::INTR) => {}
                Err(errno) => return Err(self.error(&io::Error::from(errno))),
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<(), CopyError> {
        match event {
            Event::Ready(info) => self.info = Some(info),
            Event::Refused(refusal) => return Err(self.error(&refusal)),
            Event::Listed(_) => {}
            Event::Done { user, result } => {
                let outcome = match result {
                    Ok(Done::Plain) => Ok(Answer::Done),
                    Ok(Done::Data(data)) => Ok(Answer::Data(data)),
                    Ok(Done::Status(extents)) => {
                        let extents = extents.iter().map(|extent| Extent {
                            length_bytes: extent.length_bytes,
                            is_hole: extent.is_hole,
                            reads_zero: extent.reads_zero,
                        });
                        Ok(Answer::Status(extents.collect()))
                    }
                    Err(failed) => {
                        self.reason = Some(failed.to_string());
                        Err(failure(failed.errno))
                    }
                };
                self.done.push_back((user, outcome));
            }
        }
        Ok(())
    }

    fn abilities(&self) -> wansan_nbd::Abilities {
        let info = self.info.as_ref();
        info.map(|info| info.export.abilities).unwrap_or_default()
    }
}

impl End for NbdEnd {
    fn size_bytes(&self) -> Option<u64> {
        Some(self.info.as_ref()?.export.size_bytes)
    }

    fn block_bytes(&self) -> u64 {
        let info = self.info.as_ref();
        info.map_or(1, |info| info.export.block.minimum_bytes.into())
    }

    fn most_bytes(&self) -> u64 {
        let info = self.info.as_ref();
        info.map_or(u64::MAX, |info| info.export.block.maximum_bytes.into())
    }

    fn zero_bytes(&self) -> u64 {
        match self.abilities().write_zeroes {
            true => super::ZERO_BYTES,
            // Zeros go over the wire as data.
            false => self.most_bytes().min(PIECE_BYTES),
        }
    }

    fn submit(&mut self, tag: u64, action: Action) {
        let abilities = self.abilities();
        let tells = self.info.as_ref().is_some_and(|info| info.block_status);
        let range = action.range();
        let (offset_bytes, length_bytes) = (range.start, range.bytes());
        let zeros: Vec<u8>;
        let command = match &action {
            Action::Read { .. } => Command::Read {
                offset_bytes,
                buffer: vec![0; length_bytes as usize],
            },
            Action::Write { data, fua, .. } => Command::Write {
                offset_bytes,
                data,
                fua: *fua,
            },
            Action::Flush if abilities.flush => Command::Flush,
            Action::Zero { may_unmap, .. } if abilities.write_zeroes => Command::WriteZeroes {
                offset_bytes,
                length_bytes,
                fua: false,
                may_unmap: *may_unmap,
                fast: false,
            },
            Action::Zero { .. } => {
                zeros = vec![0; length_bytes as usize];
                Command::Write {
                    offset_bytes,
                    data: &zeros,
                    fua: false,
                }
            }
            Action::Status { one, .. } if tells => Command::BlockStatus {
                offset_bytes,
                length_bytes,
                one: *one,
            },
            // Nothing to flush, or the server does not announce flush.
            Action::Flush => return self.done.push_back((tag, Ok(Answer::Done))),
            _ => return self.done.push_back((tag, Err(Failure::NotSupported))),
        };
        if let Err(error) = self.client.submit(command, tag) {
            let why = match &error {
                SubmitError::NotAllowed { errno, .. } => failure(*errno),
                _ => Failure::Invalid,
            };
            self.reason = Some(error.to_string());
            self.done.push_back((tag, Err(why)));
        }
    }

    fn turn(&mut self, deadline: Instant) -> Result<(), CopyError> {
        self.send()?;
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, !self.client.pending().is_empty());
        let mut fds = [
            PollFd::new(&self.stream, wanted),
            PollFd::new(&self.waker, PollFlags::IN),
        ];
        let left = (deadline - clock::now()).min(Duration::from_secs(1));
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(SystemErrno::INTR) => {}
            Err(errno) => return Err(self.error(&io::Error::from(errno))),
        }
        drain(&self.waker);
        self.send()?;
        self.receive()
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.done.pop_front()
    }

    fn take_reason(&mut self) -> Option<String> {
        self.reason.take()
    }

    fn close(mut self: Box<Self>) -> Option<File> {
        self.client.disconnect();
        // Ignore the error: a server that closed first needs no disconnect.
        let _ = self.send();
        None
    }
}

/// Maps the protocol's error numbers to failures.
fn failure(errno: Errno) -> Failure {
    match errno {
        Errno::NoSpc => Failure::NoSpace,
        Errno::Perm => Failure::NotPermitted,
        Errno::NotSup => Failure::NotSupported,
        Errno::Inval => Failure::Invalid,
        _ => Failure::Io,
    }
}
