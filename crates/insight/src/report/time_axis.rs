//! One time axis for all samples of a cell, in few enough steps to be drawn.

use wansan_schema::tables;
use wansan_trace::Instant;

use crate::population::Population;
use crate::window::Window;

/// Values on a [`TimeAxis`], one for each step; `None` where nothing was recorded.
pub type Samples = Vec<Option<f64>>;

tables! {
    /// Equal steps over the recorded time; 0 s is where measuring began.
    TimeAxis {
        /// Where the first step begins.
        from_s: f64,
        /// How long each step is.
        step_s: f64,
        /// How many steps there are.
        steps: usize,
        /// Where measuring ended.
        measured_s: f64,
    }
}

/// The steps of a [`TimeAxis`], in the clock of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) count: usize,
    step_ns: u64,
    records: Window,
    measured: Window,
}

impl Steps {
    /// At most `most` equal steps over `records`, with 0 s at the beginning of `measured`; `None` if `records` has no
    /// length.
    pub(super) fn new(most: usize, records: Window, measured: Window) -> Option<Steps> {
        let length_ns = records.length_ns();
        if length_ns == 0 {
            return None;
        }
        let step_ns = length_ns.div_ceil(most as u64);
        Some(Steps {
            // At most `most`.
            count: length_ns.div_ceil(step_ns) as usize,
            step_ns,
            records,
            measured,
        })
    }

    /// The steps as the page's time axis.
    pub(super) fn axis(&self) -> TimeAxis {
        TimeAxis {
            from_s: self.seconds(self.records.from_ns),
            step_s: self.step_ns as f64 / 1e9,
            steps: self.count,
            measured_s: self.seconds(self.measured.to_ns),
        }
    }

    /// A population's mean in each step, if each member stands for `weight` of them.
    pub(super) fn means(&self, population: &Population, weight: f64) -> Samples {
        // The population's bins over the same window are these steps.
        let bins = population.series(self.records, self.count);
        debug_assert_eq!(bins.bin_ns, self.step_ns);
        bins.mean
            .into_iter()
            .map(|mean| Some(rounded(mean * weight)))
            .collect()
    }

    /// Where each step begins, and where the last one ends.
    pub(super) fn edges_ns(&self) -> impl Iterator<Item = u64> + use<> {
        let steps = *self;
        (0..=steps.count as u64).map(move |step| steps.records.from_ns + step * steps.step_ns)
    }

    /// A time in seconds since measuring began.
    pub(super) fn seconds(&self, time_ns: u64) -> f64 {
        (time_ns as f64 - self.measured.from_ns as f64) / 1e9
    }

    /// The step that `time` falls into; `None` outside the axis.
    pub(super) fn step_of(&self, time: Instant) -> Option<usize> {
        let since_ns = time.ns().checked_sub(self.records.from_ns)?;
        usize::try_from(since_ns / self.step_ns)
            .ok()
            .filter(|&step| step < self.count)
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
        let steps = Steps::new(600, records, window(500_001_000, 2_500_001_000)).unwrap();
        let axis = steps.axis();
        assert_eq!(axis.steps, 600);
        assert_eq!(axis.step_s, 0.005);
        assert_eq!(axis.from_s, -0.5);
        assert_eq!(axis.measured_s, 2.0);
        let step_of = |ns| steps.step_of(Instant::from_ns(ns));
        assert_eq!(step_of(999), None);
        assert_eq!(step_of(1_000), Some(0));
        assert_eq!(step_of(5_001_000), Some(1));
        assert_eq!(step_of(3_000_000_999), Some(599));
        assert_eq!(step_of(3_000_001_000), None);
        assert_eq!(steps.edges_ns().last(), Some(3_000_001_000));
    }

    #[test]
    fn a_moment_is_no_axis() {
        assert_eq!(Steps::new(600, window(5, 5), window(5, 5)), None);
    }

    #[test]
    fn populations_fall_into_the_same_steps() {
        for length_ns in [1, 7, 599, 601, 1_799, 123_456_789] {
            let steps = Steps::new(600, window(10, 10 + length_ns), window(10, 20)).unwrap();
            let means = steps.means(&Population::of([(0, 10 + length_ns)]), 1.0);
            assert_eq!(means.len(), steps.count);
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
