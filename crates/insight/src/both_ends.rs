//! The same I/Os at both ends of a path: their time on the path in each direction, and at the target.
//!
//! The time from a command's arrival at the target's end to its response's departure there is the target's, on one
//! clock; the rest of the latency at the initiator's end is the path's. Its split into directions depends on the
//! clock offset, which the I/Os themselves bound ([`crate::clock`]): each arrived after it had left.

use foldhash::{HashMap, HashMapExt as _};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wansan_trace::Instant;

use crate::capture::Capture;
use crate::clock::{Bound, Estimate};

/// An I/O as it passed a capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedIo {
    /// The initiator's address and port.
    pub initiator: SocketAddr,
    /// The target's address and port.
    pub target: SocketAddr,
    /// Its Initiator Task Tag.
    pub tag: u32,
    /// Its CmdSN.
    pub cmd_sn: u32,
    /// When the last byte of its command's header passed, in ns of the capture point's clock.
    pub command_ns: u64,
    /// When the first byte of its answer passed, in the same clock.
    pub answer_ns: u64,
}

/// The latency of I/Os between two capture points, as means over those seen at both, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BothEnds {
    /// Number of I/Os seen at both points.
    pub ios: u64,
    /// From the command to its answer at the initiator's end.
    pub latency_ns: f64,
    /// On the way to the target's end.
    pub there_ns: f64,
    /// Beyond the target's end.
    pub target_ns: f64,
    /// On the way back.
    pub back_ns: f64,
    /// How much of `there_ns` may belong to `back_ns`, or the reverse, due to the uncertainty of the clock offset.
    pub between_ns: u64,
    /// How far the clock at the target's end is ahead of the one at the initiator's end, in ns.
    pub ahead_ns: i64,
    /// How much it gains on the one at the initiator's end, in ns per second.
    pub drift_ppb: f64,
    /// Whether the first argument of [`join`] is the target's end.
    pub is_turned: bool,
}

impl Capture {
    /// Its I/Os as they passed the capture point.
    #[must_use]
    pub fn passed_ios(&self) -> Vec<PassedIo> {
        let ends: HashMap<_, _> = self
            .cell
            .carriers
            .iter()
            .map(|of| ((of.session, of.connection), (of.initiator, of.target)))
            .collect();
        let commands = self.commands().iter();
        let passed = commands.filter_map(|command| {
            let task = &self.cell.joined.tasks[command.task];
            let (initiator, target) = *ends.get(&(task.session, task.connection))?;
            let [command_ns, answer_ns] = command.passed_ns;
            Some(PassedIo {
                initiator,
                target,
                tag: command.tag.0,
                cmd_sn: command.cmd_sn,
                command_ns: command_ns?,
                answer_ns: answer_ns?,
            })
        });
        passed.collect()
    }
}

/// Joins the I/Os seen at two points, in either order. `None` if they saw no I/O in common, or if their clocks were
/// set meanwhile.
#[must_use]
pub fn join(one: &[PassedIo], other: &[PassedIo]) -> Option<BothEnds> {
    let mut known: HashMap<_, _> = HashMap::new();
    for io in one {
        known.insert((io.initiator, io.target, io.tag, io.cmd_sn), io);
    }
    let pairs = other.iter().filter_map(|io| {
        let twin = known.get(&(io.initiator, io.target, io.tag, io.cmd_sn))?;
        Some((**twin, *io))
    });
    let pairs: Vec<(PassedIo, PassedIo)> = pairs.collect();
    let took_ns = |io: &PassedIo| io.answer_ns.saturating_sub(io.command_ns);
    let [first_ns, second_ns] = [
        pairs.iter().map(|(io, _)| took_ns(io)).sum::<u64>(),
        pairs.iter().map(|(_, io)| took_ns(io)).sum::<u64>(),
    ];
    // The latency is higher at the initiator's end: only there does it include the path.
    let is_turned = first_ns < second_ns;
    let pairs = pairs.into_iter();
    let pairs: Vec<(PassedIo, PassedIo)> = pairs
        .map(|(io, other)| if is_turned { (other, io) } else { (io, other) })
        .collect();
    let at = Instant::from_ns;
    let bounds: Vec<Bound> = pairs
        .iter()
        .map(|(outer, inner)| {
            Bound::of_inner(
                [outer.command_ns, outer.answer_ns].map(at),
                [inner.command_ns, inner.answer_ns].map(at),
            )
        })
        .collect();
    let estimate = Estimate::from_bounds(&bounds)?;
    let mean = |of: &dyn Fn(&(PassedIo, PassedIo)) -> f64| {
        pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64
    };
    let latency_ns = mean(&|(outer, _)| took_ns(outer) as f64);
    let target_ns = mean(&|(_, inner)| took_ns(inner) as f64).min(latency_ns);
    let there_ns = mean(&|(outer, inner)| {
        let came_ns = estimate.clock.here(at(inner.command_ns)).ns();
        came_ns as f64 - outer.command_ns as f64
    });
    let path_ns = latency_ns - target_ns;
    let there_ns = there_ns.clamp(0.0, path_ns);
    Some(BothEnds {
        ios: pairs.len() as u64,
        latency_ns,
        there_ns,
        target_ns,
        back_ns: path_ns - there_ns,
        between_ns: estimate.error_ns,
        ahead_ns: estimate.clock.ahead_ns,
        drift_ppb: estimate.clock.drift_ppb,
        is_turned,
    })
}

