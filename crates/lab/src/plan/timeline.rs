//! Scheduled changes of a plan's paths during a run.

use std::fmt;
use std::time::Duration;

use wansan_mistake::Mistake;
use wansan_trace::units::{format_duration, parse_duration};

use super::conditions::Conditions;
use super::document::Document;

/// Most entries in a timeline.
const MAX_MOMENTS: usize = 1000;

/// A change to a path, in the syntax of `wansan path set`: `upper.delay = 32ms`, `upper.back.loss = 1%`, `upper down`.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The path's name.
    pub path: String,
    /// The change.
    pub action: Action,
}

/// The effect of a [`Statement`] on its path.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Sets a key of the path.
    Set {
        /// The direction; both if omitted.
        side: Option<Side>,
        /// The key, dotted if inside a table: `delay`, `reorder.share`.
        key: String,
        /// The value, as in the plan.
        value: toml::Value,
    },
    /// Takes both directions down.
    Down,
    /// Brings both directions up.
    Up,
}

/// One direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// From the first of `between` to the second.
    Forward,
    /// From the second of `between` to the first.
    Back,
}

/// A statement and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// The time, from the start of the initiators.
    pub at: Duration,
    /// The statement.
    pub statement: Statement,
}

impl Side {
    /// Both directions, forward first.
    pub const BOTH: [Side; 2] = [Side::Forward, Side::Back];

    /// Its name in plans and in names of directions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Side::Forward => "forward",
            Side::Back => "back",
        }
    }

    /// The name of a path's direction in records, such as `upper:forward`.
    #[must_use]
    pub fn of(self, path: &str) -> String {
        format!("{path}:{}", self.name())
    }
}

impl Statement {
    /// Parses a statement. Applying it checks the path, the key and the value ([`Conditions::change`]).
    ///
    /// # Errors
    /// [`Mistake`] if it has neither form.
    pub fn parse(text: &str) -> Result<Statement, Mistake> {
        let strange = || {
            Mistake::new(format!(
                "`{text}` is not a change of a path: write `PATH.KEY = VALUE`, such as \
                 `upper.delay = 32ms`, or `PATH down`, or `PATH up`"
            ))
        };
        let Some((place, value)) = text.split_once('=') else {
            let words: Vec<&str> = text.split_whitespace().collect();
            let (path, action) = match words[..] {
                [path, "down"] => (path, Action::Down),
                [path, "up"] => (path, Action::Up),
                _ => return Err(strange()),
            };
            let path = path.to_owned();
            return Ok(Statement { path, action });
        };
        let (path, key) = place.trim().split_once('.').ok_or_else(strange)?;
        let one_sided = key.split_once('.').and_then(|(first, rest)| {
            let side = Side::BOTH.into_iter().find(|side| side.name() == first)?;
            Some((Some(side), rest))
        });
        let (side, key) = one_sided.unwrap_or((None, key));
        let value = value.trim();
        if path.is_empty() || key.is_empty() || value.is_empty() {
            return Err(strange());
        }
        Ok(Statement {
            path: path.to_owned(),
            action: Action::Set {
                side,
                key: key.to_owned(),
                value: self::value(value)?,
            },
        })
    }
}

/// Parses a value as in a plan; text with a unit may be unquoted.
fn value(text: &str) -> Result<toml::Value, Mistake> {
    if !text.starts_with(['{', '[', '"', '\'']) {
        return Ok(match text {
            "true" => true.into(),
            "false" => false.into(),
            text => text.into(),
        });
    }
    let read: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = read.ok().and_then(|mut table| table.remove("value"));
    value.ok_or_else(|| Mistake::new(format!("`{text}` is not a value of a plan")))
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.action {
            Action::Down => write!(f, "{path} down"),
            Action::Up => write!(f, "{path} up"),
            Action::Set { side, key, value } => {
                write!(f, "{path}.")?;
                if let Some(side) = side {
                    write!(f, "{}.", side.name())?;
                }
                match value {
                    toml::Value::String(text) => write!(f, "{key} = {text}"),
                    other => write!(f, "{key} = {other}"),
                }
            }
        }
    }
}

