//! Shrinks histories that break a rule.

use crate::history::{History, Keys, Setup};
use crate::oracle::Rule;
use crate::page_cache::FailureRates;

/// Schedules tried for each smaller history, as it runs differently from the larger one.
const SCHEDULES: u64 = 12;

impl History {
    /// The smallest history found that still breaks `rule`, as this one does. Runs at most `runs` histories.
    #[must_use]
    pub fn shrink(&self, rule: Rule, runs: usize) -> History {
        let mut shrinker = Shrinker {
            best: self.clone(),
            rule,
            left: runs,
        };
        loop {
            let before = shrinker.best.clone();
            shrinker.drop_sessions();
            shrinker.drop_steps();
            shrinker.drop_incidents();
            shrinker.simplify();
            if shrinker.best == before || shrinker.left == 0 {
                return shrinker.best;
            }
        }
    }
}

struct Shrinker {
    best: History,
    rule: Rule,
    left: usize,
}

impl Shrinker {
    /// Accepts `smaller` if it breaks the rule under some schedule.
    fn try_out(&mut self, mut smaller: History) -> bool {
        if smaller == self.best {
            return false;
        }
        let first = smaller.schedule;
        for other in 0..SCHEDULES {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            smaller.schedule = match other {
                0 => first,
                other => other,
            };
            let violation = smaller.run().violation;
            if violation.is_some_and(|violation| violation.rule == self.rule) {
                self.best = smaller;
                return true;
            }
        }
        false
    }

    /// Empties scripts. Sessions keep their indices, which reservation keys refer to.
    fn drop_sessions(&mut self) {
        for place in 0..self.best.sessions.len() {
            let mut smaller = self.best.clone();
            smaller.sessions[place].steps.clear();
            self.try_out(smaller);
        }
        while let Some(last) = self.best.sessions.last()
            && last.steps.is_empty()
        {
            let mut smaller = self.best.clone();
            smaller.sessions.pop();
            if !self.try_out(smaller) {
                return;
            }
        }
    }

    /// Removes halves first, then quarters, down to single steps.
    fn drop_steps(&mut self) {
        for place in 0..self.best.sessions.len() {
            let mut length = self.best.sessions[place].steps.len().div_ceil(2);
            while length > 0 {
                let mut from = 0;
                while from < self.best.sessions[place].steps.len() {
                    let mut smaller = self.best.clone();
                    let steps = &mut smaller.sessions[place].steps;
                    let end = steps.len().min(from + length);
                    steps.drain(from..end);
                    if !self.try_out(smaller) {
                        from += length;
                    }
                }
                length /= 2;
            }
        }
    }

    fn drop_incidents(&mut self) {
        for place in (0..self.best.incidents.len()).rev() {
            let mut smaller = self.best.clone();
            smaller.incidents.remove(place);
            self.try_out(smaller);
        }
    }

    /// Replaces the setup and login parameters by plain ones.
    fn simplify(&mut self) {
        const PLAIN: Keys = Keys {
            recovery: 0,
            connections: 1,
            immediate: true,
            initial_r2t: false,
            first_burst: 65_536,
            max_burst: 65_536,
            segment: 65_536,
            r2ts: 1,
            digests: false,
        };
        let setups: [fn(&mut Setup); 5] = [
            |setup| setup.failures = FailureRates::default(),
            |setup| setup.keys = PLAIN,
            |setup| setup.threads = 1,
            |setup| setup.workers = 2,
            |setup| setup.command_window = 64,
        ];
        for change in setups {
            let mut smaller = self.best.clone();
            change(&mut smaller.setup);
            self.try_out(smaller);
        }
        for place in 0..self.best.sessions.len() {
            let mut smaller = self.best.clone();
            let script = &mut smaller.sessions[place];
            (script.keys, script.replays) = (PLAIN, false);
            self.try_out(smaller);
        }
    }
}
