//! What a benchmark says of a bound.

use std::fmt::{self, Display};
use std::fs::OpenOptions;
use std::io::Write;

use crate::process::PeerError;

/// Names the file to which a row is added for each bound, for the table that closes `make bench`.
const TABLE: &str = "WANSAN_BENCH_TABLE";

/// Whether a bound was reached. Displayed as it stands behind a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// What was measured satisfies the bound.
    Reached,
    /// It does not, and nothing disturbed it.
    Missed,
    /// It does not, or there is no figure, and the machine is to blame: how.
    NotMeasurable(String),
    /// What it takes is not there.
    NotRun(String),
}

impl Verdict {
    /// Of a bound that holds or not, on a machine that was disturbed so, if at all
    /// ([`Machine::disturbance`](crate::machine::Machine::disturbance)).
    #[must_use]
    pub fn of(holds: bool, disturbance: Option<&str>) -> Verdict {
        match disturbance {
            _ if holds => Verdict::Reached,
            None => Verdict::Missed,
            Some(disturbance) => Verdict::NotMeasurable(disturbance.to_owned()),
        }
    }

    /// Of a measurement that came to no end; `None` where the error is neither the machine's nor that
    /// something is not there.
    #[must_use]
    pub fn of_error(error: &PeerError, disturbance: Option<String>) -> Option<Verdict> {
        match error {
            PeerError::Missing(missing) => Some(Verdict::NotRun(missing.to_string())),
            PeerError::Noise(what) => Some(Verdict::NotMeasurable(what.clone())),
            error => disturbance.map(|by| Verdict::NotMeasurable(format!("{by}: {error}"))),
        }
    }

    /// Its place in the table: `reached`, `missed`, `not measurable` or `not run`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::NotMeasurable(_) => "not measurable",
            Verdict::NotRun(_) => "not run",
        }
    }

    /// Adds it to the table, with the question and the figure that it is about. Without a table there is
    /// nothing to do.
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
