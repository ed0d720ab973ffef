//! The tables of a lake beside the records: the sessions of many recordings, and their waits.

use crate::table::{Table, Unit, tables};

tables! {
    /// `sessions`: results of one session of a recording in the measured interval.
    LakeSession {
        /// The recording.
        run: String,
        /// The session: ISID and TSIH, as in the names of record folders.
        session: String,
        /// The initiator's address and port; empty if no connection was recorded.
        initiator: String,
        /// The target's address and port; empty if no connection was recorded.
        target: String,
        /// Length of the measured interval, in seconds.
        measured_s: f64,
        /// I/Os completed in it; estimated, if a sample of them was recorded.
        ios: u64 => Count,
        /// The same per second.
        iops: f64 => PerS,
        /// Mean number of I/Os in flight.
        in_flight_mean: f64 => Count,
        /// Mean latency.
        latency_mean_ns: f64 => Ns,
        /// Median latency.
        latency_p50_ns: u64 => Ns,
        /// 99th percentile of the latency.
        latency_p99_ns: u64 => Ns,
        /// One of this many I/Os was recorded; 1 if all were.
        sampled_one_in: f64 => Count,
        /// Records of the recording that were dropped because its memory was full.
        records_dropped: u64 => Count,
    }

    /// `waits`: the waits of a session's I/Os, by cause, layer, direction and source. The `wait_ns` of a session add up
    /// to its `latency_mean_ns`.
    LakeWait {
        /// The recording.
        run: String,
        /// The session: ISID and TSIH, as in the names of record folders.
        session: String,
        /// Its limit, which has to be relieved to shorten it.
        limited_by: String,
        /// Its cause, by its name in results.
        cause: String,
        /// The layer that held the I/Os during it.
        layer: String,
        /// `to_target` or `to_initiator`; empty if a program or the store held them.
        way: String,
        /// The records that it is derived from.
        source: String,
        /// The number of I/Os of which it is the mean; estimated, if a sample of them was recorded.
        ios: u64 => Count,
        /// Its mean duration.
        wait_ns: f64 => Ns,
        /// Its uncertainty: the part that may belong to adjacent waits.
        uncertain_ns: f64 => Ns,
        /// Its share of the latency, 0 to 1.
        share: f64 => Ratio,
    }
}

/// `docs/reference/lake.md`.
#[must_use]
pub fn page() -> String {
    let mut page = "# A lake\n\n\
        The tables that `wansan lab export lake` writes beside the records ([records.md](records.md)), which are in \
        folders of the same names.\nEvery table is partitioned by `host` and `date` (the UTC day on which the recording \
        began), session records also by `session`;\npartition keys are not columns of the files, and records have the \
        column `run`. Descriptions are in each file's metadata\n(`wansan.column.NAME`), and Spark shows them as comments. \
        Generated from `crates/schema`.\n"
        .to_owned();
    for table in [LakeSession::TABLE, LakeWait::TABLE] {
        page += &section(table);
    }
    page
}

fn section(table: &Table) -> String {
    let about = table.about();
    let (name, about) = about.split_once(": ").unwrap_or(("", &about));
    let (first, rest) = about.split_at(about.chars().next().map_or(0, char::len_utf8));
    let mut text = format!("\n## {name}\n\n{}{rest}\n\n", first.to_uppercase());
    text += "| column | unit | description |\n|---|---|---|\n";
    for field in table.fields {
        let unit = field.unit.map_or("", Unit::name);
        text += &format!("| `{}` | {unit} | {} |\n", field.name, field.about());
    }
    text
}

#[cfg(test)]
mod tests {
    /// `WANSAN_UPDATE=1` writes the page.
    #[test]
    fn the_page_is_what_the_tables_say() {
        wansan_generated::check("docs/reference/lake.md", &super::page());
    }
}
