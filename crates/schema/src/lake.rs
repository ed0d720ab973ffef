//! What a lake has beside records: the sessions of many recordings, and what each of them waited for.

use crate::table::{Table, Unit, tables};

tables! {
    /// `sessions`: how one session of a recording fared while it was measured.
    LakeSession {
        /// The recording.
        run: String,
        /// The session: ISID and TSIH, as folders of records have it.
        session: String,
        /// The initiator's address and port; empty where no connection was recorded.
        initiator: String,
        /// The target's address and port; empty where no connection was recorded.
        target: String,
        /// For how long it was measured, in seconds.
        measured_s: f64,
        /// I/Os that were completed meanwhile.
        ios: u64 => Count,
        /// The same per second.
        iops: f64 => PerS,
        /// Mean number of I/Os in flight.
        in_flight_mean: f64 => Count,
        /// Mean latency.
        latency_mean_ns: f64 => Ns,
        /// Half of the I/Os took at most this long.
        latency_p50_ns: u64 => Ns,
        /// All but one in a hundred took at most this long.
        latency_p99_ns: u64 => Ns,
        /// Records of the recording that were lost because memory was used up.
        records_dropped: u64 => Count,
    }

    /// `waits`: what the I/Os of a session waited for, by cause, layer, way and source. The `wait_ns` of a session add up
    /// to its `latency_mean_ns`.
    LakeWait {
        /// The recording.
        run: String,
        /// The session: ISID and TSIH, as folders of records have it.
        session: String,
        /// What has to be relieved for it to be shorter: the limit that it belongs to.
        limited_by: String,
        /// Its cause, as results have it.
        cause: String,
        /// The layer that had the I/Os meanwhile.
        layer: String,
        /// `to_target` or `to_initiator`; empty while a program or the store had them.
        way: String,
        /// What it is derived from.
        source: String,
        /// The I/Os that it is a mean of.
        ios: u64 => Count,
        /// Its mean length.
        wait_ns: f64 => Ns,
        /// How much of that may belong to the waits beside it.
        uncertain_ns: f64 => Ns,
        /// Its share of the latency, 0 to 1.
        share: f64 => Ratio,
    }
}

/// `docs/reference/lake.md`.
#[must_use]
pub fn page() -> String {
    let mut page = "# A lake\n\n\
        What `wansan lab export lake` writes beside the records ([records.md](records.md)), which stand in folders of the \
        same names.\nEvery table is partitioned by `host` and `date` (the day in UTC on which the recording began), \
        records of sessions by `session` too;\nwhat is a folder is no column of the files, and records have the column \
        `run`. Descriptions stand in the metadata of each file\n(`wansan.column.NAME`), and Spark shows them as comments. \
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
    text += "| column | unit | what it holds |\n|---|---|---|\n";
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
