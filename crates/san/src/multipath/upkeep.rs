//! Upkeep of routes that are down: logging in again, and having the target end lost sessions.

use wansan_trace::{Instant, Recorder, clock};

use super::errand::Outcome;
use super::fence::ByKey;
use super::path::{Down, Path, State};
use super::unit::Unit;
use super::{MultipathSession, RouteEvent, SEGMENT_LIFETIME};
use crate::initiator::dial::Destination;
use crate::initiator::{Initiator, InitiatorError};

impl MultipathSession {
    /// When to log in over a route: a flapping route is held off only while another one is up.
    pub(super) fn joins_at(&self, down: &Down) -> Instant {
        match self.connections().0 {
            0 => down.retry_at,
            _ => down.join_at,
        }
    }

    /// Makes the target end lost sessions whose writes it may still execute, and logs in over routes that are down.
    pub(super) fn begin_errands(&mut self, now: Instant) {
        for place in 0..self.paths.len() {
            let State::Down(down) = &self.paths[place].state else {
                continue;
            };
            if down.is_busy {
                continue;
            }
            let has_expired = now >= down.expires_at && self.connections().0 > 0;
            if has_expired && self.same_group(place).is_none() {
                self.fenced(place);
            } else if now >= down.fence_at && !self.requests.lingers(place) {
                // Nothing more is sent in a lost session: if it needs no fence now, it never will.
                self.fenced(place);
            } else if now >= down.fence_at && self.begin_fence(place, now) {
                continue;
            }
            self.begin_join(place, now);
        }
    }

    /// Makes the target end the lost session at `place` over another route; returns whether that has started.
    fn begin_fence(&mut self, place: usize, now: Instant) -> bool {
        let path = &self.paths[place];
        let lost = (&path.to, path.portal_group_tag);
        let patience = self.config.patience.min(self.attempt());
        let again = path.flapping.failed(now);
        let is_busy = match self.same_group(place) {
            Some(over) => {
                let begun = self.errands.fence(place, lost, (over, self.lun), patience);
                begun.is_ok()
            }
            None => match self.begin_fence_by_key(place, now) {
                ByKey::Begun => true,
                ByKey::Later => false,
                ByKey::Never => {
                    self.cannot_fence(place);
                    false
                }
            },
        };
        if let State::Down(down) = &mut self.paths[place].state {
            (down.is_busy, down.fence_at) = (is_busy, again);
        }
        is_busy
    }

    /// Reports that the lost session at `place` cannot be ended, unless all routes are down.
    fn cannot_fence(&mut self, place: usize) {
        if self.connections().0 > 0 {
            let limit_s = SEGMENT_LIFETIME.as_secs();
            let mut why =
                format!("no other route is in its target portal group, so for {limit_s} s at most");
            if self.config.reservation.is_none() {
                why += "; with a reservation key it would be ended by that";
            }
            self.say_unfenced(place, &why);
        }
    }

    /// Logs in over the route at `place`, if due.
    fn begin_join(&mut self, place: usize, now: Instant) {
        let path = &self.paths[place];
        let again = path.flapping.failed(now);
        let State::Down(down) = &path.state else {
            return;
        };
        if now < self.joins_at(down) {
            return;
        }
        let patience = self.config.patience;
        let unit = (self.lun, Some(&self.unit));
        let begun = self.errands.join(place, &path.to, unit, patience);
        if let State::Down(down) = &mut self.paths[place].state {
            // Without a thread for it, it is retried as after a failure.
            down.is_busy = begun.is_ok();
            (down.join_at, down.retry_at) = (again, again);
        }
    }

    /// Nothing of the lost session at `place` can be executed any more.
    pub(super) fn fenced(&mut self, place: usize) {
        if let State::Down(down) = &mut self.paths[place].state {
            (down.fence_at, down.expires_at) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        }
        self.requests.fenced(place);
    }

    /// Reports that writes wait because the target may still execute earlier ones of the lost session at `place`,
    /// unless that was the last message.
    pub(super) fn say_unfenced(&mut self, place: usize, why: &str) {
        let path = &mut self.paths[place];
        let route = path.name();
        if let State::Down(down) = &mut path.state
            && down.said_unfenced != why
        {
            why.clone_into(&mut down.said_unfenced);
            let why = format!(
                "writes to blocks that its lost session may still write wait until that is ended: {why}"
            );
            self.events.push_back(RouteEvent::Down { route, why });
        }
    }

    /// Reports why the route at `place` is down, unless that was the last message.
    fn say(&mut self, place: usize, why: String) {
        let path = &mut self.paths[place];
        let route = path.name();
        if let State::Down(down) = &mut path.state
            && down.said != why
        {
            down.said.clone_from(&why);
            self.events.push_back(RouteEvent::Down { route, why });
        }
    }

