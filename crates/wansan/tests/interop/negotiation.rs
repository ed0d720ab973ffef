//! Our initiator against our target with every combination of what decides how data moves:
//! InitialR2T, ImmediateData, both digests, and bursts shorter and longer than one I/O.

use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::wansan::Target;

use crate::stage::{Stop, WANSAN, load};
use crate::trial;

/// First burst, longest burst and longest data segment: one of many steps, an uneven one, and one
/// that takes a whole I/O.
const BURSTS: [[&str; 3]; 3] = [
    ["4KiB", "8KiB", "2KiB"],
    ["10000B", "70000B", "6000B"],
    ["256KiB", "1MiB", "256KiB"],
];
/// Longer than the short bursts and no multiple of any of them.
const BLOCK: &str = "97KiB";
const COUNT: u64 = 20;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for initial_r2t in ["yes", "no"] {
        for immediate_data in ["yes", "no"] {
            for header_digest in ["always", "never"] {
                for data_digest in ["always", "never"] {
                    let name = format!(
                        "negotiation::initial_r2t_{initial_r2t}_immediate_data_{immediate_data}_\
                         header_digest_{header_digest}_data_digest_{data_digest}"
                    );
                    let arguments = [
                        ["--initial-r2t", initial_r2t],
                        ["--immediate-data", immediate_data],
                        ["--header-digest", header_digest],
                        ["--data-digest", data_digest],
                    ];
                    trials.push(trial(name, move || every_burst(arguments.as_flattened())));
                }
            }
        }
    }
    trials
}

fn every_burst(arguments: &[&str]) -> Result<(), Stop> {
    for [first, longest, segment] in BURSTS {
        let bursts = [
            "--first-burst",
            first,
            "--max-burst",
            longest,
            "--max-recv-data-segment",
            segment,
        ];
        let negotiated = [arguments, &bursts].concat();
        let target_arguments = [&["--lun", "memory:4MiB"], &negotiated[..]].concat();
        let target = Target::start(Path::new(WANSAN), &target_arguments)?;
        let whole = [
            "--pattern",
            "sequential",
            "--block",
            BLOCK,
            "--parallel",
            "8",
            "--verify",
        ];
        for op in ["write", "read"] {
            let load_arguments = [&["--op", op], &whole[..], &negotiated[..]].concat();
            load(&target.url(0), COUNT, &load_arguments)?;
        }
    }
    Ok(())
}
