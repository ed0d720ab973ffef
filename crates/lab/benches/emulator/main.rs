//! Benchmarks the emulator from outside with UDP flows and TCP streams between two hosts, against its bounds and, in
//! the same run, against the emulators `rattan` and netem. Where the kernel has no netem, packets per second and goodput
//! of ours and netem are compared in a virtual machine with Debian's kernel:
//!
//! - packets per second through one path at the sender's maximum: sent one by one, and with segmentation offload; and
//!   the rate of a loop that only sends;
//! - goodput of TCP through an unlimited path and one of 5 Gbit/s;
//! - lateness of packets relative to an ideal path, at half load; and the lateness of a loop that only waits;
//! - the rate measured at the far end;
//! - losses, and that a seed reproduces them.
//!
//! `cargo bench -p wansan-lab --bench emulator [-- packets|goodput|delays|rates|losses] [--json]`

mod arm;
mod cores;
mod flow;
mod guest;
mod raw;
mod stamped;
mod stream;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use wansan_lab::netem;
use wansan_lab::world::{TcpSettings, Topology, World, isolate};
use wansan_peers::compare::{Bound, Comparison, Side, in_turns, median};
use wansan_peers::machine::Machine;
use wansan_peers::verdict::Verdict;

use arm::{Arm, Lossy, Path};
use flow::{Flow, Ideal};

const MTU_BYTES: u32 = 1500;
/// An IP packet of the MTU and its Ethernet header.
const FULL_FRAME_BYTES: usize = MTU_BYTES as usize + 14;
const RUN: Duration = Duration::from_secs(1);
/// Turns of comparisons with rattan: even, so that each goes first equally often.
const TURNS: usize = 4;
/// Required packets per second per core.
const PACKETS_PER_S: f64 = 500_000.0;
const LATE_P50_NS: u64 = 50_000;
const LATE_P99_NS: u64 = 300_000;
const RATE_ERROR: f64 = 0.005;
const LOSS_PACKETS: u64 = 500_000;
/// Load of the loss test, low enough that nothing else loses packets.
const LOSS_PACKETS_PER_S: u64 = 150_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, role, argument] = &arguments[..]
        && flag == "--role"
    {
        return match play(role, argument) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{role}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let rattan = rattan();
    // The machine's defaults, which rattan's hosts use.
    let world = tcp_settings()
        .map_err(|error| error.to_string())
        .and_then(|tcp| {
            let topology = Topology::flat(&["west", "east"], &tcp, MTU_BYTES);
            let world = isolate().and_then(|_| World::build(&topology));
            Ok((world.map_err(|error| error.to_string())?, tcp))
        });
    let (world, tcp) = match world {
        Ok(world) => world,
        Err(error) => {
            eprintln!("not run: {error}");
            return ExitCode::from(2);
        }
    };
    let mut arms = vec![Arm::Wansan(&world)];
    match rattan {
        Ok(program) => arms.push(Arm::Rattan(program)),
        Err(reason) => eprintln!("not beside rattan: {reason}"),
    }
    let has_netem = netem::check();
    if has_netem.is_ok() {
        arms.push(Arm::Netem(tcp));
    }
    let mut report = Report {
        results: Vec::new(),
        judges: !arguments
            .iter()
            .any(|argument| argument == guest::FIGURES_ONLY),
        machine: Machine::watch(),
        quiet: arguments.iter().any(|argument| argument == "--json"),
    };
    // As usual with cargo, a word filters the benchmarks.
    let chosen = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen = |group: &str| chosen.is_none_or(|chosen| group.contains(chosen.as_str()));
    if chosen("packets") {
        packets(&world, &arms, &mut report);
    }
    if chosen("goodput") {
        goodput(&arms, &mut report);
    }
    let compares_in_guest = chosen("packets") || chosen("goodput");
    // A guest's processors are too slow for these loads, and late.
    let judges = report.judges;
    let chosen = |group| judges && chosen(group);
    if chosen("delays") {
        delays(&arms, &mut report);
    }
    if chosen("rates") {
        rates(&arms, &mut report);
    }
    if chosen("losses") {
        losses(&arms, &mut report);
    }
    let mut results = json!({"emulator": report.results});
    if has_netem.is_err() && compares_in_guest {
        match guest::run(&arguments) {
            Ok(in_guest) => results["in_guest"] = in_guest,
            Err(reason) => eprintln!("not beside netem: {reason}"),
        }
    }
    if report.quiet {
        println!("{results}");
    }
    ExitCode::SUCCESS
}

