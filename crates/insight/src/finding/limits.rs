//! Which limit binds in one cell. The rules are tried from the deepest resource up to the
//! application: a full store or path also closes the windows above it, never the other way round.

use wansan_trace::Layer;
use wansan_trace::units::format_bytes;

use super::{Limit, encryption, lockstep, r2t, stalls};
use crate::path::PathUse;
use crate::summary::{CellSummary, LayerUse, Scope, SessionUse};
use crate::transport::TransportUse;

/// A store's queue is standing when someone is in it for this share of the time.
const STANDING_QUEUE_SHARE: f64 = 0.8;
/// A store that holds fewer than this on average is idle: what waits above it waits for another
/// thing, such as room to answer in.
const IDLE_STORE_IN_FLIGHT: f64 = 0.8;
/// A store whose time in service is this many times the least is serving its queue inside.
const CROWDED_SERVICE_RATIO: f64 = 2.0;
/// Waiting for a store counts from this share of the latency on.
const STORE_WAITING_SHARE: f64 = 0.05;
/// A store that takes this share of the latency dominates it, queue or not.
const STORE_SERVICE_SHARE: f64 = 0.5;
/// A path is full from this utilisation on.
pub(super) const FULL_UTILISATION: f64 = 0.95;
/// Without samples of the path: the round-trip time over its least says that a queue stands.
const INFLATED_RTT_RATIO: f64 = 1.25;
/// Without samples of the path: a delivery rate that varies by less than this share is a link's.
const FLAT_DELIVERY_VARIATION: f64 = 0.1;
/// A sender is limited by a cause that stops it for this share of the time.
const STOPPED_SHARE: f64 = 0.5;
/// Waiting between R2Ts and their data counts from this share of the latency on.
const R2T_WAITING_SHARE: f64 = 0.2;
/// Waiting for the command window counts from this share of the latency on.
pub(super) const COMMAND_WAITING_SHARE: f64 = 0.02;
/// The window was closed for this share of the time in which commands waited for it.
pub(super) const CLOSED_WHILE_WAITING_SHARE: f64 = 0.5;
/// Latency that no limit explains: above this share of it, more I/Os are not the remedy.
const UNEXPLAINED_SHARE: f64 = 0.5;

/// What binds in one cell, and the facts it rests on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) limit: Limit,
    pub(super) layer: Option<Layer>,
    pub(super) above: Option<Layer>,
    /// Mean per session.
    pub(super) wanted: f64,
    /// Mean per session.
    pub(super) got: f64,
    pub(super) waiting_share: f64,
    pub(super) evidence: Vec<String>,
}

/// Judges one cell.
pub(super) fn judge(summary: &CellSummary) -> Verdict {
    let view = View::of(summary);
    encryption::judge(&view)
        .or_else(|| store(&view))
        .or_else(|| lockstep::judge(&view))
        .or_else(|| path_rate(&view))
        .or_else(|| receive_window(&view))
        .or_else(|| send_buffer(&view))
        .or_else(|| congestion_window(&view))
        .or_else(|| r2t_round_trips(&view))
        .or_else(|| command_window(&view))
        .or_else(|| stalls::judge(&view))
        .unwrap_or_else(|| application(&view))
}

/// A cell with what several rules need.
pub(super) struct View<'s> {
    pub(super) summary: &'s CellSummary,
    total: &'s Scope,
    sessions: f64,
    pub(super) latency_ns: f64,
    network: Network,
}

/// Waiting between the ends.
struct Network {
    /// The last recorded layer of the initiator and the first below it.
    ends: Option<(Layer, Layer)>,
    /// Mean excess over the least, way in and way out, and in taking the rest of the answer.
    waiting_ns: f64,
    /// Mean of the whole time between the ends.
    transit_ns: f64,
    /// The excess on the way out alone.
    way_out_ns: f64,
}

