//! The TCP simulator against ns-3: the same dumbbells of CUBIC flows in both, run in turns, and the ratio of segments
//! simulated per second of one core.
//!
//! `cargo bench -p wansan-sim --bench sim -- [--json] [QUESTION...]`
//!
//! A missed bound, or one that cannot be measured because the machine is busy, is reported and does not fail the run.

mod dumbbell;
mod ns3;

use std::process::ExitCode;

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::process::PeerError;
use wansan_peers::question::{Question, ask};

use dumbbell::Dumbbell;
use ns3::Ns3;

/// Turns per comparison: an even number, so that each side goes first as often as last, and enough for a confidence
/// interval of the median.
const TURNS: usize = 6;

/// Required speed relative to ns-3.
const BOUND: f64 = 20.0;

/// Allowed relative difference in simulated segments: the networks are the same, but the TCP stacks differ.
const ALIKE: f64 = 0.1;

/// All questions, in the order in which they are asked.
const QUESTIONS: [Question; 4] = [
    Question {
        name: "one-100",
        measure: || beside_ns3(1, 100),
    },
    Question {
        name: "ten-100",
        measure: || beside_ns3(10, 100),
    },
    Question {
        name: "one-1000",
        measure: || beside_ns3(1, 1_000),
    },
    Question {
        name: "ten-1000",
        measure: || beside_ns3(10, 1_000),
    },
];

fn main() -> ExitCode {
    // cargo itself adds --bench.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    ask(&arguments, &QUESTIONS)
}

/// The result of one simulation.
#[derive(Debug, Clone, Copy)]
struct Simulated {
    /// Data segments that the receivers took in order.
    segments: u64,
    /// CPU time used.
    cpu_s: f64,
}

impl Simulated {
    fn per_s(self) -> f64 {
        self.segments as f64 / self.cpu_s
    }
}

fn beside_ns3(flows: u32, mbit_per_s: u64) -> Result<Vec<Comparison>, PeerError> {
    let dumbbell = Dumbbell { flows, mbit_per_s };
    let ns3 = Ns3::build()?;
    let [ours, others] = in_turns(
        TURNS,
        [&mut || Ok(dumbbell.simulate()), &mut || {
            ns3.simulate(&dumbbell)
        }],
    )?;
    let segments = [&ours, &others].map(|samples| samples[0].segments as f64);
    if (segments[0] / segments[1] - 1.0).abs() > ALIKE {
        let [ours, others] = segments;
        return Err(PeerError::Failed {
            program: "dumbbell".to_owned(),
            what: format!("{others} segments in ns-3, and {ours} here: they are not the same"),
            output: String::new(),
        });
    }
    let side = |name, samples: Vec<Simulated>| Side {
        name,
        samples: samples.into_iter().map(Simulated::per_s).collect(),
    };
    Ok(vec![Comparison {
        question: format!(
            "simulated segments per second of one core: {flows} CUBIC, {mbit_per_s} Mbit/s, 40 ms, {} s",
            dumbbell.time_s()
        ),
        unit: "1/s",
        ours: side("wansan", ours),
        others: vec![side("ns-3", others)],
        bound: Bound::AtLeast(BOUND),
    }])
}
