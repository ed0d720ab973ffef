//! The limit of one cell: the one with the largest share of the latency in the ledger, among those with a share
//! large enough to count.
//!
//! A command window that is closed because something inside it is saturated is not the limit: the saturated resource
//! is.

use wansan_trace::Layer;
use wansan_trace::units::format_bytes;

use super::sampled::{self, Margin, share_uncertain};
use super::{Limit, encryption, lockstep, r2t, stalls};
use crate::cause::Cause;
use crate::command_window::CommandWindowUse;
use crate::load::LoadUse;
use crate::path::PathUse;
use crate::summary::{CellSummary, LayerUse, Scope};
use crate::traffic::FlowDirection;
use crate::transport::TransportUse;

/// From this share of the latency, a queue shows that a resource is full: a link or a store.
const QUEUED_SHARE: f64 = 0.05;
/// A link without a queue is the limit if the I/Os' own bytes take this share of the latency.
const TRANSMISSION_SHARE: f64 = 0.5;
/// TCP's windows and buffers count from this share of the latency.
pub(super) const STOPPED_SHARE: f64 = 0.1;
/// The same, as a share of the time inside a closed command window.
pub(super) const STOPPED_INSIDE_SHARE: f64 = 0.25;
/// Waits of individual I/Os count from this share: R2T round trips, stalls, CPU-bound programs.
const OWN_WAITING_SHARE: f64 = 0.2;
/// Waiting for the command window counts from this share: any additional commands wait there.
pub(super) const COMMAND_WAITING_SHARE: f64 = 0.02;
/// If this share of the latency is unexplained, more I/Os are not the remedy.
const UNEXPLAINED_SHARE: f64 = 0.5;
/// An I/O's account lists causes from this share of its latency.
const NAMED_SHARE: f64 = 0.01;

/// The limit that binds in one cell, and the evidence for it.
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
    let mut verdict = encryption::judge(&view)
        .or_else(|| strongest(&view))
        .unwrap_or_else(|| application(&view));
    verdict.evidence.extend(view.account());
    let sampled = sampled::evidence(&view, &verdict);
    verdict.evidence.extend(sampled);
    verdict
}

pub(super) fn by_share(one: &(Limit, f64), other: &(Limit, f64)) -> std::cmp::Ordering {
    one.1.total_cmp(&other.1)
}

/// The limit with the largest share of the latency, if that is large enough to count.
fn strongest(view: &View<'_>) -> Option<Verdict> {
    let most = view
        .most_costly(Margin::None)
        .map_or(Limit::Nothing, |(limit, _)| limit);
    if most == Limit::Store {
        return store(view);
    }
    if let Some(verdict) = lockstep::judge(view) {
        return Some(verdict);
    }
    match most {
        Limit::PathRate => Some(path_rate(view)),
        Limit::ReceiveWindow => Some(receive_window(view)),
        Limit::SendBuffer => Some(send_buffer(view)),
        Limit::CongestionWindow => Some(congestion_window(view)),
        Limit::R2tRoundTrips => r2t_round_trips(view),
        Limit::CommandWindow => command_window(view),
        Limit::Stalls => stalls::judge(view),
        Limit::Processor => Some(processor(view)),
        _ => None,
    }
}

/// A cell, with values that several rules need.
pub(super) struct View<'s> {
    pub(super) summary: &'s CellSummary,
    pub(super) total: &'s Scope,
    sessions: f64,
    pub(super) latency_ns: f64,
    network: Network,
}

/// Waiting between the two ends.
struct Network {
    /// The last recorded layer of the initiator and the first below it.
    ends: Option<(Layer, Layer)>,
    /// Mean time between the ends, both ways, beyond propagation and transmission.
    waiting_ns: f64,
    /// Mean of the total time between the ends.
    transit_ns: f64,
    /// The part of `waiting_ns` on the way to the initiator.
    way_out_ns: f64,
}

impl Network {
    fn of(summary: &CellSummary) -> Network {
        let total = &summary.total;
        let below = total.layers.iter().find(|held| held.layer > Layer::Socket);
        let mut network = Network {
            ends: below.and_then(|below| Some((total.above(below.layer)?.layer, below.layer))),
            waiting_ns: 0.0,
            transit_ns: 0.0,
            way_out_ns: 0.0,
        };
        for sum in &summary.waits.sums {
            let Some(way) = sum.way else { continue };
            network.transit_ns += sum.mean_ns;
            if !sum.is_crossing() {
                network.waiting_ns += sum.mean_ns;
                network.way_out_ns += if way == FlowDirection::ToInitiator {
                    sum.mean_ns
                } else {
                    0.0
                };
            }
        }
        network
    }
}