    /// The destination of a route that is up with the portal group of the lost session at `place`: with another group,
    /// a session of the same ISID would be another session.
    fn same_group(&self, place: usize) -> Option<&Destination> {
        let tag = self.paths[place].portal_group_tag;
        let mut up = self.paths.iter().filter_map(Path::up);
        let there = up.find(|up| tag.is_some() && up.session().portal_group_tag() == tag);
        there.map(Initiator::destination)
    }

    pub(super) fn end_errands(&mut self) {
        while let Some((place, outcome)) = self.errands.poll() {
            self.end_errand(place, outcome);
        }
    }

    fn end_errand(&mut self, place: usize, outcome: Outcome) {
        let now = clock::now();
        let path = &mut self.paths[place];
        let State::Down(down) = &mut path.state else {
            return;
        };
        down.is_busy = false;
        match outcome {
            Outcome::Fenced(Ok(())) => self.fenced(place),
            Outcome::Fenced(Err(error)) => {
                down.fence_at = path.flapping.failed(now);
                self.say_unfenced(place, &error.to_string());
            }
            Outcome::Joined(Ok((initiator, unit))) => {
                self.join(place, initiator, &unit, now);
                let route = self.paths[place].name();
                self.events.push_back(RouteEvent::Back { route });
            }
            Outcome::Joined(Err(error @ InitiatorError::Preempted { .. })) => {
                self.preempted = Some(error);
            }
            Outcome::Joined(Err(error)) => self.did_not_join(place, error, now),
        }
    }

    /// A login over the route at `place` failed.
    pub(super) fn did_not_join(&mut self, place: usize, error: InitiatorError, now: Instant) {
        let path = &mut self.paths[place];
        let again = path.flapping.failed(now);
        if let State::Down(down) = &mut path.state {
            (down.join_at, down.retry_at) = (again, again);
        }
        self.say(place, error.to_string());
        self.last_failure = Some(error);
    }

    /// A session over the route at `place` was established.
    pub(super) fn join(
        &mut self,
        place: usize,
        mut initiator: Box<Initiator>,
        unit: &Unit,
        now: Instant,
    ) {
        let path = &mut self.paths[place];
        path.session = initiator.session().id();
        path.portal_group_tag = initiator.session().portal_group_tag();
        path.to.learn(initiator.destination());
        path.flapping.back(now);
        if let State::Down(down) = &mut path.state {
            initiator.record_to(std::mem::replace(&mut down.records, Recorder::off()));
        }
        path.state = State::Up(initiator);
        self.requests.up(place, unit.rank);
        if let Some((since, _)) = self.down.take() {
            self.totals.lost += now - since;
        }
    }

    /// Makes the target end earlier sessions over the routes that are down: with the same ISIDs, they have the same
    /// names.
    pub(super) fn fence_all(&mut self) {
        let up = self.paths.iter().find_map(Path::up);
        let Some(over) = up.map(|up| up.destination().clone()) else {
            return;
        };
        let patience = self.config.patience.min(self.attempt());
        let mut open = 0;
        for place in 0..self.paths.len() {
            let path = &self.paths[place];
            if path.up().is_some() {
                continue;
            }
            let lost = (&path.to, None);
            let begun = self.errands.fence(place, lost, (&over, self.lun), patience);
            match begun {
                Ok(()) => open += 1,
                Err(error) => self.say_not_ended(place, &error.to_string()),
            }
        }
        for _ in 0..open {
            if let Some((place, Outcome::Fenced(Err(error)))) = self.errands.wait() {
                self.say_not_ended(place, &error.to_string());
            }
        }
    }

    fn say_not_ended(&mut self, place: usize, why: &str) {
        let why = format!("an earlier session over it cannot be ended either: {why}");
        self.say(place, why);
    }

    /// Makes the target end lost sessions that may still execute writes, as far as possible until `deadline`.
    pub(super) fn fence_lost(&mut self, deadline: Instant) {
        let can_be_fenced = |several: &Self, place: usize| {
            let State::Down(down) = &several.paths[place].state else {
                return false;
            };
            several.requests.lingers(place) && (down.is_busy || several.same_group(place).is_some())
        };
        while clock::now() < deadline
            && (0..self.paths.len()).any(|place| can_be_fenced(self, place))
        {
            if self.turn(deadline).is_err() {
                return;
            }
            // Outstanding commands were abandoned.
            while self.poll_completion().is_some() {}
        }
    }
}
