//! The paths of a connection, the rates of their links, and waits for a saturated shared resource: a link, a
//! router's encryption, or the CPU of a program.
//!
//! A queue in front of a saturated resource is that resource's queue, wherever its bytes wait: in the path's
//! own queue, or in a send buffer behind a window that the queue exhausts.

use foldhash::HashMap;
use std::net::SocketAddr;

use wansan_trace::event::{Path, Role};
use wansan_trace::{ConnectionId, Layer, SessionId};

use super::senders::{SenderKey, Senders};
use super::timeline::Timeline;
use super::{Source, Wait};
use crate::cause::Cause;
use crate::cell::Cell;
use crate::join::Task;
use crate::path::{FULL_UTILISATION, path_use};
use crate::processors::ProgramUse;
use crate::traffic::{Ends, FlowDirection, is_encrypted};
use crate::transport::{TransportUse, is_behind_a_full_link, transport_use};
use crate::window::Window;

/// A path carries a connection if it carries at least this fraction of its bytes.
const CARRIED_PART: f64 = 0.5;

/// A link's utilization is measured over at least this time, and at least this many packets of maximum length: samples
/// count packets only after they have left.
const LOOK_NS: u64 = 100_000_000;
const LOOK_PACKETS: f64 = 50.0;
const PACKET_BITS: f64 = 1514.0 * 8.0;

/// One direction of a path.
#[derive(Debug)]
struct Link {
    /// The intervals in which it was full, in order of time.
    full: Vec<(u64, u64)>,
    bytes_per_s: Option<f64>,
    /// Its configured delays, each with the time from which it applies.
    delays: Vec<(u64, u64)>,
}

/// The shared resources of a cell.
#[derive(Debug, Default)]
pub(super) struct Paths {
    links: Vec<Link>,
    /// The indices of the links that carry each direction of each connection.
    of: HashMap<SenderKey, Vec<usize>>,
    /// Connections that are behind a full link according to TCP, where no path was sampled.
    behind_a_full_link: HashMap<(String, u16), ()>,
    is_encryption_full: bool,
    is_initiator_full: bool,
    is_target_full: bool,
}

impl Paths {
    pub(super) fn of(
        cell: &Cell,
        window: Window,
        senders: &Senders,
        programs: &[ProgramUse],
    ) -> Paths {
        let is_full = |role| {
            let mut of_role = programs.iter().filter(|used| used.role == role).peekable();
            // Records do not show which of several programs serves a session, so all must be saturated.
            of_role.peek().is_some() && of_role.all(ProgramUse::has_no_processor_to_spare)
        };
        let mut paths = Paths {
            is_encryption_full: programs.iter().any(ProgramUse::is_full_vpn),
            is_initiator_full: is_full(Role::Initiator),
            is_target_full: is_full(Role::Target),
            ..Paths::default()
        };
        paths.see_links(cell, window, senders);
        if paths.links.is_empty() {
            paths.see_tcp(cell, window);
        }
        paths
    }

