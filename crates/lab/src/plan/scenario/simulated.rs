//! What a plan asks for that a simulated world cannot do.

use wansan_mistake::{Mistake, nearest};
use wansan_san::store::Backing;
use wansan_settings::usual;
use wansan_sim::tcp::congestion::Law;

use super::link::Link;
use super::route::PlannedRoute;
use crate::plan::document::{ControlTable, Document, EmulatorKind, RecordKind, WorldKind};

/// Fails with the first of it, if the plan is for a simulated world.
pub(super) fn check(
    document: &Document,
    text: &str,
    links: &[Link],
    routes: &[PlannedRoute],
) -> Result<(), Mistake> {
    if document.world.kind != WorldKind::Sim {
        return Ok(());
    }
    let mistake = |key: &str, what: &str| {
        Mistake::new(format!(
            "`{key}`: {what} in a simulated world; `world.kind = \"netns\"` can"
        ))
    };
    let section = |table: &str, key: &str, what: &str| {
        mistake(&format!("{table}.{key}"), what).in_section(text, table, key)
    };
    if document.world.emulator != EmulatorKind::User {
        return Err(section("world", "emulator", "netem does not run"));
    }
    let goes_down = |statement: &String| statement.trim_end().ends_with(" down");
    if let Some(place) = document.timeline.iter().position(goes_down) {
        // An initiator there does not recover what it has lost.
        return Err(mistake("timeline", "paths do not go down").in_list(text, "timeline", place));
    }
    if !document.relay.is_empty() {
        return Err(mistake("relay", "relays do not run").in_table(text, "relay", 0, "name"));
    }
    if !document.stream.is_empty() {
        return Err(mistake("stream", "streams do not run").in_table(text, "stream", 0, "name"));
    }
    if let Some(place) = routes.iter().position(|route| route.tunnel.is_some()) {
        return Err(
            mistake("route.vpn", "tunnels do not run").in_table(text, "route", place, "vpn")
        );
    }
    let control = &document.tcp.congestion_control;
    if !Law::NAMES.contains(&control.as_str()) {
        let what = format!(
            "`tcp.congestion_control`: a simulated world has no `{control}`; {}",
            nearest(control, &Law::NAMES)
        );
        return Err(Mistake::new(what).in_section(text, "tcp", "congestion_control"));
    }
    if document.tcp.control != usual::<ControlTable>() {
        return Err(section(
            "tcp",
            "control",
            "congestion controls take no settings",
        ));
    }
    if document.workload.load.verify {
        return Err(section("workload", "verify", "stores keep no data"));
    }
    if document.trace.kinds.contains(&RecordKind::Stamp) {
        return Err(section(
            "trace",
            "kinds",
            "no kernel stamps (`stamp`) are made",
        ));
    }
    let luns = document.target.iter().flat_map(|target| &target.luns);
    for lun in luns {
        if !matches!(lun.backing, Backing::Memory { .. }) {
            return Err(section("target", "luns", "files are not served"));
        }
    }
    for (place, link) in links.iter().enumerate() {
        let path = |key: &str, what: &str| {
            mistake(&format!("path.{}.{key}", link.name), what).in_table(text, "path", place, key)
        };
        if link.capture.is_any() {
            return Err(path("capture", "no frames are captured"));
        }
        let has_classes = [&link.forward, &link.back]
            .iter()
            .any(|direction| !direction.priorities.is_empty());
        if has_classes {
            return Err(path("queue", "routes have no priority"));
        }
    }
    Ok(())
}
