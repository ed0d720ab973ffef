//! Recordings of plans in simulated worlds.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wansan_insight::{Cell, Run, Window};
use wansan_lab::hosts::Reach;
use wansan_lab::plan::{Phase, Plan};
use wansan_lab::run::{Observer, Options, run};
use wansan_lab::world::Rights;
use wansan_schema::{CellResult, Results};
use wansan_twin::{Reading, Unfit};

/// An observer that ignores everything.
struct Silent;

impl Observer for Silent {
    fn phase(&mut self, _: Phase, _: usize, _: Duration) {}
    fn progress(&mut self, _: usize, _: usize, _: Duration) {}
    fn cell(&mut self, _: &CellResult) {}
    fn found(&mut self, _: &Results) {}
}

/// A plan with one path, one target and one initiator.
pub(crate) struct World<'a> {
    /// Settings of the path.
    pub(crate) path: &'a str,
    /// Settings of the target.
    pub(crate) target: &'a str,
    /// Settings of the initiator.
    pub(crate) initiator: &'a str,
    /// Settings of the workload.
    pub(crate) workload: &'a str,
    /// Further tables.
    pub(crate) more: &'a str,
}

impl World<'_> {
    /// The plan, with these statements as its timeline.
    fn plan(&self, timeline: &[&str]) -> Plan {
        let World {
            path,
            target,
            initiator,
            workload,
            more,
        } = self;
        let text = format!(
            "title = \"A world\"\nworld.kind = \"sim\"\ntimeline = {timeline:?}\n\
             [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n\
             [[path]]\nbetween = [\"client\", \"storage\"]\n{path}\n\
             [target]\nhost = \"storage\"\n{target}\n\
             [[initiator]]\nhost = \"client\"\n{initiator}\n\
             [workload]\nwarmup = \"1s\"\ntime = \"2s\"\n{workload}\n{more}\n"
        );
        Plan::parse(Path::new("world.toml"), &text)
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// Bytes of data per second, and the reading of the records.
    pub(crate) fn record(&self) -> (f64, Result<Reading, Unfit>) {
        self.record_while(&[])
    }

    /// As [`World::record`], while these statements change the paths.
    pub(crate) fn record_while(&self, timeline: &[&str]) -> (f64, Result<Reading, Unfit>) {
        let (bytes_per_s, cell, window) = run_plan(&self.plan(timeline));
        (bytes_per_s, Reading::of(&cell, window))
    }

    /// Bytes of data per second, the records, and the measured window.
    pub(crate) fn cell(&self) -> (f64, Cell, Option<Window>) {
        run_plan(&self.plan(&[]))
    }
}

fn run_plan(plan: &Plan) -> (f64, Cell, Option<Window>) {
    let scratch = tempfile::tempdir().unwrap();
    let options = Options {
        program: "none runs in a simulated world".into(),
        out: scratch.path().to_owned(),
        rights: Rights::Unneeded,
        reach: Reach::default(),
        on: None,
        budget: None,
        stop: &AtomicBool::new(false),
    };
    let outcome = run(plan, &options, &mut Silent).unwrap();
    let result = &outcome.results.cells[0];
    let index = Run::read(&outcome.folder).unwrap();
    let folder = index.cell_folder(&index.cells[0]).unwrap();
    let cell = Cell::read(&folder).unwrap();
    let bytes_per_s = result.bytes_per_s.expect("the cell was measured");
    (bytes_per_s, cell, index.cells[0].window)
}