    fn see_links(&mut self, cell: &Cell, window: Window, senders: &Senders) {
        let Some(table) = &cell.path else { return };
        let mut rates: HashMap<&str, u64> = HashMap::default();
        let mut delays: HashMap<&str, Vec<(u64, u64)>> = HashMap::default();
        let mut samples: HashMap<&str, Vec<&Path>> = HashMap::default();
        for row in &table.rows {
            let name = table.names.get(row.record.path);
            if Path::element(name).1.is_some() {
                continue;
            }
            if window.contains(row.record.time.ns()) {
                rates.insert(name, row.record.bits_per_s);
            }
            samples.entry(name).or_default().push(&row.record);
            let of_link = delays.entry(name).or_default();
            if of_link
                .last()
                .is_none_or(|(_, ns)| *ns != row.record.delay_ns)
            {
                of_link.push((row.record.time.ns(), row.record.delay_ns));
            }
        }
        let carried = Carried::of(cell);
        for used in path_use(table, window) {
            let rate = rates.get(used.path.as_str()).filter(|rate| **rate > 0);
            let link = Link {
                full: samples
                    .get(used.path.as_str())
                    .map_or_else(Vec::new, |samples| full(samples)),
                bytes_per_s: rate.map(|rate| *rate as f64 / 8.0),
                delays: delays.remove(used.path.as_str()).unwrap_or_default(),
            };
            let bytes = used.out_bytes_per_s * window.seconds();
            for key in senders.keys() {
                let acked_bytes = senders.acked_bytes(key) as f64;
                let carries = carried.carries(&used.path, key);
                // Only the direction with more bytes is matched by volume: almost any path carries enough for the
                // other.
                let may_carry = senders.sends_most(key) && bytes >= CARRIED_PART * acked_bytes;
                if carries.unwrap_or(may_carry) {
                    self.of.entry(*key).or_default().push(self.links.len());
                }
            }
            self.links.push(link);
        }
    }

    fn see_tcp(&mut self, cell: &Cell, window: Window) {
        let Some(tcp) = &cell.tcp else { return };
        let mut most: HashMap<(String, u16), TransportUse> = HashMap::default();
        for used in transport_use(tcp, window) {
            let key = (used.session.clone(), used.connection);
            if most
                .get(&key)
                .is_none_or(|other| other.acked_bytes < used.acked_bytes)
            {
                most.insert(key, used);
            }
        }
        let full = most
            .into_iter()
            .filter(|(_, used)| is_behind_a_full_link(used));
        self.behind_a_full_link = full.map(|(key, _)| (key, ())).collect();
    }

    /// Whether the rate of any link is known.
    pub(super) fn has_rates(&self) -> bool {
        self.links.iter().any(|link| link.bytes_per_s.is_some())
    }

    fn links(&self, task: &Task, way: FlowDirection) -> impl Iterator<Item = &Link> {
        let key = (task.session, task.connection, way);
        let places = self.of.get(&key).into_iter().flatten();
        places.map(|place| &self.links[*place])
    }

    /// The rate of the slowest link that carries this direction, in bytes per second.
    pub(super) fn bytes_per_s(&self, task: &Task, way: FlowDirection) -> Option<f64> {
        self.links(task, way)
            .filter_map(|link| link.bytes_per_s)
            .min_by(f64::total_cmp)
    }

    /// The delay configured for this direction in an interval: the sum of its links' maxima; `None` if unknown or 0.
    pub(super) fn delay_ns(
        &self,
        task: &Task,
        way: FlowDirection,
        (from_ns, to_ns): (u64, u64),
    ) -> Option<u64> {
        let of_link = |link: &Link| {
            let first = link.delays.partition_point(|(at_ns, _)| *at_ns <= from_ns);
            let first = first.saturating_sub(1);
            let behind = link.delays.partition_point(|(at_ns, _)| *at_ns < to_ns);
            let meanwhile = link.delays.get(first..behind.max(first + 1))?;
            meanwhile.iter().map(|(_, delay_ns)| *delay_ns).max()
        };
        let mut links = self.links(task, way);
        let all_ns = links.try_fold(0, |all_ns: u64, link| {
            Some(all_ns.saturating_add(of_link(link)?))
        })?;
        (all_ns > 0).then_some(all_ns)
    }

    /// Whether TCP shows that the connection is behind a full link, where no path was sampled.
    fn seems_full(&self, task: &Task) -> bool {
        !self.behind_a_full_link.is_empty() && {
            let key = (task.session.to_string(), task.connection.0);
            self.behind_a_full_link.contains_key(&key)
        }
    }

