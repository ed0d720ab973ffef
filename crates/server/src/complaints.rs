//! What a thread logs of connections that come to nothing.
//!
//! Everybody may connect, and whoever opens thousands of bad connections must not fill the log as well:
//! a few lines are logged each second, and the others are counted.

/// Complaints of one kind.
#[derive(Debug)]
pub struct Complaints {
    report: fn(&str),
    most_lines: usize,
    rest: &'static str,
    count: usize,
}

impl Complaints {
    /// Lines of one kind between two ticks, where each has one.
    pub const LINES_PER_TICK: usize = 4;

    /// Logs to `report`, at most `most_lines` between two ticks. What more there is has one line, with `rest` behind
    /// its count.
    #[must_use]
    pub fn new(report: fn(&str), most_lines: usize, rest: &'static str) -> Complaints {
        Complaints {
            report,
            most_lines,
            rest,
            count: 0,
        }
    }

    /// Logs a complaint, or counts it.
    pub fn add(&mut self, line: impl FnOnce() -> String) {
        self.count += 1;
        if self.count <= self.most_lines {
            (self.report)(&line());
        }
    }

    /// Logs what happens once and must not be missed among others.
    pub fn say(&self, line: &str) {
        (self.report)(line);
    }

    /// Counts a complaint that has no line of its own.
    pub fn count(&mut self) {
        self.count += 1;
    }

    /// Begins anew; logs how many were only counted.
    pub fn tick(&mut self) {
        let rest = std::mem::take(&mut self.count).saturating_sub(self.most_lines);
        if rest > 0 {
            (self.report)(&format!("{rest} {}", self.rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn a_flood_is_a_few_lines() {
        let report = |line: &str| LINES.lock().unwrap().push(line.to_owned());
        let mut complaints = Complaints::new(report, 2, "more");
        for place in 0..1000 {
            complaints.add(|| format!("line {place}"));
        }
        complaints.say("the end");
        complaints.tick();
        complaints.tick();
        assert_eq!(
            *LINES.lock().unwrap(),
            ["line 0", "line 1", "the end", "998 more"]
        );
    }
}
