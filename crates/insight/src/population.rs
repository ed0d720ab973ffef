//! The number of I/Os in a layer over time, as exact step functions.

use serde::Serialize;

use crate::window::Window;

/// The number of open spans over time.
///
/// Computed from the spans' beginnings and ends, exact to the nanosecond. Spans of zero length do not count.
#[derive(Debug, Clone, Default)]
pub struct Population {
    begins_ns: Vec<u64>,
    ends_ns: Vec<u64>,
}

/// An interval in which a population does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its beginning.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// The population in it.
    pub count: u64,
}

impl Population {
    /// The population of these spans, each from its beginning to its end.
    #[must_use]
    pub fn of(spans: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (mut begins_ns, mut ends_ns): (Vec<u64>, Vec<u64>) = spans
            .into_iter()
            .filter(|(begin_ns, end_ns)| begin_ns < end_ns)
            .unzip();
        begins_ns.sort_unstable();
        ends_ns.sort_unstable();
        Population { begins_ns, ends_ns }
    }

    /// The sum of several populations.
    pub fn sum<'p>(parts: impl IntoIterator<Item = &'p Population>) -> Population {
        let mut sum = Population::default();
        for part in parts {
            sum.begins_ns.extend_from_slice(&part.begins_ns);
            sum.ends_ns.extend_from_slice(&part.ends_ns);
        }
        // Sorted runs: the stable sort only merges them.
        sum.begins_ns.sort();
        sum.ends_ns.sort();
        sum
    }

    /// The population at `time_ns`.
    #[must_use]
    pub fn at(&self, time_ns: u64) -> u64 {
        let begun = self.begins_ns.partition_point(|&ns| ns <= time_ns);
        let ended = self.ends_ns.partition_point(|&ns| ns <= time_ns);
        (begun - ended) as u64
    }

    /// The steps that cover `window` without gaps; none if it has no length.
    pub fn steps(&self, window: Window) -> impl Iterator<Item = Step> {
        let mut begun = self.begins_ns.partition_point(|&ns| ns <= window.from_ns);
        let mut ended = self.ends_ns.partition_point(|&ns| ns <= window.from_ns);
        let mut from_ns = window.from_ns;
        std::iter::from_fn(move || {
            if from_ns >= window.to_ns {
                return None;
            }
            let count = (begun - ended) as u64;
            let next_begin = self.begins_ns.get(begun).copied().unwrap_or(u64::MAX);
            let next_end = self.ends_ns.get(ended).copied().unwrap_or(u64::MAX);
            let change_ns = next_begin.min(next_end);
            while self.begins_ns.get(begun) == Some(&change_ns) {
                begun += 1;
            }
            while self.ends_ns.get(ended) == Some(&change_ns) {
                ended += 1;
            }
            let step = Step {
                from_ns,
                to_ns: change_ns.min(window.to_ns),
                count,
            };
            from_ns = step.to_ns;
            Some(step)
        })
    }

    /// The time-weighted mean over `window`; 0 if it has no length.
    #[must_use]
    pub fn mean(&self, window: Window) -> f64 {
        let area: u128 = self
            .steps(window)
            .map(|step| u128::from(step.count) * u128::from(step.to_ns - step.from_ns))
            .sum();
        area as f64 / window.length_ns().max(1) as f64
    }

    /// The maximum in `window`.
    #[must_use]
    pub fn max(&self, window: Window) -> u64 {
        self.steps(window).map(|step| step.count).max().unwrap_or(0)
    }

    /// The share of `window` in which `test` holds for the count, 0 to 1.
    #[must_use]
    pub fn share(&self, window: Window, test: impl Fn(u64) -> bool) -> f64 {
        let held_ns: u64 = self
            .steps(window)
            .filter(|step| test(step.count))
            .map(|step| step.to_ns - step.from_ns)
            .sum();
        held_ns as f64 / window.length_ns().max(1) as f64
    }

    /// The population over `window` in at most `bins` bins of equal length, for charts.
    #[must_use]
    pub fn series(&self, window: Window, bins: usize) -> Series {
        let length_ns = window.length_ns();
        let bins = bins.min(usize::try_from(length_ns).unwrap_or(usize::MAX));
        let bin_ns = length_ns.div_ceil(bins.max(1) as u64).max(1);
        let bins = usize::try_from(length_ns.div_ceil(bin_ns)).unwrap_or(bins);
        let mut series = Series {
            from_ns: window.from_ns,
            bin_ns,
            min: vec![u64::MAX; bins],
            mean: vec![0.0; bins],
            max: vec![0; bins],
        };
        for step in self.steps(window) {
            let mut from_ns = step.from_ns;
            while from_ns < step.to_ns {
                let bin = ((from_ns - window.from_ns) / bin_ns) as usize;
                let bin_from_ns = window.from_ns + bin as u64 * bin_ns;
                let bin_to_ns = (bin_from_ns + bin_ns).min(window.to_ns);
                let to_ns = step.to_ns.min(bin_to_ns);
                series.min[bin] = series.min[bin].min(step.count);
                series.max[bin] = series.max[bin].max(step.count);
                let share = (to_ns - from_ns) as f64 / (bin_to_ns - bin_from_ns) as f64;
                series.mean[bin] += share * step.count as f64;
                from_ns = to_ns;
            }
        }
        series
    }
}

