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

/// The probability that a parameter is in its range, if the errors of the cells are independent.
const CONFIDENCE: f64 = 0.95;
/// The minimum measurement error of a cell: a form that fits exactly is not known exactly.
const LEAST_ERROR: f64 = 1e-3;
/// Bisection steps for the end of a range.
const HALVINGS: usize = 16;

/// The parameters of wansan's model that the cells determine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// The initiator's requests.
    pub asked: Asked,
    /// The route of the command that begins a batch; null if either would do, or there are no batches.
    pub begins: Option<Route>,
    /// Seconds that the first route takes to send its half; null if the cells do not depend on it, or the form has only
    /// [`Known::send_s`].
    pub send1_s: Option<Estimate>,
    /// Seconds that the second route takes.
    pub send2_s: Option<Estimate>,
    /// Without batches: seconds that the narrower route takes.
    pub send_s: Option<Estimate>,
    /// Round trips for which a half waits for its congestion window.
    pub waits: Option<Estimate>,
}

/// The estimate of one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The best value; null if the cells only show that it is at most `most`.
    pub value: Option<f64>,
    /// The minimum that they allow.
    pub least: f64,
    /// The maximum that they allow.
    pub most: f64,
}

impl Known {
    /// What these cells determine about the form that fits them best.
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
    /// Sum of the squared errors above which the cells reject a fit.
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

    /// Whether the cells allow this value, with the other parameters refitted.
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

    /// The end of the range of allowed values, between the best value and a bound.
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

    /// `None` if every value is allowed.
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
