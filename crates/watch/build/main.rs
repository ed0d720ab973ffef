//! Finds the live page that is built into the program.

use std::path::Path;
use std::process::ExitCode;

#[path = "../../lab/build/page.rs"]
mod page;

/// The page, under `web`.
const LIVE_PAGE: &str = "dist/live.html";

fn main() -> ExitCode {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    for name in page::SOURCES.iter().chain([&LIVE_PAGE]) {
        println!("cargo::rerun-if-changed={}", web.join(name).display());
    }
    match page::current(&web, LIVE_PAGE) {
        Ok(page) => println!("cargo::rustc-env=WANSAN_LIVE_PAGE={}", page.display()),
        Err(error) => {
            println!("cargo::error={error}: run `make web` first (it needs Node.js)");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
