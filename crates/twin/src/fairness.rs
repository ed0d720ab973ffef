//! What a change costs others: the share of a flow by Reno's congestion control beside the load.

use std::time::Duration;

use wansan_trace::Kinds;

use crate::knob::Setting;
use crate::replay::replay;
use crate::setup::Setup;
use crate::what_if::{FIRST_SEED, Range, SEEDS, Twin, WhatIfError, changed, with_losses_by_chance};

/// How long the flow grows before it is measured: its window grows by a packet in each round trip.
const WARMUP: Duration = Duration::from_secs(5);
/// How long it is measured.
const TIME: Duration = Duration::from_secs(10);

impl Twin {
    /// What a flow by Reno gets beside the load with a change, ÷ what it gets beside the load as it was recorded.
    /// `None` where no link that they share has a rate, or it got nothing.
    ///
    /// # Errors
    /// [`WhatIfError`] when a twin does not run.
    pub(crate) fn reno_share(&self, change: &[Setting]) -> Result<Option<Range>, WhatIfError> {
        let before = beside_reno(self.setup());
        let after = changed(&before, change)?;
        let shares = |setup: &Setup| {
            let mut routes = setup.first_connection().routes.iter().flatten();
            routes.any(|&place| setup.directions[place].rate_bits_per_s.is_some())
        };
        if !shares(&before) || !shares(&after) {
            return Ok(None);
        }
        let mut ratios = Vec::new();
        for seed in FIRST_SEED..FIRST_SEED + SEEDS {
            let [before, after] = [&before, &after].map(|setup| replay(setup, seed, &|| true));
            let (before, after) = (before?.rival_bytes_per_s, after?.rival_bytes_per_s);
            let (Some(before), Some(after)) = (before.filter(|rate| *rate > 0.0), after) else {
                return Ok(None);
            };
            ratios.push(after / before);
        }
        Ok(Some(Range::of(ratios)))
    }
}

/// The setup with that flow.
fn beside_reno(setup: &Setup) -> Setup {
    Setup {
        has_rival: true,
        warmup: WARMUP,
        time: TIME,
        kinds: Kinds {
            io: true,
            ..Kinds::NONE
        },
        ..with_losses_by_chance(setup)
    }
}
