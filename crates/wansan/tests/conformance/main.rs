//! Our target under `iscsi-test-cu`, libiscsi's test suite for targets: the one that is installed, and
//! the current one where LIBISCSI_SOURCE names a checkout of it.
//!
//! An ordinary run counts each of its tests as one of ours. With `--page` (`make conformance`) it runs
//! our target and tgtd side by side instead and prints the results as a page of Markdown. It fails if
//! ours fails a test, other than for a defect in libiscsi, or passes no more tests than tgtd.

mod defects;
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
