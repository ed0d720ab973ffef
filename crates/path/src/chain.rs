//! Elements in series.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::VecDeque;

use wansan_trace::Instant;

use crate::change::{Change, ChangeError};
use crate::counters::{Counters, Deeds, ElementCounters, Tally};
use crate::element::{Disposition, Element};
use crate::limit::Limit;
use crate::link::UNLIMITED;
use crate::packet::{Departure, Fate, Packet, Transit};
use crate::sighting::{Boundary, Sighting};
use crate::sink::{Drops, Sink};

/// Largest packet of any link.
const LARGEST_PACKET_BYTES: u32 = 1 << 16;

/// One direction of a path: elements that every packet passes in order (see [`crate::Effects`] for
/// the usual one).
///
/// # Order of calls
///
/// 1. [`poll`](Chain::poll) with the packet's arrival time, until nothing more comes out: departures up to then make
///    room in the queues;
/// 2. [`enqueue`](Chain::enqueue) the packet with that time;
/// 3. [`next_deadline`](Chain::next_deadline) returns when to poll again: at once when something was dropped, because
///    drops come out by `poll` as well.
///
/// [`apply`](Chain::apply) may be called at any time.
///
/// Departure times come from the chain's own arithmetic: neither a late poll nor a late enqueue with the true time
/// changes any of them. A time earlier than the last packet's counts as the last packet's. The elements' limits bound
/// the packets held in transit; dropped packets are held until they are polled.
#[derive(Debug)]
pub struct Chain<T> {
    stages: Vec<Stage<T>>,
    /// Indices of elements that may hold packets, and the minimum total delay after each.
    holders: Vec<(usize, Duration)>,
    /// For each index, and the end, the next index whose element acts or is watched.
    next_active: Vec<usize>,
    last_entered: Instant,
    entered: Tally,
    delivered: Tally,
    drops: Drops,
    /// Index of the last link.
    last_link: Option<usize>,
    /// Total bytes sent by that link, and when the last of them were observed.
    sent: Option<(Instant, u64)>,
    /// Departures not polled yet.
    left: VecDeque<Departure<T>>,
    /// Sightings at watched elements that were not taken yet.
    seen: VecDeque<Sighting<T>>,
}

/// An element, its name and its counters.
#[derive(Debug)]
struct Stage<T> {
    name: String,
    element: Element<T>,
    deeds: Deeds,
    watched: bool,
}

impl<T> Chain<T> {
    /// A chain of these elements, the first one nearest the sender.
    #[must_use]
    pub fn new(elements: Vec<Element<T>>) -> Self {
        let mut stages: Vec<Stage<T>> = Vec::with_capacity(elements.len());
        for element in elements {
            let kind = element.kind();
            let alike = stages.iter().filter(|stage| stage.element.kind() == kind);
            let name = match alike.count() {
                0 => kind.to_owned(),
                before => format!("{kind}-{}", before + 1),
            };
            stages.push(Stage {
                name,
                element,
                deeds: Deeds::default(),
                watched: false,
            });
        }
        Chain {
            holders: holders(&stages),
            next_active: next_active(&stages),
            last_link: stages
                .iter()
                .rposition(|stage| matches!(stage.element, Element::Link(_))),
            sent: None,
            stages,
            last_entered: Instant::ZERO,
            entered: Tally::default(),
            delivered: Tally::default(),
            drops: Drops::default(),
            left: VecDeque::new(),
            seen: VecDeque::new(),
        }
    }

    /// The elements with their names, the first one nearest the sender.
    pub fn elements(&self) -> impl Iterator<Item = (&str, &Element<T>)> {
        let stages = self.stages.iter();
        stages.map(|stage| (stage.name.as_str(), &stage.element))
    }

    /// Enables sightings of the packets that enter and leave the element of that name ([`sighting`](Chain::sighting));
    /// returns its index from 0, or `None` when there is none.
    pub fn watch(&mut self, name: &str) -> Option<usize> {
        let place = self.stages.iter().position(|stage| stage.name == name)?;
        self.stages[place].watched = true;
        self.next_active = next_active(&self.stages);
        Some(place)
    }

    /// The next sighting at a watched element, if any. Sightings are kept until taken: take them after each call that
    /// moves packets.
    pub fn sighting(&mut self) -> Option<Sighting<T>> {
        self.seen.pop_front()
    }

