//! Error messages for TOML files, for their authors: plans, and settings of targets.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use toml::de::DeTable;

/// A mistake and the line it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1; `None` for what stands on no single line.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Mistake {
    /// A mistake that stands on no single line.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Mistake {
            line: None,
            text: text.into(),
        }
    }

    /// Puts where it was found in front.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }

    /// Puts the mistake on the line of `key` in the `place`th `[[table]]` of the file's `text`, or
    /// on that table's first line when the key is not there.
    #[must_use]
    pub fn in_table(mut self, text: &str, table: &str, place: usize, key: &str) -> Self {
        let span = DeTable::parse(text).ok().and_then(|plan| {
            let of_table = plan.get_ref().get(table)?.get_ref().get(place)?;
            let of_key = of_table.get_ref().get(key);
            Some(of_key.unwrap_or(of_table).span())
        });
        self.line = span.map(|span| line_of(text, &span));
        self
    }

    /// Puts the mistake on the line of `key` in the file's `[table]`, or on that table's first line when
    /// the key is not there.
    #[must_use]
    pub fn in_section(self, text: &str, table: &str, key: &str) -> Self {
        self.at_dotted(text, table, |name| name == key)
    }

    /// Puts the mistake on the line of the first value in the file's `[table]` whose dotted key
    /// `is_meant`, however it is nested or quoted there; or on that table's first line.
    #[must_use]
    pub fn at_dotted(mut self, text: &str, table: &str, is_meant: impl Fn(&str) -> bool) -> Self {
        let span = DeTable::parse(text).ok().and_then(|file| {
            let section = file.get_ref().get(table)?;
            let mut dotted = Vec::new();
            flatten(section.get_ref().as_table()?, "", &mut dotted);
            let meant = dotted.into_iter().filter(|(name, _)| is_meant(name));
            let first = meant.map(|(_, span)| span).min_by_key(|span| span.start);
            Some(first.unwrap_or(section.span()))
        });
        self.line = span.map(|span| line_of(text, &span));
        self
    }

    /// Puts the mistake on the line of the `place`th element of the list `key` of the file's `text`.
    #[must_use]
    pub fn in_list(mut self, text: &str, key: &str, place: usize) -> Self {
        let span = DeTable::parse(text).ok().and_then(|plan| {
            let element = plan.get_ref().get(key)?.get_ref().get(place)?;
            Some(element.span())
        });
        self.line = span.map(|span| line_of(text, &span));
        self
    }

    /// Names the value of the file's `text` that it is about, and puts it on its line, or on that of the
    /// table that lacks it. `place` is the way there, such as `target[1].lun[0]`.
    #[must_use]
    pub fn at(mut self, text: &str, place: &str) -> Self {
        let span = DeTable::parse(text).ok().and_then(|file| {
            let mut way = steps(place).into_iter();
            let mut value = file.get_ref().get(way.next()?)?;
            for step in way {
                let inner = match step.parse::<usize>() {
                    Ok(index) => value.get_ref().get(index),
                    Err(_) => value.get_ref().get(step),
                };
                value = inner.unwrap_or(value);
            }
            Some(value.span())
        });
        self.line = span.map(|span| line_of(text, &span));
        let keys: Vec<&str> = steps(place)
            .into_iter()
            .filter(|step| step.parse::<usize>().is_err())
            .collect();
        self.within(format!("`{}`", keys.join(".")))
    }

    /// It in the file at `path`, as in `target.toml:7: …`.
    #[must_use]
    pub fn in_file(&self, path: &Path) -> String {
        let line = self.line.map(|line| format!(":{line}"));
        format!(
            "{}{}: {}",
            path.display(),
            line.unwrap_or_default(),
            self.text
        )
    }

    /// What a deserializer of JSON says; `path` is serde's way to the value, and `whole` what all of it
    /// is called, such as "the object".
    #[must_use]
    pub fn from_json(said: &str, path: &serde_path_to_error::Path, whole: &str) -> Self {
        let parent = |table: &str| format!("`{table}`");
        Mistake::new(describe(said, &indexed(path), whole, parent))
    }

    /// What a deserializer found in `text`; `path` is serde's way to the value, and `whole` what the
    /// file is called, such as "the plan".
    #[must_use]
    pub fn from_toml(
        error: &toml::de::Error,
        path: &serde_path_to_error::Path,
        text: &str,
        whole: &str,
    ) -> Self {
        // For an element of a list, toml gives the span of the whole list.
        let span = element(path, text).or(error.span());
        let line = span.map(|span| line_of(text, &span));
        let place = place(path);
        let header = line.and_then(|line| text.lines().nth(line - 1));
        let text = header
            .and_then(|header| other_header(error.message(), header.trim_start(), &place))
            .unwrap_or_else(|| {
                describe(error.message(), &place, whole, |table| format!("[{table}]"))
            });
        Mistake { line, text }
    }
}