fn play(role: &str, argument: &str) -> std::io::Result<()> {
    let milliseconds = |text: &str| Duration::from_millis(text.parse().unwrap_or(1_000));
    match role {
        "send" => flow::send(serde_json::from_str::<Flow>(argument)?),
        "sink" => flow::sink(serde_json::from_str::<Ideal>(argument)?),
        "stream-sink" => stream::sink(milliseconds(argument)),
        _ => {
            let (to, time) = argument.split_once(' ').unwrap_or((argument, ""));
            let to = to.parse().unwrap_or(Ipv4Addr::LOCALHOST);
            stream::source(to, milliseconds(time))
        }
    }
}

/// The path of rattan, or why it cannot be benchmarked.
fn rattan() -> Result<PathBuf, String> {
    if !rustix::process::getuid().is_root() {
        return Err("it needs root".to_owned());
    }
    let named = std::env::var_os("RATTAN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("rattan"));
    named
        .or_else(|| places.find(|place| place.is_file()))
        .ok_or("it is not installed (`cargo install rattan`)".to_owned())
}

/// TCP settings with the machine's default buffers for its namespaces. rattan's hosts use these, so ours do too.
fn tcp_settings() -> std::io::Result<TcpSettings> {
    let read = |name| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let text = std::fs::read_to_string(&path)?;
        let sizes: Vec<u64> = text.split_ascii_whitespace().flat_map(str::parse).collect();
        sizes.try_into().map_err(|_| {
            let what = format!("{path}: {text:?} is not three sizes");
            std::io::Error::other(what)
        })
    };
    Ok(TcpSettings {
        congestion_control: stream::CONGESTION_CONTROL.to_owned(),
        rmem_bytes: read("tcp_rmem")?,
        wmem_bytes: read("tcp_wmem")?,
        ecn: false,
    })
}

/// Prints results as they arrive.
struct Report {
    results: Vec<Value>,
    /// Whether results are judged by their bounds.
    judges: bool,
    /// Load since the last verdict.
    machine: Machine,
    quiet: bool,
}

impl Report {
    fn title(&self, text: &str) {
        if !self.quiet {
            println!("{text}");
        }
    }

    fn tell(&mut self, arm: &str, case: &str, text: &str, mut facts: Value) {
        if !self.quiet {
            println!("  {arm:<7} {case:<34} {text}");
        }
        facts["arm"] = arm.into();
        facts["case"] = case.into();
        self.results.push(facts);
    }

    /// See [`tell`](Report::tell); for a result with a bound. If it is ours, it also enters the table of verdicts.
    fn judge(&mut self, arm: &Arm<'_>, case: &str, text: &str, holds: bool, facts: Value) {
        let verdict = Verdict::of(holds, self.disturbance().as_deref());
        self.give(arm, case, text, &verdict, facts);
    }

    fn give(&mut self, arm: &Arm<'_>, case: &str, text: &str, verdict: &Verdict, mut facts: Value) {
        if !self.judges {
            return self.tell(arm.name(), case, text, facts);
        }
        if matches!(arm, Arm::Wansan(_)) {
            verdict.record(&format!("emulator: {case}"), text);
        }
        facts["verdict"] = verdict.word().into();
        self.tell(arm.name(), case, &format!("{text}: {verdict}"), facts);
    }

    fn compare(&mut self, comparison: &Comparison) {
        let verdict = comparison.judge(self.disturbance().as_deref());
        if !self.quiet {
            println!("  {}", comparison.text(&verdict).replace('\n', "\n  "));
        }
        self.results.push(comparison.json(&verdict));
    }

    fn disturbance(&mut self) -> Option<String> {
        std::mem::replace(&mut self.machine, Machine::watch()).disturbance()
    }

    fn failed(&mut self, arm: &str, case: &str, reason: &str) {
        self.tell(
            arm,
            case,
            &format!("not measured: {reason}"),
            json!({"reason": reason}),
        );
    }
}

