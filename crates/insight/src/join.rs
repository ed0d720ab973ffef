//! Joins the crossings of all hosts: one [`Task`] per I/O.

use std::collections::BTreeMap;

use foldhash::HashMap;
use wansan_trace::event::Crossing;
use wansan_trace::file::Row;
use wansan_trace::{ConnectionId, Direction, Layer, SessionId, TaskTag};

use crate::window::Window;

/// How many layers there are.
pub const LAYERS: usize = Layer::ALL.len();

/// "Not recorded" among times.
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
    /// The place of its tag among all.
    pub(crate) tag_place: u32,
    enter_ns: [u64; LAYERS],
    leave_ns: [u64; LAYERS],
    /// The use of the same tag before this one.
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

    /// Whether it can have entered a layer at that time: it has not entered it, nor left it before, which was then the
    /// end of an I/O whose begin was not recorded.
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

    /// Whether anything was recorded of it at that layer.
    #[must_use]
    pub fn passed(&self, layer: Layer) -> bool {
        self.enter_ns[layer.depth()] != NEVER || self.leave_ns[layer.depth()] != NEVER
    }

    /// Sets a crossing that was derived from other records.
    pub(crate) fn set(&mut self, layer: Layer, enter_ns: Option<u64>, leave_ns: Option<u64>) {
        self.enter_ns[layer.depth()] = enter_ns.unwrap_or(NEVER);
        self.leave_ns[layer.depth()] = leave_ns.unwrap_or(NEVER);
    }

    /// From when to when it was inside the layer, with what was not recorded filled in: an entry
    /// that is missing is put at the entry of the layer above or else at the beginning of the
    /// records, an exit at the exit of the layer above or else at their end.
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

/// An I/O's tag in its session; one that is used again names several.
type Tag = (SessionId, TaskTag);

/// The tags of a cell's I/Os. What is known of each is kept in arrays: whoever goes through the I/Os in their order finds it
/// in the order of memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tags {
    places: HashMap<Tag, u32>,
}

impl Tags {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// The index of a tag, in the order of their first appearance, if an I/O has it.
    pub(crate) fn place(&self, session: SessionId, task: TaskTag) -> Option<usize> {
        let place = self.places.get(&(session, task));
        place.map(|&place| place as usize)
    }

    /// The same of one that may be new.
    fn take(&mut self, tag: Tag) -> u32 {
        // Fewer than 2^32, as tasks are.
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
    /// I/Os of which an entry or an exit is missing at the top layer: they had begun before the
    /// recording or were not done at its end.
    pub incomplete: u64,
    /// Crossings missing at lower layers of I/Os that are complete at the top: records were lost.
    pub missing_crossings: u64,
    /// Crossings that came twice for one use of a tag and were left out.
    pub repeated_crossings: u64,
}

/// Joins crossings that are sorted by time.
///
/// A tag names one I/O until a layer is entered a second time, or after it was left: then a new use of the tag has
/// begun (foreign initiators use tags again at once). A crossing that the newest use already has
/// or cannot have yet belongs to the use before it, if that one lacks it.
#[must_use]
pub fn join(rows: &[Row<Crossing>]) -> Joined {
    join_each(rows.iter().map(|row| row.record))
}

/// The same of crossings that come one after the other.
pub(crate) fn join_each(crossings: impl Iterator<Item = Crossing>) -> Joined {
    let mut tasks: Vec<Task> = Vec::new();
    let mut tags = Tags::default();
    // The newest task of each tag.
    let mut newest: Vec<u32> = Vec::new();
    let mut repeated_crossings = 0;
    // A task mostly crosses several layers at a moment.
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
        tasks,
        tags,
    };
    joined.take_stock();
    joined
}

/// Which use of a tag leaves a layer: the newest, or the one before when the newest has not
/// entered that layer or has left it already.
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
    /// Fills in what is known only when all tasks are: layers, sessions and what is missing.
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

    /// The I/Os that have entered the layer above, but not `layer` itself. One that never enters it
    /// counts only when it was still in the layer above at the end of the records.
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

    /// The time in which the load ran at full strength, judged from the events alone: from the
    /// first completion to the last submission at the top layer.
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
