//! The course of a running cell: what is changed of its paths, by its plan and by hand.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use wansan_path::Change;
use wansan_trace::time::duration_ns;
use wansan_trace::{Instant, clock};

use super::control::Shown;
use wansan_schema::{PathChange, PathResult};

use crate::emulator::{Receipt, Remote};
use crate::plan::{Amendment, Cell, Conditions, Moment, Statement};

/// How long before its time a change of the plan is handed to the emulator, which makes it then.
/// Longer than the time between two calls of [`Course::advance`], even when the machine is busy.
const AHEAD: Duration = Duration::from_millis(200);
/// How long an emulator may take to make a change whose time has come.
const MAKE_LIMIT: Duration = Duration::from_secs(1);
/// Most changes of one cell that are kept and made.
const MAX_CHANGES: usize = 10_000;

/// A running cell.
#[derive(Debug)]
pub(super) struct Course {
    cell: u64,
    /// When its initiators were started.
    began: Instant,
    conditions: Conditions,
    planned: VecDeque<Moment>,
    /// None under netem and real routers, which make no changes.
    emulator: Option<Remote>,
    changes: Vec<PathChange>,
    /// What those wait for that are not made yet, by their places in `changes`.
    waiting: Vec<(std::ops::Range<usize>, Receipt)>,
}

/// Where the running cell is, if one runs.
#[derive(Debug, Default)]
pub(super) struct Stage(Mutex<Option<Course>>);

impl Stage {
    /// Does something with the running cell. Nobody holds it for longer than a change takes to be
    /// resolved.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Course) -> R) -> Option<R> {
        let mut course = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        course.as_mut().map(act)
    }

    pub(super) fn enter(&self, course: Course) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(course);
    }

    pub(super) fn leave(&self) -> Option<Course> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Course {
    /// That of a cell whose initiators have been started just now.
    pub(super) fn begin(number: u64, cell: &Cell, emulator: Option<Remote>) -> Course {
        Course {
            cell: number,
            began: clock::now(),
            conditions: cell.conditions.clone(),
            planned: cell.timeline.clone().into(),
            emulator,
            changes: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Hands on the changes of the plan whose time comes soon.
    pub(super) fn advance(&mut self) {
        let soon = clock::now() + AHEAD;
        let began = self.began;
        let is_due = |next: &Moment| began + next.at <= soon;
        while self.planned.front().is_some_and(is_due)
            && let Some(moment) = self.planned.pop_front()
        {
            let at = self.began + moment.at;
            // Nothing of the plan is refused, unless something was changed by hand meanwhile.
            let _ = self.change(&[moment.statement], at, Some(moment.at));
        }
        self.collect(Duration::ZERO);
    }

    /// Makes changes that somebody asks for, all at once or none; where they will stand among
    /// [`Course::changes`].
    pub(super) fn set(
        &mut self,
        statements: &[Statement],
    ) -> Result<std::ops::Range<usize>, String> {
        let first = self.changes.len();
        match self.change(statements, clock::now(), None) {
            Ok(()) => Ok(first..self.changes.len()),
            Err(refused) => {
                // It was reported at once: no part of what happened to the cell.
                self.changes.truncate(first);
                Err(refused)
            }
        }
    }

    fn change(
        &mut self,
        statements: &[Statement],
        at: Instant,
        planned: Option<Duration>,
    ) -> Result<(), String> {
        let first = self.changes.len();
        if first + statements.len() > MAX_CHANGES {
            return Err(format!("{MAX_CHANGES} changes of one cell are enough"));
        }
        self.changes
            .extend(statements.iter().map(|statement| PathChange {
                statement: statement.to_string(),
                asked_by: if planned.is_some() { "plan" } else { "hand" }.to_owned(),
                planned_ns: planned.map(duration_ns),
                made_after_ns: None,
                made_at_ns: None,
                refused: None,
            }));
        let places = first..self.changes.len();
        let ordered = self.order(statements, at);
        match ordered {
            Ok(receipt) => {
                self.waiting.push((places, receipt));
                Ok(())
            }
            Err(refused) => {
                for change in &mut self.changes[places] {
                    change.refused = Some(refused.clone());
                }
                Err(refused)
            }
        }
    }

    fn order(&mut self, statements: &[Statement], at: Instant) -> Result<Receipt, String> {
        let mut conditions = self.conditions.clone();
        let mut changes: Vec<(String, Change)> = Vec::new();
        for statement in statements {
            let amendments = conditions.change(statement);
            for amendment in amendments.map_err(|mistake| mistake.to_string())? {
                let Amendment {
                    direction,
                    changes: here,
                } = amendment;
                changes.extend(here.into_iter().map(|change| (direction.clone(), change)));
            }
        }
        let emulator = self.emulator.as_ref().ok_or(
            "paths by netem, or by a real router, do not change while they run: leave `world.emulator = \"netem\"` \
             and `world.kind = \"hosts\"` out",
        )?;
        let receipt = emulator.order(at, changes);
        let receipt = receipt.map_err(|error| error.to_string())?;
        self.conditions = conditions;
        Ok(receipt)
    }

    /// Notes what the emulator has made; waits for the rest no longer than `limit`.
    fn collect(&mut self, limit: Duration) {
        let until = std::time::Instant::now() + limit;
        let (changes, began) = (&mut self.changes, self.began);
        self.waiting.retain(|(places, receipt)| {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let made = match receipt.wait(left) {
                Ok(None) => return true,
                Ok(Some(made)) => Ok(made),
                Err(error) => Err(error.to_string()),
            };
            for change in &mut changes[places.clone()] {
                match &made {
                    Ok(made) => {
                        change.made_at_ns = Some(made.ns());
                        change.made_after_ns = Some(duration_ns(*made - began));
                    }
                    Err(error) => change.refused = Some(error.clone()),
                }
            }
            false
        });
    }

    /// What has become of these changes, and whether all have been made or refused.
    pub(super) fn outcome(&mut self, places: std::ops::Range<usize>) -> (Vec<PathChange>, bool) {
        self.collect(Duration::ZERO);
        let settled = |change: &PathChange| change.made_at_ns.is_some() || change.refused.is_some();
        let changes = self.changes[places].to_vec();
        let all = changes.iter().all(settled);
        (changes, all)
    }

    /// How the cell's paths do.
    pub(super) fn shown(&mut self) -> Shown {
        self.collect(Duration::ZERO);
        let statistics = self.emulator.as_ref().map(Remote::statistics);
        let paths = statistics.map_or_else(Vec::new, |statistics| statistics.paths);
        Shown {
            cell: self.cell,
            after_ns: duration_ns(clock::now() - self.began),
            paths: paths.iter().map(PathResult::from).collect(),
            timeline: self.changes.clone(),
        }
    }

    /// All that was changed, when the initiators have ended.
    pub(super) fn end(mut self) -> Vec<PathChange> {
        self.collect(MAKE_LIMIT);
        self.changes
    }
}
