//! Timeouts for the end of a cell, in any world.

use std::time::Duration;

use crate::plan::Cell;

/// Timeout for the last I/Os of a cell whose path stays down.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// Time for a program beyond its measurement: logins and warm-up on long paths, the last I/Os, and writing its records.
pub(crate) const END: Duration = Duration::from_secs(120);

/// Time limit for the programs of a cell from the start of its warm-up.
pub(crate) fn of(cell: &Cell) -> Duration {
    let workload = &cell.document.workload;
    workload.warmup.0 + workload.time.0 + END
}