impl Network {
    fn of(total: &Scope) -> Network {
        let mut network = Network {
            ends: None,
            waiting_ns: 0.0,
            transit_ns: 0.0,
            way_out_ns: 0.0,
        };
        let Some(below) = total.layers.iter().find(|held| held.layer > Layer::Socket) else {
            return network;
        };
        network.ends = total
            .above(below.layer)
            .map(|above| (above.layer, below.layer));
        // Down to where the target has the whole command, and back until the initiator has the
        // whole answer. What it takes to get into the socket is the network's doing too, and for
        // writes so is the wait for their data between `target` and `device`.
        let crossed = |held: &&LayerUse| held.layer > Layer::Window && held.layer <= Layer::Device;
        for held in total.layers.iter().filter(crossed) {
            network.waiting_ns += held.way_in_excess_ns + held.way_out_excess_ns;
            network.way_out_ns += held.way_out_excess_ns;
            network.transit_ns += held.way_in_ns + held.way_out_ns;
        }
        // Data that the store has given and that TCP does not take keep the device server waiting.
        if let Some(store) = total.layer(Layer::Store) {
            network.waiting_ns += store.way_out_excess_ns;
            network.way_out_ns += store.way_out_excess_ns;
            network.transit_ns += store.way_out_ns;
            // So do commands that wait for an idle store: the target has no room for answers.
            if store.in_flight_mean < IDLE_STORE_IN_FLIGHT {
                network.waiting_ns += store.way_in_excess_ns;
                network.way_out_ns += store.way_in_excess_ns;
                network.transit_ns += store.way_in_ns;
            }
        }
        network
    }
}

impl<'s> View<'s> {
    fn of(summary: &'s CellSummary) -> View<'s> {
        View {
            summary,
            total: &summary.total,
            sessions: summary.sessions.len().max(1) as f64,
            latency_ns: summary.total.latency.mean_ns.max(1.0),
            network: Network::of(&summary.total),
        }
    }

    /// Mean in flight at the top layer, per session.
    pub(super) fn in_flight(&self) -> f64 {
        let top = self.total.layers.first();
        self.per_session(top.map_or(0.0, |held| held.in_flight_mean))
    }

    fn per_session(&self, number: f64) -> f64 {
        number / self.sessions
    }

    /// The ends that send most of the data: targets for reads, initiators for writes.
    fn senders(&self) -> Vec<&'s TransportUse> {
        let mut senders: Vec<&TransportUse> = Vec::new();
        for end in &self.summary.transport {
            let same = |other: &&TransportUse| {
                other.session == end.session && other.connection == end.connection
            };
            match senders.iter().position(same) {
                Some(place) if senders[place].acked_bytes < end.acked_bytes => senders[place] = end,
                Some(_) => {}
                None => senders.push(end),
            }
        }
        senders
    }

    /// The mean over the senders, weighted by the bytes they sent.
    fn weighted(&self, value: impl Fn(&TransportUse) -> f64) -> f64 {
        let senders = self.senders();
        let bytes: f64 = senders.iter().map(|end| end.acked_bytes as f64).sum();
        let sum: f64 = senders
            .iter()
            .map(|end| value(end) * end.acked_bytes as f64)
            .sum();
        sum / bytes.max(1.0)
    }

