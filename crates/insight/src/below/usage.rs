//! The summary of a cell's time below the socket.

use wansan_schema::{BelowSocket, LegUse, StampCount};
use wansan_trace::event::{PduDirection, Stamp};
use wansan_trace::file::Table;

use super::{Leg, Recorded, Splits, splits};
use crate::cell::Cell;
use crate::window::Window;

fn add(sum: &mut LegUse, leg: &Leg, ios: f64) {
    let parts = [
        (&mut sum.no_room_ns, leg.no_room_ns),
        (&mut sum.no_room_buffer_ns, leg.no_room_buffer_ns),
        (&mut sum.no_room_cwnd_ns, leg.no_room_cwnd_ns),
        (&mut sum.no_room_rwnd_ns, leg.no_room_rwnd_ns),
        (&mut sum.cwnd_ns, leg.cwnd_ns),
        (&mut sum.rwnd_ns, leg.rwnd_ns),
        (&mut sum.nagle_ns, leg.nagle_ns),
        (&mut sum.other_ns, leg.other_ns),
        (&mut sum.device_queue_ns, leg.device_queue_ns),
        (&mut sum.path_ns, leg.path_ns),
        (&mut sum.receive_buffer_ns, leg.receive_buffer_ns),
    ];
    for (part, ns) in parts {
        *part += ns as f64 / ios;
    }
}

fn both(mut sum: LegUse, other: &LegUse) -> LegUse {
    let parts = [
        (&mut sum.no_room_ns, other.no_room_ns),
        (&mut sum.no_room_buffer_ns, other.no_room_buffer_ns),
        (&mut sum.no_room_cwnd_ns, other.no_room_cwnd_ns),
        (&mut sum.no_room_rwnd_ns, other.no_room_rwnd_ns),
        (&mut sum.cwnd_ns, other.cwnd_ns),
        (&mut sum.rwnd_ns, other.rwnd_ns),
        (&mut sum.nagle_ns, other.nagle_ns),
        (&mut sum.other_ns, other.other_ns),
        (&mut sum.device_queue_ns, other.device_queue_ns),
        (&mut sum.path_ns, other.path_ns),
        (&mut sum.receive_buffer_ns, other.receive_buffer_ns),
    ];
    for (part, ns) in parts {
        *part += ns;
    }
    sum
}

impl Recorded {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Recorded::Both => "both",
            Recorded::Initiator => "initiator",
            Recorded::Target => "target",
        }
    }

    fn of_name(name: &str) -> Recorded {
        let all = [Recorded::Initiator, Recorded::Target];
        let found = all.into_iter().find(|recorded| recorded.name() == name);
        found.unwrap_or_default()
    }

    /// The end without records, and the program that would make them.
    fn missing(self) -> Option<(&'static str, &'static str)> {
        match self {
            Recorded::Both => None,
            Recorded::Initiator => Some(("target", "target")),
            Recorded::Target => Some(("initiator", "bench")),
        }
    }
}

fn stamp_count(table: &Table<Stamp>, window: Window) -> StampCount {
    let mut count = StampCount::default();
    let stamps = table.rows.iter().map(|row| &row.record);
    for stamp in stamps.filter(|stamp| window.contains(stamp.time.ns())) {
        match stamp.direction {
            PduDirection::Sent => {
                count.sends += 1;
                count.sends_unstamped += u64::from(stamp.departed.ns() == 0);
            }
            PduDirection::Received => {
                count.receives += 1;
                count.receives_unstamped += u64::from(stamp.arrived.ns() == 0);
            }
        }
    }
    count
}

/// Summarizes the I/Os of `cell` that completed in `window`; `None` if stamps or PDUs were not recorded, or no I/O
/// completed.
#[must_use]
pub fn below_socket(cell: &Cell, window: Window) -> Option<BelowSocket> {
    let splits = splits(cell, window)?;
    let stamps = stamp_count(cell.stamp.as_ref()?, window);
    (!splits.told.is_empty() || !splits.untold.is_empty()).then(|| from_splits(&splits, stamps))
}

