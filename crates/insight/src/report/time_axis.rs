//! One time axis for all samples of a cell, in few enough steps to be drawn.

use serde::Serialize;
use wansan_trace::Instant;

use crate::population::Population;
use crate::window::Window;

/// Values on a [`TimeAxis`], one for each step; `None` where nothing was recorded.
pub type Samples = Vec<Option<f64>>;

/// Equal steps over the recorded time; 0 s is where measuring began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeAxis {
    /// Where the first step begins.
    pub from_s: f64,
    /// How long each step is.
    pub step_s: f64,
    /// How many steps there are.
    pub steps: usize,
    /// Where measuring ended.
    pub measured_s: f64,
    #[serde(skip)]
    records: Window,
    #[serde(skip)]
    step_ns: u64,
}

impl TimeAxis {
    /// The axis over `records`, around what was `measured`, in at most `most` steps; `None` when
    /// the records have no length.
    #[must_use]
    pub fn new(most: usize, records: Window, measured: Window) -> Option<TimeAxis> {
        let length_ns = records.length_ns();
        if length_ns == 0 {
            return None;
        }
        let step_ns = length_ns.div_ceil(most as u64);
        let seconds = |time_ns: u64| (time_ns as f64 - measured.from_ns as f64) / 1e9;
        Some(TimeAxis {
            from_s: seconds(records.from_ns),
            step_s: step_ns as f64 / 1e9,
            // At most `most`.
            steps: length_ns.div_ceil(step_ns) as usize,
            measured_s: seconds(measured.to_ns),
            records,
            step_ns,
        })
    }

    /// A population's mean in each step.
    pub(super) fn means(&self, population: &Population) -> Samples {
        // The population's bins over the same window are these steps.
        let bins = population.series(self.records, self.steps);
        debug_assert_eq!(bins.bin_ns, self.step_ns);
        bins.mean
            .into_iter()
            .map(|mean| Some(rounded(mean)))
            .collect()
    }

    /// Where each step begins, and where the last one ends.
    pub(super) fn edges_ns(&self) -> impl Iterator<Item = u64> + use<> {
        let axis = *self;
        (0..=axis.steps as u64).map(move |step| axis.records.from_ns + step * axis.step_ns)
    }

    /// A time in seconds since measuring began.
    pub(super) fn seconds(&self, time_ns: u64) -> f64 {
        self.from_s + (time_ns as f64 - self.records.from_ns as f64) / 1e9
    }

    /// The step that `time` falls into; `None` outside the axis.
    pub(super) fn step_of(&self, time: Instant) -> Option<usize> {
        let since_ns = time.ns().checked_sub(self.records.from_ns)?;
        usize::try_from(since_ns / self.step_ns)
            .ok()
            .filter(|&step| step < self.steps)
    }
}

/// `value` to four significant digits: all that a chart can show, in half the bytes.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let magnitude = value.abs().log10().floor() as i32;
    // Dividing by a power of ten rounds to the nearest double; multiplying by 0.001 would not.
    if magnitude > 3 {
        let unit = 10f64.powi(magnitude - 3);
        (value / unit).round() * unit
    } else {
        let scale = 10f64.powi(3 - magnitude);
        (value * scale).round() / scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from_ns: u64, to_ns: u64) -> Window {
        Window { from_ns, to_ns }
    }

    #[test]
    fn steps_cover_the_records_and_stay_few() {
        let records = window(1_000, 3_000_001_000);
        let axis = TimeAxis::new(600, records, window(500_001_000, 2_500_001_000)).unwrap();
        assert_eq!(axis.steps, 600);
        assert_eq!(axis.step_s, 0.005);
        assert_eq!(axis.from_s, -0.5);
        assert_eq!(axis.measured_s, 2.0);
        let step_of = |ns| axis.step_of(Instant::from_ns(ns));
        assert_eq!(step_of(999), None);
        assert_eq!(step_of(1_000), Some(0));
        assert_eq!(step_of(5_001_000), Some(1));
        assert_eq!(step_of(3_000_000_999), Some(599));
        assert_eq!(step_of(3_000_001_000), None);
        assert_eq!(axis.edges_ns().last(), Some(3_000_001_000));
    }

    #[test]
    fn a_moment_is_no_axis() {
        assert_eq!(TimeAxis::new(600, window(5, 5), window(5, 5)), None);
    }

    #[test]
    fn populations_fall_into_the_same_steps() {
        for length_ns in [1, 7, 599, 601, 1_799, 123_456_789] {
            let axis = TimeAxis::new(600, window(10, 10 + length_ns), window(10, 20)).unwrap();
            let means = axis.means(&Population::of([(0, 10 + length_ns)]));
            assert_eq!(means.len(), axis.steps);
            assert!(means.iter().all(|&mean| mean == Some(1.0)), "{length_ns}");
        }
    }

    #[test]
    fn rounding_keeps_four_digits() {
        for (value, kept) in [
            (0.0, 0.0),
            (123_456.0, 123_500.0),
            (0.123_456, 0.1235),
            (-99.999, -100.0),
            (7.0, 7.0),
        ] {
            assert_eq!(rounded(value), kept);
        }
    }
}
