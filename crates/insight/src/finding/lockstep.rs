//! Route lockstep: one connection of a session lacks commands because another one holds them.
//!
//! With a continuous load it arises in two ways. Commands go to the connections in turn, regardless of how many are in
//! flight on each: a slow route then holds the commands that a fast one could carry (Chishima, Yamaguchi and Oguchi
//! 2008, figures 12 and 16). Or commands arrive on a fast route, and the target must hold them until those with lower
//! CmdSNs arrive on a slow one (RFC 7143 §4.2.2.1).
//!
//! An application that submits each batch only after the previous one is complete adds a third: a
//! connection that has finished its part is idle until the others finish theirs.

use wansan_trace::Layer;

use super::limits::{COMMAND_WAITING_SHARE, Verdict, View};
use super::{Advice, Limit, Observed};
use crate::connections::ConnectionUse;
use crate::load::LoadUse;
use crate::summary::{CellSummary, SessionUse};
use crate::transport::TransportUse;

/// A connection counts as starved throughout if it is starved for this share of the time.
const STARVED_SHARE: f64 = 0.5;
/// Connections that take turns complete equal numbers of commands, to within this ratio.
const TURNS_RATIO: f64 = 0.8;
/// With fewer commands in flight per connection than this, one is empty at times, whatever the routes.
const LEAST_PER_CONNECTION: f64 = 2.0;
/// Waiting for the slower route counts from this share of the latency on.
const LOCKSTEP_WAITING_SHARE: f64 = 0.1;
/// Waiting for CmdSN order alone, under any schedule, counts from this share of the latency on.
const ORDER_WAITING_SHARE: f64 = 0.05;
/// A path that carries part of the data carries at most this share of it.
const MOST_OF_DATA: f64 = 0.9;
/// And at least this share, or half of an even one if there are many connections.
const LEAST_OF_DATA: f64 = 0.1;

/// A session in lockstep.
struct Lockstep<'s> {
    /// The connection with the most commands in flight.
    full: &'s ConnectionUse,
    /// An even share of the commands in flight, for each connection.
    even_share: f64,
    /// Commands that a fast connection could have in flight, and those that it has.
    wanted: f64,
    got: f64,
    cause: Cause,
    /// Its mean cost per command, in ns.
    extra_ns: f64,
}

/// Why a fast connection waits for a slow one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Commands go to the connections in turn.
    Turns,
    /// The target takes commands in the order of their CmdSNs.
    Order,
    /// The application submits the next batch when all connections have finished their parts.
    Batch,
}

/// The session's lockstep, if its connections are in one.
fn of(session: &SessionUse) -> Option<Lockstep<'_>> {
    // Whether connections wait for each other does not show in a sample of the I/Os.
    let load = session.load?;
    let connections = &session.connections;
    let commands: u64 = connections.iter().map(|each| each.commands).sum();
    let fewest = connections.iter().map(|each| each.commands).min()?;
    let most = connections.iter().map(|each| each.commands).max()?;
    let in_flight: f64 = connections.iter().map(|each| each.in_flight_mean).sum();
    let even_share = in_flight / connections.len() as f64;
    let by_in_flight =
        |a: &&ConnectionUse, b: &&ConnectionUse| a.in_flight_mean.total_cmp(&b.in_flight_mean);
    let starved = connections.iter().min_by(by_in_flight)?;
    let full = connections.iter().max_by(by_in_flight)?;
    let in_turn = most > 0 && fewest as f64 >= TURNS_RATIO * most as f64;
    // A batch has its full number of commands only at its beginning; the mean is what is left of it.
    let asked_each = match load.batches {
        true => (in_flight / load.pinned_ratio).round() / connections.len() as f64,
        false => even_share,
    };
    if asked_each < LEAST_PER_CONNECTION || !(wants_more(session, &load) || load.batches) {
        return None;
    }
    let mean_ns = |value: &dyn Fn(&ConnectionUse) -> f64| {
        let sum: f64 = connections
            .iter()
            .map(|each| each.commands as f64 * value(each))
            .sum();
        sum / commands.max(1) as f64
    };
    let held_ns = mean_ns(&|each| each.held_mean_ns);
    let longer_ns = mean_ns(&|each| (each.inside_mean_ns - starved.inside_mean_ns).max(0.0));
    let latency_ns = session.scope.latency.mean_ns;
    // All connections are empty for a while if the batch size is not a multiple of their number.
    let done_early = starved.empty_share? - full.empty_share?;
    if load.batches && done_early >= least_empty_share(connections.len()) {
        return Some(Lockstep {
            full,
            even_share,
            wanted: even_share,
            got: starved.in_flight_mean,
            cause: Cause::Batch,
            extra_ns: starved.empty_share? * latency_ns,
        });
    }
    let starves = in_turn && starved.starved_share? >= STARVED_SHARE;
    let (cause, extra_ns, wanted, got) = if starves && longer_ns >= held_ns {
        (Cause::Turns, longer_ns, even_share, starved.in_flight_mean)
    } else {
        let by_hold =
            |a: &&ConnectionUse, b: &&ConnectionUse| a.held_mean_ns.total_cmp(&b.held_mean_ns);
        let held = connections.iter().max_by(by_hold)?;
        let held_part = held.held_mean_ns / held.inside_mean_ns.max(1.0);
        let under_way = held.in_flight_mean;
        (
            Cause::Order,
            held_ns,
            under_way,
            under_way * (1.0 - held_part),
        )
    };
    let least_share = match cause {
        Cause::Order => ORDER_WAITING_SHARE,
        Cause::Turns | Cause::Batch => LOCKSTEP_WAITING_SHARE,
    };
    (extra_ns >= least_share * latency_ns).then_some(Lockstep {
        full,
        even_share,
        wanted,
        got,
        cause,
        extra_ns,
    })
}