    /// Assigns waits for a saturated resource to that resource.
    pub(super) fn explain(&self, task: &Task, timeline: &mut Timeline) {
        let (from_ns, to_ns) = timeline.span_ns();
        for way in [FlowDirection::ToTarget, FlowDirection::ToInitiator] {
            for link in self.links(task, way) {
                let first = link.full.partition_point(|(_, end_ns)| *end_ns <= from_ns);
                let meanwhile = link.full[first..].iter();
                for &stretch in meanwhile.take_while(|(start_ns, _)| *start_ns < to_ns) {
                    timeline.change(stretch, |wait| {
                        if wait.way == Some(way) {
                            self.tell(wait, true);
                        }
                    });
                }
            }
        }
        let seems_full = self.seems_full(task);
        timeline.each(|wait| self.tell(wait, seems_full));
    }

    /// Attributes a wait to the saturated resource that it waits for, if any.
    fn tell(&self, wait: &mut Wait, is_link_full: bool) {
        let cause = match wait.way {
            Some(way) => self.behind(wait, way, is_link_full),
            None => self.in_a_program(wait),
        };
        if let Some(cause) = cause.filter(|cause| *cause != wait.cause) {
            wait.cause = cause;
            wait.source = Source::Resources;
        }
    }

    /// The saturated resource that bytes wait for.
    fn behind(&self, wait: &Wait, way: FlowDirection, is_link_full: bool) -> Option<Cause> {
        /// Waits for a window or buffer that empties only as fast as the resource behind it takes bytes.
        const HELD: [Cause; 6] = [
            Cause::Unknown,
            Cause::CongestionWindow,
            Cause::ReceiveWindow,
            Cause::SendBuffer,
            Cause::ExtraRoundTrips,
            Cause::DeviceQueue,
        ];
        let is_held = HELD.contains(&wait.cause);
        let has_receiver_no_time = match way {
            FlowDirection::ToTarget => self.is_target_full,
            FlowDirection::ToInitiator => self.is_initiator_full,
        };
        let has_sender_no_time = match way {
            FlowDirection::ToTarget => self.is_initiator_full,
            FlowDirection::ToInitiator => self.is_target_full,
        };
        if is_held && is_link_full {
            Some(Cause::PathQueue)
        } else if is_held && self.is_encryption_full {
            Some(Cause::Encryption)
        } else if wait.cause == Cause::ReceiveBuffer && has_receiver_no_time
            || wait.cause == Cause::Unknown
                && wait.layer != Layer::Wire
                && (has_receiver_no_time || has_sender_no_time)
        {
            Some(Cause::Processor)
        } else {
            None
        }
    }

    fn in_a_program(&self, wait: &Wait) -> Option<Cause> {
        let has_no_time = match wait.cause {
            Cause::Initiator => self.is_initiator_full,
            Cause::Target => self.is_target_full,
            _ => false,
        };
        has_no_time.then_some(Cause::Processor)
    }
}

/// The intervals in which a link with these samples was full, in order of time.
fn full(samples: &[&Path]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut samples = samples.iter();
    let Some(mut before) = samples.next() else {
        return runs;
    };
    for after in samples {
        let (from_ns, to_ns) = (before.time.ns(), after.time.ns());
        let packets_ns = LOOK_PACKETS * PACKET_BITS * 1e9 / after.bits_per_s.max(1) as f64;
        let passed_ns = to_ns.saturating_sub(from_ns);
        if passed_ns < LOOK_NS || (passed_ns as f64) < packets_ns {
            continue;
        }
        let busy_ns = after.busy_ns.saturating_sub(before.busy_ns);
        if busy_ns as f64 >= passed_ns as f64 * FULL_UTILISATION {
            match runs.last_mut() {
                Some(last) if last.1 == from_ns => last.1 = to_ns,
                _ => runs.push((from_ns, to_ns)),
            }
        }
        before = after;
    }
    runs
}

/// The bytes of each connection's directions that each path carried, where packets were recorded.
#[derive(Debug, Default)]
struct Carried {
    bytes: HashMap<(String, SenderKey), u64>,
    most_bytes: HashMap<SenderKey, u64>,
    /// Paths with tunnels, which hide whose packets pass.
    hiding: Vec<String>,
}

