//! Our target under `iscsi-test-cu`, libiscsi's test suite for targets.
//!
//! An ordinary run counts each of its tests as one of ours. With `--page` it runs our target and
//! tgtd side by side instead, prints what became of every test as a page of Markdown, and fails
//! unless ours fails none and passes more: `make conformance`.

mod page;
mod sides;
mod trials;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--page") {
        return page::run();
    }
    wansan_peers::trial::run(trials::trials())
}
