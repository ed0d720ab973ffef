//! Settings as command-line options: one per row of their table, with the same meaning as in a file. Alternatively, all
//! settings can be given as JSON on standard input.

use std::io::{self, BufRead};
use std::marker::PhantomData;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use wansan_settings::{Row, Settings, Shape, read_json, read_value};

use super::settings_file::{Origin, STANDARD_INPUT};

/// Most bytes read from standard input at once.
const MAX_INPUT_BYTES: u64 = 1 << 20;

/// Settings given by options.
#[derive(Debug)]
pub(super) struct Options<T> {
    given: Map<String, Value>,
    settings: PhantomData<fn() -> T>,
}

impl<T: Settings + DeserializeOwned> Options<T> {
    /// The given settings, with defaults for all others.
    ///
    /// # Errors
    /// A required setting is missing.
    pub(super) fn settings(&self) -> Result<T> {
        Ok(read_value(self.given.clone().into(), "the command line")?)
    }
}

impl<T: Settings> Args for Options<T> {
    fn augment_args(command: Command) -> Command {
        let mut options = Vec::new();
        add(&mut options, &T::rows(), "", None);
        let records = options.iter().any(|option| option.get_id() == "record");
        let options = options
            .into_iter()
            .map(|option| match option.get_id().as_str() {
                "host" | "record-kinds" | "record-memory" | "record-sample" if records => {
                    option.requires("record")
                }
                _ => option,
            });
        command.args(options)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Settings> FromArgMatches for Options<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Options {
            given: given(matches, &T::rows(), ""),
            settings: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The option's name for a row of a table whose options have the prefix `prefix`; empty for a positional argument.
fn name(row: &Row, prefix: &str) -> String {
    format!("{prefix}{}", row.option())
}

/// Adds an option for each row of `rows`, and of nested tables. Lists of tables are not supported on the command line.
fn add(options: &mut Vec<Arg>, rows: &[Row], prefix: &str, heading: Option<&'static str>) {
    for row in rows {
        match &row.shape {
            Shape::Table => add(
                options,
                &row.rows,
                row.option.unwrap_or(""),
                row.value.or(heading),
            ),
            Shape::List(each) if **each == Shape::Table => {}
            _ => {
                let rival = rows.iter().find(|other| Some(other.key) == row.rival);
                let option = option(row, prefix, row.heading.or(heading));
                options.push(option.conflicts_with_all(rival.map(|other| name(other, prefix))));
            }
        }
    }
}

fn option(row: &Row, prefix: &str, heading: Option<&'static str>) -> Arg {
    let name = name(row, prefix);
    let mut option = match name.as_str() {
        "" if matches!(row.shape, Shape::List(_)) => Arg::new(row.key).num_args(0..),
        "" => Arg::new(row.key),
        _ => Arg::new(name.clone()).long(name),
    };
    option = option.help(row.about.clone()).required(row.is_required);
    if let Some(heading) = heading {
        option = option.help_heading(heading);
    }
    if is_bare(row) {
        return option.action(ArgAction::SetTrue);
    }
    if let Some(value) = row.value {
        option = option.value_name(value);
    }
    option = match &row.shape {
        Shape::Choice(words) => option.value_parser(PossibleValuesParser::new(*words)),
        _ => {
            let row = row.clone();
            option.value_parser(move |word: &str| row.json(&[word]).map(|_| word.to_owned()))
        }
    };
    if let Shape::List(each) = &row.shape {
        option = option.action(ArgAction::Append);
        if matches!(**each, Shape::Choice(_)) {
            option = option.value_delimiter(',');
        }
    }
    // A leading hyphen is not an option here, but an invalid value to report.
    let is_quantity = matches!(
        row.value,
        Some("BYTES" | "TIME" | "RATE" | "IOPS" | "N" | "SEED" | "LEVEL")
    );
    option = option.allow_hyphen_values(is_quantity);
    match default(row) {
        Some(default) if !row.about.contains("[default:") => option.default_value(default),
        _ => option,
    }
}

/// Whether an option takes no value.
fn is_bare(row: &Row) -> bool {
    row.shape == Shape::Flag && row.value.is_none()
}

/// A default in command-line form.
fn default(row: &Row) -> Option<String> {
    match row.default.as_ref()? {
        Value::Bool(on) => {
            let words = match row.value {
                Some("YES|NO") => ["no", "yes"],
                _ => ["off", "on"],
            };
            Some(words[usize::from(*on)].to_owned())
        }
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            words
                .filter(|words| !words.is_empty())
                .map(|words| words.join(","))
        }
        other => Some(other.to_string()),
    }
}

/// The given values of `rows`, in the form of a file.
fn given(matches: &ArgMatches, rows: &[Row], prefix: &str) -> Map<String, Value> {
    let mut given_here = Map::new();
    for row in rows {
        if row.shape == Shape::Table {
            let inner = given(matches, &row.rows, row.option.unwrap_or(""));
            if !inner.is_empty() {
                given_here.insert(row.key.to_owned(), inner.into());
            }
            continue;
        }
        let name = match name(row, prefix) {
            name if name.is_empty() => row.key.to_owned(),
            name => name,
        };
        let is_given = matches!(matches.try_contains_id(&name), Ok(true))
            && matches.value_source(&name) == Some(ValueSource::CommandLine);
        if !is_given {
            continue;
        }
        let value = if is_bare(row) {
            Ok(matches.get_flag(&name).into())
        } else {
            let words = matches.get_many::<String>(&name).unwrap_or_default();
            let words: Vec<&str> = words.map(String::as_str).collect();
            row.json(&words)
        };
        // Each word has been validated before.
        if let Ok(value) = value {
            given_here.insert(row.key.to_owned(), value);
        }
    }
    given_here
}

/// Settings from a file or, without one, from options.
#[derive(Debug)]
pub(super) struct FileOr<T> {
    path: Option<PathBuf>,
    options: Options<T>,
}

/// The option for the file.
const CONFIG: &str = "config";

impl<T: Settings + DeserializeOwned> FileOr<T> {
    /// Their origin.
    pub(super) fn origin(&self) -> Origin {
        self.path.clone().map_or(Origin::Options, Origin::File)
    }

    /// See [`Options::settings`].
    ///
    /// # Errors
    /// See [`Options::settings`].
    pub(super) fn settings(&self) -> Result<T> {
        self.options.settings()
    }
}

impl<T: Settings> Args for FileOr<T> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read what is served from this TOML file instead of from options; SIGHUP reloads it");
        let mut options = Vec::new();
        add(&mut options, &T::rows(), "", None);
        let options = options
            .into_iter()
            .map(|option| match option.is_required_set() {
                true => option
                    .required(false)
                    .required_unless_present(CONFIG)
                    .conflicts_with(CONFIG),
                false => option.conflicts_with(CONFIG),
            });
        command.arg(config).args(options)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Settings> FromArgMatches for FileOr<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(FileOr {
            path: matches.get_one(CONFIG).cloned(),
            options: Options::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// All settings from elsewhere.
#[derive(Debug, Args)]
pub(super) struct Elsewhere {
    /// Read all settings from standard input, as a JSON object with the keys of the files, instead of
    /// the other options
    #[arg(long, value_name = "-", value_parser = ["-"], hide_possible_values = true, exclusive = true)]
    settings: Option<String>,
}

impl Elsewhere {
    /// All settings, from standard input or from options.
    ///
    /// # Errors
    /// The mistake and its place, in one line.
    pub(super) fn settings_or<T: Settings + DeserializeOwned>(
        &self,
        options: &Options<T>,
    ) -> Result<T> {
        self.settings()?.map_or_else(|| options.settings(), Ok)
    }

    /// The settings on standard input, if they come from there. Leaves everything after the line on which they end
    /// unread.
    ///
    /// # Errors
    /// The mistake and its place, in one line.
    pub(super) fn settings<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        if self.settings.is_none() {
            return Ok(None);
        }
        read_settings(io::stdin().lock())
            .context(STANDARD_INPUT)
            .map(Some)
    }
}

/// Reads a JSON object, which may span lines, and the rest of its last line.
fn read_settings<T: DeserializeOwned>(from: impl BufRead) -> Result<T> {
    let mut from = from.take(MAX_INPUT_BYTES);
    let settings = read_json(&mut from, "the object");
    anyhow::ensure!(
        from.limit() > 0,
        "the settings are longer than {MAX_INPUT_BYTES} bytes"
    );
    let settings = settings?;
    let rest = read_line(from)?;
    let rest = rest.trim();
    anyhow::ensure!(
        rest.is_empty(),
        "`{rest}` follows the object: begin a new line after it"
    );
    Ok(settings)
}

/// Reads a line, and nothing after it.
pub(super) fn read_line(from: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(MAX_INPUT_BYTES).read_line(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_stream::ReceiveSettings;

    fn read(mut text: &[u8]) -> (Result<ReceiveSettings, String>, &[u8]) {
        let settings = read_settings(&mut text).map_err(|error| error.to_string());
        (settings, text)
    }

    #[test]
    fn settings_end_with_their_line() {
        for object in [
            r#"{"listen": "127.0.0.1:0"}"#,
            "{\n  \"listen\": \"127.0.0.1:0\",\n  \"json\": \"Yes\"\n}  ",
        ] {
            let text = format!("{object}\nnext\n");
            let (settings, rest) = read(text.as_bytes());
            assert_eq!(settings.unwrap().listen, "127.0.0.1:0");
            assert_eq!(rest, b"next\n");
            assert!(read(object.as_bytes()).0.is_ok(), "{object}");
        }
    }

    #[test]
    fn what_is_no_object_by_itself_is_refused() {
        let long = format!("{{\"listen\": \"{}\"}}", "x".repeat(1 << 20));
        for (text, said) in [
            (&long[..], "the settings are longer than 1048576 bytes"),
            (
                r#"{"listen": "127.0.0.1:0"} go"#,
                "`go` follows the object: begin a new line after it",
            ),
            (
                r#"{"listen": "127.0.0.1:0", "most": 1, "most": 2}"#,
                "`most` stands twice in the object: remove one",
            ),
        ] {
            assert_eq!(read(text.as_bytes()).0.unwrap_err(), said);
        }
    }
}
