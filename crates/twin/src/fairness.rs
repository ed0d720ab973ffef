//! What a change costs others: the share of a flow by Reno's congestion control beside the load.

use std::time::Duration;

use crate::knob::Setting;
use crate::replay::measure;
use crate::seeds::{self, drawn};
use crate::setup::Setup;
use crate::what_if::{Range, Twin, WhatIf, changed, without_mishaps};

/// How long the flow grows before it is measured: its window grows by a packet in each round trip.
const WARMUP: Duration = Duration::from_secs(5);
/// How long it is measured.
const TIME: Duration = Duration::from_secs(10);

impl Twin {
    /// Adds what a flow by Reno gets beside the load with the advice, or with the only change asked about, ÷ what it
    /// gets beside the load as it was recorded: nothing where no link that they share has a rate, or a run fails.
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

/// The setup with that flow.
fn beside_reno(setup: &Setup) -> Setup {
    Setup {
        has_rival: true,
        warmup: WARMUP,
        time: TIME,
        ..without_mishaps(setup)
    }
}
