//! The time below the socket of a cell, in numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::event::{PduDirection, Stamp};
use wansan_trace::file::Table;

use super::{Leg, Recorded, Splits, splits};
use crate::cell::Cell;
use crate::window::Window;

/// Parts of the way from one program to the other, means over I/Os in ns; see [`Leg`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LegUse {
    /// [`Leg::no_room_ns`].
    pub no_room_ns: f64,
    /// [`Leg::no_room_buffer_ns`], a part of it.
    #[serde(default)]
    pub no_room_buffer_ns: f64,
    /// [`Leg::no_room_cwnd_ns`], a part of it.
    #[serde(default)]
    pub no_room_cwnd_ns: f64,
    /// [`Leg::no_room_rwnd_ns`], a part of it.
    #[serde(default)]
    pub no_room_rwnd_ns: f64,
    /// [`Leg::cwnd_ns`].
    pub cwnd_ns: f64,
    /// [`Leg::rwnd_ns`].
    pub rwnd_ns: f64,
    /// [`Leg::nagle_ns`].
    pub nagle_ns: f64,
    /// [`Leg::other_ns`].
    pub other_ns: f64,
    /// [`Leg::device_queue_ns`].
    pub device_queue_ns: f64,
    /// [`Leg::path_ns`].
    pub path_ns: f64,
    /// [`Leg::receive_buffer_ns`].
    pub receive_buffer_ns: f64,
}

impl LegUse {
    fn add(&mut self, leg: &Leg, ios: f64) {
        let parts = [
            (&mut self.no_room_ns, leg.no_room_ns),
            (&mut self.no_room_buffer_ns, leg.no_room_buffer_ns),
            (&mut self.no_room_cwnd_ns, leg.no_room_cwnd_ns),
            (&mut self.no_room_rwnd_ns, leg.no_room_rwnd_ns),
            (&mut self.cwnd_ns, leg.cwnd_ns),
            (&mut self.rwnd_ns, leg.rwnd_ns),
            (&mut self.nagle_ns, leg.nagle_ns),
            (&mut self.other_ns, leg.other_ns),
            (&mut self.device_queue_ns, leg.device_queue_ns),
            (&mut self.path_ns, leg.path_ns),
            (&mut self.receive_buffer_ns, leg.receive_buffer_ns),
        ];
        for (sum, ns) in parts {
            *sum += ns as f64 / ios;
        }
    }

    fn plus(mut self, other: &LegUse) -> LegUse {
        let parts = [
            (&mut self.no_room_ns, other.no_room_ns),
            (&mut self.no_room_buffer_ns, other.no_room_buffer_ns),
            (&mut self.no_room_cwnd_ns, other.no_room_cwnd_ns),
            (&mut self.no_room_rwnd_ns, other.no_room_rwnd_ns),
            (&mut self.cwnd_ns, other.cwnd_ns),
            (&mut self.rwnd_ns, other.rwnd_ns),
            (&mut self.nagle_ns, other.nagle_ns),
            (&mut self.other_ns, other.other_ns),
            (&mut self.device_queue_ns, other.device_queue_ns),
            (&mut self.path_ns, other.path_ns),
            (&mut self.receive_buffer_ns, other.receive_buffer_ns),
        ];
        for (sum, ns) in parts {
            *sum += ns;
        }
        self
    }

    /// In the send buffer, whatever for.
    #[must_use]
    pub fn send_buffer_ns(&self) -> f64 {
        self.cwnd_ns + self.rwnd_ns + self.nagle_ns + self.other_ns
    }
}

impl Recorded {
    /// The end that has recorded nothing, and the program that would.
    fn missing(self) -> Option<(&'static str, &'static str)> {
        match self {
            Recorded::Both => None,
            Recorded::Initiator => Some(("target", "target")),
            Recorded::Target => Some(("initiator", "bench")),
        }
    }
}

/// How many calls the programs made on their sockets, and how many of them have no stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StampCount {
    /// Calls that gave bytes.
    pub sends: u64,
    /// Those without a time at the device: the kernel gave the stamp to a later call whose bytes are in
    /// the same segment, or lost it.
    pub sends_unstamped: u64,
    /// Calls that took bytes.
    pub receives: u64,
    /// Those without a time of arrival.
    pub receives_unstamped: u64,
}

