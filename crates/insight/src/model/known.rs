//! Confidence ranges of the parameters of wansan's model.
//!
//! A parameter can have no effect on any cell: the time of a route that is never the slower one, or
//! waits that are always shorter than sending. The fit still finds some value for it, which means nothing.
//! So each parameter is moved away from its best value, with the others refitted,
//! until the cells reject it (profile likelihood, by an F test at 95 %).

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::cycle::{Asked, Cycle, Parameter, Route, longest_s};
use super::grid::Point;

/// The probability that a parameter is in its range, if the cells' errors are independent.
const CONFIDENCE: f64 = 0.95;
/// No cell is measured better than to this part: a form that fits exactly is not known exactly.
const LEAST_ERROR: f64 = 1e-3;
/// Halvings of the stretch in which the end of a range lies.
const HALVINGS: usize = 16;

/// The parameters of wansan's model that the cells determine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// The initiator's requests.
    pub asked: Asked,
    /// The route of the command that begins a batch; null when either would do, and where nothing
    /// comes in batches.
    pub begins: Option<Route>,
    /// Seconds that the first route needs to send its half; null when it makes no difference to the
    /// cells, or the form has only [`Known::send_s`].
    pub send1_s: Option<Estimate>,
    /// Seconds that the second route needs.
    pub send2_s: Option<Estimate>,
    /// Without batches: seconds that the narrower route needs.
    pub send_s: Option<Estimate>,
    /// Round trips for which a half waits for its congestion window.
    pub waits: Option<Estimate>,
}

/// One number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The best value; null when the cells only say that it is no more than `most`.
    pub value: Option<f64>,
    /// Least value that they allow.
    pub least: f64,
    /// Most.
    pub most: f64,
}

impl Known {
    /// What these cells determine of the form that fits them best.
    #[must_use]
    pub fn of(best: &Cycle, points: &[Point]) -> Known {
        let form = best.asked.asking;
        let freedom = points.len() as f64 - form.parameter_count() as f64;
        let variance = (best.error(points) / freedom.max(1.0)).max(LEAST_ERROR.powi(2));
        let t = StudentsT::new(0.0, 1.0, freedom.max(1.0)).expect("there is a degree of freedom");
        let quantile = t.inverse_cdf(f64::midpoint(1.0, CONFIDENCE));
        let profile = Profile {
            best: *best,
            points,
            most_error: best.error(points) + quantile.powi(2) * variance,
        };
        let estimate = |parameter| {
            let has_it = form.parameters().contains(&parameter);
            has_it.then(|| profile.estimate(parameter)).flatten()
        };
        let other = match best.begins {
            Route::First => Route::Second,
            Route::Second => Route::First,
        };
        let by_other = profile.fitted(
            Cycle {
                begins: other,
                ..*best
            },
            form.parameters(),
        );
        Known {
            asked: best.asked,
            begins: (!profile.allows(&by_other)).then_some(best.begins),
            send1_s: estimate(Parameter::Send1),
            send2_s: estimate(Parameter::Send2),
            send_s: estimate(Parameter::Send),
            waits: estimate(Parameter::Waits),
        }
    }
}

/// How the error grows away from the best fit.
struct Profile<'a> {
    best: Cycle,
    points: &'a [Point],
    /// Sum of the squared errors beyond which the cells speak against a fit.
    most_error: f64,
}

impl Profile<'_> {
    fn allows(&self, cycle: &Cycle) -> bool {
        cycle.error(self.points) <= self.most_error
    }

    fn fitted(&self, start: Cycle, parameters: &[Parameter]) -> Cycle {
        let longest_s = longest_s(self.points, start.asked);
        start.descend(self.points, parameters, longest_s)
    }

    /// Whether the cells allow this value, whatever the others are then.
    fn allows_value(&self, parameter: Parameter, value: f64) -> bool {
        let all = self.best.asked.asking.parameters().iter();
        let others: Vec<Parameter> = all.copied().filter(|one| *one != parameter).collect();
        [Route::First, Route::Second].into_iter().any(|begins| {
            let start = Cycle {
                begins,
                ..self.best
            }
            .with(parameter, value);
            self.allows(&start) || self.allows(&self.fitted(start, &others))
        })
    }

    /// The end of the values that the cells allow, between one that they do and a bound.
    fn end(&self, parameter: Parameter, bound: f64) -> f64 {
        let mut allowed = self.best.get(parameter);
        if self.allows_value(parameter, bound) {
            return bound;
        }
        let mut refused = bound;
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(allowed, refused);
            if self.allows_value(parameter, middle) {
                allowed = middle;
            } else {
                refused = middle;
            }
        }
        allowed
    }

    /// Nothing when every value is allowed.
    fn estimate(&self, parameter: Parameter) -> Option<Estimate> {
        let bound = parameter.most(longest_s(self.points, self.best.asked));
        let (least, most) = (self.end(parameter, 0.0), self.end(parameter, bound));
        let value = self.best.get(parameter);
        (most < bound || least > 0.0).then_some(Estimate {
            value: (least > 0.0).then_some(value),
            least,
            most,
        })
    }
}
