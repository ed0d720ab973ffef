//! The effect of a change on others: the throughput of a Reno flow beside the load.

use std::time::Duration;

use crate::knob::Setting;
use crate::replay::measure;
use crate::seeds::{self, drawn};
use crate::setup::Setup;
use crate::what_if::{Range, Twin, WhatIf, changed, without_mishaps};

/// Time for the flow to grow before it is measured: its window grows by a packet per round trip.
const WARMUP: Duration = Duration::from_secs(5);
/// Duration of its measurement.
const TIME: Duration = Duration::from_secs(10);

impl Twin {
    /// Adds the throughput of a Reno flow beside the load with the advice, or with the only requested change, ÷ that
    /// beside the load as recorded. Adds nothing if no shared link has a rate, or a run fails.
    pub fn compare_with_reno(&self, told: &mut WhatIf, goes_on: &dyn Fn() -> bool) {
        let asked = match (told.advice.last_mut(), &mut told.predictions[..]) {
            (Some(all), _) => all,
            (None, [only]) => only,
            _ => return,
        };
        asked.reno_share = self.reno_share(&asked.change, goes_on);
    }

    fn reno_share(&self, change: &[Setting], goes_on: &dyn Fn() -> bool) -> Option<Range> {
        let before = beside_reno(self.setup());
        let after = changed(&before, change).ok()?;
        let is_shared = |setup: &Setup| {
            let mut routes = setup.first_connection().routes.iter().flatten();
            routes.any(|&place| setup.directions[place].rate_bits_per_s.is_some())
        };
        if !is_shared(&before) || !is_shared(&after) {
            return None;
        }
        let rate = |setup: &Setup, seed| {
            let run = measure(&drawn(setup, seed), seed, goes_on);
            run.ok()?.rival_bytes_per_s
        };
        let ratio = |seed| {
            let before = rate(&before, seed).filter(|rate| *rate > 0.0)?;
            Some(rate(&after, seed)? / before)
        };
        let ratios: Option<Vec<f64>> = (seeds::FIRST..seeds::FIRST + seeds::FEWEST)
            .map(ratio)
            .collect();
        Some(Range::of(ratios?))
    }
}

/// The setup with a Reno flow beside the load.
fn beside_reno(setup: &Setup) -> Setup {
    Setup {
        has_rival: true,
        warmup: WARMUP,
        time: TIME,
        ..without_mishaps(setup)
    }
}
