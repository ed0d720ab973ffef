//! The types of [`ReportData`] and the causes of waits, for the page, which is written in TypeScript.

use std::fmt::Write;

use crate::cause::{Cause, Family};
use crate::report::ReportData;

fn causes() -> String {
    let families = Family::ALL.map(|family| format!("{:?}", family.name()));
    let mut text = format!(
        "\n/** Causes that a chart shows in one colour. */\nexport type Family = {};\n",
        families.join(" | ")
    );
    text += "
/** What a moment of an I/O's latency is spent on. */
export interface Cause {
  family: Family;
  /** The limit that it belongs to, as a finding names it. */
  limit: string;
  /** A clause about an I/O. */
  words: string;
}

export const CAUSES: Readonly<Record<string, Cause>> = {
";
    for cause in Cause::ALL {
        let (family, limit) = (cause.family().name(), cause.limit().name());
        let _ = writeln!(
            text,
            "  {}: {{ family: {family:?}, limit: {limit:?}, words: {:?} }},",
            cause.name(),
            cause.in_words()
        );
    }
    text + "};\n"
}

/// Checks the page's copy; `WANSAN_UPDATE=1` updates it.
#[test]
fn the_page_knows_its_data() {
    let about = "/** What the page is given. Generated from crates/insight/src by `WANSAN_UPDATE=1 cargo test \
                 -p wansan-insight`. */\n\n";
    let types = wansan_schema::typescript::types_beside(ReportData::TABLE, "../results");
    wansan_generated::check(
        "web/src/report/data.ts",
        &(about.to_owned() + &types + &causes()),
    );
}
