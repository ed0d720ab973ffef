//! Which routes are worth taking where requests are done in the order in which they were sent, as in a session.

use core::ops::RangeInclusive;

use crate::lane::Pipe;

/// What several routes have to bring more than one of them.
const MORE: f64 = 1.05;

/// The lengths in ns of the pipes that are worth taking with so many bytes under way in all, of a route or of several.
///
/// What one sends waits for what was sent before it over a longer one. So with as many always under way, all of them take
/// the longest one's length, and more where its rate, or the sum of all rates, needs more for them.
#[must_use]
pub fn worth_taking_ns(pipes: &mut [Pipe], bytes: u64) -> RangeInclusive<f64> {
    pipes.sort_by(|one, other| one.length_ns.total_cmp(&other.length_ns));
    let (mut least_ns, mut worth) = (f64::INFINITY, 0.0..=f64::INFINITY);
    let Some(shortest_ns) = pipes.first().map(|pipe| pipe.length_ns) else {
        return worth;
    };
    let mut sum = 0.0;
    for pipe in pipes {
        let length_ns = pipe.length_ns;
        let takes_ns = |rate: f64| length_ns.max(bytes as f64 / rate);
        sum += pipe.bytes_per_ns;
        let one = (takes_ns(pipe.bytes_per_ns), length_ns..=length_ns);
        let all = (takes_ns(sum) * MORE, shortest_ns..=length_ns);
        for (takes_ns, lengths) in [one, all] {
            if takes_ns < least_ns {
                (least_ns, worth) = (takes_ns, lengths);
            }
        }
    }
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Pipe = Pipe {
        length_ns: 2e6,
        bytes_per_ns: 0.025,
    };
    const FAR: Pipe = Pipe {
        length_ns: 32e6,
        bytes_per_ns: 0.0125,
    };

    fn worth<const N: usize>(mut pipes: [Pipe; N], bytes: u64) -> RangeInclusive<f64> {
        worth_taking_ns(&mut pipes, bytes)
    }

    #[test]
    fn a_longer_pipe_is_worth_taking_once_the_shorter_one_needs_as_long() {
        assert_eq!(worth([FAR, NEAR], 4096), 2e6..=2e6);
        assert_eq!(worth([FAR, NEAR], 800_000), 2e6..=2e6);
        assert_eq!(worth([FAR, NEAR], 900_000), 2e6..=32e6);
        assert_eq!(worth([NEAR, NEAR], 900_000), 2e6..=2e6);
    }

    #[test]
    fn a_shorter_pipe_is_not_worth_taking_where_the_longer_one_is_wide_enough() {
        let narrow = Pipe {
            bytes_per_ns: 0.001,
            ..NEAR
        };
        assert_eq!(worth([narrow, FAR], 60_000), 32e6..=32e6);
        assert_eq!(worth([narrow, FAR], 4096), 2e6..=2e6);
        assert_eq!(worth([narrow, FAR], 1_000_000), 2e6..=32e6);
    }

    #[test]
    fn what_is_not_known_is_left_open() {
        assert_eq!(worth([], 4096), 0.0..=f64::INFINITY);
    }
}
