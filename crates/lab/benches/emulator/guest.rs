//! The same benchmark in a virtual machine with Debian's kernel, which has netem.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::guest::{Guest, image};
use wansan_peers::trial::Stop;

const NAME: &str = "emulator";
/// The argument that leaves verdicts out, and all but packets per second and goodput: bounds are for a machine's own
/// processors, not for those of a guest.
pub(crate) const FIGURES_ONLY: &str = "--figures-only";

/// Runs this program there with these arguments. With `--json` it returns the results, and it prints them
/// otherwise.
///
/// # Errors
/// [`Stop`] without the programs that a virtual machine needs, or if it fails.
pub(crate) fn run(arguments: &[String]) -> Result<Value, Stop> {
    eprintln!(
        "beside netem in a virtual machine with Debian's kernel, as netem does not work here"
    );
    let folder = TempDir::with_prefix("wansan-bench-")?;
    let image = image(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    let image = image.with_program(&std::env::current_exe()?, NAME, folder.path())?;
    let mut guest = Guest::boot_with_all_processors(&image)?;
    guest.run("modprobe -a veth sch_netem sch_ingress cls_matchall act_mirred")?;
    let quoted: Vec<String> = arguments.iter().map(|it| format!("'{it}'")).collect();
    let command = format!("{NAME} {} {FIGURES_ONLY}", quoted.join(" "));
    let printed = guest.run(&format!(
        "{command} 2>/run/errors || {{ cat /run/errors; false; }}"
    ))?;
    if arguments.iter().any(|argument| argument == "--json") {
        let results = serde_json::from_str(&printed);
        return results.map_err(|error| Stop::Failed(format!("{error} in `{printed}`")));
    }
    print!("{printed}");
    Ok(Value::Null)
}
