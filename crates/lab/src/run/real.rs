//! Measures and explains a cell in its own world.

use std::path::Path;

use wansan_insight::report::Detail;
use wansan_schema::{CellFacts, CellResult};

use super::cell::{self, Kept, Watch};
use super::congestion::Controls;
use super::course::Stage;
use super::explain::Explained;
use super::phase::conclude;
use super::{CellError, Options, tunnels};
use crate::hosts::Fleet;
use crate::netem;
use crate::plan::{Cell, EmulatorKind};
use crate::record;
use crate::vpn::{self, Kind};

/// The context of measuring cells.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) options: &'a Options<'a>,
    /// The real hosts, if any.
    pub(super) fleet: Option<&'a Fleet>,
    /// Access to the running cell.
    pub(super) stage: &'a Stage,
}

/// Checks that this computer has what cells with namespaces need, and acquires their congestion controls.
pub(super) fn prepare(cells: &[Cell]) -> Result<Controls, CellError> {
    let kinds: Vec<Kind> = cells.iter().flat_map(tunnels::kinds).collect();
    vpn::check(&kinds)?;
    let by_netem = |cell: &Cell| cell.document.world.emulator == EmulatorKind::Netem;
    if cells.iter().any(by_netem) {
        netem::check()?;
    }
    Ok(Controls::hold(cells)?)
}

/// Measures a cell; returns the facts, and its explanation if it has I/Os. `result` has what is known, however it ends.
pub(super) fn measured(
    cell: &Cell,
    folder: &Path,
    detail: Detail,
    means: &Means<'_>,
    controls: &mut Controls,
    watch: &mut dyn Watch,
    result: &mut CellResult,
) -> (CellFacts, Result<Option<Explained>, CellError>) {
    let mut kept = Kept::begin(CellFacts {
        cell: result.cell,
        ..CellFacts::default()
    });
    let measured = controls
        .of_cell(cell)
        .map_err(CellError::from)
        .and_then(|control| {
            kept.facts.congestion_control = control;
            cell::measure(cell, folder, means, &mut kept, watch)
        });
    match (cell.document.world.emulator, kept.carried) {
        (_, None) => {}
        (EmulatorKind::User, Some(carried)) => record::add_paths(result, carried.paths),
        (EmulatorKind::Netem, Some(carried)) => record::add_netem(result, carried.netem),
    }
    result.timeline = kept.timeline;
    let outcome =
        measured.and_then(|measured| conclude(cell, folder, detail, measured, None, result));
    (kept.facts, outcome)
}