    /// The total delay of this chain: a packet's delay without queueing, transmission and jitter.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delays(|delay| delay.delay())
    }

    /// The minimum total delay, jitter included.
    #[must_use]
    pub fn least_delay(&self) -> Duration {
        self.delays(|delay| delay.reach().0)
    }

    fn delays(&self, of: impl Fn(&crate::Delay<T>) -> Duration) -> Duration {
        let delays = self.stages.iter().map(|stage| match &stage.element {
            Element::Delay(delay) => of(delay),
            _ => Duration::ZERO,
        });
        delays.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// The configured rate: the lowest long-term rate of the links, in bits per second; `None` when they are unlimited.
    #[must_use]
    pub fn bits_per_s(&self) -> Option<u64> {
        let links = self.stages.iter().filter_map(|stage| match &stage.element {
            Element::Link(link) => link.capacity().mean_bits_per_s(),
            _ => None,
        });
        links.min()
    }

    /// The limit of the first link's queue, if there is a link.
    #[must_use]
    pub fn queue_limit(&self) -> Option<Limit> {
        self.stages.iter().find_map(|stage| match &stage.element {
            Element::Link(link) => Some(link.queue().limit()),
            _ => None,
        })
    }

    /// All bytes that the last link has sent, before any delay, and when the last of them were observed: at the chain's
    /// poll, or when the packet reached an unlimited link.
    #[must_use]
    pub fn sent(&self) -> Option<(Instant, u64)> {
        self.sent
    }

    /// Whether the path is down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        let mut stages = self.stages.iter();
        stages.any(|stage| matches!(&stage.element, Element::Outage(outage) if outage.is_down()))
    }

    /// When to poll next; `None` while the path is empty.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let left = self.left.front().map(|left| left.departed);
        left.or_else(|| self.deadlines().map(|(_, due)| due).min())
    }

    /// The same for callers interested in departures at the far end only: none happens before that time. Events inside
    /// until then happen at the poll, or by [`advance`](Chain::advance).
    #[must_use]
    pub fn next_exit(&self) -> Option<Instant> {
        if let Some(left) = self.left.front() {
            return Some(left.departed);
        }
        let exits = self.holders.iter().filter_map(|&(place, behind)| {
            let due = self.stages[place].element.next_deadline()?;
            Some(due + behind)
        });
        exits.min()
    }

    /// The counters, with the link's busy time until `now`.
    #[must_use]
    pub fn counters(&self, now: Instant) -> Counters {
        let mut counters = Counters {
            entered: self.entered,
            delivered: self.delivered,
            dropped_by_loss: self.drops.by_loss,
            dropped_by_queue: self.drops.by_queue,
            dropped_by_delay_line: self.drops.by_delay_line,
            dropped_by_outage: self.drops.by_outage,
            ..Counters::default()
        };
        for Stage { element, deeds, .. } in &self.stages {
            counters.duplicated = counters.duplicated.plus(deeds.duplicated);
            counters.marked = counters.marked.plus(deeds.marked);
            counters.corrupted = counters.corrupted.plus(deeds.corrupted);
            counters.held_back = counters.held_back.plus(deeds.held_back);
            counters.held = counters.held.plus(element.held());
            if let Element::Link(link) = element {
                let queue = link.queue();
                counters.queued = counters.queued.plus(queue.depth());
                counters.queued_high_water = counters.queued_high_water.max(queue.high_water());
                counters.busy_ns = counters.busy_ns.max(link.busy_ns(now));
            }
        }
        counters
    }

    /// Each element's counters in order, with a link's busy time until `now`.
    pub fn element_counters(&self, now: Instant) -> impl Iterator<Item = ElementCounters<'_>> {
        let stages = self.stages.iter();
        stages.scan(self.entered, move |coming, stage| {
            let Stage {
                name,
                element,
                deeds,
                ..
            } = stage;
            let entered = *coming;
            let held = element.held();
            let gone = deeds.dropped.plus(held);
            *coming = entered.plus(deeds.duplicated).minus(gone);
            let (queued, busy_ns) = match element {
                Element::Link(link) => (link.queue().depth(), link.busy_ns(now)),
                _ => (Tally::default(), 0),
            };
            Some(ElementCounters {
                name,
                entered,
                left: *coming,
                dropped: deeds.dropped,
                marked: deeds.marked,
                duplicated: deeds.duplicated,
                corrupted: deeds.corrupted,
                held_back: deeds.held_back,
                held,
                queued,
                high_water: element.high_water(),
                busy_ns,
            })
        })
    }

    /// Widens the delay lines to hold all that the link before them can put there: its maximum rate ever, times the
    /// longest time that a packet stays in them and in earlier lines, which may release at one moment packets that came
    /// at several.
    pub(crate) fn make_room(&mut self) {
        let mut filled_at = UNLIMITED;
        let mut burst_bytes = 0;
        let mut stay = Duration::ZERO;
        for Stage { element, .. } in &mut self.stages {
            if let Element::Link(link) = element {
                filled_at = link.fastest();
                burst_bytes = link.burst_bytes();
                stay = Duration::ZERO;
            }
            let Some(longest) = element.longest_stay() else {
                continue;
            };
            stay = stay.saturating_add(longest);
            let limit = Limit::bandwidth_delay(filled_at, stay, LARGEST_PACKET_BYTES);
            let limit = Limit::bytes(limit.bytes.saturating_add(burst_bytes));
            match element {
                Element::Reorder(reorder) => reorder.widen(limit),
                Element::Delay(delay) => delay.widen(limit),
                _ => {}
            }
        }
    }

    fn deadlines(&self) -> impl Iterator<Item = (usize, Instant)> {
        let places = self.holders.iter();
        places.filter_map(|&(place, _)| Some((place, self.stages[place].element.next_deadline()?)))
    }
}