impl Moment {
    /// Parses an entry such as `at 5s upper.delay = 32ms`.
    fn parse(text: &str) -> Result<Moment, Mistake> {
        let strange = || {
            Mistake::new(format!(
                "`{text}` says no time: write `at 5s upper.delay = 32ms`"
            ))
        };
        let after = text.trim().strip_prefix("at ").ok_or_else(strange)?;
        let after = after.trim_start();
        let (time, statement) = after
            .split_once(char::is_whitespace)
            .ok_or_else(|| match parse_duration(after) {
                Ok(_) => Mistake::new(format!(
                    "`{text}` says no change: write `{text} upper.delay = 32ms`, or `{text} upper down`"
                )),
                Err(_) => strange(),
            })?;
        if time.starts_with('-') {
            return Err(Mistake::new(format!(
                "`at {time}` is in the past: times count from the start of the initiators"
            )));
        }
        let at = parse_duration(time).map_err(|error| Mistake::new(format!("`at`: {error}")))?;
        let statement = Statement::parse(statement.trim())?;
        Ok(Moment { at, statement })
    }
}

/// The timeline of a plan, with each statement tried on paths that start with `conditions`. Mistakes refer to lines of
/// the plan's `text`, if given.
pub(super) fn resolve(
    document: &Document,
    text: &str,
    conditions: &Conditions,
) -> Result<Vec<Moment>, Mistake> {
    let entries = &document.timeline;
    if entries.len() > MAX_MOMENTS {
        return Err(Mistake::new(format!(
            "`timeline` has {} entries, more than {MAX_MOMENTS}",
            entries.len()
        )));
    }
    let load = document.workload.warmup.0 + document.workload.time.0;
    let mut conditions = conditions.clone();
    let mut moments: Vec<Moment> = Vec::with_capacity(entries.len());
    for (place, entry) in entries.iter().enumerate() {
        let located =
            |mistake: Mistake| mistake.within("timeline").in_list(text, "timeline", place);
        let moment = Moment::parse(entry).map_err(located)?;
        let before = moments.last().map_or(Duration::ZERO, |last| last.at);
        let at = format_duration(moment.at);
        if moment.at < before {
            return Err(located(Mistake::new(format!(
                "`at {at}` stands after `at {}`: write them in the order of their times",
                format_duration(before)
            ))));
        }
        if moment.at > load {
            return Err(located(Mistake::new(format!(
                "`at {at}` is after the end of the load, which lasts {} with its warm-up",
                format_duration(load)
            ))));
        }
        conditions.change(&moment.statement).map_err(located)?;
        moments.push(moment);
    }
    Ok(moments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_read_back_as_they_are_written() {
        for text in [
            "upper.delay = 32ms",
            "upper.back.loss = 1%",
            "upper.reorder.share = 1%",
            "upper.jitter = { kind = \"normal\", deviation = \"1ms\" }",
            "upper down",
            "upper up",
        ] {
            let statement = Statement::parse(text).unwrap();
            assert_eq!(statement.to_string(), text);
        }
        assert_eq!(
            Statement::parse("upper.delay=\"32ms\""),
            Statement::parse(" upper.delay  =  32ms ")
        );
    }

    #[test]
    fn a_moment_without_a_change_is_told_what_it_lacks() {
        let mistake = |text: &str| Moment::parse(text).unwrap_err().to_string();
        assert!(mistake("at 1s").contains("`at 1s` says no change"));
        assert!(mistake("at ").contains("says no time"));
        assert!(mistake("at upper").contains("says no time"));
        assert!(mistake("upper down").contains("says no time"));
    }

    #[test]
    fn nonsense_is_told_with_what_would_be_right() {
        for text in [
            "",
            "upper",
            "upper sideways",
            "upper down now",
            "delay = 3ms",
            "upper. = 1ms",
            ".delay = 1ms",
            "upper.delay =",
        ] {
            let mistake = Statement::parse(text).unwrap_err().to_string();
            assert!(mistake.contains("PATH.KEY = VALUE"), "{text}: {mistake}");
        }
        let mistake = Statement::parse("upper.loss = { p = ").unwrap_err();
        assert!(mistake.to_string().contains("not a value"), "{mistake}");
    }
}
