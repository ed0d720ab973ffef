//! What requests wait for, as it changes.

use std::collections::VecDeque;

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

/// A request of the program has begun to wait for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The caller's number of the request.
    pub request: u64,
    /// What it waits for from now on.
    pub waits_for: RequestWait,
    /// Since when.
    pub since: Instant,
}

/// The marks that were not taken yet; none are kept where nobody asks for them.
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