impl StampCount {
    fn of(table: &Table<Stamp>, window: Window) -> StampCount {
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
}

/// Where the latency of a cell's I/Os goes, told from the kernel's stamps. Times are means over the
/// I/Os that were split, in ns; they add up to `latency_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BelowSocket {
    /// Whose records it is told from.
    #[serde(default)]
    pub recorded: Recorded,
    /// I/Os that were split.
    pub ios: u64,
    /// Those that were not, by the reason; see [`super::Untold`].
    pub untold: BTreeMap<String, u64>,
    /// The latency of those that were split.
    pub latency_ns: f64,
    /// In the initiator's program.
    pub initiator_ns: f64,
    /// In the target's program.
    pub target_ns: f64,
    /// Beyond the only end that has recorded it; see [`super::Split::beyond_ns`].
    #[serde(default)]
    pub beyond_ns: f64,
    /// Both ways together.
    pub both_ways: LegUse,
    /// On the way to the target.
    pub to_target: LegUse,
    /// On the way to the initiator.
    pub to_initiator: LegUse,
    /// Round trips of an I/O.
    pub round_trips: f64,
    /// How much may belong to a part beside the one that it is counted to.
    pub uncertain_ns: f64,
    /// The stamps that it is told from.
    pub stamps: StampCount,
}

impl BelowSocket {
    /// Of the I/Os of `cell` that were completed in `window`; `None` when stamps or PDUs were not
    /// recorded, or no I/O was completed.
    #[must_use]
    pub fn of(cell: &Cell, window: Window) -> Option<BelowSocket> {
        let splits = splits(cell, window)?;
        let stamps = StampCount::of(cell.stamp.as_ref()?, window);
        (!splits.told.is_empty() || !splits.untold.is_empty())
            .then(|| BelowSocket::from_splits(&splits, stamps))
    }

    /// Of these I/Os.
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
            to_target.add(&split.to_target, ios);
            to_initiator.add(&split.to_initiator, ios);
        }
        let untold = splits.untold.iter();
        BelowSocket {
            recorded: splits.recorded,
            ios: splits.told.len() as u64,
            untold: untold
                .map(|(reason, count)| (reason.name().to_owned(), *count))
                .collect(),
            latency_ns: mean(sum(|split| split.latency_ns)),
            initiator_ns: mean(sum(|split| split.initiator_ns)),
            target_ns: mean(sum(|split| split.target_ns)),
            beyond_ns: mean(sum(|split| split.beyond_ns)),
            both_ways: to_target.plus(&to_initiator),
            to_target,
            to_initiator,
            round_trips: mean(sum(|split| u64::from(split.round_trips))),
            uncertain_ns: mean(sum(|split| split.uncertain_ns)),
            stamps,
        }
    }

    /// The split in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let all: u64 = self.ios + self.untold.values().sum::<u64>();
        let left_out = self.untold.iter().map(|(reason, count)| {
            let reason = super::Untold::ALL
                .into_iter()
                .find(|untold| untold.name() == reason);
            format!("{count} {}", reason.map_or("", super::Untold::in_words))
        });
        let left_out: Vec<String> = left_out.collect();
        if self.ios == 0 {
            return format!(
                "no I/O could be split below the socket: {}",
                left_out.join(", ")
            );
        }
        let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
        let both = &self.both_ways;
        let (latency, programs, beyond) = match self.recorded {
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
            (programs, self.initiator_ns + self.target_ns),
            ("waiting for room in a send buffer", both.no_room_ns),
            ("in a send buffer for the congestion window", both.cwnd_ns),
            ("in a send buffer for the receive window", both.rwnd_ns),
            ("in a send buffer for Nagle's algorithm", both.nagle_ns),
            ("in a send buffer for nothing that is known", both.other_ns),
            ("in a device's queue", both.device_queue_ns),
            ("on the path", both.path_ns),
            ("in a receive buffer", both.receive_buffer_ns),
            (beyond, self.beyond_ns),
        ];
        // What takes a hundredth of a part in a hundred is not worth a reader's time.
        let worth = |(_, ns): &&(&str, f64)| *ns >= self.latency_ns / 1e4;
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
            ms(self.latency_ns),
            parts.join(", "),
            self.ios,
        );
        if !reasons.is_empty() {
            text += &format!("; there is no room for {}", reasons.join(", "));
        }
        if self.uncertain_ns >= self.latency_ns / 100.0 {
            text += &format!(
                "; {} of it may belong to the part beside",
                ms(self.uncertain_ns)
            );
        }
        if let Some((other, program)) = self.recorded.missing() {
            text += &format!(
                "; only one end is told, as the {other} has no records here: `wansan {program} --record \
                 FOLDER --record-kinds io,pdu,tcp,stamp` on its computer makes them, to be put beside these"
            );
        }
        if !left_out.is_empty() {
            text += &format!("; left out: {}", left_out.join(", "));
        }
        text
    }
}