/// A population in bins of equal length (the last may be shorter).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Where the first bin begins.
    pub from_ns: u64,
    /// The length of a bin.
    pub bin_ns: u64,
    /// The minimum in each bin.
    pub min: Vec<u64>,
    /// The time-weighted mean in each bin.
    pub mean: Vec<f64>,
    /// The maximum in each bin.
    pub max: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        from_ns: 10,
        to_ns: 30,
    };

    fn three() -> Population {
        Population::of([(0, 20), (15, 40), (20, 25), (12, 12)])
    }

    #[test]
    fn steps_cover_the_window() {
        let steps: Vec<_> = three()
            .steps(WINDOW)
            .map(|step| (step.from_ns, step.to_ns, step.count))
            .collect();
        assert_eq!(steps, [(10, 15, 1), (15, 20, 2), (20, 25, 2), (25, 30, 1)]);
        assert_eq!(three().max(WINDOW), 2);
        assert!((three().mean(WINDOW) - 1.5).abs() < 1e-12);
        assert!((three().share(WINDOW, |count| count == 2) - 0.5).abs() < 1e-12);
        assert_eq!(three().at(22), 2);
        assert_eq!(three().at(40), 0);
    }

    #[test]
    fn merged_populations_add_up() {
        let sum = Population::sum([&three(), &Population::of([(1, 21)])]);
        assert_eq!(sum.at(20), 3);
        assert_eq!(sum.at(21), 2);
        assert!((sum.mean(WINDOW) - (1.5 + 11.0 / 20.0)).abs() < 1e-12);
    }

    #[test]
    fn bins_keep_least_mean_and_largest() {
        let series = three().series(WINDOW, 2);
        assert_eq!(series.bin_ns, 10);
        assert_eq!(series.min, [1, 1]);
        assert_eq!(series.max, [2, 2]);
        assert_eq!(series.mean, [1.5, 1.5]);
        let fine = three().series(WINDOW, 1000);
        assert_eq!(fine.bin_ns, 1);
        assert_eq!(fine.mean.len(), 20);
        let uneven = three().series(WINDOW, 3);
        assert_eq!(uneven.mean.len(), 3);
        assert!(uneven.mean.iter().all(|&mean| (1.0..=2.0).contains(&mean)));
    }

    #[test]
    fn windows_of_no_length_are_empty() {
        let nowhere = Window {
            from_ns: 5,
            to_ns: 5,
        };
        assert_eq!(three().max(nowhere), 0);
        assert!(three().series(nowhere, 10).mean.is_empty());
    }
}
