//! The tracepoints of LIO with pauses, as a diagnosis listens to them. What listens is this program, in the guest.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use wansan_diagnose::tracepoints::TargetTracing;
use wansan_peers::guest::Guest;
use wansan_peers::process::free_address;
use wansan_peers::wansan::bench;
use wansan_trace::clock;

use super::lio;
use super::{image, kernel_trial, with_wansan};
use crate::stage::{LIMIT, Stop, WANSAN, empty_disk, folder};

/// The argument that has this program listen.
pub(crate) const LISTEN: &str = "listen-to-lio";
/// What this program is called in the guest.
const PROGRAM: &str = "interop";
/// Each I/O of the store takes so long, in ms.
const STORE_MS: u64 = 40;
const PAUSES: usize = 5;

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "commands_of_lio_that_began_before_a_pause_are_not_told_of_behind_it",
        pauses,
    )]
}

/// As many commands are under way at each moment as LIO has memory for, so that the memory of those at the beginning of a
/// pause is that of others at its end.
fn pauses() -> Result<(), Stop> {
    let folder = folder()?;
    let image = with_wansan(&image()?, folder.path())?;
    let image = image.with_program(&std::env::current_exe()?, PROGRAM, folder.path())?;
    let address = free_address()?;
    let disk = empty_disk(folder.path(), "disk.img", 64)?;
    let mut guest = Guest::boot(&image, &[&disk], &[(address, lio::PORT)])?;
    lio::serve_slowly(&mut guest, STORE_MS as f64)?;
    let url = lio::url(address);
    std::thread::scope(|scope| {
        let bench = scope.spawn(|| {
            let arguments = ["--op", "read", "--parallel", "32", "--time", "30s"];
            bench(Path::new(WANSAN), &url, &arguments, LIMIT)
        });
        let told = guest.run(&format!("{PROGRAM} {LISTEN}"));
        bench.join().expect("the bench does not panic")?;
        told
    })?;
    Ok(())
}

/// Listens, in the guest; the exit status says whether that is right.
pub(crate) fn listen() -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut tracing = TargetTracing::open().map_err(|error| text(&error))?;
    let some = Duration::from_millis(10 * STORE_MS);
    // The load begins meanwhile.
    let deadline = clock::now() + LIMIT;
    while tracing.take().0.is_empty() {
        if clock::now() > deadline {
            return Err("no commands".to_owned());
        }
        std::thread::sleep(some);
    }
    for _ in 0..PAUSES {
        std::thread::sleep(some);
        tracing.pause();
        tracing.take();
        std::thread::sleep(some);
        let resumed_ns = clock::now().ns();
        tracing.resume().map_err(|error| text(&error))?;
        std::thread::sleep(some);
        let (commands, lost) = tracing.take();
        let wrong = commands
            .iter()
            .find(|command| command.began_ns < resumed_ns);
        if let Some(wrong) = wrong {
            return Err(format!(
                "reported after a pause until {resumed_ns}: {wrong:?}"
            ));
        }
        if commands.is_empty() || lost > 0 {
            return Err(format!("{} commands, {lost} lost", commands.len()));
        }
    }
    Ok(())
}