impl<'s> View<'s> {
    /// The limit with the largest share of the latency among those that count. A window closes because of what is full
    /// inside it: that is the limit then.
    pub(super) fn most_costly(&self, margin: Margin) -> Option<(Limit, f64)> {
        let all = self.counting(0.0, STOPPED_SHARE, margin);
        let most = all.into_iter().max_by(by_share);
        if let Some((Limit::CommandWindow, share)) = most {
            let inside = self.counting(share, STOPPED_INSIDE_SHARE, margin);
            return inside.into_iter().max_by(by_share).or(most);
        }
        most
    }

    /// The limits that count, each with its share of the latency. TCP's windows and buffers count from `stopped_share`. If
    /// a share of the latency is spent `before` a command window, shares are of the time inside it, and only resources
    /// that can be full count.
    pub(super) fn counting(
        &self,
        before: f64,
        stopped_share: f64,
        margin: Margin,
    ) -> Vec<(Limit, f64)> {
        let is_inside = before > 0.0;
        let waits = &self.summary.waits;
        let part = |cause: Cause| waits.mean_ns(cause) / waits.latency_ns.max(1.0);
        let of_rest = |share: f64| share / (1.0 - before).max(f64::EPSILON);
        let share = |limit: Limit| {
            let half = share_uncertain(self.summary, limit);
            of_rest(waits.share(limit) + margin.of(half))
        };
        let queued_half = share_uncertain(self.summary, Limit::PathRate);
        let is_path_full =
            |margin: Margin| part(Cause::PathQueue) + margin.of(queued_half) >= QUEUED_SHARE;
        let may_be_idle = !is_path_full(margin.opposite());
        let is_asked = r2t::uses(self.summary).next().is_some();
        let mut sessions = self.summary.sessions.iter();
        let is_window_known = sessions.any(|session| session.command_window.is_some());
        let counts = |limit: Limit| {
            let own = !is_inside;
            match limit {
                Limit::Store => share(limit) >= QUEUED_SHARE,
                Limit::PathRate => is_path_full(margin) || share(limit) >= TRANSMISSION_SHARE,
                Limit::ReceiveWindow | Limit::SendBuffer | Limit::CongestionWindow => {
                    share(limit) >= stopped_share
                }
                // On a full path, solicited data and retransmissions wait for the path, too.
                Limit::R2tRoundTrips => {
                    own && is_asked && may_be_idle && share(limit) >= OWN_WAITING_SHARE
                }
                Limit::Stalls => own && may_be_idle && share(limit) >= OWN_WAITING_SHARE,
                Limit::Processor => own && share(limit) >= OWN_WAITING_SHARE,
                Limit::CommandWindow => {
                    own && is_window_known && share(limit) >= COMMAND_WAITING_SHARE
                }
                // Judged separately.
                Limit::RouteLockstep | Limit::Encryption => false,
                Limit::TooFewIos | Limit::Nothing => false,
            }
        };
        // The service time of a full store counts, too.
        let weight = |limit: Limit| match limit {
            Limit::Store => share(limit) + part(Cause::StoreService),
            limit => share(limit),
        };
        let counting = Limit::ALL.into_iter().filter(|limit| counts(*limit));
        counting.map(|limit| (limit, weight(limit))).collect()
    }

    /// The share of the latency that a limit accounts for.
    pub(super) fn share(&self, limit: Limit) -> f64 {
        self.summary.waits.share(limit)
    }