/// The spans of a table's values, and of the tables in it, by their dotted keys.
fn flatten(table: &DeTable<'_>, before: &str, into: &mut Vec<(String, Range<usize>)>) {
    for (key, value) in table {
        let name = format!("{before}{}", key.get_ref());
        if let Some(inner) = value.get_ref().as_table() {
            flatten(inner, &format!("{name}."), into);
        }
        into.push((name, key.span()));
    }
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.get(..span.start).unwrap_or(text);
    before.bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// Where in `text` the element of a list stands, if that is what serde's way leads to.
fn element(path: &serde_path_to_error::Path, text: &str) -> Option<Range<usize>> {
    let mut way = path.iter();
    let Some(Segment::Map { key }) = way.next() else {
        return None;
    };
    let plan = DeTable::parse(text).ok()?;
    let mut value = plan.get_ref().get(key.as_str())?;
    let mut is_element = false;
    for segment in way {
        (value, is_element) = match segment {
            Segment::Map { key } => (value.get_ref().get(key.as_str())?, false),
            Segment::Seq { index } => (value.get_ref().get(*index)?, true),
            _ => return None,
        };
    }
    is_element.then(|| value.span())
}

/// Serde's way to a value as a plan's key: `path[0].delay` is `path.delay`, since the line number
/// says which of several tables is meant.
fn place(path: &serde_path_to_error::Path) -> String {
    let names: Vec<&str> = path
        .iter()
        .filter_map(|segment| match segment {
            Segment::Map { key } => Some(key.as_str()),
            _ => None,
        })
        .collect();
    names.join(".")
}

/// As [`place`], of what has no lines: `listener[1].to`.
fn indexed(path: &serde_path_to_error::Path) -> String {
    let place = path.to_string();
    let known = place.trim_end_matches('?').trim_end_matches('.');
    known.to_owned()
}

/// The keys and indices of `target[1].lun[0]`.
fn steps(place: &str) -> Vec<&str> {
    let steps = place.split(['.', '[', ']']);
    steps.filter(|step| !step.is_empty()).collect()
}

/// What is to stand in place of a table's `header`, where one table was written for a list of them, or
/// a list for one.
fn other_header(message: &str, header: &str, place: &str) -> Option<String> {
    let is_list = header.starts_with("[[");
    if message.contains("expected a sequence") && header.starts_with('[') && !is_list {
        return Some(format!(
            "there can be several `{place}`: write [[{place}]], not [{place}]"
        ));
    }
    let wants_table = message.contains("expected a table") || message.contains("expected struct");
    (wants_table && is_list && message.contains("sequence"))
        .then(|| format!("there is one `{place}`: write [{place}], not [[{place}]]"))
}

/// Says in the words of plans what serde says in those of Rust. Serde gives unknown and known
/// names between backticks, the unknown one first. `named` is how the name of a table is written.
fn describe(message: &str, place: &str, whole: &str, named: impl Fn(&str) -> String) -> String {
    let message = message.lines().next().unwrap_or_default();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let parent = |key: &str| {
        let parent = place.strip_suffix(key).unwrap_or(place);
        match parent.trim_end_matches('.') {
            "" => whole.to_owned(),
            table => named(table),
        }
    };
    if message.starts_with("unknown field") {
        let unknown = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        return format!(
            "unknown key `{unknown}` in {}; {}",
            parent(unknown),
            nearest(unknown, &known)
        );
    }
    if message.starts_with("unknown variant") {
        let unknown = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        let nearest = nearest(unknown, &known);
        return match place {
            "" => format!("`{unknown}` is unknown; {nearest}"),
            place => format!("`{place}` cannot be `{unknown}`; {nearest}"),
        };
    }
    if message.starts_with("missing field") {
        let missing = quoted.next().unwrap_or_default();
        return format!("{} lacks `{missing}`", parent(""));
    }
    if message.starts_with("duplicate field") {
        let twice = quoted.next().unwrap_or_default();
        return format!("`{twice}` stands twice in {}: remove one", parent(twice));
    }
    if let Some(beyond) = out_of_range(message) {
        return match place {
            "" => beyond,
            place => format!("`{place}`: {beyond}"),
        };
    }
    // Names of Rust's types say nothing to people.
    let message = match message.split_once("expected struct ") {
        Some((before, _)) => &format!("{before}expected a table"),
        None => message,
    };
    let plain = message
        .replace("expected u8", "expected a whole number")
        .replace("expected u16", "expected a whole number")
        .replace("expected u32", "expected a whole number")
        .replace("expected u64", "expected a whole number")
        .replace("expected i64", "expected a whole number")
        .replace("expected a sequence", "expected a list in [ ]")
        .replace("expected a map", "expected a table")
        .replace("invalid type: ", "found ");
    if place.is_empty() {
        plain
    } else {
        format!("`{place}`: {plain}")
    }
}

/// What serde says of an integer that its type cannot hold, with what it can.
fn out_of_range(message: &str) -> Option<String> {
    let (number, name) = beyond_type(message)?;
    let (least, most) = match name {
        "u8" => (0, u8::MAX.into()),
        "u16" => (0, u16::MAX.into()),
        "u32" => (0, u32::MAX.into()),
        "u64" => (0, u64::MAX),
        _ => return None,
    };
    Some(format!("must be {least} to {most}, not {number}"))
}

/// The whole number of which serde says that its type cannot hold it, and what serde calls that type. JSON has
/// numbers of more than 64 bits as floating point, and TOML has them as `i128`.
#[must_use]
pub fn beyond_type(said: &str) -> Option<(&str, &str)> {
    let (found, name) = said.split_once(", expected ")?;
    let between = |before: &str, after: &str| found.strip_prefix(before)?.strip_suffix(after);
    let is_large = |number: &&str| {
        number
            .parse()
            .is_ok_and(|it: f64| it.abs() >= 2_f64.powi(63))
    };
    let number = between("invalid value: integer `", "`")
        .or_else(|| between("invalid type: integer `", "` as i128"))
        .or_else(|| between("invalid type: floating point `", "`").filter(is_large))?;
    Some((number, name))
}

/// Reads a whole file's text, which is called `whole`, such as "the plan".
///
/// # Errors
/// The first mistake in it.
pub fn read<T: DeserializeOwned>(text: &str, whole: &str) -> Result<T, Mistake> {
    let document = toml::Deserializer::parse(text).map_err(|error| {
        Mistake::from_toml(
            &error,
            &serde_path_to_error::Track::new().path(),
            text,
            whole,
        )
    })?;
    serde_path_to_error::deserialize(document)
        .map_err(|error| Mistake::from_toml(error.inner(), error.path(), text, whole))
}

/// The nearest of the known names, if one is near.
#[must_use]
pub fn near<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), *name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3);
    near.map(|(_, name)| name)
}

/// The nearest of the known names, or all of them when none is near.
#[must_use]
pub fn nearest(wrong: &str, known: &[&str]) -> String {
    match near(wrong, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "there is none to name".to_owned(),
        None => format!("known: {}", known.join(", ")),
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for Mistake {}