    /// The fullest direction of any path.
    pub(super) fn fullest_path(&self) -> Option<&'s PathUse> {
        self.summary
            .paths
            .iter()
            .max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))
    }

    /// The share of the latency that passes between the ends.
    pub(super) fn transit_share(&self) -> f64 {
        self.network.transit_ns / self.latency_ns
    }

    /// Data that were acknowledged, both ways together.
    pub(super) fn data_bits_per_s(&self) -> f64 {
        let senders = self.senders();
        let bytes: f64 = senders.iter().map(|end| end.acked_bytes as f64).sum();
        bytes * 8.0 / self.summary.window.seconds().max(1e-9)
    }

    /// A verdict about the way between the ends. Its layers are those around the observation
    /// point on the data's way; `got` is what the least transit time alone would hold.
    pub(super) fn network_verdict(&self, limit: Limit, evidence: Vec<String>) -> Verdict {
        let (upper, lower) = match self.network.ends {
            Some((upper, lower)) => (Some(upper), Some(lower)),
            None => (None, None),
        };
        // An answer crosses the way upward: it wants into the initiator's layer.
        let outward = self.network.way_out_ns * 2.0 >= self.network.waiting_ns;
        let (layer, above) = if outward {
            (upper, lower)
        } else {
            (lower, upper)
        };
        let per_s = self.total.iops;
        let held = |ns: f64| self.per_session(per_s * ns / 1e9);
        Verdict {
            limit,
            layer,
            above,
            wanted: held(self.network.transit_ns),
            got: held(self.network.transit_ns - self.network.waiting_ns),
            waiting_share: self.network.waiting_ns / self.latency_ns,
            evidence,
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn milliseconds(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}

fn store(view: &View<'_>) -> Option<Verdict> {
    let total = view.total;
    let store = total.layer(Layer::Store)?;
    let waiting_share = (store.way_in_ns + store.service_excess_ns) / view.latency_ns;
    let service_share = store.service_ns / view.latency_ns;
    let least_ns = (store.service_ns - store.service_excess_ns).max(1.0);
    let standing = total.store_queue_share >= STANDING_QUEUE_SHARE
        && store.in_flight_mean >= IDLE_STORE_IN_FLIGHT;
    let crowded = store.service_ns / least_ns >= CROWDED_SERVICE_RATIO;
    let queued = waiting_share >= STORE_WAITING_SHARE && (standing || crowded);
    if !queued && service_share < STORE_SERVICE_SHARE {
        return None;
    }
    // The deeper of two queues is the store's; but the longer one is where the waiting piles up.
    if waiting_share + service_share < view.network.waiting_ns / view.latency_ns {
        return None;
    }
    let above = total.above(Layer::Store);
    Some(Verdict {
        limit: Limit::Store,
        layer: Some(Layer::Store),
        above: above.map(|held| held.layer),
        wanted: view.per_session(above.map_or(store.in_flight_mean, |held| held.in_flight_mean)),
        got: view.per_session(store.in_flight_mean),
        waiting_share: waiting_share.max(service_share),
        evidence: vec![
            format!(
                "an I/O waits {} for the store and spends {} in it (least {}), of {} in all",
                milliseconds(store.way_in_ns),
                milliseconds(store.service_ns),
                milliseconds(least_ns),
                milliseconds(view.latency_ns),
            ),
            format!(
                "the store holds {:.1} at once, at most {}; somebody waits for it {} of the time",
                store.in_flight_mean,
                store.in_flight_max,
                percent(total.store_queue_share),
            ),
        ],
    })
}

fn path_rate(view: &View<'_>) -> Option<Verdict> {
    if let Some(path) = view.fullest_path() {
        if path.utilisation < FULL_UTILISATION {
            return None;
        }
        return Some(view.network_verdict(
            Limit::PathRate,
            vec![
                format!(
                    "path {} is busy {} of the time and carries {:.1} Mbit/s",
                    path.path,
                    percent(path.utilisation),
                    path.out_bytes_per_s * 8.0 / 1e6,
                ),
                format!(
                    "{:.1} packets wait for its link on average, at most {}; {} were dropped by the queue",
                    path.queue_packets, path.queue_max_packets, path.queue_drops,
                ),
            ],
        ));
    }
    // No samples of the path: a standing queue shows in the round-trip time, and a link's rate in
    // a delivery rate that hardly varies.
    let senders = view.senders();
    let inflation = view.weighted(|end| end.srtt_ns / (end.min_rtt_ns.max(1) as f64));
    let variation = view.weighted(|end| end.delivery_variation);
    let held_back = view.weighted(|end| end.rwnd_limited_share.max(end.sndbuf_limited_share));
    let busy = view.weighted(|end| end.busy_share);
    let full = inflation >= INFLATED_RTT_RATIO
        && variation <= FLAT_DELIVERY_VARIATION
        && held_back < STOPPED_SHARE
        && busy >= FULL_UTILISATION;
    (!senders.is_empty() && full).then(|| {
        view.network_verdict(
            Limit::PathRate,
            vec![format!(
                "no path was sampled, but the round-trip time is {inflation:.2} times its least \
                 while the delivery rate varies by {} only",
                percent(variation),
            )],
        )
    })
}

fn receive_window(view: &View<'_>) -> Option<Verdict> {
    let share = view.weighted(|end| end.rwnd_limited_share);
    if share < STOPPED_SHARE {
        return None;
    }
    let window_bytes = view.weighted(|end| f64::from(end.rwnd_min_bytes));
    Some(view.network_verdict(
        Limit::ReceiveWindow,
        vec![format!(
            "the sender is stopped by the other end's receive window {} of the time; the least \
             window advertised is {:.0} bytes, the round-trip time {}",
            percent(share),
            window_bytes,
            milliseconds(view.weighted(|end| end.srtt_ns)),
        )],
    ))
}

fn send_buffer(view: &View<'_>) -> Option<Verdict> {
    let share = view.weighted(|end| end.sndbuf_limited_share);
    (share >= STOPPED_SHARE).then(|| {
        view.network_verdict(
            Limit::SendBuffer,
            vec![format!(
                "the sender is stopped by its own full send buffer {} of the time, with {:.0} \
                 segments in flight and a congestion window of {:.0}",
                percent(share),
                view.weighted(|end| end.in_flight_packets),
                view.weighted(|end| end.cwnd_packets),
            )],
        )
    })
}

fn congestion_window(view: &View<'_>) -> Option<Verdict> {
    let share = view.weighted(|end| end.congestion_limited_share);
    if share < STOPPED_SHARE {
        return None;
    }
    let senders = view.senders();
    let resent: u32 = senders.iter().map(|end| end.retransmits).sum();
    let recoveries: u64 = senders
        .iter()
        .map(|end| end.recovery_events + end.loss_events)
        .sum();
    let mut evidence = vec![
        format!(
            "data wait in the send buffer in {} of the samples while neither the receive window \
             nor the buffer's size is in the way: {:.0} bytes unsent on average, {:.1} segments \
             in flight, congestion window {:.1}",
            percent(share),
            view.weighted(|end| end.unsent_bytes),
            view.weighted(|end| end.in_flight_packets),
            view.weighted(|end| end.cwnd_packets),
        ),
        format!(
            "{resent} segments were sent again; {recoveries} recoveries or time-outs were seen"
        ),
    ];
    if let Some(path) = view.fullest_path() {
        evidence.push(format!(
            "the fullest path, {}, is busy only {} of the time",
            path.path,
            percent(path.utilisation),
        ));
    }
    Some(view.network_verdict(Limit::CongestionWindow, evidence))
}

fn r2t_round_trips(view: &View<'_>) -> Option<Verdict> {
    let total = view.total;
    let device = total.layer(Layer::Device)?;
    let above = total.above(Layer::Device)?;
    let waited_ns = r2t::waited_ns(view.summary);
    let waiting_share = waited_ns / view.latency_ns;
    if waiting_share < R2T_WAITING_SHARE {
        return None;
    }
    // Round trips also keep slots of the command window longer; but the longer wait is named.
    let for_window_ns = total.layer(Layer::Window).map_or(0.0, |w| w.way_in_ns);
    if for_window_ns > waited_ns {
        return None;
    }
    let uses: Vec<_> = r2t::uses(view.summary).collect();
    let mean = |value: fn(&crate::r2t::R2tUse) -> f64| {
        uses.iter().map(|used| value(used)).sum::<f64>() / uses.len() as f64
    };
    let most = |value: fn(&crate::r2t::R2tUse) -> u64| {
        let values = uses.iter().map(|used| value(used));
        values.max().unwrap_or(0)
    };
    Some(Verdict {
        limit: Limit::R2tRoundTrips,
        layer: Some(Layer::Device),
        above: Some(above.layer),
        wanted: view.per_session(above.in_flight_mean),
        got: view.per_session(device.in_flight_mean),
        waiting_share,
        evidence: vec![
            format!(
                "a command for whose data the target asks takes {:.1} R2Ts in {:.1} round trips and \
                 waits {} for what they ask for",
                mean(|used| used.r2ts),
                mean(|used| used.rounds),
                milliseconds(mean(|used| used.waited_ns)),
            ),
            format!(
                "of at most {} of a command, {} came with it and {} unasked after it; an R2T \
                 brought at most {}, and at most {} of a command were outstanding at once",
                format_bytes(most(|used| used.transfer_bytes_max)),
                format_bytes(most(|used| used.immediate_bytes_max)),
                format_bytes(most(|used| used.unsolicited_bytes_max)),
                format_bytes(most(|used| used.sequence_bytes_max)),
                most(|used| used.outstanding_max),
            ),
            format!(
                "an I/O waits {} of {} between `{}` and `{}`; the command window holds it back for {}",
                milliseconds(device.way_in_ns),
                milliseconds(view.latency_ns),
                above.layer,
                device.layer,
                milliseconds(for_window_ns),
            ),
        ],
    })
}

fn command_window(view: &View<'_>) -> Option<Verdict> {
    let total = view.total;
    let window = total.layer(Layer::Window)?;
    let above = total.above(Layer::Window)?;
    let waiting_share = window.way_in_ns / view.latency_ns;
    if waiting_share < COMMAND_WAITING_SHARE {
        return None;
    }
    let uses: Vec<_> = view
        .summary
        .sessions
        .iter()
        .filter_map(|session| session.command_window)
        .collect();
    if uses.is_empty() {
        return None;
    }
    let mean = |value: fn(&crate::command_window::CommandWindowUse) -> f64| {
        uses.iter().map(value).sum::<f64>() / uses.len() as f64
    };
    let closed_while_waiting = mean(|used| used.closed_while_waiting_share);
    if closed_while_waiting < CLOSED_WHILE_WAITING_SHARE {
        return None;
    }
    let slots = uses.iter().map(|used| used.slots);
    Some(Verdict {
        limit: Limit::CommandWindow,
        layer: Some(Layer::Window),
        above: Some(above.layer),
        wanted: view.per_session(above.in_flight_mean),
        got: view.per_session(window.in_flight_mean),
        waiting_share,
        evidence: vec![
            format!(
                "MaxCmdSN let at most {} commands of a session be outstanding",
                slots.max().unwrap_or(0),
            ),
            format!(
                "the newest CmdSN stood at MaxCmdSN {} of the time, and {} of the time in which \
                 commands waited",
                percent(mean(|used| used.closed_share)),
                percent(closed_while_waiting),
            ),
            format!(
                "a command waits {} of {} for its CmdSN; {:.1} wait on average in each session",
                milliseconds(window.way_in_ns),
                milliseconds(view.latency_ns),
                view.per_session(window.waiting_in_mean),
            ),
        ],
    })
}

/// Nothing below the application binds: does it ask for too little, or leave gaps?
fn application(view: &View<'_>) -> Verdict {
    let sessions = &view.summary.sessions;
    let most_of = |asks: fn(&SessionUse) -> bool| {
        sessions.iter().filter(|session| asks(session)).count() * 2 > sessions.len()
    };
    let in_batches = most_of(|session| session.load.batches);
    let most_closed = in_batches || most_of(|session| session.load.closed_loop);
    let unexplained = view.network.waiting_ns / view.latency_ns;
    let in_flight = view.in_flight();
    let at_most = sessions
        .iter()
        .filter_map(|session| session.scope.layers.first())
        .map(|held| held.in_flight_max)
        .max()
        .unwrap_or(0);
    let mut evidence = vec![format!(
        "{in_flight:.1} in flight per session on average, at most {at_most}"
    )];
    if let Some(path) = view.fullest_path() {
        evidence.push(format!(
            "the fullest path, {}, is busy {} of the time",
            path.path,
            percent(path.utilisation),
        ));
    }
    let limit = if most_closed && unexplained < UNEXPLAINED_SHARE {
        let asks = if in_batches {
            "the application asks for so many at once, and for the next when all of these are done"
        } else {
            "each completion is followed at once by the next submission: the application keeps its \
             number in flight and never more"
        };
        evidence.push(asks.to_owned());
        Limit::TooFewIos
    } else if most_closed {
        evidence.push(format!(
            "{} of the latency is waiting between the ends that no recorded limit explains: look \
             at the processors of the hosts",
            percent(unexplained),
        ));
        Limit::Nothing
    } else {
        evidence.push("the application leaves gaps between completions and submissions".to_owned());
        Limit::Nothing
    };
    Verdict {
        limit,
        layer: (limit == Limit::TooFewIos)
            .then(|| view.total.layers.first().map(|held| held.layer))
            .flatten(),
        above: None,
        wanted: in_flight,
        got: in_flight,
        waiting_share: 0.0,
        evidence,
    }
}