    /// One line about where the latency goes.
    fn account(&self) -> Option<String> {
        let waits = &self.summary.waits;
        let means = Cause::ALL.map(|cause| (cause, waits.mean_ns(cause)));
        let mut named: Vec<(Cause, f64)> = means
            .into_iter()
            .filter(|(_, ns)| *ns > 0.0 && *ns >= NAMED_SHARE * waits.latency_ns)
            .collect();
        named.sort_by(|one, other| other.1.total_cmp(&one.1));
        let parts: Vec<String> = named
            .into_iter()
            .map(|(cause, ns)| format!("{} {}", cause.name().replace('_', " "), milliseconds(ns)))
            .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "an I/O's {}: {}",
                milliseconds(waits.latency_ns),
                parts.join(", ")
            )
        })
    }

    fn of(summary: &'s CellSummary) -> View<'s> {
        View {
            summary,
            total: &summary.total,
            sessions: summary.sessions.len().max(1) as f64,
            latency_ns: summary.total.latency.mean_ns.max(1.0),
            network: Network::of(summary),
        }
    }

    /// Mean number of I/Os in flight at the top layer, per session.
    pub(super) fn in_flight(&self) -> f64 {
        let top = self.total.layers.first();
        self.per_session(top.map_or(0.0, |held| held.in_flight_mean))
    }

    fn per_session(&self, number: f64) -> f64 {
        number / self.sessions
    }

    /// The end of each connection that sends most of the data: targets for reads, initiators for writes.
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

    /// The path direction with the highest utilization.
    pub(super) fn fullest_path(&self) -> Option<&'s PathUse> {
        self.summary
            .paths
            .iter()
            .max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))
    }

    /// The share of the latency spent between the ends.
    pub(super) fn transit_share(&self) -> f64 {
        self.network.transit_ns / self.latency_ns
    }

    /// Data acknowledged to each connection's main sender, in bit/s.
    pub(super) fn data_bits_per_s(&self) -> f64 {
        let senders = self.senders();
        let bytes: f64 = senders.iter().map(|end| end.acked_bytes as f64).sum();
        bytes * 8.0 / self.summary.window.seconds().max(1e-9)
    }

    /// A verdict about the network between the ends. Its layers are those on both sides of the network, in the
    /// direction with more waiting; `got` is the number in flight that propagation and transmission alone would hold.
    pub(super) fn network_verdict(&self, limit: Limit, evidence: Vec<String>) -> Verdict {
        let (upper, lower) = match self.network.ends {
            Some((upper, lower)) => (Some(upper), Some(lower)),
            None => (None, None),
        };
        // An answer travels upward: it is to enter the initiator's layer.
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
            waiting_share: self.share(limit),
            evidence,
        }
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn milliseconds(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}

fn store(view: &View<'_>) -> Option<Verdict> {
    let total = view.total;
    let store = total.layer(Layer::Store)?;
    let waits = &view.summary.waits;
    let served_share = waits.mean_ns(Cause::StoreService) / view.latency_ns;
    let above = total.above(Layer::Store);
    Some(Verdict {
        limit: Limit::Store,
        layer: Some(Layer::Store),
        above: above.map(|held| held.layer),
        wanted: view.per_session(above.map_or(store.in_flight_mean, |held| held.in_flight_mean)),
        got: view.per_session(store.in_flight_mean),
        waiting_share: view.share(Limit::Store) + served_share,
        evidence: vec![
            format!(
                "an I/O waits {} for the store and spends {} in it, of a latency of {}",
                milliseconds(store.way_in_ns),
                milliseconds(store.service_ns),
                milliseconds(view.latency_ns),
            ),
            store_use(store, total.store_queue_share),
        ],
    })
}

fn store_use(store: &LayerUse, queue_share: Option<f64>) -> String {
    let mean = store.in_flight_mean;
    match (store.in_flight_max, queue_share) {
        (Some(most), Some(share)) => format!(
            "the store holds {mean:.1} I/Os on average, at most {most}; its queue is not empty {} of the time",
            percent(share),
        ),
        _ => format!("the store holds {mean:.1} I/Os on average"),
    }
}

fn path_rate(view: &View<'_>) -> Verdict {
    let waits = &view.summary.waits;
    let mut evidence = Vec::new();
    if let Some(path) = view.fullest_path() {
        evidence.push(format!(
            "path {} is busy {} of the time and carries {:.1} Mbit/s",
            path.path,
            percent(path.utilisation),
            path.out_bytes_per_s * 8.0 / 1e6,
        ));
        evidence.push(format!(
            "{:.1} packets wait for its link on average, at most {}; {} were dropped by the queue",
            path.queue_packets, path.queue_max_packets, path.queue_drops,
        ));
    } else {
        evidence.push(format!(
            "no path was sampled, but the round-trip time is {:.2} times its minimum while the delivery rate \
             varies by only {}",
            view.weighted(TransportUse::rtt_ratio),
            percent(view.weighted(|end| end.delivery_variation)),
        ));
    }
    if waits.mean_ns(Cause::Transmission) > waits.mean_ns(Cause::PathQueue) {
        evidence.push(format!(
            "the transmission of an I/O's own bytes takes {} of its {}; more I/Os in flight would only fill the rest \
             of the time",
            milliseconds(waits.mean_ns(Cause::Transmission)),
            milliseconds(view.latency_ns),
        ));
    }
    view.network_verdict(Limit::PathRate, evidence)
}

