//! One of several routes to a unit.

use wansan_iscsi::initiator::Tally;
use wansan_multipath::Flapping;
use wansan_trace::{Instant, Recorder, SessionId};

use super::fence::Step;
use crate::initiator::Initiator;
use crate::initiator::dial::Destination;

/// A route.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) to: Destination,
    pub(super) state: State,
    pub(super) flapping: Flapping,
    /// The last session over it.
    pub(super) session: SessionId,
    pub(super) portal_group_tag: Option<u16>,
    /// Counters of earlier sessions.
    pub(super) past: Tally,
}

#[derive(Debug)]
pub(super) enum State {
    Up(Box<Initiator>),
    Down(Box<Down>),
}

/// A route that is down.
#[derive(Debug)]
pub(super) struct Down {
    /// An errand for it is in progress.
    pub(super) is_busy: bool,
    /// When to log in over it, and the earliest time if no other route is up.
    pub(super) join_at: Instant,
    pub(super) retry_at: Instant,
    /// When to have its session ended over another route, if necessary.
    pub(super) fence_at: Instant,
    /// The next or current step of fencing by its key.
    pub(super) step: Step,
    /// Consecutive unit attentions received instead of a response to that.
    pub(super) attentions: usize,
    /// When nothing of its session can arrive any more.
    pub(super) expires_at: Instant,
    /// The cause of its loss may be temporary.
    pub(super) may_come_back: bool,
    /// The last message about it, and about why its session cannot be ended.
    pub(super) said: String,
    pub(super) said_unfenced: String,
    pub(super) records: Recorder,
}

impl Path {
    /// A route that is down, to be tried from that moment on.
    pub(super) fn down(to: Destination, records: Recorder, at: Instant) -> Path {
        let down = Down {
            is_busy: false,
            join_at: at,
            retry_at: at,
            fence_at: Instant::FAR_FUTURE,
            step: Step::Preempt,
            attentions: 0,
            expires_at: Instant::FAR_FUTURE,
            may_come_back: true,
            said: String::new(),
            said_unfenced: String::new(),
            records,
        };
        Path {
            to,
            state: State::Down(Box::new(down)),
            flapping: Flapping::up(at),
            session: SessionId::default(),
            portal_group_tag: None,
            past: Tally::default(),
        }
    }

    pub(super) fn up(&self) -> Option<&Initiator> {
        match &self.state {
            State::Up(initiator) => Some(initiator),
            State::Down(_) => None,
        }
    }

    pub(super) fn up_mut(&mut self) -> Option<&mut Initiator> {
        match &mut self.state {
            State::Up(initiator) => Some(initiator),
            State::Down(_) => None,
        }
    }

    /// Its name in events and errors.
    pub(super) fn name(&self) -> String {
        let route = &self.to.routes[0].route;
        match route.source {
            Some(_) => route.to_string(),
            None => route.portal(),
        }
    }

    pub(super) fn tally(&self, now: Instant) -> Tally {
        match self.up() {
            Some(initiator) => initiator.session().tally(0, now).continuing(&self.past),
            None => Tally {
                at: now,
                ..self.past
            },
        }
    }
}