impl BothEnds {
    /// Says whether path or target took most of the time, in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let ms = |ns: f64| format!("{:.2} ms", ns / 1e6);
        let path_ns = self.there_ns + self.back_ns;
        let (who, had_ns) = match path_ns > self.target_ns {
            true => ("path", path_ns),
            false => ("target", self.target_ns),
        };
        format!(
            "Both ends saw {} I/Os: the {who} takes {:.0} % of the {} from command to response: {} to the target, {} at \
             the target and {} back; the clock offset leaves up to {} of uncertainty between the two directions.",
            self.ios,
            100.0 * had_ns / self.latency_ns.max(1.0),
            ms(self.latency_ns),
            ms(self.there_ns),
            ms(self.target_ns),
            ms(self.back_ns),
            ms(self.between_ns as f64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// How far the target's clock is ahead.
    const AHEAD_NS: u64 = 5_000_000 * MS;

    /// I/Os with 4 ms to the target, 10 to 12 ms at the target and 3 ms back, and a few that one end did not see.
    fn both() -> [Vec<PassedIo>; 2] {
        let io = |number: u32, command_ns, answer_ns| PassedIo {
            initiator: ([10, 0, 0, 1], 40_000).into(),
            target: ([10, 0, 0, 2], 3260).into(),
            // Tags are reused.
            tag: number % 8,
            cmd_sn: number,
            command_ns,
            answer_ns,
        };
        let each = (0..200_u32).map(|number| {
            let sent_ns = u64::from(number) * 20 * MS + MS;
            let at_target_ns = (10 + u64::from(number % 3)) * MS;
            let came_ns = sent_ns + 4 * MS;
            let left_ns = came_ns + at_target_ns;
            let outer = io(number, sent_ns, left_ns + 3 * MS);
            (outer, io(number, came_ns + AHEAD_NS, left_ns + AHEAD_NS))
        });
        let (outer, inner): (Vec<_>, Vec<_>) = each.unzip();
        [outer[5..].to_vec(), inner[..190].to_vec()]
    }

    #[test]
    fn what_the_path_took_and_what_the_target_did_are_told_apart() {
        let [outer, inner] = both();
        let joined = join(&outer, &inner).unwrap();
        assert_eq!((joined.ios, joined.is_turned), (185, false));
        let is = |ns: f64, ms: f64| (ns / 1e6 - ms).abs() < 0.02;
        assert!(is(joined.target_ns, 11.0), "{joined:?}");
        assert!(is(joined.there_ns + joined.back_ns, 7.0), "{joined:?}");
        // The clocks leave the split between the two directions uncertain.
        let wrong_ns = (joined.there_ns - 4e6).abs();
        assert!(wrong_ns <= joined.between_ns as f64, "{joined:?}");
        assert!(joined.ahead_ns.abs_diff(AHEAD_NS as i64) <= joined.between_ns);
        assert!(joined.sentence().contains("the target takes"));
    }

    #[test]
    fn which_end_is_which_shows() {
        let [outer, inner] = both();
        let [straight, turned] = [join(&outer, &inner), join(&inner, &outer)].map(Option::unwrap);
        assert!(turned.is_turned);
        assert!((turned.target_ns - straight.target_ns).abs() < 1.0);
        assert!(join(&outer, &[]).is_none());
    }
}
