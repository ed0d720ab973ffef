//! What `wansan diagnose` costs: a load over the loopback interface with it beside and without, in turns. The bounds are 2 % of
//! the IOPS of a load that asks for as much as it gets, and 5 % of a core at 50,000 IOPS.
//!
//! The share of a core is the processor time of the diagnosis, with the reading of programs and the analysis at its end, and what
//! the load's own programs take more with it beside them: packets are handed over in their time.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::Value;
use wansan_peers::machine::Machine;
use wansan_peers::verdict::Verdict;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const NAME: &str = "iqn.2026-11.net.example:bench";
/// Rounds of each kind.
const ROUNDS: usize = 5;
/// How long each is; the diagnosis is as long.
const ROUND_S: f64 = 12.0;
const IOPS: u32 = 50_000;
const RATIO_BOUND: f64 = 0.98;
const CORE_BOUND: f64 = 0.05;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Verdict::NotRun(error.to_string()).record("a diagnosis beside a load", "none");
            eprintln!("diagnose: {error}");
            ExitCode::from(2)
        }
    }
}

/// A program, until it is dropped.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Result<Running> {
        let mut command = Command::new(WANSAN);
        let command = command.args(arguments).stderr(Stdio::null());
        Ok(Running(command.stdout(Stdio::piped()).spawn()?))
    }

    /// Its processor time, also when it has ended and nobody has waited for it.
    fn time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u64>);
        let (Some(Ok(user)), Some(Ok(system))) = (fields.next(), fields.next()) else {
            return Err("/proc has no processor time".into());
        };
        let ticks = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_secs(user + system) / u32::try_from(ticks)?)
    }

    /// What it prints to its end, as JSON, and its processor time.
    fn end(&mut self) -> Result<(Value, Duration)> {
        let mut printed = String::new();
        let output = self.0.stdout.as_mut().ok_or("no output")?;
        output.read_to_string(&mut printed)?;
        // It has closed its output, and may still be about to end.
        std::thread::sleep(Duration::from_millis(100));
        let time = self.time()?;
        self.0.wait()?;
        Ok((serde_json::from_str(&printed)?, time))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A target, and where it listens.
struct Target {
    program: Running,
    portal: String,
}

impl Target {
    fn start() -> Result<Target> {
        let listen = ["target", "--json", "--listen", "127.0.0.1:0"];
        let what = ["--name", NAME, "--lun", "memory:64MiB"];
        let mut program = Running::start(&[listen, what].concat())?;
        let output = program.0.stdout.as_mut().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)?;
        let portal = said["address"].as_str().ok_or("no address")?.to_owned();
        Ok(Target { program, portal })
    }
}

/// What a load did.
struct Round {
    iops: f64,
    /// Processor time of its programs, as a share of a core.
    load: f64,
    /// That of the diagnosis beside it.
    diagnosis: f64,
}

fn round(target: &Target, rate: Option<u32>, is_diagnosed: bool) -> Result<Round> {
    let url = format!("iscsi://{}/{NAME}/0", target.portal);
    let time = format!("{ROUND_S}s");
    let mut load = vec!["bench", &url, "--json", "--time", &time, "--warmup", "0s"];
    load.extend(["--op", "read", "--block", "4KiB", "--parallel", "32"]);
    let rate = rate.map(|rate| rate.to_string());
    if let Some(rate) = &rate {
        load.extend(["--rate", rate]);
    }
    let before = target.program.time()?;
    let mut load = Running::start(&load)?;
    let port = target.portal.rsplit(':').next().unwrap_or_default();
    let diagnosis = is_diagnosed.then(|| {
        let wanted = ["diagnose", "--json", "--for", &time, "--port", port];
        // The session is there by then.
        std::thread::sleep(Duration::from_millis(200));
        Running::start(&wanted)
    });
    let (told, load_time) = load.end()?;
    let target_time = target.program.time()? - before;
    let diagnosed = match diagnosis.transpose()? {
        None => Duration::ZERO,
        Some(mut diagnosis) => {
            let (told, time) = diagnosis.end()?;
            if told["sessions"].as_array().is_none_or(Vec::is_empty) {
                return Err("the diagnosis saw no I/O".into());
            }
            time
        }
    };
    Ok(Round {
        iops: told["iops"].as_f64().ok_or("no IOPS")?,
        load: (load_time + target_time).as_secs_f64() / ROUND_S,
        diagnosis: diagnosed.as_secs_f64() / ROUND_S,
    })
}

/// Rounds with a diagnosis and without, beside each other.
fn rounds(target: &Target, rate: Option<u32>) -> Result<Vec<[Round; 2]>> {
    let each = (0..ROUNDS).map(|number| {
        // Which is first changes, as the machine may get slower or faster.
        let first = round(target, rate, number % 2 == 0)?;
        let second = round(target, rate, number % 2 != 0)?;
        Ok(match number % 2 {
            0 => [first, second],
            _ => [second, first],
        })
    });
    each.collect()
}

fn measure() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err("packets are seen by root alone".into());
    }
    let target = Target::start()?;
    let machine = Machine::watch();
    let unbounded = rounds(&target, None)?;
    let disturbance = machine.disturbance();
    let ratio = median(
        unbounded
            .iter()
            .map(|[with, without]| with.iops / without.iops),
    );
    let iops = median(unbounded.iter().map(|[_, without]| without.iops));
    say(
        "IOPS beside a diagnosis",
        &format!("{ratio:.4} of {iops:.0}, bound {RATIO_BOUND}"),
        &Verdict::of(ratio >= RATIO_BOUND, disturbance.as_deref()),
    );
    let machine = Machine::watch();
    let paced = rounds(&target, Some(IOPS))?;
    let disturbance = machine.disturbance();
    let own = median(paced.iter().map(|[with, _]| with.diagnosis));
    let more = median(paced.iter().map(|[with, without]| with.load - without.load));
    let iops = median(paced.iter().map(|[with, _]| with.iops));
    let share = own + more.max(0.0);
    let figure = format!(
        "{:.1} % of a core ({:.1} % its own, {:+.1} % in the load's programs) at {iops:.0} IOPS, bound {:.0} %",
        share * 100.0,
        own * 100.0,
        more * 100.0,
        CORE_BOUND * 100.0
    );
    let verdict = match iops >= 0.95 * f64::from(IOPS) {
        true => Verdict::of(share <= CORE_BOUND, disturbance.as_deref()),
        false => Verdict::NotMeasurable(format!("this machine does no {IOPS} IOPS")),
    };
    say(
        "processor time of a diagnosis at 50,000 IOPS",
        &figure,
        &verdict,
    );
    Ok(())
}

fn say(question: &str, figure: &str, verdict: &Verdict) {
    println!("{question}: {figure}: {verdict}");
    verdict.record(question, figure);
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
