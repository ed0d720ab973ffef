//! The same benchmark in a virtual machine with Debian's kernel, which has netem.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::guest::{Guest, image};
use wansan_peers::trial::Stop;

const NAME: &str = "emulator";
/// The argument that leaves verdicts out, and all but packets per second and goodput: bounds are for processors, not for
/// the emulation of one.
pub(crate) const FIGURES_ONLY: &str = "--figures-only";

/// Runs this program there with these arguments, as this machine lacks netem for `reason`. Prints what it prints, and
/// returns its results if they are in JSON.
///
/// # Errors
/// [`Stop`] without the programs that a virtual machine needs, or if it fails.
pub(crate) fn run(reason: &str, arguments: &[String]) -> Result<Value, Stop> {
    eprintln!("beside netem in a virtual machine with Debian's kernel: {reason}");
    let folder = TempDir::with_prefix("wansan-bench-")?;
    let image = image(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    let image = image.with_program(&std::env::current_exe()?, NAME, folder.path())?;
    let mut guest = Guest::boot_with_all_processors(&image)?;
    guest.run("modprobe -a veth sch_netem sch_ingress cls_matchall act_mirred")?;
    let arguments: Vec<String> = arguments.iter().map(|it| format!("'{it}'")).collect();
    let command = format!("{NAME} {} {FIGURES_ONLY} 2>/dev/null", arguments.join(" "));
    let printed = guest.run(&command)?;
    let results = serde_json::from_str(&printed);
    if results.is_err() {
        print!("{printed}");
    }
    Ok(results.unwrap_or_default())
}
