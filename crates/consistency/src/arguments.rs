//! A setup as arguments of `wansan target`.

use crate::history::{Setup, UnitSetup};

impl Setup {
    /// The arguments for what the target does, but for its name, where it listens, and its units.
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
            // Initiators are asked for nothing when it ends: they are to see connections break.
            "--drain=0s".to_owned(),
        ]
    }

    /// How long operations of the stores take, as options of `--lun`; empty where they take no longer than
    /// they do. Files alone are too fast for much to meet on its way.
    #[must_use]
    pub fn service_time(&self) -> String {
        let workers = self.workers;
        match self.slow {
            0..200 => String::new(),
            200..500 => format!(",service-time=200us,servers={workers}"),
            _ => format!(",service-time=1ms,servers={workers}"),
        }
    }

    /// `--lun` of a unit with its data in the file or device at `path`.
    #[must_use]
    pub fn lun(&self, unit: &UnitSetup, path: &str) -> String {
        let thin = if unit.thin { ",thin" } else { "" };
        format!("--lun=file:{path}{thin}{}", self.service_time())
    }
}
