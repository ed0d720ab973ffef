//! Finds what to embed in the lab: the commit, and the report's page.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod page;

/// The page, under `web`.
const REPORT_PAGE: &str = "dist/report.html";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rustc-env=WANSAN_COMMIT={}", commit(&root));
    let web = root.join("web");
    for name in page::SOURCES.iter().chain([&REPORT_PAGE]) {
        println!("cargo::rerun-if-changed={}", web.join(name).display());
    }
    match page::current(&web, REPORT_PAGE) {
        Ok(page) => println!("cargo::rustc-env=WANSAN_REPORT_PAGE={}", page.display()),
        Err(error) => {
            println!("cargo::error={error}: run `make web` first (it needs Node.js)");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The checked-out commit, or `unknown` outside a repository.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(arguments)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // HEAD's reflog grows with every commit and checkout.
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        let log = PathBuf::from(folder).join("logs/HEAD");
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}
