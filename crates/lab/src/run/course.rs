//! The course of a running cell: changes to its paths, by its plan and by hand.

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

/// How far ahead a planned change is submitted to the emulator, which applies it on time. Longer than the interval
/// between calls of [`Course::advance`], even on a busy machine.
const AHEAD: Duration = Duration::from_millis(200);
/// Time for an emulator to apply a due change.
const MAKE_LIMIT: Duration = Duration::from_secs(1);
/// Most changes per cell.
const MAX_CHANGES: usize = 10_000;

/// A running cell.
#[derive(Debug)]
pub(super) struct Course {
    cell: u64,
    /// Start of its initiators.
    began: Instant,
    conditions: Conditions,
    planned: VecDeque<Moment>,
    /// `None` with netem and real routers, which do not support changes.
    emulator: Option<Remote>,
    changes: Vec<PathChange>,
    /// Receipts of pending changes, by their indices in `changes`.
    waiting: Vec<(std::ops::Range<usize>, Receipt)>,
}

/// The running cell, if any.
#[derive(Debug, Default)]
pub(super) struct Stage(Mutex<Option<Course>>);

impl Stage {
    /// Accesses the running cell. The lock is held no longer than it takes to resolve a change.
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
    /// For a cell whose initiators were just started.
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

    /// Submits the planned changes that are due soon.
    pub(super) fn advance(&mut self) {
        let soon = clock::now() + AHEAD;
        let began = self.began;
        let is_due = |next: &Moment| began + next.at <= soon;
        while self.planned.front().is_some_and(is_due)
            && let Some(moment) = self.planned.pop_front()
        {
            let at = self.began + moment.at;
            // A planned change is never refused, unless manual changes intervened.
            let _ = self.change(&[moment.statement], at, Some(moment.at));
        }
        self.collect(Duration::ZERO);
    }

    /// Applies requested changes, all or none; returns their indices in [`Course::changes`].
    pub(super) fn set(
        &mut self,
        statements: &[Statement],
    ) -> Result<std::ops::Range<usize>, String> {
        let first = self.changes.len();
        match self.change(statements, clock::now(), None) {
            Ok(()) => Ok(first..self.changes.len()),
            Err(refused) => {
                // The error was returned at once, so these changes are not part of the cell's history.
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
            return Err(format!("a cell can have at most {MAX_CHANGES} changes"));
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

    /// Records the changes that the emulator has applied; waits for the rest for at most `limit`.
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

    /// The state of these changes, and whether all have been applied or refused.
    pub(super) fn outcome(&mut self, places: std::ops::Range<usize>) -> (Vec<PathChange>, bool) {
        self.collect(Duration::ZERO);
        let settled = |change: &PathChange| change.made_at_ns.is_some() || change.refused.is_some();
        let changes = self.changes[places].to_vec();
        let all = changes.iter().all(settled);
        (changes, all)
    }

    /// The state of the cell's paths.
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

    /// All changes, after the initiators have ended.
    pub(super) fn end(mut self) -> Vec<PathChange> {
        self.collect(MAKE_LIMIT);
        self.changes
    }
}
