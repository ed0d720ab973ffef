//! wansan's form, from first principles: how long the slowest route needs for its share.

use serde::Serialize;

use super::FitError;
use super::grid::Point;

/// Steps of a golden-section search: each keeps 62 % of the interval.
const SEARCH_STEPS: usize = 60;
/// Rounds over all parameters.
const MOST_ROUNDS: usize = 200;
/// A round that improves the error by less than this fraction ends the search.
const LEAST_GAIN: f64 = 1e-12;
/// The most round trips that a share may wait for its window.
const MOST_WAITS: f64 = 8.0;
/// 1 ÷ the golden ratio.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// One of the fitted parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// [`Cycle::send1_s`].
    Send1,
    /// [`Cycle::send2_s`].
    Send2,
    /// The longer of both: a loop is bounded by the narrower route, whichever that is.
    Send,
    /// [`Cycle::waits`].
    Waits,
}

/// How the initiator submits more commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asking {
    /// The next commands when all of the last ones are done.
    Batch,
    /// The next command when one is done, to the connection whose turn it is.
    Loop,
}

/// The initiator's concurrent requests: known from the plan, not fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// How it submits more.
    pub asking: Asking,
    /// Bytes.
    pub bytes: u64,
    /// Commands, which go to the routes in turn.
    pub commands: u64,
}

/// One of the two routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The one with delay D1.
    First,
    /// The one with delay D2.
    Second,
}

/// wansan's form with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cycle {
    /// The initiator's requests.
    pub asked: Asked,
    /// The route of the command that begins a batch, which waits for none. Commands go on in turn from one batch to the
    /// next, so this is chance, and the same for all batches of an even number of commands.
    pub begins: Route,
    /// How long the first route takes to send its half of the bytes, in seconds.
    pub send1_s: f64,
    /// How long the second route takes, in seconds.
    pub send2_s: f64,
    /// Round trips for which a half waits for its congestion window to admit the rest of it: half ÷ window − 1, at
    /// least 0.
    pub waits: f64,
}

impl Asking {
    /// The parameters that the form has.
    pub(super) fn parameters(self) -> &'static [Parameter] {
        match self {
            Asking::Batch => &[Parameter::Send1, Parameter::Send2, Parameter::Waits],
            Asking::Loop => &[Parameter::Send, Parameter::Waits],
        }
    }

    /// How many parameters are fitted, including the choice of the route that begins a batch.
    #[must_use]
    pub fn parameter_count(self) -> usize {
        match self {
            Asking::Batch => 4,
            Asking::Loop => 2,
        }
    }
}

impl Cycle {
    /// Fits the model to cells by least squares of the relative error of the cycle time.
    ///
    /// # Errors
    /// [`FitError::TooFewCells`] when there are not more cells than parameters.
    pub fn fit(points: &[Point], asked: Asked) -> Result<Cycle, FitError> {
        FitError::check(points, asked.asking.parameter_count())?;
        let longest_s = longest_s(points, asked);
        let begin = |begins: Route, send_s: f64| Cycle {
            asked,
            begins,
            send1_s: send_s,
            send2_s: send_s,
            waits: 0.0,
        };
        // The error has several local minima: the slower route changes from cell to cell.
        let starts = [Route::First, Route::Second]
            .map(|begins| [0.05, 0.2, 0.5, 1.0].map(|part| begin(begins, part * longest_s)));
        let best = starts
            .into_iter()
            .flatten()
            .map(|start| start.descend(points, asked.asking.parameters(), longest_s))
            .min_by(|a, b| a.error(points).total_cmp(&b.error(points)));
        best.ok_or(FitError::NoCycle)
    }

    /// Bytes per second at these delays.
    #[must_use]
    pub fn bytes_per_s(&self, point: &Point) -> f64 {
        self.asked.bytes as f64 / self.length_s(point)
    }

