//! Our congestion controls in the running kernel: the arithmetic of HighSpeed TCP's program, and how controls are
//! loaded and unloaded. Needs root, and a build with eBPF.

use std::process::ExitCode;

use wansan_peers::trial;

#[cfg(feature = "ebpf")]
mod arithmetic;
#[cfg(feature = "ebpf")]
mod coming_and_going;

fn main() -> ExitCode {
    #[cfg(feature = "ebpf")]
    if let Some(code) = coming_and_going::role() {
        return code;
    }
    trial::run(trials())
}

#[cfg(feature = "ebpf")]
fn trials() -> Vec<libtest_mimic::Trial> {
    let mut trials = arithmetic::trials();
    trials.extend(coming_and_going::trials());
    trials
}

/// A build without eBPF prints one line for all of them.
#[cfg(not(feature = "ebpf"))]
fn trials() -> Vec<libtest_mimic::Trial> {
    vec![trial::trial("controls in the kernel", || {
        let reason = wansan_tcp::ebpf::available().unwrap_err();
        Err(trial::Stop::NotRun(reason.to_string()))
    })]
}