/// A flow of packets of one size.
fn flow(frame_bytes: usize, packets_per_s: u64, segments: usize) -> Flow {
    Flow {
        to: Ipv4Addr::LOCALHOST,
        frame_bytes,
        packets_per_s,
        segments,
        packets: u64::MAX,
        time_ms: RUN.as_millis() as u64,
        wait_ms: 300,
    }
}

/// Packets that a host passes to its link in one segmentation offload.
fn segments(frame_bytes: usize) -> usize {
    (15_000 / frame_bytes).clamp(1, 64)
}

fn packets(world: &World, arms: &[Arm<'_>], report: &mut Report) {
    report.title(&match report.judges {
        true => format!("packets/s through one path of 10 ms, bound {PACKETS_PER_S} on one core"),
        false => "packets/s through one path of 10 ms".to_owned(),
    });
    let path = Path {
        delay: Duration::from_millis(10),
        ..Path::default()
    };
    for frame_bytes in [64, 512, FULL_FRAME_BYTES] {
        let alone = raw_packets_per_core_s(world, frame_bytes);
        let case = format!("{frame_bytes} B frames");
        match &alone {
            Ok(rate) => report.tell(
                "raw",
                &case,
                &format!("{rate:7.0} per second of a core, by a loop that sends one by one"),
                json!({"packets_per_core_s": rate}),
            ),
            Err(error) => report.failed("raw", &case, &error.to_string()),
        }
        for arm in arms {
            for (how, segments) in [("one by one", 1), ("segmented", segments(frame_bytes))] {
                let case = format!("{frame_bytes} B frames, {how}");
                let outcome = match arm.flow(&path, flow(frame_bytes, 0, segments), true) {
                    Ok(outcome) => outcome,
                    Err(reason) => {
                        report.failed(arm.name(), &case, &reason);
                        continue;
                    }
                };
                let rate = outcome.seen.packets_per_s;
                let mut facts = json!({"packets_per_s": rate, "segments": segments});
                let text = format!("{rate:7.0}/s at the far end");
                let Some(statistics) = outcome.statistics else {
                    report.tell(arm.name(), &case, &text, facts);
                    continue;
                };
                let delivered = statistics.paths[0].counters.delivered.packets;
                let busy_ns = statistics.cpu_ns.saturating_sub(statistics.awake_ns);
                let per_core_s = delivered as f64 * 1e9 / busy_ns.max(1) as f64;
                facts["packets_per_core_s"] = per_core_s.into();
                facts["ring_drops"] = statistics.ring_drops.into();
                let ratio = alone.as_ref().map_or(0.0, |alone| per_core_s / alone);
                let text =
                    format!("{text}, {per_core_s:7.0} per second of a core ({ratio:.2} of raw)");
                report.judge(arm, &case, &text, per_core_s >= PACKETS_PER_S, facts);
            }
        }
    }
}

fn raw_packets_per_core_s(world: &World, frame_bytes: usize) -> std::io::Result<f64> {
    let east = &world.nodes()[1];
    let interface = &east.interfaces()[0];
    let (mac, IpAddr::V4(address)) = (interface.mac, IpAddr::from(east.address())) else {
        return Err(std::io::ErrorKind::Unsupported.into());
    };
    let name = interface.wan_interface.clone().unwrap_or_default();
    world
        .wan()
        .run(move || raw::packets_per_core_s(&name, mac, address.octets(), frame_bytes, RUN / 3))
}

fn goodput(arms: &[Arm<'_>], report: &mut Report) {
    report.title("TCP goodput, 1 ms each way");
    for bits_per_s in [0, 5_000_000_000] {
        let path = Path {
            bits_per_s,
            delay: Duration::from_millis(1),
            loss: None,
        };
        let case = match bits_per_s {
            0 => "unlimited".to_owned(),
            rate => format!("{} Gbit/s", rate / 1_000_000_000),
        };
        let sample = |arm: &Arm<'_>| {
            let goodput = arm.stream(&path, RUN).map(|outcome| outcome.seen / 1e6);
            goodput.map_err(|reason| format!("{}: {reason}", arm.name()))
        };
        let (compared, alone) = arms.split_at(if arms.len() > 1 { 2 } else { 0 });
        let told = |report: &mut Report, arm: &Arm<'_>, samples: &[f64]| {
            let mbit_per_s = median(samples);
            let turns = samples.len();
            report.tell(
                arm.name(),
                &case,
                &format!("{mbit_per_s:6.0} Mbit/s (median of {turns})"),
                json!({"goodput_bits_per_s": mbit_per_s * 1e6, "turns": turns}),
            );
        };
        for arm in alone {
            match sample(arm) {
                Ok(mbit_per_s) => told(report, arm, &[mbit_per_s]),
                Err(reason) => report.failed(arm.name(), &case, &reason),
            }
        }
        let [ours, other] = compared else {
            continue;
        };
        match in_turns(TURNS, [&mut || sample(ours), &mut || sample(other)]) {
            Ok([our_samples, other_samples])
                if report.judges && matches!(other, Arm::Rattan(_)) =>
            {
                let side = |arm: &Arm<'_>, samples| Side {
                    name: arm.name(),
                    samples,
                };
                report.compare(&Comparison {
                    question: format!("goodput, {case}"),
                    unit: "Mbit/s",
                    ours: side(ours, our_samples),
                    others: vec![side(other, other_samples)],
                    bound: Bound::AtLeast(1.0),
                });
            }
            Ok(samples) => {
                for (arm, samples) in compared.iter().zip(samples) {
                    told(report, arm, &samples);
                }
            }
            Err(reason) => report.failed("both", &case, &reason),
        }
    }
}