impl Carried {
    fn of(cell: &Cell) -> Carried {
        let mut carried = Carried::default();
        let (Some(packets), Some(connections)) = (&cell.packet, &cell.connection) else {
            return carried;
        };
        let legs = legs(connections.rows.iter().map(|row| &row.record));
        let mut hiding = std::collections::BTreeSet::new();
        let mut passed: HashMap<(wansan_trace::NameId, Ends), u64> = HashMap::default();
        for packet in packets.rows.iter().map(|row| &row.record) {
            if is_encrypted(packet) {
                hiding.insert(packets.names.get(packet.path).to_owned());
            } else {
                let ends = Ends::of(packet.source, packet.destination);
                *passed.entry((packet.path, ends)).or_default() += u64::from(packet.ip_bytes);
            }
        }
        let mut bytes: HashMap<(wansan_trace::NameId, SenderKey), u64> = HashMap::default();
        for ((path, ends), passed) in passed {
            if let Some(key) = legs.get(&ends) {
                *bytes.entry((path, *key)).or_default() += passed;
            }
        }
        for ((path, key), bytes) in bytes {
            let most = carried.most_bytes.entry(key).or_default();
            *most = bytes.max(*most);
            carried
                .bytes
                .insert((packets.names.get(path).to_owned(), key), bytes);
        }
        carried.hiding = hiding.into_iter().collect();
        carried
    }

    /// Whether a path carries this direction of a connection; `None` if its packets do not show it.
    fn carries(&self, path: &str, key: &SenderKey) -> Option<bool> {
        let most_bytes = *self.most_bytes.get(key)? as f64;
        if self.hiding.iter().any(|hiding| hiding == path) {
            return None;
        }
        let bytes = self
            .bytes
            .get(&(path.to_owned(), *key))
            .copied()
            .unwrap_or(0);
        Some(bytes as f64 >= CARRIED_PART * most_bytes)
    }
}

/// The endpoints of segments and the connection direction that they belong to, for all TCP connections from the
/// initiator to the target, including those through relays.
fn legs<'c>(
    records: impl Iterator<Item = &'c wansan_trace::event::Connection> + Clone,
) -> HashMap<Ends, SenderKey> {
    let mut legs = HashMap::default();
    let mut add = |session, connection, from: SocketAddr, to: SocketAddr| {
        let key = |way| (session, connection, way);
        legs.insert(Ends::of(from, to), key(FlowDirection::ToTarget));
        legs.insert(Ends::of(to, from), key(FlowDirection::ToInitiator));
    };
    // The endpoints of each relay flow's two connections; side 0 is the accepted one.
    let of_relays = records.clone().filter(|record| record.role == Role::Relay);
    let mut flows: HashMap<(SessionId, ConnectionId), Vec<(SocketAddr, SocketAddr)>> =
        HashMap::default();
    for record in of_relays {
        let ends = (record.local, record.remote);
        flows
            .entry((record.session, record.connection))
            .or_default()
            .push(ends);
    }
    for record in records {
        let (from, to) = match record.role {
            Role::Initiator => (record.local, record.remote),
            Role::Target => (record.remote, record.local),
            _ => continue,
        };
        add(record.session, record.connection, from, to);
        let mut leg = (from, to);
        // A chain has at most as many relays as there are flows.
        for _ in 0..flows.len() {
            let accepts = |ends: &&(SocketAddr, SocketAddr)| (ends.1, ends.0) == leg;
            let accepted = flows
                .iter()
                .find(|((_, side), ends)| side.0 == 0 && ends.iter().any(|e| accepts(&e)));
            let Some(((flow, _), _)) = accepted else {
                break;
            };
            let Some(next) = flows
                .get(&(*flow, ConnectionId(1)))
                .and_then(|ends| ends.first())
            else {
                break;
            };
            leg = *next;
            add(record.session, record.connection, leg.0, leg.1);
        }
    }
    legs
}