/// The share of the time for which a connection, of so many, is idle in batches that cost [`LOCKSTEP_WAITING_SHARE`]:
/// all but the slowest are idle meanwhile, which costs that share of what the connections could do together.
fn least_empty_share(connections: usize) -> f64 {
    let all = connections.max(2) as f64;
    LOCKSTEP_WAITING_SHARE * all / (all - 1.0)
}

/// Whether more I/Os are ready than the command window admits: only then does a command held on one connection leave
/// another one short.
fn wants_more(session: &SessionUse, load: &LoadUse) -> bool {
    let waits = session.scope.layer(Layer::Window).is_some_and(|window| {
        window.way_in_ns >= COMMAND_WAITING_SHARE * session.scope.latency.mean_ns
    });
    let closed = session
        .command_window
        .is_some_and(|used| used.is_waited_for);
    load.closed_loop || waits && closed
}

/// Judges a cell: at least half of its sessions must be in lockstep.
pub(super) fn judge(view: &View<'_>) -> Option<Verdict> {
    let summary = view.summary;
    let locked: Vec<(&SessionUse, Lockstep<'_>)> = summary
        .sessions
        .iter()
        .filter_map(|session| Some((session, of(session)?)))
        // Connections over one path take turns at its link: nothing is lost while one is empty.
        .filter(|(_, lockstep)| lockstep.cause != Cause::Batch || takes_several_paths(view))
        .collect();
    if locked.is_empty() || locked.len() * 2 < summary.sessions.len() {
        return None;
    }
    let waited: f64 = locked
        .iter()
        .map(|(session, lockstep)| lockstep.extra_ns * session.scope.ios as f64)
        .sum();
    let waited_ns = waited / summary.total.ios.max(1) as f64;
    let waiting_share = waited_ns / summary.total.latency.mean_ns.max(1.0);
    let mean = |value: fn(&Lockstep<'_>) -> f64| {
        locked
            .iter()
            .map(|(_, lockstep)| value(lockstep))
            .sum::<f64>()
            / locked.len() as f64
    };
    let mut evidence = Vec::new();
    for (session, lockstep) in &locked {
        evidence.push(match lockstep.cause {
            Cause::Turns => format!(
                "commands go to the connections in turn: each connection completed {} to {}",
                fewest(session),
                most(session)
            ),
            Cause::Order => format!(
                "the target holds a command for {:.2} ms on average, until commands with lower \
                 CmdSNs arrive on other connections",
                lockstep.extra_ns / 1e6
            ),
            Cause::Batch => format!(
                "the application submits the next batch only when the previous one is complete: a connection that \
                 has finished its part is idle for {:.0} % of the time, until the others finish theirs",
                100.0 * lockstep.extra_ns / session.scope.latency.mean_ns.max(1.0)
            ),
        });
        evidence.extend(session.connections.iter().filter_map(connection));
        evidence.extend(what_fills(summary, session, lockstep.full));
    }
    Some(Verdict {
        limit: Limit::RouteLockstep,
        layer: Some(Layer::Socket),
        above: Some(Layer::Window),
        wanted: mean(|lockstep| lockstep.wanted),
        got: mean(|lockstep| lockstep.got),
        waiting_share,
        evidence,
    })
}

/// Whether the cell's data is divided among paths.
fn takes_several_paths(view: &View<'_>) -> bool {
    let bytes_per_s = view.data_bits_per_s() / 8.0;
    let shares = view.summary.paths.iter();
    let shares = shares.map(|path| path.out_bytes_per_s / bytes_per_s.max(1.0));
    let sessions = view.summary.sessions.iter();
    let connections = sessions.map(|session| session.connections.len()).max();
    let even = 1.0 / connections.unwrap_or(1).max(1) as f64;
    let parts = LEAST_OF_DATA.min(even / 2.0)..=MOST_OF_DATA;
    shares.filter(|share| parts.contains(share)).count() > 1
}

/// What to change. Another schedule helps against turns and against CmdSN order; none helps against batches, whose I/Os
/// are requested all at once.
pub(super) fn advice(binding: &[&Observed]) -> Advice {
    let sessions = || binding.iter().flat_map(|seen| &seen.summary.sessions);
    let is_by = |cause| {
        sessions()
            .filter_map(of)
            .any(|lockstep| lockstep.cause == cause)
    };
    if is_by(Cause::Batch) {
        Advice {
            text: "keep I/Os in flight all the time instead of waiting for a whole batch: larger \
                   read-ahead, several reads at once, or no `batch` in the load"
                .to_owned(),
            ..Advice::default()
        }
    } else if is_by(Cause::Turns) {
        Advice {
            text: "send each command on the connection with the fewest in flight (`--schedule \
                   least-in-flight`)"
                .to_owned(),
            parameter: Some("initiator.schedule".to_owned()),
            value: Some("least-in-flight".to_owned()),
            ..Advice::default()
        }
    } else if binding.iter().any(|seen| is_earliest(seen)) {
        Advice {
            text: OTHER_ROUTES.to_owned(),
            ..Advice::default()
        }
    } else {
        Advice {
            text: format!(
                "send each command on the connection with the earliest expected completion \
                 (`--schedule earliest`), or {OTHER_ROUTES}"
            ),
            parameter: Some("initiator.schedule".to_owned()),
            value: Some("earliest".to_owned()),
            ..Advice::default()
        }
    }
}

/// Keeps commands from waiting for each other under any schedule.
const OTHER_ROUTES: &str = "use a separate session for each route (`--multipath`)";

/// Whether the cell's parameters select the schedule `earliest`.
fn is_earliest(observed: &Observed) -> bool {
    let schedule = observed.parameters.get("initiator.schedule");
    schedule.is_some_and(|schedule| schedule == "earliest")
}

fn fewest(session: &SessionUse) -> u64 {
    let commands = session.connections.iter().map(|each| each.commands);
    commands.min().unwrap_or(0)
}

fn most(session: &SessionUse) -> u64 {
    let commands = session.connections.iter().map(|each| each.commands);
    commands.max().unwrap_or(0)
}

fn connection(each: &ConnectionUse) -> Option<String> {
    Some(format!(
        "connection {}: {:.1} commands in flight on average, {:.2} ms each, including {:.2} ms held at \
         the target; below 60 % of an even share for {:.0} % of the time, idle for {:.0} %",
        each.connection,
        each.in_flight_mean,
        each.inside_mean_ns / 1e6,
        each.held_mean_ns / 1e6,
        each.starved_share? * 100.0,
        each.empty_share? * 100.0,
    ))
}

/// What TCP shows about the connection that holds the most commands, at its sending end.
fn what_fills(summary: &CellSummary, session: &SessionUse, full: &ConnectionUse) -> Option<String> {
    let ends = summary
        .transport
        .iter()
        .filter(|end| end.session == session.session && end.connection == full.connection);
    let sender = ends.max_by_key(|end| end.acked_bytes)?;
    let held = [
        ("its congestion window", sender.congestion_limited_share),
        ("the receive window", sender.rwnd_limited_share),
        ("its send buffer", sender.sndbuf_limited_share),
    ];
    let (name, share) = held.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let round_trip = |end: &TransportUse| end.srtt_ns / 1e6;
    Some(if share >= STARVED_SHARE {
        format!(
            "connection {} is limited by {name} {:.0} % of the time; its round-trip time is {:.1} \
             ms",
            full.connection,
            share * 100.0,
            round_trip(sender)
        )
    } else {
        format!(
            "connection {} is slow because of its round-trip time of {:.1} ms",
            full.connection,
            round_trip(sender)
        )
    })
}

/// I/Os per second with another schedule. Against turns, every connection has an even share of the commands in flight,
/// each for as long as measured: what the slower routes still carry, and more on the others. Against CmdSN order, the
/// same commands are in flight, none of them held for others. Sessions that submit batches, have no lockstep or are
/// paced keep their rate.
pub(super) fn shared_out(summary: &CellSummary) -> f64 {
    let rate = |session: &SessionUse| {
        let Some(lockstep) =
            of(session).filter(|_| session.load.is_some_and(|load| load.closed_loop))
        else {
            return session.scope.iops;
        };
        let each = session.connections.iter();
        match lockstep.cause {
            Cause::Turns => each
                .map(|each| lockstep.even_share * 1e9 / each.inside_mean_ns.max(1.0))
                .sum(),
            Cause::Order => each
                .map(|each| {
                    let moving_ns = (each.inside_mean_ns - each.held_mean_ns).max(1.0);
                    each.in_flight_mean * 1e9 / moving_ns
                })
                .sum(),
            Cause::Batch => session.scope.iops,
        }
    };
    summary.sessions.iter().map(rate).sum()
}
