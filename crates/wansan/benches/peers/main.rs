//! wansan beside other implementations of iSCSI, and beside what the kernel allows: both sides of
//! each comparison in turns in one run, and their ratio beside its bound.
//!
//! `cargo bench -p wansan --bench peers -- [--json] [QUESTION...]`
//!
//! A bound that is missed, or cannot be measured on a machine that does other things, is reported and does not
//! fail the run.

mod crowd;
mod disks;
mod echo;
mod exchanges;
mod files;
mod limit;
mod loads;
mod many;
mod nbd;
mod observed;
mod questions;
mod stream;
mod targets;

use std::io;
use std::process::ExitCode;

use wansan_peers::question::ask;

use questions::QUESTIONS;

fn main() -> ExitCode {
    // cargo itself adds --bench.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let serve: Option<fn() -> io::Result<()>> = match arguments.first().map(String::as_str) {
        Some(echo::SERVER_ARGUMENT) => Some(echo::serve),
        Some(exchanges::SERVER_ARGUMENT) => Some(exchanges::serve),
        Some(stream::SERVER_ARGUMENT) => Some(stream::serve),
        _ => None,
    };
    if let Some(serve) = serve {
        return match serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("answering side: {error}");
                ExitCode::FAILURE
            }
        };
    }
    ask(&arguments, &QUESTIONS)
}
