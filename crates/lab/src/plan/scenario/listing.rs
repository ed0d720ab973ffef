//! Files with a path's effects: one entry per line.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wansan_path::{Quantiles, RateTrace};
use wansan_trace::time::duration_ns;
use wansan_trace::units::{parse_duration, parse_rate};

/// Longest file, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reads a table of quantiles: one per line, in ascending order, as the time added to the delay, such as `1.5ms` or
/// `-200us`.
pub(super) fn quantiles(folder: &Path, name: &str) -> Result<Quantiles, String> {
    let file = Listing::read(folder, name)?;
    let offsets = file.entries(|line| {
        let (negative, time) = match line.strip_prefix('-') {
            Some(time) => (true, time),
            None => (false, line.strip_prefix('+').unwrap_or(line)),
        };
        let time = parse_duration(time).map_err(|error| error.to_string())?;
        let offset_ns = i64::try_from(duration_ns(time)).map_err(|_| "too long".to_owned())?;
        Ok(if negative { -offset_ns } else { offset_ns })
    })?;
    Quantiles::new(offsets).map_err(|error| file.wrong(error))
}

/// Reads a rate trace: lines of a time and a rate separated by a comma, such as `500ms, 100Mbit/s`; the rate lasts for
/// that time, and the trace repeats after the last line.
pub(super) fn rates(folder: &Path, name: &str) -> Result<RateTrace, String> {
    let file = Listing::read(folder, name)?;
    let steps: Vec<(Duration, u64)> = file.entries(|line| {
        let (time, rate) = line.split_once(',').ok_or_else(|| {
            format!("`{line}` is not a step: write a time and a rate, such as `500ms, 100Mbit/s`")
        })?;
        let time = parse_duration(time.trim()).map_err(|error| error.to_string())?;
        let rate = parse_rate(rate.trim()).map_err(|error| error.to_string())?;
        Ok((time, rate))
    })?;
    RateTrace::new(&steps).map_err(|error| file.wrong(error))
}

/// A file's contents.
pub(in crate::plan) struct Listing {
    path: PathBuf,
    /// Its text.
    pub(in crate::plan) text: String,
}

impl Listing {
    /// Reads the file `name` in `folder`.
    pub(in crate::plan) fn read(folder: &Path, name: &str) -> Result<Listing, String> {
        let path = folder.join(name);
        let fail = |what: String| format!("{}: {what}", path.display());
        let file = std::fs::File::open(&path)
            .map_err(|error| fail(format!("cannot read the file: {error}")))?;
        // Read one byte more than allowed, to detect a longer file.
        let mut text = String::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|error| fail(format!("cannot read the file: {error}")))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(fail(format!("more than {MAX_FILE_BYTES} bytes")));
        }
        Ok(Listing { path, text })
    }

    /// Parses the entries; ignores empty lines and comments after `#`.
    fn entries<E>(&self, read: impl Fn(&str) -> Result<E, String>) -> Result<Vec<E>, String> {
        let mut entries = Vec::new();
        for (place, line) in self.text.lines().enumerate() {
            let said = line.split('#').next().unwrap_or_default().trim();
            if !said.is_empty() {
                let entry = read(said);
                entries.push(
                    entry.map_err(|error| {
                        format!("{}:{}: {error}", self.path.display(), place + 1)
                    })?,
                );
            }
        }
        Ok(entries)
    }

    fn wrong(&self, error: impl std::fmt::Display) -> String {
        format!("{}: {error}", self.path.display())
    }
}
