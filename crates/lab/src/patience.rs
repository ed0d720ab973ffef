//! How long the end of a cell is waited for, in whichever world.

use std::time::Duration;

use crate::plan::Cell;

/// How long the last I/Os of a cell whose path stays down are waited for.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// How long a program may take beyond its measured time: the logins and warm-up of long paths, the last
/// I/Os, and writing its records.
pub(crate) const END: Duration = Duration::from_secs(120);

/// How long the programs of a cell may take from the beginning of its warm-up.
pub(crate) fn of(cell: &Cell) -> Duration {
    let workload = &cell.document.workload;
    workload.warmup.0 + workload.time.0 + END
}