/// Indices of elements that hold packets, and the minimum total delay after each.
fn holders<T>(stages: &[Stage<T>]) -> Vec<(usize, Duration)> {
    let mut behind = Duration::ZERO;
    let mut holders = Vec::new();
    for (place, stage) in stages.iter().enumerate().rev() {
        if stage.element.holds() && !stage.element.is_idle() {
            holders.push((place, behind));
        }
        if let Element::Delay(delay) = &stage.element {
            behind = behind.saturating_add(delay.reach().0);
        }
    }
    holders.reverse();
    holders
}

/// For each index, and the end, the next index that is not skipped.
fn next_active<T>(stages: &[Stage<T>]) -> Vec<usize> {
    let mut next = vec![stages.len(); stages.len() + 1];
    for (place, stage) in stages.iter().enumerate().rev() {
        next[place] = match stage.watched || !stage.element.is_idle() {
            true => place,
            false => next[place + 1],
        };
    }
    next
}

impl<T: Clone> Chain<T> {
    /// A packet enters the path at `now`.
    pub fn enqueue(&mut self, now: Instant, packet: Packet<T>) {
        self.last_entered = self.last_entered.max(now);
        self.entered.add(packet.size_bytes);
        self.pass(0, Transit::entering(packet, self.last_entered));
    }

    /// A packet enters the path at `now` and is lost there, whatever the loss model.
    ///
    /// # Panics
    /// When the chain has no loss element; [`Effects`](crate::Effects) always make one.
    pub fn lose(&mut self, now: Instant, packet: Packet<T>) {
        self.last_entered = self.last_entered.max(now);
        self.entered.add(packet.size_bytes);
        let loses = |stage: &Stage<T>| matches!(stage.element, Element::Loss(_));
        let place = self.stages.iter().position(loses);
        let place = place.expect("an element loses packets");
        let transit = Transit::entering(packet, self.last_entered);
        self.see(place, Boundary::Ingress, &transit);
        let left = self.left.len();
        let (_, mut sink) = self.at(place);
        sink.drop(transit, Fate::DroppedByLoss);
        self.see_drops(place, left);
    }

    /// The next packet that left the path at `now` or before, if any, in order of departure.
    pub fn poll(&mut self, now: Instant) -> Option<Departure<T>> {
        while self.left.is_empty() && self.step(now) {}
        self.left.pop_front()
    }

    /// Changes the path at `now`; see [`Change`]. Everything due by then has happened before, polled or not, so the
    /// outcome does not depend on when the chain is polled.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing is changed then.
    pub fn apply(&mut self, now: Instant, change: Change) -> Result<(), ChangeError> {
        self.advance(now);
        self.change(now, change)?;
        self.make_room();
        self.holders = holders(&self.stages);
        self.next_active = next_active(&self.stages);
        Ok(())
    }

    /// Processes everything due by `now`, for callers that read counters without polling.
    pub fn advance(&mut self, now: Instant) {
        while self.step(now) {}
    }

    /// Processes the next event due by `now`; returns whether there was one.
    fn step(&mut self, now: Instant) -> bool {
        // Events happen in order of time; at the same time, the one farther down the path comes first, to make room.
        let due = self.deadlines().filter(|&(_, due)| due <= now);
        let Some((place, _)) = due.min_by_key(|&(place, due)| (due, Reverse(place))) else {
            return false;
        };
        let left = self.left.len();
        let (element, mut sink) = self.at(place);
        let on = element.poll(now, &mut sink);
        self.see_drops(place, left);
        if let Some(transit) = on {
            self.note_sent(place, now, transit.size_bytes());
            self.see(place, Boundary::Egress, &transit);
            self.pass(place + 1, transit);
        }
        true
    }

