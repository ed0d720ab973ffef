//! report.html: the page built by `web/`, with a run's data embedded.

use std::collections::BTreeMap;

use wansan_insight::report::{self, CellCharts, PageError, RunRecord};
use wansan_schema::{Manifest, Results};

/// The page without data, as of the lab's build.
const PAGE: &str = include_str!(env!("WANSAN_REPORT_PAGE"));

/// The page of a run; `charts` by cell number.
///
/// # Errors
/// [`PageError`] if the lab was built with an incompatible page.
pub fn page(
    manifest: &Manifest,
    results: &Results,
    charts: &BTreeMap<u64, CellCharts>,
) -> Result<String, PageError> {
    let run = RunRecord {
        manifest,
        results,
        charts,
    };
    report::html(PAGE, &report::data(&run))
}
