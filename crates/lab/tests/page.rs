//! A page built from other sources is not embedded in the lab.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

#[path = "../build/page.rs"]
mod build;

const PAGE: &str = "dist/report.html";

/// A copy of `web` without built and installed files: its sources, and a page with their fingerprint.
fn web() -> Result<TempDir, Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let web = tempfile::tempdir()?;
    for source in build::SOURCES {
        let status = Command::new("cp")
            .arg("-r")
            .arg(here.join(source))
            .arg(web.path())
            .status()?;
        assert!(status.success(), "cannot copy {source}");
    }
    fs::create_dir(web.path().join("dist"))?;
    fs::copy(here.join(PAGE), web.path().join(PAGE))?;
    Ok(web)
}

#[test]
fn the_page_of_these_sources_is_taken() -> Result<(), Box<dyn Error>> {
    let web = web()?;
    let taken = build::current(web.path(), PAGE).map_err(|error| error.to_string())?;
    assert_eq!(taken, web.path().join(PAGE));
    Ok(())
}

#[test]
fn a_page_of_other_sources_is_refused() -> Result<(), Box<dyn Error>> {
    type Change = fn(&Path) -> std::io::Result<()>;
    let changes: [(&str, Change); 4] = [
        ("a source changed", |web| {
            fs::write(web.join("src/report/main.ts"), "show();")
        }),
        ("a file more", |web| {
            fs::write(web.join("src/chart/more.ts"), "")
        }),
        ("a file less", |web| {
            fs::remove_file(web.join("src/chart/zoom.ts"))
        }),
        ("another name", |web| {
            fs::rename(web.join("src/chart"), web.join("src/charts"))
        }),
    ];
    for (name, change) in changes {
        let web = web()?;
        change(web.path())?;
        let refused = build::current(web.path(), PAGE).map_err(|error| error.to_string());
        let expected = format!(
            "{} was built from other sources",
            web.path().join(PAGE).display()
        );
        assert_eq!(refused, Err(expected), "{name}");
    }
    Ok(())
}

#[test]
fn a_page_that_is_not_there_is_missing() -> Result<(), Box<dyn Error>> {
    let web = web()?;
    fs::remove_file(web.path().join(PAGE))?;
    let refused = build::current(web.path(), PAGE).map_err(|error| error.to_string());
    let expected = format!("{} is missing", web.path().join(PAGE).display());
    assert_eq!(refused, Err(expected));
    Ok(())
}
