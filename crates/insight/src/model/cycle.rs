//! Our form, from first principles: how long the slowest route needs for its share.

use serde::Serialize;

use super::FitError;
use super::grid::Point;

/// Steps of a golden-section search: each keeps 62 % of the interval.
const SEARCH_STEPS: usize = 60;
/// Rounds over all parameters.
const MOST_ROUNDS: usize = 200;
/// A round that improves the error by less than this part ends the search.
const LEAST_GAIN: f64 = 1e-12;
/// Most round trips that a share may wait for its window.
const MOST_WAITS: f64 = 8.0;
/// 1 ÷ the golden ratio.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// One of the numbers that are fitted.
type Parameter = fn(&mut Cycle) -> &mut f64;

/// How the initiator asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asking {
    /// The next commands when all of the last are done.
    Batch,
    /// The next command when one is done, to the connection whose turn it is.
    Loop,
}

/// Our form with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cycle {
    /// How the initiator asks.
    pub asking: Asking,
    /// Bytes that it has asked for at once: known from the plan, not fitted.
    pub asked_bytes: f64,
    /// What the first route needs to send its half of them, in seconds.
    pub send1_s: f64,
    /// What the second route needs, in seconds.
    pub send2_s: f64,
    /// Round trips for which a half waits until its congestion window lets the rest of it go:
    /// half ÷ window − 1, and not less than 0.
    pub waits: f64,
}

impl Cycle {
    /// How many numbers are fitted.
    pub const PARAMETERS: usize = 3;

    /// Fits the form to cells by least squares of the relative error of the cycle's length.
    ///
    /// # Errors
    /// [`FitError::TooFewCells`] when there are not more cells than parameters.
    pub fn fit(points: &[Point], asking: Asking, asked_bytes: u64) -> Result<Cycle, FitError> {
        if points.len() < Cycle::PARAMETERS {
            return Err(FitError::TooFewCells {
                cells: points.len(),
            });
        }
        let longest_s = points
            .iter()
            .map(|point| asked_bytes as f64 / point.bytes_per_s)
            .fold(0.0, f64::max);
        let begin = |send_s: f64| Cycle {
            asking,
            asked_bytes: asked_bytes as f64,
            send1_s: send_s,
            send2_s: send_s,
            waits: 0.0,
        };
        // The error has more than one hollow: the slower route changes from cell to cell.
        let starts = [0.05, 0.2, 0.5, 1.0].map(|part| begin(part * longest_s));
        let fitted = starts.map(|start| start.descend(points, longest_s));
        let best = fitted
            .into_iter()
            .min_by(|a, b| a.error(points).total_cmp(&b.error(points)));
        best.ok_or(FitError::NoCycle)
    }

    /// Bytes per second at these delays.
    #[must_use]
    pub fn bytes_per_s(&self, point: &Point) -> f64 {
        self.asked_bytes / self.length_s(point)
    }

    /// How long a cycle takes, in seconds. The target takes commands in the order of their CmdSNs
    /// (RFC 7143 §4.2.2.1): all but the first are there when the slower route has brought its own.
    /// Then both routes send, and each needs its one-way delay and its time to send.
    #[must_use]
    pub fn length_s(&self, point: &Point) -> f64 {
        let (d1, d2) = (point.d1_s(), point.d2_s());
        let ordered_s = d1.max(d2);
        let back = |delay: f64, send_s: f64| delay + send_s.max(2.0 * delay * self.waits);
        let (back1, back2) = (back(d1, self.send1_s), back(d2, self.send2_s));
        match self.asking {
            Asking::Batch => ordered_s + back1.max(back2),
            // By Little's law: half of the commands under way, on average, for each route's time.
            // No more passes than the narrower route can send.
            Asking::Loop => {
                let mean_s = ordered_s + (d1 + d2) / 2.0 + self.waits * (d1 + d2);
                mean_s.max(self.send1_s.max(self.send2_s))
            }
        }
    }

    /// Sum of the squared relative errors of the cycle's length, as the published form is fitted: a
    /// cell that stalled does not outweigh the others.
    fn error(&self, points: &[Point]) -> f64 {
        let error = |point: &Point| point.bytes_per_s / self.bytes_per_s(point) - 1.0;
        points.iter().map(|point| error(point).powi(2)).sum()
    }

    /// Goes downhill, one parameter after the other.
    fn descend(mut self, points: &[Point], longest_s: f64) -> Cycle {
        let parameters: [(Parameter, f64); Cycle::PARAMETERS] = [
            (|cycle| &mut cycle.send1_s, longest_s),
            (|cycle| &mut cycle.send2_s, longest_s),
            (|cycle| &mut cycle.waits, MOST_WAITS),
        ];
        let mut error = self.error(points);
        for _ in 0..MOST_ROUNDS {
            for (parameter, most) in parameters {
                let present = self;
                let at = |value: f64| {
                    let mut tried = present;
                    *parameter(&mut tried) = value;
                    tried.error(points)
                };
                let now = *parameter(&mut self);
                let found = golden_section(&at, 0.0, most);
                // Around the present value too: the hollow may be narrow.
                let near = golden_section(&at, now * 0.8, (now * 1.25).min(most));
                let best = [now, found, near, 0.0]
                    .into_iter()
                    .min_by(|a, b| at(*a).total_cmp(&at(*b)));
                *parameter(&mut self) = best.unwrap_or(now);
            }
            let improved = self.error(points);
            if error - improved <= LEAST_GAIN * error {
                break;
            }
            error = improved;
        }
        self
    }
}

/// Where a function with one hollow between two bounds is least.
fn golden_section(function: &dyn Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..SEARCH_STEPS {
        let width = (high - low) * GOLDEN;
        let (left, right) = (high - width, low + width);
        if function(left) <= function(right) {
            high = right;
        } else {
            low = left;
        }
    }
    f64::midpoint(low, high)
}