/// Summarizes these I/Os.
#[must_use]
pub fn from_splits(splits: &Splits, stamps: StampCount) -> BelowSocket {
    let ios = splits.told.len().max(1) as f64;
    let mean = |sum: u128| sum as f64 / ios;
    let sum = |part: fn(&super::Split) -> u64| -> u128 {
        splits
            .told
            .iter()
            .map(|split| u128::from(part(split)))
            .sum()
    };
    let (mut to_target, mut to_initiator) = (LegUse::default(), LegUse::default());
    for split in &splits.told {
        add(&mut to_target, &split.to_target, ios);
        add(&mut to_initiator, &split.to_initiator, ios);
    }
    let untold = splits.untold.iter();
    BelowSocket {
        recorded: splits.recorded.name().to_owned(),
        ios: splits.told.len() as u64,
        untold: untold
            .map(|(reason, count)| (reason.name().to_owned(), *count))
            .collect(),
        latency_ns: mean(sum(|split| split.latency_ns)),
        initiator_ns: mean(sum(|split| split.initiator_ns)),
        target_ns: mean(sum(|split| split.target_ns)),
        beyond_ns: mean(sum(|split| split.beyond_ns)),
        both_ways: both(to_target.clone(), &to_initiator),
        to_target,
        to_initiator,
        round_trips: mean(sum(|split| u64::from(split.round_trips))),
        uncertain_ns: mean(sum(|split| split.uncertain_ns)),
        stamps,
    }
}

/// Describes the split in a sentence.
#[must_use]
pub fn sentence(below: &BelowSocket) -> String {
    let all: u64 = below.ios + below.untold.values().sum::<u64>();
    let left_out = below.untold.iter().map(|(reason, count)| {
        let reason = super::Untold::ALL
            .into_iter()
            .find(|untold| untold.name() == reason);
        format!("{count} {}", reason.map_or("", super::Untold::in_words))
    });
    let left_out: Vec<String> = left_out.collect();
    if below.ios == 0 {
        return format!(
            "no I/O could be split below the socket: {}",
            left_out.join(", ")
        );
    }
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let both = &below.both_ways;
    let (latency, programs, beyond) = match Recorded::of_name(&below.recorded) {
        Recorded::Both => ("of an I/O", "in the programs", ""),
        Recorded::Initiator => (
            "of an I/O",
            "in the initiator",
            "on the path, both ways, and with the target",
        ),
        Recorded::Target => (
            "from the arrival of an I/O's command to the departure of its answer",
            "in the target",
            "on the path, both ways, and with the initiator",
        ),
    };
    let parts = [
        (programs, below.initiator_ns + below.target_ns),
        ("waiting for room in a send buffer", both.no_room_ns),
        ("in a send buffer for the congestion window", both.cwnd_ns),
        ("in a send buffer for the receive window", both.rwnd_ns),
        ("in a send buffer for Nagle's algorithm", both.nagle_ns),
        ("in a send buffer for nothing that is known", both.other_ns),
        ("in a device's queue", both.device_queue_ns),
        ("on the path", both.path_ns),
        ("in a receive buffer", both.receive_buffer_ns),
        (beyond, below.beyond_ns),
    ];
    // Parts below 0.01 % of the latency are left out.
    let worth = |(_, ns): &&(&str, f64)| *ns >= below.latency_ns / 1e4;
    let parts = parts.iter().filter(worth);
    let parts: Vec<String> = parts
        .map(|(place, ns)| format!("{} {place}", ms(*ns)))
        .collect();
    let reasons = [
        ("as all of the buffer is in flight", both.no_room_buffer_ns),
        (
            "as its bytes wait for the congestion window",
            both.no_room_cwnd_ns,
        ),
        (
            "as its bytes wait for the receive window",
            both.no_room_rwnd_ns,
        ),
    ];
    let reasons = reasons.iter().filter(worth);
    let reasons: Vec<String> = reasons
        .map(|(reason, ns)| format!("{} {reason}", ms(*ns)))
        .collect();
    let mut text = format!(
        "the {} {latency} are {}, by the kernel's stamps of {} of {all} I/Os",
        ms(below.latency_ns),
        parts.join(", "),
        below.ios,
    );
    if !reasons.is_empty() {
        text += &format!("; there is no room for {}", reasons.join(", "));
    }
    if below.uncertain_ns >= below.latency_ns / 100.0 {
        text += &format!(
            "; {} of it may belong to the part beside",
            ms(below.uncertain_ns)
        );
    }
    if let Some((other, program)) = Recorded::of_name(&below.recorded).missing() {
        text += &format!(
            "; only one end is shown, as the {other} has no records here: `wansan {program} --record \
             FOLDER --record-kinds io,pdu,tcp,stamp` on its computer makes them, to be put beside these"
        );
    }
    if !left_out.is_empty() {
        text += &format!("; left out: {}", left_out.join(", "));
    }
    text
}
