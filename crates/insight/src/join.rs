//! Joins the crossings of all hosts: one [`Task`] per I/O.

use std::collections::BTreeMap;

use foldhash::HashMap;
use wansan_trace::event::Crossing;
use wansan_trace::file::Row;
use wansan_trace::{ConnectionId, Direction, Layer, Sample, SessionId, TaskTag};

use crate::weights::Weights;
use crate::window::Window;

/// Number of layers.
pub const LAYERS: usize = Layer::ALL.len();

/// Marks a time that was not recorded.
const NEVER: u64 = u64::MAX;

/// One I/O: when it entered and left each layer, as any host recorded it.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its session.
    pub session: SessionId,
    /// Its tag in the session.
    pub tag: TaskTag,
    /// The connection that carried it; 0 when only layers above the connection were recorded.
    pub connection: ConnectionId,
    /// The index of its tag in [`Tags`].
    pub(crate) tag_place: u32,
    enter_ns: [u64; LAYERS],
    leave_ns: [u64; LAYERS],
    /// The previous task with the same tag.
    earlier: Option<u32>,
}

impl Task {
    fn new((session, tag): Tag, tag_place: u32, earlier: Option<u32>) -> Self {
        Task {
            session,
            tag,
            tag_place,
            connection: ConnectionId(0),
            enter_ns: [NEVER; LAYERS],
            leave_ns: [NEVER; LAYERS],
            earlier,
        }
    }

    /// Whether it may have entered the layer at that time: it has no entry, and no earlier exit, which would belong to
    /// an I/O whose start was not recorded.
    fn may_enter(&self, depth: usize, time_ns: u64) -> bool {
        let left_ns = self.leave_ns[depth];
        self.enter_ns[depth] == NEVER && (left_ns == NEVER || left_ns >= time_ns)
    }

    /// When it entered the layer, if that was recorded.
    #[must_use]
    pub fn enter_ns(&self, layer: Layer) -> Option<u64> {
        Some(self.enter_ns[layer.depth()]).filter(|&ns| ns != NEVER)
    }

    /// When it left the layer, if that was recorded.
    #[must_use]
    pub fn leave_ns(&self, layer: Layer) -> Option<u64> {
        Some(self.leave_ns[layer.depth()]).filter(|&ns| ns != NEVER)
    }

    /// When it entered and left the layer, if both were recorded.
    #[must_use]
    pub fn both_ns(&self, layer: Layer) -> Option<(u64, u64)> {
        Some((self.enter_ns(layer)?, self.leave_ns(layer)?))
    }

    /// Whether its entry or exit at that layer was recorded.
    #[must_use]
    pub fn passed(&self, layer: Layer) -> bool {
        self.enter_ns[layer.depth()] != NEVER || self.leave_ns[layer.depth()] != NEVER
    }

    /// Sets the times at a layer, derived from other records.
    pub(crate) fn set(&mut self, layer: Layer, enter_ns: Option<u64>, leave_ns: Option<u64>) {
        self.enter_ns[layer.depth()] = enter_ns.unwrap_or(NEVER);
        self.leave_ns[layer.depth()] = leave_ns.unwrap_or(NEVER);
    }

    /// When it entered and left the layer, with missing times filled in: those of the nearest layer above, or else the
    /// beginning or end of the records. `None` if it has no crossing of the layer itself.
    #[must_use]
    pub fn span_ns(&self, layer: Layer, records: Window) -> Option<(u64, u64)> {
        let depth = layer.depth();
        if !self.passed(layer) {
            return None;
        }
        let nearest = |times: &[u64; LAYERS]| {
            times[..=depth]
                .iter()
                .rev()
                .copied()
                .find(|&ns| ns != NEVER)
        };
        let enter_ns = nearest(&self.enter_ns).unwrap_or(records.from_ns);
        let leave_ns = nearest(&self.leave_ns).unwrap_or(records.to_ns);
        Some((enter_ns, leave_ns.max(enter_ns)))
    }
}

/// An I/O's tag in its session; a reused tag identifies several I/Os.
type Tag = (SessionId, TaskTag);

/// The tags of a cell's I/Os, numbered in order of first appearance. Per-tag data is kept in arrays, so that a pass
/// over the I/Os in order accesses memory in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tags {
    places: HashMap<Tag, u32>,
}

