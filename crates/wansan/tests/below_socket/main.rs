//! The time below the socket, split by the kernel's stamps: in worlds where it is known where it goes
//! ([`worlds`]), by the records of one end alone ([`one_end`]), and when connections are lost ([`lost`]).
//! Every I/O of every run is looked at.

mod loopback;
mod lost;
mod one_end;
mod worlds;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use wansan_arms::one_arm;
use wansan_insight::below::Split;
use wansan_insight::{Cell, Run, Window};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Worlds side by side would take each other's processor time.
    arguments.test_threads = Some(1);
    let mut trials = vec![
        Trial::test("sessions that are lost are not guessed at", || {
            lost::every_io_is_split_or_said_to_be_repeated("0")
        }),
        Trial::test("connections that are lost are not guessed at", || {
            lost::every_io_is_split_or_said_to_be_repeated("2")
        }),
        Trial::test("an end by itself is explained", one_end::explained),
    ];
    let arm = one_arm(worlds::attempt);
    for world in &worlds::WORLDS {
        trials.push(arm.measuring(world.name, move || worlds::is_split(world, arm)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The first cell of a run, and the time in which it was measured, where that is known.
fn read(folder: &Path) -> Result<(Cell, Option<Window>), Failed> {
    let run = Run::read(folder)?;
    let cell = run.cells.first().ok_or("the run has no cell")?;
    Ok((Cell::read(&run.cell_folder(cell)?)?, cell.window))
}

/// The parts of an I/O are its latency within a hundredth.
fn adds_up(split: &Split) -> Result<(), Failed> {
    let apart_ns = split.total_ns().abs_diff(split.latency_ns);
    if apart_ns * 100 <= split.latency_ns {
        return Ok(());
    }
    Err(format!("{apart_ns} ns are missing or too much: {split:?}").into())
}
