//! What in a plan a simulated world does not support.

use wansan_mistake::{Mistake, nearest};
use wansan_san::store::Backing;
use wansan_sim::tcp::congestion::Law;

use super::link::Link;
use crate::plan::document::{Document, EmulatorKind, RecordKind, RelayTable, WorldKind};

/// Fails with the first such mistake, if the plan is for a simulated world.
pub(super) fn check(document: &Document, text: &str, links: &[Link]) -> Result<(), Mistake> {
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
    if let Err(what) = check_control("tcp.congestion_control", &document.tcp.congestion_control) {
        return Err(Mistake::new(what).in_section(text, "tcp", "congestion_control"));
    }
    for (place, relay) in document.relay.iter().enumerate() {
        check_relay(relay)
            .map_err(|(side, what)| Mistake::new(what).in_table(text, "relay", place, side))?;
    }
    for (place, stream) in document.stream.iter().enumerate() {
        let control = stream.stream.congestion_control.as_deref();
        let key = format!("stream.{}.congestion_control", stream.name);
        if let Some(Err(what)) = control.map(|control| check_control(&key, control)) {
            let mistake = Mistake::new(what);
            return Err(mistake.in_table(text, "stream", place, "congestion_control"));
        }
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
    }
    Ok(())
}

/// Checks that both sides of a relay are supported; returns the side and the mistake.
fn check_relay(relay: &RelayTable) -> Result<(), (&'static str, String)> {
    let flow = &relay.flow;
    for (name, side) in [("in", &flow.r#in), ("out", &flow.out)] {
        let key = format!("relay.{}.{name}", relay.name);
        if let Some(control) = &side.congestion_control {
            let checked = check_control(&format!("{key}.congestion_control"), control);
            checked.map_err(|what| (name, what))?;
        }
        if side.user_timeout.is_some() {
            let what = format!(
                "`{key}.user_timeout`: connections are never given up in a simulated world; `world.kind = \"netns\"` can"
            );
            return Err((name, what));
        }
    }
    Ok(())
}

/// Checks that a congestion control is supported.
fn check_control(key: &str, control: &str) -> Result<(), String> {
    let known = Law::names();
    if known.contains(&control) {
        return Ok(());
    }
    let near = nearest(control, &known);
    Err(format!(
        "`{key}`: a simulated world has no `{control}`; {near}"
    ))
}
