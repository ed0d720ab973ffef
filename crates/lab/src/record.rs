//! The results of a run: a self-describing folder, in the terms of [`wansan_schema`].
//!
//! ```text
//! runs/<plan>/<UTC time>-<short hash of the resolved plan>/
//!   manifest.json   the resolved plan, the machine, the world and its settings, clock anchors
//!   results.json    the numbers of each cell, the finding, the expectations
//!   report.html     both, to be looked at
//!   cell-000/       the records of each cell, one Parquet file per kind
//! ```

mod compare;
mod export;
mod folder;
mod lake;
mod machine;
mod manifest;
mod path;
mod report;
mod results;
mod stored;
mod stream;
mod timeline;

use std::path::PathBuf;

pub use compare::{
    ByHand, CONFIDENCE, CellDifference, CompareError, Comparison, Difference, DifferenceVerdict,
    SettingDifference, compare,
};
pub use export::CellTable;
pub use folder::{CellFolder, RunFolder};
pub use lake::{LakeError, Written, write_lake};
pub(crate) use machine::{here as machine, memory_bytes};
pub(crate) use manifest::{add_statistics, clock_anchor, manifest, node_facts};
pub use report::page;
pub(crate) use results::{add_netem, add_paths, add_reports, add_routers, add_streams, apart};
pub use results::{cell_result, results};
pub use stored::{StoredError, StoredRun, list};
pub(crate) use stream::{add_relay_records, recorded_as, relay_result, stream_result};
pub use timeline::write_perfetto;

/// The run folder could not be written, because of the disk or of permissions.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct RecordError {
    /// The operation.
    pub action: &'static str,
    /// Its file or folder.
    pub path: PathBuf,
    /// The kernel's error.
    pub source: std::io::Error,
}