fn delays(arms: &[Arm<'_>], report: &mut Report) {
    report.title(
        "delay, later than ideal at half of 1 Gbit/s, and of 500000 packets/s; \
         bounds p50 50 µs, p99 300 µs",
    );
    let half = 1_000_000_000 / 2 / (FULL_FRAME_BYTES as u64 * 8);
    let mut cases: Vec<(u64, u64, Flow)> = [0, 1, 10, 50, 200]
        .map(|ms| (ms, 1_000_000_000, flow(FULL_FRAME_BYTES, half, 1)))
        .to_vec();
    cases.push((10, 0, flow(512, PACKETS_PER_S as u64 / 2, 16)));
    for (ms, bits_per_s, flow) in cases {
        let path = Path {
            bits_per_s,
            delay: Duration::from_millis(ms),
            loss: None,
        };
        let case = format!("{ms} ms, {} packets/s", flow.packets_per_s);
        let alone = raw::late(flow.packets_per_s, RUN);
        let text = format!(
            "late by p50 {} µs, p99 {} µs, at most {} µs, by a loop that only looks at the clock",
            alone.p50_ns / 1_000,
            alone.p99_ns / 1_000,
            alone.max_ns / 1_000,
        );
        let facts = json!({
            "late_p50_ns": alone.p50_ns,
            "late_p99_ns": alone.p99_ns,
            "late_max_ns": alone.max_ns,
        });
        report.tell("raw", &case, &text, facts);
        for arm in arms {
            let seen = match arm.flow(&path, flow, false) {
                Ok(outcome) => outcome.seen,
                Err(reason) => {
                    report.failed(arm.name(), &case, &reason);
                    continue;
                }
            };
            let text = format!(
                "late by p50 {} µs, p99 {} µs, at most {} µs; {} of {} lost",
                seen.late_p50_ns / 1_000,
                seen.late_p99_ns / 1_000,
                seen.late_max_ns / 1_000,
                seen.sent - seen.packets,
                seen.sent,
            );
            let holds = seen.late_p50_ns <= LATE_P50_NS && seen.late_p99_ns <= LATE_P99_NS;
            let facts = json!({
                "late_p50_ns": seen.late_p50_ns,
                "late_p99_ns": seen.late_p99_ns,
                "late_max_ns": seen.late_max_ns,
                "early": seen.early,
                "lost": seen.sent - seen.packets,
                "sent": seen.sent,
            });
            // An idle loop is just as late if a hypervisor takes its processor.
            let is_as_late =
                seen.late_p50_ns <= LATE_P50_NS && seen.late_p99_ns <= alone.p99_ns + LATE_P99_NS;
            if !holds && is_as_late {
                let late = format!("a bare loop is {} µs late at p99", alone.p99_ns / 1_000);
                let verdict = Verdict::NotMeasurable(late);
                report.give(arm, &case, &text, &verdict, facts);
            } else {
                report.judge(arm, &case, &text, holds, facts);
            }
        }
    }
}

fn rates(arms: &[Arm<'_>], report: &mut Report) {
    report.title("rate over 1 s as the far end sees it, bound 0.5 %");
    for mbit_per_s in [1, 10, 100, 1_000, 5_000] {
        let bits_per_s = mbit_per_s * 1_000_000;
        let path = Path {
            bits_per_s,
            delay: Duration::from_millis(1),
            loss: None,
        };
        for arm in arms {
            let counted_bits = arm.counted_bytes(FULL_FRAME_BYTES) as u64 * 8;
            let offered = bits_per_s / counted_bits * 5 / 4 + 1;
            let segments = if mbit_per_s < 1_000 {
                1
            } else {
                segments(FULL_FRAME_BYTES)
            };
            let mut flow = flow(FULL_FRAME_BYTES, offered, segments);
            flow.time_ms = 1_200;
            let case = format!("{mbit_per_s} Mbit/s");
            match arm.flow(&path, flow, false) {
                Ok(outcome) => {
                    let seen = outcome.seen.packets_per_s * counted_bits as f64;
                    let error = seen / bits_per_s as f64 - 1.0;
                    let text = format!("{:+.3} %", error * 100.0);
                    let holds = error.abs() <= RATE_ERROR;
                    let sent_per_s = outcome.seen.sent as f64 * 1e3 / flow.time_ms as f64;
                    let facts = json!({"error": error, "sent_per_s": sent_per_s});
                    if sent_per_s * counted_bits as f64 <= bits_per_s as f64 {
                        // A link that is not saturated says nothing about its rate.
                        let short = format!("the sender reached {sent_per_s:.0} packets/s");
                        report.give(arm, &case, &text, &Verdict::NotMeasurable(short), facts);
                    } else {
                        report.judge(arm, &case, &text, holds, facts);
                    }
                }
                Err(reason) => report.failed(arm.name(), &case, &reason),
            }
        }
    }
}

fn losses(arms: &[Arm<'_>], report: &mut Report) {
    report.title("losses of 500,000 packets, bound 3 σ; a seed drops the same packets again");
    let (p, r) = (0.005, 0.2);
    let mean = p / (p + r);
    // Correlation of the channel's successive states: 1 − p − r.
    let memory = (1.0 - p - r) / (p + r);
    let cases = [
        ("1 % independent", Lossy::Bernoulli(0.01), 0.01, 1.0),
        (
            "Gilbert, bursts of 5",
            Lossy::Gilbert { p, r },
            mean,
            1.0 + 2.0 * memory,
        ),
    ];
    for (case, loss, mean, spread) in cases {
        let path = Path {
            delay: Duration::from_millis(1),
            loss: Some(loss),
            ..Path::default()
        };
        for arm in arms {
            let mut flow = flow(64, LOSS_PACKETS_PER_S, 16);
            flow.packets = LOSS_PACKETS;
            flow.time_ms = 30_000;
            let both = arm
                .flow(&path, flow, false)
                .and_then(|first| Ok((first, arm.flow(&path, flow, false)?)));
            let (first, second) = match both {
                Ok((first, second)) => (first.seen, second.seen),
                Err(reason) => {
                    report.failed(arm.name(), case, &reason);
                    continue;
                }
            };
            // A loss of the very last packets is not detectable.
            let sent = first.sent as f64;
            let lost = sent - first.packets as f64;
            let sigma = (sent * mean * (1.0 - mean) * spread).sqrt();
            let off = (lost - sent * mean) / sigma;
            let burst = lost / first.gaps.max(1) as f64;
            let same = first.digest == second.digest;
            let text = format!(
                "{lost} of {sent} lost, {off:+.2} σ, bursts of {burst:.2}; {}",
                if same {
                    "the same again"
                } else {
                    "others the second time"
                },
            );
            let holds = off.abs() <= 3.0 && same;
            let facts = json!({
                "lost": lost, "sent": sent, "sigmas": off, "mean_burst": burst, "repeats": same,
            });
            report.judge(arm, case, &text, holds, facts);
        }
    }
}