/// What samples of the senders show of a limit that stops them for `share` of the time; what packets show where samples
/// show nothing of it, as where only the receivers were sampled.
fn sender_evidence(
    view: &View<'_>,
    limit: Limit,
    share: f64,
    sampled: impl FnOnce() -> Vec<String>,
) -> Vec<String> {
    if share >= NAMED_SHARE {
        return sampled();
    }
    vec![format!(
        "an I/O waits {} of {} for it, as packets show",
        milliseconds(view.share(limit) * view.latency_ns),
        milliseconds(view.latency_ns),
    )]
}

fn receive_window(view: &View<'_>) -> Verdict {
    let share = view.weighted(|end| end.rwnd_limited_share);
    let sampled = || {
        vec![format!(
            "the other end's receive window stops the sender {} of the time; the smallest \
             advertised window is {:.0} bytes, the round-trip time {}",
            percent(share),
            view.weighted(|end| f64::from(end.rwnd_min_bytes)),
            milliseconds(view.weighted(|end| end.srtt_ns)),
        )]
    };
    let evidence = sender_evidence(view, Limit::ReceiveWindow, share, sampled);
    view.network_verdict(Limit::ReceiveWindow, evidence)
}

fn send_buffer(view: &View<'_>) -> Verdict {
    view.network_verdict(
        Limit::SendBuffer,
        vec![format!(
            "the whole send buffer is in flight: {:.0} segments on average, with a congestion window \
             of {:.0}",
            view.weighted(|end| end.in_flight_packets),
            view.weighted(|end| end.cwnd_packets),
        )],
    )
}

/// A program with a thread that always has work.
fn processor(view: &View<'_>) -> Verdict {
    let programs = view.summary.programs.iter();
    let full = programs.filter(|used| used.has_no_processor_to_spare());
    let evidence = full.map(|used| {
        format!(
            "a thread of {} runs or is runnable {} of the time; the program uses {:.2} CPUs on \
             average",
            used.program,
            percent(used.busiest_share.min(1.0)),
            used.ran_share,
        )
    });
    let in_flight = view.in_flight();
    Verdict {
        limit: Limit::Processor,
        layer: None,
        above: None,
        wanted: in_flight,
        got: in_flight,
        waiting_share: view.share(Limit::Processor),
        evidence: evidence.collect(),
    }
}

fn congestion_window(view: &View<'_>) -> Verdict {
    let share = view.weighted(|end| end.congestion_limited_share);
    let senders = view.senders();
    let resent: u32 = senders.iter().map(|end| end.retransmits).sum();
    let recoveries: u64 = senders
        .iter()
        .map(|end| end.recovery_events + end.loss_events)
        .sum();
    let sampled = || {
        vec![
            format!(
                "data waits in the send buffer in {} of the samples although neither the receive window \
                 nor the buffer's size limits it: {:.0} bytes unsent on average, {:.1} segments \
                 in flight, congestion window {:.1}",
                percent(share),
                view.weighted(|end| end.unsent_bytes),
                view.weighted(|end| end.in_flight_packets),
                view.weighted(|end| end.cwnd_packets),
            ),
            format!(
                "{resent} segments were retransmitted; there were {recoveries} recoveries or timeouts"
            ),
        ]
    };
    let mut evidence = sender_evidence(view, Limit::CongestionWindow, share, sampled);
    if let Some(path) = view.fullest_path() {
        evidence.push(format!(
            "the fullest path, {}, is busy only {} of the time",
            path.path,
            percent(path.utilisation),
        ));
    }
    view.network_verdict(Limit::CongestionWindow, evidence)
}