    /// How long a cycle takes, in seconds. The target takes commands in CmdSN order (RFC 7143 §4.2.2.1): all but the
    /// first are there once the slower route has delivered its own. Then both routes send, and each needs its one-way
    /// delay and its sending time, less what has been sent before.
    #[must_use]
    pub fn length_s(&self, point: &Point) -> f64 {
        let (d1, d2) = (point.d1_s(), point.d2_s());
        let ordered_s = d1.max(d2);
        let back = |delay: f64, send_s: f64| delay + send_s.max(2.0 * delay * self.waits);
        let (early1_s, early2_s) = self.early_s(point);
        let back1 = back(d1, self.send1_s - early1_s);
        let back2 = back(d2, self.send2_s - early2_s);
        match self.asked.asking {
            Asking::Batch => ordered_s + back1.max(back2),
            // By Little's law: half of the commands in flight, on average, for each route's time. The cycle is at least
            // as long as the narrower route takes to send.
            Asking::Loop => {
                let mean_s = ordered_s + (d1 + d2) / 2.0 + self.waits * (d1 + d2);
                mean_s.max(self.send1_s.max(self.send2_s))
            }
        }
    }

    /// By how much earlier each route is done if the command that begins arrives on the faster one: its data is on the
    /// way before the slower route has delivered the next command. The faster route then has one command less to send,
    /// and the other one, if it has to wait for that route at a shared rate, one command less to wait for.
    fn early_s(&self, point: &Point) -> (f64, f64) {
        let (d1, d2) = (point.d1_s(), point.d2_s());
        // One command's fraction of a half.
        let part = (2.0 / self.asked.commands.max(2) as f64).min(1.0);
        let own_s = part * self.send1_s.min(self.send2_s);
        let waited_s = part * (self.send1_s - self.send2_s);
        match self.begins {
            Route::First => {
                let ahead_s = (d2 - d1).max(0.0);
                (ahead_s.min(own_s), ahead_s.min((-waited_s).max(0.0)))
            }
            Route::Second => {
                let ahead_s = (d1 - d2).max(0.0);
                (ahead_s.min(waited_s.max(0.0)), ahead_s.min(own_s))
            }
        }
    }

    /// Sum of the squared relative errors of the cycle time, as for the published form: a cell that stalled does not
    /// outweigh the others.
    pub(super) fn error(&self, points: &[Point]) -> f64 {
        let error = |point: &Point| point.bytes_per_s / self.bytes_per_s(point) - 1.0;
        points.iter().map(|point| error(point).powi(2)).sum()
    }

    pub(super) fn get(&self, parameter: Parameter) -> f64 {
        match parameter {
            Parameter::Send1 => self.send1_s,
            Parameter::Send2 => self.send2_s,
            Parameter::Send => self.send1_s.max(self.send2_s),
            Parameter::Waits => self.waits,
        }
    }

    /// A copy with another value of one parameter.
    pub(super) fn with(mut self, parameter: Parameter, value: f64) -> Cycle {
        match parameter {
            Parameter::Send1 => self.send1_s = value,
            Parameter::Send2 => self.send2_s = value,
            Parameter::Send => (self.send1_s, self.send2_s) = (value, value),
            Parameter::Waits => self.waits = value,
        }
        self
    }

    /// Minimizes the error by coordinate descent over these parameters. No route sends for longer than `longest_s`.
    pub(super) fn descend(
        mut self,
        points: &[Point],
        parameters: &[Parameter],
        longest_s: f64,
    ) -> Cycle {
        let mut error = self.error(points);
        for _ in 0..MOST_ROUNDS {
            for &parameter in parameters {
                let most = parameter.most(longest_s);
                let at = |value: f64| self.with(parameter, value).error(points);
                let now = self.get(parameter);
                let found = golden_section(&at, 0.0, most);
                // Around the present value too, as the minimum may be narrow.
                let near = golden_section(&at, now * 0.8, (now * 1.25).min(most));
                let best = [now, found, near, 0.0]
                    .into_iter()
                    .min_by(|a, b| at(*a).total_cmp(&at(*b)));
                self = self.with(parameter, best.unwrap_or(now));
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

impl Parameter {
    /// The upper bound of its value.
    pub(super) fn most(self, longest_s: f64) -> f64 {
        match self {
            Parameter::Send1 | Parameter::Send2 | Parameter::Send => longest_s,
            Parameter::Waits => MOST_WAITS,
        }
    }
}

/// The longest measured cycle: no route sends for longer.
pub(super) fn longest_s(points: &[Point], asked: Asked) -> f64 {
    let length_s = |point: &Point| asked.bytes as f64 / point.bytes_per_s;
    points.iter().map(length_s).fold(0.0, f64::max)
}

/// The minimum of a function with a single minimum between two bounds.
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
