//! The same dumbbell in ns-3: a small program over its libraries, compiled on demand.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use wansan_peers::process::{Finished, PeerError, run};
use wansan_peers::program::{Missing, find};

use crate::Simulated;
use crate::dumbbell::{Dumbbell, RTT};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/sim/dumbbell.cc");

/// ns-3 modules to link with.
const MODULES: [&str; 6] = [
    "applications",
    "core",
    "internet",
    "network",
    "point-to-point",
    "traffic-control",
];

/// Time limit for compiling, and for simulating.
const LIMIT: Duration = Duration::from_secs(900);

#[derive(Debug)]
pub(crate) struct Ns3 {
    program: PathBuf,
    /// Temporary directory that holds `program`.
    _folder: tempfile::TempDir,
}

impl Ns3 {
    pub(crate) fn build() -> Result<Ns3, PeerError> {
        let folder = tempfile::tempdir().map_err(|source| PeerError::System {
            program: "dumbbell".to_owned(),
            source,
        })?;
        let modules = MODULES.map(|module| format!("ns3-{module}"));
        let mut asked = Command::new(find("pkg-config")?);
        let flags = run(asked.args(["--cflags", "--libs"]).args(modules), LIMIT)?;
        if !flags.status.success() {
            let (program, package) = ("ns-3".to_owned(), "libns3-dev");
            return Err(Missing { program, package }.into());
        }
        let program = folder.path().join("dumbbell");
        let mut compiler = Command::new(find("c++")?);
        compiler.args(["-O3", "-DNDEBUG", "-o"]).args([&program]);
        compiler.arg(SOURCE).args(flags.stdout.split_whitespace());
        run(&mut compiler, LIMIT)?.success()?;
        let _folder = folder;
        Ok(Ns3 { program, _folder })
    }

    pub(crate) fn simulate(&self, dumbbell: &Dumbbell) -> Result<Simulated, PeerError> {
        let mut command = Command::new(&self.program);
        command.args([
            dumbbell.flows.to_string(),
            dumbbell.mbit_per_s.to_string(),
            RTT.as_millis().to_string(),
            dumbbell.time_s().to_string(),
        ]);
        let finished = run(&mut command, LIMIT)?.success()?;
        let wrong = || finished.failure("it was to print segments and seconds");
        parse(&finished).ok_or_else(wrong)
    }
}

fn parse(finished: &Finished) -> Option<Simulated> {
    let (segments, cpu_s) = finished.stdout.trim().split_once(' ')?;
    Some(Simulated {
        segments: segments.parse().ok()?,
        cpu_s: cpu_s.parse().ok()?,
    })
}
