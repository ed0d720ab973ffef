//! A benchmark's verdict on a bound.

use std::fmt::{self, Display};
use std::fs::OpenOptions;
use std::io::Write;

use crate::process::PeerError;

/// Names the file to which a row is appended for each bound, for the table at the end of `make bench`.
const TABLE: &str = "WANSAN_BENCH_TABLE";

/// Whether a bound was met. Displays as printed after a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The measurement satisfies the bound.
    Reached,
    /// It does not, and nothing disturbed it.
    Missed,
    /// It does not, or there is no figure, because of the machine; with the reason.
    NotMeasurable(String),
    /// A prerequisite is missing.
    NotRun(String),
}

impl Verdict {
    /// The verdict on a bound, given the machine's disturbance, if any
    /// ([`Machine::disturbance`](crate::machine::Machine::disturbance)).
    #[must_use]
    pub fn of(holds: bool, disturbance: Option<&str>) -> Verdict {
        match disturbance {
            _ if holds => Verdict::Reached,
            None => Verdict::Missed,
            Some(disturbance) => Verdict::NotMeasurable(disturbance.to_owned()),
        }
    }

    /// The verdict on a measurement that failed; `None` if neither the machine nor a missing program is the cause.
    #[must_use]
    pub fn of_error(error: &PeerError, disturbance: Option<String>) -> Option<Verdict> {
        match error {
            PeerError::Missing(missing) => Some(Verdict::NotRun(missing.to_string())),
            PeerError::Noise(what) => Some(Verdict::NotMeasurable(what.clone())),
            error => disturbance.map(|by| Verdict::NotMeasurable(format!("{by}: {error}"))),
        }
    }

    /// Its word in the table: `reached`, `missed`, `not measurable` or `not run`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::NotMeasurable(_) => "not measurable",
            Verdict::NotRun(_) => "not run",
        }
    }

    /// Appends it to the table, with its question and figure. Does nothing without a table.
    pub fn record(&self, question: &str, figure: &str) {
        let Some(table) = std::env::var_os(TABLE) else {
            return;
        };
        let figure = match self {
            Verdict::Reached | Verdict::Missed => figure,
            Verdict::NotMeasurable(why) | Verdict::NotRun(why) => why,
        };
        let row = format!(
            "{}\t{question}\t{}\n",
            self.word(),
            figure.replace('\n', " ")
        );
        let file = OpenOptions::new().append(true).create(true).open(&table);
        if let Err(error) = file.and_then(|mut file| file.write_all(row.as_bytes())) {
            eprintln!("{}: {error}", table.display());
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Missed => f.write_str("MISSED"),
            Verdict::Reached => f.write_str(self.word()),
            Verdict::NotMeasurable(why) | Verdict::NotRun(why) => {
                write!(f, "{}: {why}", self.word())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_undisturbed_miss_is_one() {
        let busy = Some("busy");
        assert_eq!(Verdict::of(true, None), Verdict::Reached);
        assert_eq!(Verdict::of(true, busy), Verdict::Reached);
        assert_eq!(Verdict::of(false, None), Verdict::Missed);
        assert_eq!(Verdict::of(false, busy).to_string(), "not measurable: busy");
    }

    #[test]
    fn an_error_on_a_quiet_machine_stays_one() {
        let error = || PeerError::Failed {
            program: "tgtd".to_owned(),
            what: "it ended".to_owned(),
            output: String::new(),
        };
        assert_eq!(Verdict::of_error(&error(), None), None);
        let disturbed = Verdict::of_error(&error(), Some("busy".to_owned()));
        assert_eq!(disturbed.map(|it| it.word()), Some("not measurable"));
    }
}
