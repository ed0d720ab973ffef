//! Standard input and standard output: data one after the other.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use wansan_cache::{Action, Answer, Extent, Failure, Outcome, Range};
use wansan_trace::Instant;

use super::End;
use crate::copy::CopyError;

/// Reads in sequence; what is behind the end is missing in the answer.
pub(in crate::copy) struct StandardInput {
    done: VecDeque<(u64, Outcome)>,
    at: u64,
    failed: Option<io::Error>,
}

impl StandardInput {
    pub(in crate::copy) fn new() -> StandardInput {
        StandardInput {
            done: VecDeque::new(),
            at: 0,
            failed: None,
        }
    }

    fn read(&mut self, range: Range) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        // Behind the end.
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

    fn block_bytes(&self) -> u64 {
        1
    }

    fn is_blank(&self) -> bool {
        false
    }

    fn submit(&mut self, tag: u64, action: Action) {
        let outcome = match action {
            Action::Read { range } => match self.read(range) {
                Ok(data) => Ok(Answer::Data(data)),
                Err(error) => {
                    self.failed = Some(error);
                    Err(Failure::Io)
                }
            },
            Action::Status { range, .. } => Ok(Answer::Status(vec![Extent::data(range.bytes())])),
            _ => Err(Failure::NotSupported),
        };
        self.done.push_back((tag, outcome));
    }

    fn turn(&mut self, _deadline: Instant) -> Result<(), CopyError> {
        match self.failed.take() {
            Some(error) => Err(CopyError::End {
                place: "standard input".to_owned(),
                why: error.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.done.pop_front()
    }

    fn close(self: Box<Self>) -> Result<(), CopyError> {
        Ok(())
    }
}

/// Writes in sequence; zeros are written.
pub(in crate::copy) struct StandardOutput {
    done: VecDeque<(u64, Outcome)>,
    at: u64,
    failed: Option<io::Error>,
}

impl StandardOutput {
    pub(in crate::copy) fn new() -> StandardOutput {
        StandardOutput {
            done: VecDeque::new(),
            at: 0,
            failed: None,
        }
    }

    fn write(&mut self, action: Action) -> io::Result<()> {
        let range = action.range();
        let mut out = io::stdout().lock();
        match action {
            Action::Write { data, .. } => {
                self.follow(range)?;
                out.write_all(&data)
            }
            Action::Zero { .. } => {
                self.follow(range)?;
                io::copy(&mut io::repeat(0).take(range.bytes()), &mut out).map(|_| ())
            }
            _ => out.flush(),
        }
    }

    fn follow(&mut self, range: Range) -> io::Result<()> {
        if range.start != self.at {
            return Err(io::Error::other(
                "standard output is written in sequence only",
            ));
        }
        self.at = range.end;
        Ok(())
    }
}

impl End for StandardOutput {
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    fn block_bytes(&self) -> u64 {
        1
    }

    fn is_blank(&self) -> bool {
        false
    }

    fn submit(&mut self, tag: u64, action: Action) {
        let outcome = self.write(action).map_err(|error| {
            self.failed = Some(error);
            Failure::Io
        });
        self.done.push_back((tag, outcome.map(|()| Answer::Done)));
    }

    fn turn(&mut self, _deadline: Instant) -> Result<(), CopyError> {
        match self.failed.take() {
            Some(error) => Err(CopyError::End {
                place: "standard output".to_owned(),
                why: error.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.done.pop_front()
    }

    fn close(self: Box<Self>) -> Result<(), CopyError> {
        Ok(())
    }
}
