//! What in a plan netem does not support.

use wansan_mistake::Mistake;

use super::link::Link;
use super::netem_setting::NetemSetting;
use crate::plan::document::{Document, EmulatorKind, RecordKind};

/// Fails with the first such mistake, if the plan uses netem.
pub(super) fn check(
    document: &Document,
    text: &str,
    links: &[Link],
    mtu_bytes: u32,
) -> Result<(), Mistake> {
    if document.world.emulator != EmulatorKind::Netem {
        return Ok(());
    }
    let mistake = |what: String| {
        Mistake::new(format!(
            "{what}; leave `world.emulator = \"netem\"` out, or do without"
        ))
    };
    if !document.timeline.is_empty() {
        let what = "`timeline`: paths by netem do not change while they run";
        return Err(mistake(what.to_owned()).in_list(text, "timeline", 0));
    }
    let is_recorded = |kind: &RecordKind| matches!(kind, RecordKind::Packet | RecordKind::Path);
    if document.trace.kinds.iter().any(is_recorded) {
        let what = "`trace.kinds`: netem records neither `packet` nor `path`: write `kinds = \
                    [\"io\", \"pdu\", \"tcp\"]`";
        return Err(mistake(what.to_owned()));
    }
    for (place, link) in links.iter().enumerate() {
        let wrong = |key: &str, what: &str| {
            let what = format!("[[path]] `{}` {key}: {what}", link.name);
            mistake(what).in_table(text, "path", place, key)
        };
        if link.capture.is_any() {
            return Err(wrong("capture", "netem captures nothing"));
        }
        if link.near.len() != 1 || link.far.len() != 1 {
            let what = "netem joins one node at each end";
            return Err(wrong("between", what));
        }
        for direction in [&link.forward, &link.back] {
            NetemSetting::of(direction, mtu_bytes).map_err(|no| wrong(no.key, &no.what))?;
        }
    }
    Ok(())
}
