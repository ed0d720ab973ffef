//! Changes in what requests wait for.

use std::collections::VecDeque;

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

/// A change in what a program's request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The caller's request number.
    pub request: u64,
    /// What it waits for now.
    pub waits_for: RequestWait,
    /// Start of this wait.
    pub since: Instant,
}

/// Pending marks; none are kept if marks are disabled.
#[derive(Debug)]
pub(crate) struct Marks(Option<VecDeque<Mark>>);

impl Marks {
    pub(crate) fn new(are_wanted: bool) -> Marks {
        Marks(are_wanted.then(VecDeque::new))
    }

    pub(crate) fn add(&mut self, request: u64, waits_for: RequestWait, since: Instant) {
        if let Some(marks) = &mut self.0 {
            marks.push_back(Mark {
                request,
                waits_for,
                since,
            });
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Mark> {
        self.0.as_mut()?.pop_front()
    }
}
