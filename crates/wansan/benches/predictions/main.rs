//! Predictions beside measurements: random worlds in network namespaces, each recorded, predicted with one
//! change by `wansan explain --what-if --set`, and then run with it. Needs no root.
//!
//! `cargo bench -p wansan --bench predictions -- [--json] [SEED...]`
//!
//! Without seeds, those from 1 to 100. A bound that is missed is reported and does not fail the run.

mod trial;
mod world;

use std::process::ExitCode;

use anyhow::{Context, Result};
use wansan_peers::verdict::Verdict;

use trial::Trial;
use world::World;

/// The worlds of a run without seeds.
const WORLDS: u64 = 100;
/// Nine of ten predictions are to be as near as this, and all as near as the other.
const NEAR: f64 = 0.1;
const NEAR_SHARE: f64 = 0.9;
const FAR: f64 = 0.2;
/// How many of the worst are listed.
const WORST: usize = 3;

fn main() -> ExitCode {
    // cargo itself adds --bench.
    let arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    let (options, seeds): (Vec<_>, Vec<_>) =
        arguments.partition(|argument| argument.starts_with("--"));
    match bench(&options, &seeds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("predictions: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn bench(options: &[String], seeds: &[String]) -> Result<()> {
    if let Some(wrong) = options.iter().find(|option| *option != "--json") {
        anyhow::bail!("{wrong}: expected --json");
    }
    let json = !options.is_empty();
    let seed = |text: &String| {
        text.parse()
            .with_context(|| format!("{text}: expected a seed"))
    };
    let seeds: Vec<u64> = match seeds.is_empty() {
        true => (1..=WORLDS).collect(),
        false => seeds.iter().map(seed).collect::<Result<_>>()?,
    };
    let mut trials = Vec::new();
    let mut unusable = 0;
    for seed in seeds {
        let trial = match Trial::run(&World::of_seed(seed)) {
            Ok(trial) => trial,
            // Such as one in which no I/O completes in the time that is measured.
            Err(error) => {
                unusable += 1;
                let why = format!("{error:#}");
                let why = why.lines().rfind(|line| !line.is_empty());
                eprintln!("{seed:4}  cannot be measured: {}", why.unwrap_or_default());
                continue;
            }
        };
        match json {
            true => println!("{}", serde_json::to_string(&trial)?),
            false => println!("{}", line(&trial)),
        }
        trials.push(trial);
    }
    judge(trials, unusable, json);
    Ok(())
}

fn line(trial: &Trial) -> String {
    let measured = trial.measured() / 1e6;
    let runs = match trial.changed[..] {
        [least, .., most] => format!("({:.3} … {:.3}) ", least / 1e6, most / 1e6),
        _ => String::new(),
    };
    let predicted = match (&trial.predicted, trial.off()) {
        (Ok(predicted), Some(off)) => {
            format!("predicted {:9.3}  {:+6.1} %", predicted / 1e6, 100.0 * off)
        }
        (Ok(_), None) => String::new(),
        (Err(why), _) => format!("not predicted: {why}"),
    };
    let disturbed = trial
        .disturbance
        .as_ref()
        .map_or(String::new(), |by| format!("  ({by})"));
    format!(
        "{:4}  {:38} {:9.3} MB/s -> {measured:9.3} {runs} {predicted}{disturbed}  [{}]",
        trial.seed,
        trial.change,
        trial.recorded / 1e6,
        trial.world,
    )
}

/// Holds the predictions to the bounds; those of worlds that the machine disturbed do not count.
fn judge(trials: Vec<Trial>, unusable: usize, json: bool) {
    let all = trials.len();
    let (disturbed, trials): (Vec<_>, Vec<_>) = trials
        .into_iter()
        .partition(|trial| trial.disturbance.is_some());
    let mut predicted: Vec<(&Trial, f64)> = trials
        .iter()
        .filter_map(|trial| Some((trial, trial.off()?.abs())))
        .collect();
    predicted.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let within = |most: f64| predicted.iter().filter(|(_, off)| *off <= most).count();
    let count = predicted.len();
    for (what, most, share) in [
        ("predictions within 10 %", NEAR, NEAR_SHARE),
        ("predictions within 20 %", FAR, 1.0),
    ] {
        let disturbance = (count == 0).then_some("no world was predicted");
        let holds = count > 0 && within(most) as f64 >= share * count as f64;
        let verdict = Verdict::of(holds, disturbance);
        let figure = format!(
            "{} of {count}, bound {:.0} %; {} of {all} worlds not predicted, {} disturbed, {unusable} not measurable",
            within(most),
            100.0 * share,
            trials.len() - count,
            disturbed.len(),
        );
        verdict.record(what, &figure);
        if !json {
            println!("{what}: {figure}: {verdict}");
        }
    }
    if !json {
        println!("The worst:");
        predicted
            .iter()
            .take(WORST)
            .for_each(|(trial, _)| println!("{}", line(trial)));
    }
}
