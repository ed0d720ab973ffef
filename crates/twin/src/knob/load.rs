//! The knobs of the application and of the store.

use wansan_iscsi::scsi::Geometry;
use wansan_settings::quantity::Size;

use super::host::{Knob, each_session};
use super::value::{number, one_each, size};

/// Maximum number of I/Os in flight.
const MOST_PARALLEL: u64 = 65_536;
/// The longest I/O: the maximum transfer of one command.
const MOST_BLOCK_BYTES: u64 = Geometry::MAX_TRANSFER_BYTES as u64;

/// The knobs of application and store.
pub(super) static KNOBS: &[Knob] = &[
    Knob {
        name: "workload.parallel",
        get: |setup| Some(setup.initiators[0].load.parallel.to_string()),
        set: |setup, text| {
            let parallel = number(text, 1, MOST_PARALLEL)? as usize;
            each_session(setup, |it| it.load.parallel = parallel);
            Ok(())
        },
        tries: |setup| {
            let now = setup.initiators[0].load.parallel as u64;
            one_each("workload.parallel", [(2 * now).min(MOST_PARALLEL)], now)
        },
    },
    Knob {
        name: "workload.block",
        get: |setup| {
            let load = &setup.initiators[0].load;
            // Listed I/Os keep their lengths.
            let has_one = load.listed.is_empty();
            has_one.then(|| Size(load.block_bytes.into()).to_string())
        },
        set: |setup, text| {
            let bytes = size(text, 512, MOST_BLOCK_BYTES)?;
            if !bytes.is_multiple_of(512) {
                return Err(format!("{text} is no multiple of 512 bytes"));
            }
            each_session(setup, |it| it.load.block_bytes = bytes as u32);
            Ok(())
        },
        tries: |setup| {
            let now = u64::from(setup.initiators[0].load.block_bytes);
            one_each(
                "workload.block",
                [Size((2 * now).min(MOST_BLOCK_BYTES))],
                Size(now),
            )
        },
    },
    Knob {
        name: "target.servers",
        get: |setup| Some(setup.store.as_ref()?.servers.to_string()),
        set: |setup, text| {
            let servers = number(text, 1, 65_536)? as u32;
            let store = setup.store.as_mut();
            store.ok_or("the store answers at once")?.servers = servers;
            Ok(())
        },
        tries: |setup| {
            let servers = setup.store.as_ref().map(|store| u64::from(store.servers));
            servers.map_or_else(Vec::new, |now| one_each("target.servers", [2 * now], now))
        },
    },
];