impl Tags {
    /// The number of tags.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// The index of a tag, in the order of their first appearance, if an I/O has it.
    pub(crate) fn place(&self, session: SessionId, task: TaskTag) -> Option<usize> {
        let place = self.places.get(&(session, task));
        place.map(|&place| place as usize)
    }

    /// The index of a tag, which is added if new.
    fn take(&mut self, tag: Tag) -> u32 {
        // Fewer than 2^32, like tasks.
        let next = self.places.len() as u32;
        *self.places.entry(tag).or_insert(next)
    }
}

/// All I/Os of one cell.
#[derive(Debug, Clone)]
pub struct Joined {
    /// In the order in which they were first seen.
    pub tasks: Vec<Task>,
    /// Their tags.
    pub(crate) tags: Tags,
    /// The layers with recorded crossings, top to bottom.
    pub layers: Vec<Layer>,
    /// The sessions, sorted.
    pub sessions: Vec<SessionId>,
    /// From the first crossing to just after the last one.
    pub records: Window,
    /// I/Os with a missing entry or exit at the top layer: they started before the recording or had not completed at
    /// its end.
    pub incomplete: u64,
    /// Crossings missing at lower layers of I/Os that are complete at the top: records were lost.
    pub missing_crossings: u64,
    /// Duplicate crossings of one use of a tag, which were ignored.
    pub repeated_crossings: u64,
    /// Which of the I/Os there were have crossings.
    pub sample: Sample,
    /// How many of the I/Os there were each recorded one stands for.
    pub weights: Weights,
}

/// Joins crossings that are sorted by time.
///
/// A tag identifies one I/O until a layer is entered again, or is entered after it was left: then a new use of the tag
/// has begun (foreign initiators reuse tags at once). An exit that the newest use already has or cannot have yet
/// belongs to the previous use, if that one lacks it.
#[must_use]
pub fn join(rows: &[Row<Crossing>]) -> Joined {
    join_each(rows.iter().map(|row| row.record), 0)
}

/// The same for an iterator of crossings sorted by time, of about `expected` I/Os.
pub(crate) fn join_each(crossings: impl Iterator<Item = Crossing>, expected: usize) -> Joined {
    let mut tasks: Vec<Task> = Vec::with_capacity(expected);
    let mut tags = Tags::default();
    // The newest task of each tag.
    let mut newest: Vec<u32> = Vec::new();
    let mut repeated_crossings = 0;
    // Consecutive crossings mostly belong to the same task.
    let mut last: Option<(Tag, u32)> = None;
    let mut records: Option<Window> = None;
    for crossing in crossings {
        let at_ns = crossing.time.ns();
        records = Some(Window {
            from_ns: records.map_or(at_ns, |records| records.from_ns),
            to_ns: at_ns + 1,
        });
        let key = (crossing.session, crossing.task);
        let depth = crossing.layer.depth();
        let tag_place = match last {
            Some((last, tag_place)) if last == key => tag_place,
            _ => tags.take(key),
        };
        last = Some((key, tag_place));
        let place = newest.get(tag_place as usize).copied();
        let place = match (place, crossing.direction) {
            (Some(place), Direction::Enter)
                if tasks[place as usize].may_enter(depth, crossing.time.ns()) =>
            {
                place
            }
            (Some(place), Direction::Leave) => {
                match use_to_leave(&tasks, place, depth, &mut repeated_crossings) {
                    Some(place) => place,
                    None => continue,
                }
            }
            (earlier, _) => {
                // Fewer than 2^32 tasks: each takes 192 bytes of memory.
                let place = tasks.len() as u32;
                tasks.push(Task::new(key, tag_place, earlier));
                match newest.get_mut(tag_place as usize) {
                    Some(newest) => *newest = place,
                    None => newest.push(place),
                }
                place
            }
        };
        let task = &mut tasks[place as usize];
        let times = match crossing.direction {
            Direction::Enter => &mut task.enter_ns,
            Direction::Leave => &mut task.leave_ns,
        };
        times[depth] = crossing.time.ns();
        if crossing.connection.0 != 0 {
            task.connection = crossing.connection;
        }
    }
    let records = records.unwrap_or(Window {
        from_ns: 0,
        to_ns: 0,
    });
    let mut joined = Joined {
        layers: Vec::new(),
        sessions: Vec::new(),
        records,
        incomplete: 0,
        missing_crossings: 0,
        repeated_crossings,
        sample: Sample::ALL,
        weights: Weights::complete(),
        tasks,
        tags,
    };
    joined.take_stock();
    joined
}

