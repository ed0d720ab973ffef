//! HighSpeed TCP by us and by the kernel's own module, over one path with one list of losses.
//!
//! The module runs in a guest with Debian's kernel. That one (6.1) cannot hold a control by a link, so
//! ours runs beside it, in the kernel of this computer.

use libtest_mimic::Trial;
use wansan_peers::guest::Guest;
use wansan_peers::process::run;
use wansan_tcp::control::HighSpeed;
use wansan_tcp::ebpf;

use std::process::Command;
use std::time::Duration;

use super::plan::{self, Ran};
use super::{image, kernel_trial, with_wansan};
use crate::stage::{Stop, WANSAN, folder, require};

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "our_highspeed_beside_the_kernels",
        beside_the_kernels,
    )]
}

/// A loss in so many packets: 53 segments by RFC 3649 §5, few enough for a guest by software.
const EVERY: u64 = 1500;
/// Packets that are lost, more than the run comes to. The first ends slow start.
const LOSSES: u64 = 60;

const PLAN: &str = r#"
title = "HighSpeed TCP by losses"
host = [{ name = "client" }, { name = "storage" }]

[[path]]
name = "wan"
between = ["client", "storage"]
delay = "50ms"

[path.back]
loss = { packets = [LOST] }

[target]
host = "storage"
luns = ["memory:16MiB"]

[[initiator]]
host = "client"

[tcp]
congestion_control = "CONTROL"

[workload]
op = "read"
pattern = "sequential"
block = "64KiB"
parallel = 16
warmup = "9s"
time = "18s"

[trace]
kinds = ["io", "tcp"]
memory = "16MiB"
"#;

/// The kernel's module counts an ACK as one packet, however many it acknowledges (docs/internals/congestion-control.md),
/// so its window is below the law's by as much as ACKs stretch, which the run has counted.
fn beside_the_kernels() -> Result<(), Stop> {
    ebpf::available().map_err(|reason| Stop::NotRun(reason.to_string()))?;
    let by_rfc = HighSpeed::default().response(1.0 / EVERY as f64);
    let ours = here()?.mean_window()?;
    let guests = in_guest()?;
    let kernels = guests.mean_window()?;
    let stretch = guests.stretch()?;
    let by_acks = counting_acks(stretch);
    println!(
        "a loss in {EVERY} packets: ours {ours:.1} segments, by RFC 3649 §5 {by_rfc:.1}; the kernel's \
         {kernels:.1}, by counting ACKs of {stretch:.2} packets {by_acks:.1}"
    );
    require((ours / by_rfc - 1.0).abs() < 0.15, || {
        format!("ours is {ours:.1} segments, by RFC 3649 §5 it is {by_rfc:.1}")
    })?;
    require((kernels / by_acks - 1.0).abs() < 0.15, || {
        format!(
            "the kernel's is {kernels:.1} segments, by counting ACKs of {stretch:.2} packets it is \
             {by_acks:.1}"
        )
    })
}

/// The mean window where each ACK counts as one packet and acknowledges `stretch`: a round trip adds
/// a(w) / stretch, so that a loss in as many packets finds the window of a loss rate as many times as
/// high. Up to Low_Window the law is Reno's: 3/2 w² packets to a loss (RFC 3649 §5).
fn counting_acks(stretch: f64) -> f64 {
    let law = HighSpeed::default();
    let loss = stretch / EVERY as f64;
    if loss < law.low_loss {
        law.response(loss)
    } else {
        (1.5 / loss).sqrt()
    }
}

fn plan(control: &str) -> String {
    let mut lost = vec!["200".to_owned()];
    lost.extend((1..LOSSES).map(|number| (number * EVERY).to_string()));
    PLAN.replace("LOST", &lost.join(", "))
        .replace("CONTROL", control)
}

impl Ran {
    fn mean_window(&self) -> Result<f64, Stop> {
        let mean = &self.results["cells"][0]["cwnd"]["sum_mean_packets"];
        let none = || Stop::Failed(format!("no windows in {}", self.results));
        mean.as_f64().ok_or_else(none)
    }

    /// Packets that came to the reader for each that it sent, which are ACKs but for a few commands.
    fn stretch(&self) -> Result<f64, Stop> {
        let paths = self.manifest["cells"][0]["paths"].as_array();
        let out_packets = |name: &str| {
            let mut paths = paths.into_iter().flatten();
            paths.find(|path| path["name"] == name)?["out_packets"].as_f64()
        };
        match (out_packets("wan:back"), out_packets("wan:forward")) {
            (Some(data), Some(acks)) if acks > 0.0 => Ok(data / acks),
            _ => Err(Stop::Failed(format!("no packets in {}", self.manifest))),
        }
    }
}

/// By ours, on this computer.
fn here() -> Result<Ran, Stop> {
    let folder = folder()?;
    std::fs::write(folder.path().join("trial.toml"), plan("wansan_hstcp"))?;
    let mut lab = Command::new(WANSAN);
    lab.args(["lab", "run", "trial.toml"])
        .current_dir(folder.path());
    run(&mut lab, Duration::from_secs(120))?.success()?;
    let mut runs = std::fs::read_dir(folder.path().join("runs/trial"))?;
    let run = runs
        .next()
        .ok_or_else(|| Stop::Failed("no run folder".to_owned()))??;
    let read = |name| std::fs::read_to_string(run.path().join(name));
    Ran::parse(&read("results.json")?, &read("manifest.json")?)
}

/// By the kernel's module, in a guest.
fn in_guest() -> Result<Ran, Stop> {
    let folder = folder()?;
    let image = with_wansan(&image()?, folder.path())?;
    let mut guest = Guest::boot_on_own_time(&image)?;
    guest.run("modprobe -a veth tcp_highspeed")?;
    plan::run(&mut guest, "trial", &plan("highspeed"))
}
