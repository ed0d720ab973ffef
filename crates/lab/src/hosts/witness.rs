//! What the I/Os of a cell say about the clocks of two hosts: a command leaves the initiator's before it comes to
//! the target's, and its answer the other way round.
//!
//! What is sent counts from before it is handed to the socket: a thread that loses its processor right after that
//! would stamp it when it is at the other end already.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use wansan_insight::clock::Bound;
use wansan_trace::event::Crossing;
use wansan_trace::file::{self, FileError};
use wansan_trace::{Direction, Instant, Layer, SessionId, TaskTag};

/// When an I/O was sent and answered, as one host recorded it: at the initiator's, when it got its place in the
/// command window and when its answer came out of the socket; at the target's, when it came to the target and
/// when its answer was ready.
pub(super) type Crossings = HashMap<(SessionId, TaskTag, End), [Option<Instant>; 2]>;

/// An end of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Initiator,
    Target,
}

/// Which of an end's two moments a crossing is, if any.
fn moment(layer: Layer, direction: Direction) -> Option<(End, usize)> {
    match (layer, direction) {
        (Layer::Window, Direction::Enter) => Some((End::Initiator, 0)),
        (Layer::Socket, Direction::Leave) => Some((End::Initiator, 1)),
        (Layer::Target, Direction::Enter) => Some((End::Target, 0)),
        (Layer::Target, Direction::Leave) => Some((End::Target, 1)),
        _ => None,
    }
}

/// What was recorded on a host of the layers between which the network is. Uses of a tag after the first are left
/// out: which of them belong together is not known before the clocks are.
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

/// By how much the initiator's clock is ahead of the target's, as every I/O bounds it.
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