/// The use of a tag that leaves a layer: the newest, or the previous one if the newest has not entered that layer or
/// has already left it. Counts duplicates in `repeated`.
fn use_to_leave(tasks: &[Task], newest: u32, depth: usize, repeated: &mut u64) -> Option<u32> {
    let task = &tasks[newest as usize];
    let open = |task: &Task| task.enter_ns[depth] != NEVER && task.leave_ns[depth] == NEVER;
    if open(task) {
        return Some(newest);
    }
    if let Some(earlier) = task.earlier
        && open(&tasks[earlier as usize])
    {
        return Some(earlier);
    }
    if task.leave_ns[depth] == NEVER {
        return Some(newest);
    }
    *repeated += 1;
    None
}

impl Joined {
    /// Whether all I/Os were recorded, rather than a sample of them.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.sample == Sample::ALL
    }

    /// Keeps the I/Os of a sample only, each of which stands for several.
    pub(crate) fn thin(&mut self, sample: Sample, weights: Weights) {
        self.tasks.retain(|task| sample.has(task.tag));
        (self.sample, self.weights) = (sample, weights);
        self.take_stock();
    }

    /// Computes what depends on all tasks: layers, sessions and missing crossings.
    pub(crate) fn take_stock(&mut self) {
        let passed_by_any = |layer: &Layer| self.tasks.iter().any(|task| task.passed(*layer));
        self.layers = Layer::ALL.into_iter().filter(passed_by_any).collect();
        self.sessions = self.tasks.iter().map(|task| task.session).collect();
        self.sessions.sort_unstable();
        self.sessions.dedup();
        self.incomplete = 0;
        self.missing_crossings = 0;
        for task in &self.tasks {
            let Some(top) = self.layers.iter().find(|layer| task.passed(**layer)) else {
                continue;
            };
            let complete = Some(*top) == self.top() && task.both_ns(*top).is_some();
            if !complete {
                self.incomplete += 1;
                continue;
            }
            for &layer in &self.layers {
                if task.passed(layer) && task.both_ns(layer).is_none() {
                    self.missing_crossings += 1;
                }
            }
        }
    }

    /// The I/Os of each session, in the order in which they were first seen.
    pub(crate) fn by_session(&self) -> BTreeMap<SessionId, Vec<&Task>> {
        let mut sessions: BTreeMap<SessionId, Vec<&Task>> = BTreeMap::new();
        for task in &self.tasks {
            sessions.entry(task.session).or_default().push(task);
        }
        sessions
    }

    /// The highest layer that was recorded.
    #[must_use]
    pub fn top(&self) -> Option<Layer> {
        self.layers.first().copied()
    }

    /// The times from entering a layer above to entering `layer`. An I/O that never enters `layer` counts only if it
    /// was still in the layer above at the end of the records.
    pub(crate) fn way_in_spans(
        &self,
        tasks: &[&Task],
        layer: Layer,
    ) -> impl Iterator<Item = (u64, u64)> {
        let span = move |task: &&Task| {
            let mut above = self.layers.iter().rev().filter(|upper| **upper < layer);
            if let Some(enter_ns) = task.enter_ns(layer) {
                let from_ns = above.find_map(|upper| task.enter_ns(*upper))?;
                return Some((from_ns, enter_ns));
            }
            let just_above = *above.next()?;
            let stuck = task.leave_ns(just_above).is_none() && !task.passed(layer);
            let from_ns = task.enter_ns(just_above)?;
            stuck.then_some((from_ns, self.records.to_ns))
        };
        tasks.iter().filter_map(span)
    }

    /// The time of full load, judged from the events alone: from the first completion to the last submission at the top
    /// layer.
    #[must_use]
    pub fn busy_window(&self) -> Window {
        let Some(top) = self.top() else {
            return self.records;
        };
        let first_done = self
            .tasks
            .iter()
            .filter_map(|task| task.leave_ns(top))
            .min();
        let last_begun = self
            .tasks
            .iter()
            .filter_map(|task| task.enter_ns(top))
            .max();
        match (first_done, last_begun) {
            (Some(from_ns), Some(to_ns)) if from_ns < to_ns => Window { from_ns, to_ns },
            _ => self.records,
        }
    }
}