    /// Passes a packet from the element at `first` on until one holds it.
    fn pass(&mut self, first: usize, mut transit: Transit<T>) {
        let mut next = first;
        while let place = self.next_active[next]
            && place < self.stages.len()
        {
            next = place + 1;
            self.see(place, Boundary::Ingress, &transit);
            let left = self.left.len();
            let (element, mut sink) = self.at(place);
            let on = match element.meet(&mut transit, &mut sink) {
                Disposition::Forward => Some(transit),
                Disposition::Drop(fate) => {
                    sink.drop(transit, fate);
                    None
                }
                Disposition::Hold => element.hold(transit, &mut sink),
                Disposition::Duplicate => {
                    let copy = Transit {
                        copy: true,
                        ..transit.clone()
                    };
                    self.see(place, Boundary::Egress, &transit);
                    self.see(place, Boundary::Egress, &copy);
                    self.pass(place + 1, transit);
                    transit = copy;
                    continue;
                }
            };
            self.see_drops(place, left);
            let Some(on) = on else {
                return;
            };
            self.note_sent(place, on.at, on.size_bytes());
            self.see(place, Boundary::Egress, &on);
            transit = on;
        }
        self.delivered.add(transit.size_bytes());
        self.left.push_back(transit.leave(Fate::Delivered));
    }

    /// A packet leaves the element at `place`.
    fn note_sent(&mut self, place: usize, now: Instant, bytes: u32) {
        if self.last_link == Some(place) {
            let (before, sent) = self.sent.unwrap_or((now, 0));
            self.sent = Some((before.max(now), sent + u64::from(bytes)));
        }
    }

    /// A packet enters an element, or leaves it.
    fn see(&mut self, place: usize, boundary: Boundary, transit: &Transit<T>) {
        if self.stages[place].watched {
            let packet = transit.clone().leave(Fate::Delivered);
            self.seen.push_back(Sighting {
                place,
                boundary,
                packet,
            });
        }
    }

    /// Sights the packets that an element dropped: departures after the first `left`.
    fn see_drops(&mut self, place: usize, left: usize) {
        if self.stages[place].watched {
            let dropped = self.left.iter().skip(left).cloned();
            self.seen.extend(dropped.map(|packet| Sighting {
                place,
                boundary: Boundary::Egress,
                packet,
            }));
        }
    }

    fn at(&mut self, place: usize) -> (&mut Element<T>, Sink<'_, T>) {
        let Stage { element, deeds, .. } = &mut self.stages[place];
        let sink = Sink {
            deeds,
            drops: &mut self.drops,
            left: &mut self.left,
        };
        (element, sink)
    }

    /// Packets that reached the first element of a kind.
    fn came_to(&self, kind: &str) -> u64 {
        let mut stages = self.stages.iter().zip(self.element_counters(Instant::ZERO));
        let first = stages.find(|(stage, _)| stage.element.kind() == kind);
        first.map_or(0, |(_, counters)| counters.entered.packets)
    }

    fn change(&mut self, now: Instant, change: Change) -> Result<(), ChangeError> {
        let kind = match change {
            Change::Delay(_) | Change::Jitter(_) => "delay",
            Change::Rate(_) | Change::QueueLimit(_) => "link",
            Change::Loss(_) => "loss",
            Change::Reorder { .. } => "reorder",
            Change::Duplicate(_) => "duplicate",
            Change::Corrupt(_) => "corrupt",
            Change::Mark(_) => "mark",
            Change::Down | Change::Up => "outage",
        };
        let came = self.came_to(kind);
        let mut stages = self.stages.iter_mut().map(|stage| &mut stage.element);
        let element = stages
            .find(|element| element.kind() == kind)
            .ok_or(ChangeError::NoElement(kind))?;
        let cuts = change == Change::Down;
        match (element, change) {
            (Element::Delay(line), Change::Delay(delay)) => {
                line.set(delay, line.jitter().cloned())?;
            }
            (Element::Delay(line), Change::Jitter(jitter)) => line.set(line.delay(), jitter)?,
            (Element::Link(link), Change::Rate(capacity)) => link.set_capacity(now, capacity),
            (Element::Link(link), Change::QueueLimit(limit)) => link.set_limit(limit),
            (Element::Loss(loss), Change::Loss(model)) => loss.set_model(model, came),
            (Element::Reorder(reorder), Change::Reorder { share, by }) => reorder.set(share, by),
            (Element::Duplicate(duplicate), Change::Duplicate(probability)) => {
                duplicate.set_probability(probability);
            }
            (Element::Corrupt(corrupt), Change::Corrupt(probability)) => {
                corrupt.set_probability(probability);
            }
            (Element::Mark(mark), Change::Mark(probability)) => mark.set_probability(probability),
            (Element::Outage(outage), Change::Down) => outage.set_down(true),
            (Element::Outage(outage), Change::Up) => outage.set_down(false),
            _ => unreachable!("each change was given an element of its kind"),
        }
        if cuts {
            for place in 0..self.stages.len() {
                let left = self.left.len();
                if let (Element::Link(link), mut sink) = self.at(place) {
                    link.cut(now, &mut sink);
                }
                self.see_drops(place, left);
            }
        }
        Ok(())
    }
}
