//! Bounds on the offset between two hosts' clocks from the I/Os of a cell: a command leaves the initiator's host before
//! it reaches the target's, and its answer vice versa.
//!
//! Sending is timed from before the data are passed to the socket: a thread preempted right after that could timestamp
//! it when it is already at the other end.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use wansan_insight::clock::Bound;
use wansan_trace::event::Crossing;
use wansan_trace::file::{self, FileError};
use wansan_trace::{Direction, Instant, Layer, SessionId, TaskTag};

/// When an I/O was sent and answered, as recorded by one host: at the initiator, when it got its slot in the command
/// window and when its answer was read from the socket; at the target, when it arrived and when its answer was ready.
pub(super) type Crossings = HashMap<(SessionId, TaskTag, End), [Option<Instant>; 2]>;

/// An end of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Initiator,
    Target,
}

/// Which of an end's two times a crossing is, if any.
fn moment(layer: Layer, direction: Direction) -> Option<(End, usize)> {
    match (layer, direction) {
        (Layer::Window, Direction::Enter) => Some((End::Initiator, 0)),
        (Layer::Socket, Direction::Leave) => Some((End::Initiator, 1)),
        (Layer::Target, Direction::Enter) => Some((End::Target, 0)),
        (Layer::Target, Direction::Leave) => Some((End::Target, 1)),
        _ => None,
    }
}

/// A host's crossings of the layers next to the network. Reuses of a tag are left out: they cannot be paired before the
/// clocks are known.
pub(super) fn crossings(
    parts: &BTreeMap<PathBuf, &str>,
    host: &str,
) -> Result<Crossings, FileError> {
    let is_meant = |path: &Path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("io.")
    };
    let mut found = Crossings::new();
    let of_host = parts
        .iter()
        .filter(|(path, of)| **of == host && is_meant(path));
    for (path, _) in of_host {
        for row in file::read::<Crossing>(path)?.rows {
            let it = row.record;
            if let Some((end, place)) = moment(it.layer, it.direction) {
                let times = found.entry((it.session, it.task, end)).or_default();
                times[place].get_or_insert(it.time);
            }
        }
    }
    Ok(found)
}

/// How far the initiator's clock is ahead of the target's, as bounded by each I/O.
pub(super) fn bounds(initiator: &Crossings, target: &Crossings) -> Vec<Bound> {
    let each = initiator
        .iter()
        .filter_map(|(&(session, task, end), times)| {
            let [sent, answered] = *times;
            let [came, left] = *target.get(&(session, task, End::Target))?;
            let is_sent = end == End::Initiator;
            is_sent.then_some(Bound::of_outer([came?, left?], [sent?, answered?]))
        });
    each.collect()
}
