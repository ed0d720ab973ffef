//! The kinds of rounds: which faults come when.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::proxy::{Cut, Direction, Fault, Harm};

/// What a round is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Each connection is killed, at any byte and in any way.
    Killed,
    /// Of several routes with a session each, one and then another dies without a word and comes back to life, before
    /// the initiator has noticed or after.
    Resurrected,
    /// Nothing passes for this long.
    Held(Duration),
    /// Bytes are changed, with digests on.
    Corrupted,
    /// The target is killed with SIGKILL and started again.
    Restarted,
    /// The same, and again as soon as it works, while the connections of several are coming back.
    RestartedTwice,
}

/// What happens in a round.
#[derive(Debug)]
pub(crate) enum Step {
    /// The proxy strikes a connection.
    Strike(Fault),
    /// The path is black-holed for this long.
    Hold(Duration),
    /// Nothing for this long.
    Wait(Duration),
    /// What silent connections have kept comes after all.
    Release,
    /// The target is killed, and is back after this long.
    Restart(Duration),
}

/// A round's steps, each with the number of writes that are acknowledged before it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// In the order of the writes.
    pub(crate) steps: Vec<(u64, Step)>,
    /// How many writes the caller makes at least.
    pub(crate) writes: u64,
    /// The caller goes away with writes in flight, together with the target.
    pub(crate) is_abandoned: bool,
}

/// Writes of a round, but for what it takes until the last fault has struck.
const WRITES: u64 = 500;

impl Kind {
    /// Whether the disk must outlive its target.
    pub(crate) fn needs_a_file(self) -> bool {
        matches!(self, Kind::Restarted | Kind::RestartedTwice)
    }

    /// Whether digests must be on.
    pub(crate) fn needs_digests(self) -> bool {
        self == Kind::Corrupted
    }

    /// Whether there must be several routes with a session each.
    pub(crate) fn needs_routes(self) -> bool {
        self == Kind::Resurrected
    }

    /// Whether the session must have several connections, each of which is recovered alone.
    pub(crate) fn needs_level_2(self) -> bool {
        self == Kind::RestartedTwice
    }

    /// Draws what happens to a session of `connections` connections, or to as many sessions.
    pub(crate) fn draw(
        self,
        random: &mut Pcg64Mcg,
        connections: usize,
        is_multipath: bool,
    ) -> Plan {
        let mut below = |bound: u64| random.next_u64() % bound;
        // A route that is not needed carries little, and a fault far ahead on it would be long in coming.
        let most_bytes = match is_multipath {
            true => 1 << 12,
            false => u64::MAX,
        };
        let mut steps = Vec::new();
        let mut is_abandoned = false;
        // The first faults meet a caller that has all its writes in flight.
        match self {
            Kind::Killed => {
                for pick in 0..connections as u64 {
                    let at = 50 + below(300);
                    let cut = [Cut::Reset, Cut::Finish, Cut::Silence][below(3) as usize];
                    let fault = fault(&mut below, most_bytes, pick, Harm::Cut(cut));
                    steps.push((at, Step::Strike(fault)));
                    if cut == Cut::Silence {
                        steps.push((at + 1 + below(200), Step::Release));
                    }
                }
            }
            Kind::Resurrected => {
                for round in 0..2 {
                    let at = 50 + 400 * round + below(300);
                    let pick = below(64);
                    let fault = fault(&mut below, most_bytes, pick, Harm::Cut(Cut::Silence));
                    let time = Duration::from_millis(500 + below(9_000));
                    steps.push((at, Step::Strike(fault)));
                    steps.push((at, Step::Wait(time)));
                    steps.push((at, Step::Release));
                }
            }
            Kind::Held(time) => steps.push((50 + below(300), Step::Hold(time))),
            Kind::Corrupted => {
                for _ in 0..1 + below(6) {
                    let at = 50 + below(300);
                    let pattern = 1 + below(255) as u8;
                    let pick = below(64);
                    let fault = fault(&mut below, most_bytes, pick, Harm::Corrupt(pattern));
                    steps.push((at, Step::Strike(fault)));
                }
            }
            Kind::Restarted => {
                for _ in 0..1 + below(3) {
                    let down = Duration::from_millis(below(1000));
                    steps.push((50 + below(400), Step::Restart(down)));
                }
                is_abandoned = below(4) == 0;
            }
            Kind::RestartedTwice => {
                for at in [100, 101] {
                    let down = Duration::from_millis(below(400));
                    steps.push((at, Step::Restart(down)));
                }
            }
        }
        steps.sort_by_key(|(at, _)| *at);
        Plan {
            steps,
            writes: WRITES,
            is_abandoned,
        }
    }
}

/// At any byte of the next few hundred KiB, or of that many.
fn fault(below: &mut impl FnMut(u64) -> u64, at_most_bytes: u64, pick: u64, harm: Harm) -> Fault {
    let direction = [Direction::ToTarget, Direction::ToInitiator][below(2) as usize];
    // Most of what goes to the initiator are headers.
    let most_bytes = match direction {
        Direction::ToTarget => 1 << 18,
        Direction::ToInitiator => 1 << 15,
    };
    Fault {
        pick,
        direction,
        after_bytes: below(at_most_bytes.min(most_bytes)),
        harm,
    }
}
