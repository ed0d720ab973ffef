//! report.html: the page that `web/` builds, with a run's data in it.

use std::collections::BTreeMap;

use wansan_insight::report::{self, CellCharts, PageError, RunRecord};
use wansan_schema::{Manifest, Results};

/// The page without data, as it was when the lab was built.
const PAGE: &str = include_str!(env!("WANSAN_REPORT_PAGE"));

/// The page of a run; `charts` by the numbers of their cells.
///
/// # Errors
/// [`PageError`] when the lab was built with another page than it knows.
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
