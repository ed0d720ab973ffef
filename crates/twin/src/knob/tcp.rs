//! The knobs of TCP at both ends: congestion control, buffers, Nagle's algorithm, acknowledgements.

use wansan_mistake::nearest;
use wansan_settings::quantity::Size;
use wansan_sim::tcp::congestion::Law;

use super::Setting;
use super::host::Knob;
use super::value::{flag, one_each, size};
use crate::setup::{End, INITIATOR, Setup, TARGET};

/// Buffer size to try: far above the bandwidth-delay product of simulated paths.
const AMPLE_BUFFER_BYTES: u64 = 64 << 20;

/// The knobs of TCP.
pub(super) static KNOBS: &[Knob] = &[
    Knob {
        name: "tcp.congestion_control",
        get: |setup| {
            let [near, far] = &setup.first_connection().ends;
            let both = [&near.congestion_control, &far.congestion_control];
            Some(match both[0] == both[1] {
                true => both[0].clone(),
                false => format!("{} and {}", both[0], both[1]),
            })
        },
        set: |setup, text| {
            check_law(text)?;
            each_end(setup, |end| text.clone_into(&mut end.congestion_control));
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let other = |name: &&str| ends.iter().any(|end| end.congestion_control != **name);
            // Those of `wansan cc` have to be loaded first, so they are only used on request.
            let others = Law::KERNEL.into_iter().filter(other);
            others
                .map(|name| vec![Setting::new("tcp.congestion_control", name)])
                .collect()
        },
    },
    Knob {
        name: "initiator.congestion_control",
        get: |setup| {
            Some(
                setup.first_connection().ends[INITIATOR]
                    .congestion_control
                    .clone(),
            )
        },
        set: |setup, text| set_law(setup, INITIATOR, text),
        // Not tried by itself: `tcp.congestion_control` is tried for both ends, one of which sends nearly all data.
        tries: |_| Vec::new(),
    },
    Knob {
        name: "target.congestion_control",
        get: |setup| {
            Some(
                setup.first_connection().ends[TARGET]
                    .congestion_control
                    .clone(),
            )
        },
        set: |setup, text| set_law(setup, TARGET, text),
        tries: |_| Vec::new(),
    },
    Knob {
        name: "tcp.wmem",
        get: |setup| Some(Size(setup.first_connection().ends[0].send_buffer_bytes[1]).to_string()),
        set: |setup, text| {
            let most = size(text, 4096, (1 << 31) - 1)?;
            each_end(setup, |end| end.send_buffer_bytes[1] = most);
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let now = ends
                .iter()
                .map(|end| end.send_buffer_bytes[1])
                .min()
                .unwrap_or(0);
            one_each("tcp.wmem", [Size(AMPLE_BUFFER_BYTES.max(now))], Size(now))
        },
    },
    Knob {
        name: "tcp.rmem",
        get: |setup| {
            Some(Size(setup.first_connection().ends[0].receive_buffer_bytes[1]).to_string())
        },
        set: |setup, text| {
            let most = size(text, 4096, (1 << 31) - 1)?;
            each_end(setup, |end| end.receive_buffer_bytes[1] = most);
            Ok(())
        },
        tries: |setup| {
            let ends = &setup.first_connection().ends;
            let now = ends
                .iter()
                .map(|end| end.receive_buffer_bytes[1])
                .min()
                .unwrap_or(0);
            one_each("tcp.rmem", [Size(AMPLE_BUFFER_BYTES.max(now))], Size(now))
        },
    },
    Knob {
        name: "target.nagle",
        get: |setup| Some(setup.first_connection().ends[1].nagle.to_string()),
        set: |setup, text| {
            let on = flag(text)?;
            setup.connections_mut().for_each(|it| it.ends[1].nagle = on);
            Ok(())
        },
        tries: |setup| match setup.first_connection().ends[1].nagle {
            true => vec![vec![Setting::new("target.nagle", false)]],
            false => Vec::new(),
        },
    },
    Knob {
        name: "target.delayed_ack",
        get: |setup| Some(delayed_ack(setup, 1)),
        set: |setup, text| set_delayed_ack(setup, 1, text),
        tries: |setup| try_quick(setup, 1, "target.delayed_ack"),
    },
    Knob {
        name: "initiator.delayed_ack",
        get: |setup| Some(delayed_ack(setup, 0)),
        set: |setup, text| set_delayed_ack(setup, 0, text),
        tries: |setup| try_quick(setup, 0, "initiator.delayed_ack"),
    },
];

fn each_end(setup: &mut Setup, change: impl FnMut(&mut End)) {
    setup
        .connections_mut()
        .flat_map(|it| &mut it.ends)
        .for_each(change);
}

/// Rejects congestion controls that the simulator lacks.
pub(super) fn check_law(name: &str) -> Result<(), String> {
    match Law::names().contains(&name) {
        true => Ok(()),
        false => Err(format!(
            "the simulator has no `{name}`; {}",
            nearest(name, &Law::names())
        )),
    }
}

fn set_law(setup: &mut Setup, end: usize, name: &str) -> Result<(), String> {
    check_law(name)?;
    for connection in setup.connections_mut() {
        name.clone_into(&mut connection.ends[end].congestion_control);
    }
    Ok(())
}

fn delayed_ack(setup: &Setup, end: usize) -> String {
    match setup.first_connection().ends[end].quick_ack {
        true => "quick".to_owned(),
        false => "on".to_owned(),
    }
}

fn set_delayed_ack(setup: &mut Setup, end: usize, text: &str) -> Result<(), String> {
    let quick = match text {
        "on" => false,
        "quick" => true,
        _ => return Err(format!("`{text}` is neither `on` nor `quick`")),
    };
    setup
        .connections_mut()
        .for_each(|it| it.ends[end].quick_ack = quick);
    Ok(())
}

fn try_quick(setup: &Setup, end: usize, name: &str) -> Vec<Vec<Setting>> {
    match setup.first_connection().ends[end].quick_ack {
        true => Vec::new(),
        false => vec![vec![Setting::new(name, "quick")]],
    }
}
