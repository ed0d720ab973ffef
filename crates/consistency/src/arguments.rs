//! Command-line arguments of `wansan target` for a setup.

use crate::history::Setup;

impl Setup {
    /// All arguments except the target's name, address and units.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let keys = &self.keys;
        let yes = |is: bool| if is { "yes" } else { "no" };
        vec![
            format!("--command-window={}", self.command_window),
            format!("--threads={}", self.threads),
            format!("--max-connections={}", keys.connections),
            format!("--error-recovery-level={}", keys.recovery),
            format!("--immediate-data={}", yes(keys.immediate)),
            format!("--initial-r2t={}", yes(keys.initial_r2t)),
            format!("--first-burst={}B", keys.first_burst),
            format!("--max-burst={}B", keys.max_burst),
            format!("--max-recv-data-segment={}B", keys.segment),
            format!("--max-outstanding-r2t={}", keys.r2ts),
            format!(
                "--header-digest={}",
                if keys.digests { "accept" } else { "never" }
            ),
            // On exit, the target must not ask initiators to log out: connections are to break.
            "--drain=0s".to_owned(),
        ]
    }

    /// Whether the first unit's store is slow. Plain files are so fast that few operations overlap.
    #[must_use]
    pub const fn is_slow(&self) -> bool {
        self.slow >= 200
    }

    /// The `--lun` argument of the unit at index `place`, whose data is in the file or device at `path`.
    ///
    /// A slow setup has one slow unit: a service time common to all units would keep their operations in order; also,
    /// EXTENDED COPY from the slow unit then reaches the others late.
    #[must_use]
    pub fn lun(&self, place: usize, path: &str) -> String {
        let thin = if self.units[place].thin { ",thin" } else { "" };
        let service = match self.slow {
            200..500 if place == 0 => format!(",service-time=200us,servers={}", self.workers),
            500.. if place == 0 => format!(",service-time=3ms,servers={}", self.workers),
            _ => String::new(),
        };
        format!("--lun=file:{path}{thin}{service}")
    }
}