fn r2t_round_trips(view: &View<'_>) -> Option<Verdict> {
    let total = view.total;
    let device = total.layer(Layer::Device)?;
    let above = total.above(Layer::Device)?;
    let for_window_ns = total.layer(Layer::Window).map_or(0.0, |w| w.way_in_ns);
    let uses: Vec<_> = r2t::uses(view.summary).collect();
    if uses.is_empty() {
        return None;
    }
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
        waiting_share: view.share(Limit::R2tRoundTrips),
        evidence: vec![
            format!(
                "a command with R2Ts needs {:.1} of them in {:.1} round trips and waits {} for \
                 their data",
                mean(|used| used.r2ts),
                mean(|used| used.rounds),
                milliseconds(mean(|used| used.waited_ns)),
            ),
            format!(
                "a command has at most {} of data, with {} of immediate and {} of other unsolicited data; an R2T \
                 requested at most {}, and a command had at most {} outstanding",
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
    let uses: Vec<_> = view
        .summary
        .sessions
        .iter()
        .filter_map(|session| session.command_window)
        .collect();
    if uses.is_empty() {
        return None;
    }
    let slots = uses.iter().map(|used| used.slots);
    Some(Verdict {
        limit: Limit::CommandWindow,
        layer: Some(Layer::Window),
        above: Some(above.layer),
        wanted: view.per_session(above.in_flight_mean),
        got: view.per_session(window.in_flight_mean),
        waiting_share: view.share(Limit::CommandWindow),
        evidence: vec![
            format!(
                "MaxCmdSN allowed {} {} outstanding commands per session",
                match view.summary.sampled_one_in {
                    None => "at most",
                    Some(_) => "about",
                },
                slots.max().unwrap_or(0),
            ),
            closed(&uses, window.in_flight_mean / view.sessions),
            format!(
                "a command waits {} of {} for its CmdSN; {:.1} wait on average in each session",
                milliseconds(window.way_in_ns),
                milliseconds(view.latency_ns),
                view.per_session(window.waiting_in_mean),
            ),
        ],
    })
}

/// How full the sessions' command windows were; `inside` commands were in each on average.
fn closed(uses: &[CommandWindowUse], inside: f64) -> String {
    let mean = |value: fn(&CommandWindowUse) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = uses.iter().map(value).collect();
        values.map(|values| values.iter().sum::<f64>() / uses.len() as f64)
    };
    match (
        mean(|used| used.closed_share),
        mean(|used| used.closed_while_waiting_share),
    ) {
        (Some(closed), Some(closed_while_waiting)) => format!(
            "the latest CmdSN equalled MaxCmdSN {} of the time, and {} of the time in which commands waited",
            percent(closed),
            percent(closed_while_waiting),
        ),
        _ => format!("{inside:.1} commands of a session have a CmdSN on average"),
    }
}

/// Nothing below the application binds: does it issue too few I/Os, or leave gaps?
fn application(view: &View<'_>) -> Verdict {
    let sessions = &view.summary.sessions;
    let loads: Vec<LoadUse> = sessions.iter().filter_map(|session| session.load).collect();
    let most_of = |asks: fn(&LoadUse) -> bool| {
        loads.iter().filter(|load| asks(load)).count() * 2 > sessions.len()
    };
    let in_batches = most_of(|load| load.batches);
    let most_closed = in_batches || most_of(|load| load.closed_loop);
    // Why a program does not read what arrived is not known either.
    let unexplained_ns =
        [Cause::Unknown, Cause::ReceiveBuffer].map(|cause| view.summary.waits.mean_ns(cause));
    let unexplained = unexplained_ns.iter().sum::<f64>() / view.latency_ns;
    let in_flight = view.in_flight();
    let at_most = sessions
        .iter()
        .filter_map(|session| session.scope.layers.first())
        .filter_map(|held| held.in_flight_max)
        .max();
    let at_most = at_most.map_or_else(String::new, |most| format!(", at most {most}"));
    let mut evidence = vec![format!(
        "{in_flight:.1} in flight per session on average{at_most}"
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
            "the application submits I/Os in batches of this size, the next one only when the previous one is complete"
        } else {
            "each completion is followed at once by the next submission: the application keeps a fixed \
             number in flight"
        };
        evidence.push(asks.to_owned());
        Limit::TooFewIos
    } else if most_closed {
        evidence.push(format!(
            "the records do not explain {} of the latency",
            percent(unexplained),
        ));
        Limit::Nothing
    } else {
        if loads.is_empty() && unexplained >= UNEXPLAINED_SHARE {
            evidence.push(format!(
                "the records do not explain {} of the latency",
                percent(unexplained),
            ));
        }
        // A sample of the I/Os does not show them.
        if !loads.is_empty() {
            evidence
                .push("the application leaves gaps between completions and submissions".to_owned());
        }
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
