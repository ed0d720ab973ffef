//! Standard input and standard output: sequential data.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};

use wansan_cache::{Action, Answer, Extent, Failure, Outcome, Range};
use wansan_trace::Instant;

use super::End;
use crate::copy::CopyError;

/// Reads sequentially; bytes past the end are missing in the answer.
#[derive(Default)]
pub(in crate::copy) struct StandardInput {
    done: VecDeque<(u64, Outcome)>,
    at: u64,
    reason: Option<String>,
}

impl StandardInput {
    fn read(&mut self, range: Range) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        // Past the end.
        if range.start > self.at {
            return Ok(data);
        }
        io::stdin()
            .lock()
            .take(range.bytes())
            .read_to_end(&mut data)?;
        self.at += data.len() as u64;
        Ok(data)
    }
}

impl End for StandardInput {
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    fn submit(&mut self, tag: u64, action: Action) {
        let outcome = match action {
            Action::Read { range } => self.read(range).map(Answer::Data).map_err(|error| {
                self.reason = Some(error.to_string());
                Failure::Io
            }),
            Action::Status { range, .. } => Ok(Answer::Status(vec![Extent::data(range.bytes())])),
            _ => Err(Failure::NotSupported),
        };
        self.done.push_back((tag, outcome));
    }

    fn turn(&mut self, _deadline: Instant) -> Result<(), CopyError> {
        Ok(())
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.done.pop_front()
    }

    fn take_reason(&mut self) -> Option<String> {
        self.reason.take()
    }

    fn close(self: Box<Self>) -> Option<File> {
        None
    }
}

/// Writes sequentially, zeros included.
#[derive(Default)]
pub(in crate::copy) struct StandardOutput {
    done: VecDeque<(u64, Outcome)>,
    reason: Option<String>,
}

impl StandardOutput {
    fn write(action: Action) -> io::Result<()> {
        let range = action.range();
        let mut out = io::stdout().lock();
        // Parts arrive in order.
        match action {
            Action::Write { data, .. } => out.write_all(&data),
            Action::Zero { .. } => {
                io::copy(&mut io::repeat(0).take(range.bytes()), &mut out).map(|_| ())
            }
            _ => out.flush(),
        }
    }
}

impl End for StandardOutput {
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    fn submit(&mut self, tag: u64, action: Action) {
        let outcome = StandardOutput::write(action).map_err(|error| {
            self.reason = Some(error.to_string());
            Failure::Io
        });
        self.done.push_back((tag, outcome.map(|()| Answer::Done)));
    }

    fn turn(&mut self, _deadline: Instant) -> Result<(), CopyError> {
        Ok(())
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.done.pop_front()
    }

    fn take_reason(&mut self) -> Option<String> {
        self.reason.take()
    }

    fn close(self: Box<Self>) -> Option<File> {
        None
    }
}
