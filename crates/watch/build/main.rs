//! Finds the live pages to embed in the program.

use std::path::Path;
use std::process::ExitCode;

#[path = "../../lab/build/page.rs"]
mod page;

/// The pages, under `web`, and their names in the program.
const PAGES: [(&str, &str); 2] = [
    ("WANSAN_LIVE_PAGE", "dist/live.html"),
    ("WANSAN_DIAGNOSIS_PAGE", "dist/diagnosis.html"),
];

fn main() -> ExitCode {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let built = PAGES.iter().map(|(_, page)| page);
    for name in page::SOURCES.iter().chain(built) {
        println!("cargo::rerun-if-changed={}", web.join(name).display());
    }
    for (variable, name) in PAGES {
        match page::current(&web, name) {
            Ok(page) => println!("cargo::rustc-env={variable}={}", page.display()),
            Err(error) => {
                println!("cargo::error={error}: run `make web` first (it needs Node.js)");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
