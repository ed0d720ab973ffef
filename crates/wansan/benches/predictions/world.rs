//! Random worlds: a plan with two to five knobs turned away from what is usual, and one change of it.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A knob of plans.
#[derive(Clone, Copy)]
struct Knob {
    section: &'static str,
    key: &'static str,
    /// What a world has that does not draw it.
    usual: &'static str,
    /// What one has that does. All in TOML.
    drawn: &'static [&'static str],
    /// What `--set` calls it; `None` of one that is never changed.
    changed_as: Option<&'static str>,
    /// It has an effect on writes only.
    writes_only: bool,
}

const fn knob(
    section: &'static str,
    key: &'static str,
    usual: &'static str,
    drawn: &'static [&'static str],
) -> Knob {
    Knob {
        section,
        key,
        usual,
        drawn,
        changed_as: None,
        writes_only: false,
    }
}

const fn changed_as(name: &'static str, knob: Knob) -> Knob {
    Knob {
        changed_as: Some(name),
        ..knob
    }
}

const fn of_writes(knob: Knob) -> Knob {
    Knob {
        writes_only: true,
        ..knob
    }
}

/// In the order of their sections in a plan.
static KNOBS: [Knob; 15] = [
    knob(
        "[[path]]",
        "delay",
        r#""10ms""#,
        &[r#""1ms""#, r#""4ms""#, r#""25ms""#, r#""50ms""#],
    ),
    changed_as(
        "path.rate",
        knob(
            "[[path]]",
            "rate",
            r#""300Mbit/s""#,
            &[r#""20Mbit/s""#, r#""50Mbit/s""#, r#""100Mbit/s""#],
        ),
    ),
    changed_as(
        "path.queue",
        knob(
            "[[path]]",
            "queue",
            r#""1MiB""#,
            &[r#""64KiB""#, r#""256KiB""#, r#""4MiB""#],
        ),
    ),
    changed_as(
        "path.loss",
        knob("[[path]]", "loss", r#""0%""#, &[r#""0.01%""#, r#""0.1%""#]),
    ),
    knob(
        "[target]",
        "luns",
        r#"["memory:256MiB"]"#,
        &[
            r#"["memory:256MiB,service-time=1ms,servers=4"]"#,
            r#"["memory:256MiB,service-time=4ms,servers=4"]"#,
            r#"["memory:256MiB,service-time=4ms,servers=16"]"#,
        ],
    ),
    changed_as(
        "target.command_window",
        knob(
            "[target]",
            "command_window",
            "128",
            &["4", "8", "16", "32", "64"],
        ),
    ),
    changed_as(
        "initiator.connections",
        knob("[[initiator]]", "connections", "1", &["2", "4"]),
    ),
    of_writes(knob("[session]", "initial_r2t", "false", &["true"])),
    changed_as(
        "session.max_burst",
        of_writes(knob(
            "[session]",
            "max_burst",
            r#""256KiB""#,
            &[r#""64KiB""#, r#""1MiB""#],
        )),
    ),
    changed_as(
        "session.max_outstanding_r2t",
        of_writes(knob("[session]", "max_outstanding_r2t", "1", &["4", "16"])),
    ),
    changed_as(
        "tcp.congestion_control",
        knob(
            "[tcp]",
            "congestion_control",
            r#""cubic""#,
            &[r#""reno""#, r#""bbr""#],
        ),
    ),
    knob(
        "[tcp]",
        "rmem",
        r#"["4KiB", "128KiB", "16MiB"]"#,
        &[
            r#"["4KiB", "64KiB", "128KiB"]"#,
            r#"["4KiB", "128KiB", "1MiB"]"#,
        ],
    ),
    knob("[workload]", "op", r#""read""#, &[r#""write""#]),
    changed_as(
        "workload.block",
        knob(
            "[workload]",
            "block",
            r#""64KiB""#,
            &[r#""4KiB""#, r#""16KiB""#, r#""256KiB""#, r#""1MiB""#],
        ),
    ),
    changed_as(
        "workload.parallel",
        knob(
            "[workload]",
            "parallel",
            "32",
            &["1", "4", "16", "64", "128"],
        ),
    ),
];

/// Seeds of a world's runs.
const SEEDS: u64 = 1_000;

/// A world and a change of it.
pub(crate) struct World {
    pub(crate) seed: u64,
    /// A value of each knob.
    values: [&'static str; KNOBS.len()],
    changed: usize,
    to: &'static str,
}

impl World {
    pub(crate) fn of_seed(seed: u64) -> World {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
        let mut values = KNOBS.each_ref().map(|knob| knob.usual);
        let mut left: Vec<usize> = (0..KNOBS.len()).collect();
        for _ in 0..2 + below(4) {
            let knob = left.swap_remove(below(left.len()));
            values[knob] = KNOBS[knob].drawn[below(KNOBS[knob].drawn.len())];
        }
        let op = KNOBS.iter().position(|knob| knob.key == "op");
        let writes = op.is_some_and(|op| values[op].contains("write"));
        let changed: Vec<usize> = (0..KNOBS.len())
            .filter(|knob| {
                KNOBS[*knob].changed_as.is_some() && (writes || !KNOBS[*knob].writes_only)
            })
            .collect();
        let changed = changed[below(changed.len())];
        let all = KNOBS[changed].drawn.iter().chain([&KNOBS[changed].usual]);
        let others: Vec<&str> = all.copied().filter(|to| *to != values[changed]).collect();
        World {
            seed,
            values,
            changed,
            to: others[below(others.len())],
        }
    }

    fn changed_values(&self) -> [&'static str; KNOBS.len()] {
        let mut values = self.values;
        values[self.changed] = self.to;
        values
    }

    /// Whether packets are lost at random with the change.
    pub(crate) fn changed_loses(&self) -> bool {
        let values = self.changed_values();
        let loss = KNOBS.iter().position(|knob| knob.key == "loss");
        loss.is_some_and(|loss| values[loss] != KNOBS[loss].usual)
    }

    /// The world as a plan.
    pub(crate) fn plan(&self) -> String {
        plan(self.seed, self.values, 0)
    }

    /// The same with the change, by the seed of one of its runs.
    pub(crate) fn changed_plan(&self, run: u64) -> String {
        plan(self.seed, self.changed_values(), run)
    }

    /// The change, as `--set` takes it.
    pub(crate) fn change(&self) -> String {
        let name = KNOBS[self.changed].changed_as.unwrap_or_default();
        format!("{name}={}", self.to.trim_matches('"'))
    }

    /// What is not usual in it.
    pub(crate) fn in_words(&self) -> String {
        let drawn = KNOBS
            .iter()
            .zip(self.values)
            .filter(|(knob, value)| knob.usual != *value);
        let drawn = drawn.map(|(knob, value)| format!("{} {}", knob.key, value.replace('"', "")));
        drawn.collect::<Vec<_>>().join(", ")
    }
}

/// The seed of the run, hosts, and what every world has; then the knobs in the tables of the plan.
/// Runs of no two worlds have the same seed, or their losses would be the same.
fn plan(seed: u64, values: [&str; KNOBS.len()], run: u64) -> String {
    let mut text = format!(
        "title = \"World {seed}\"\nseed = {}\n[[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n",
        seed * SEEDS + run,
    );
    let mut section = "";
    for (knob, value) in KNOBS.iter().zip(values) {
        if knob.section != section {
            section = knob.section;
            let needed = match section {
                "[[path]]" => "between = [\"client\", \"storage\"]\n",
                "[target]" => "host = \"storage\"\n",
                "[[initiator]]" => "host = \"client\"\n",
                // No longer than the shortest burst that is drawn.
                "[session]" => "first_burst = \"64KiB\"\n",
                "[workload]" => "warmup = \"1s\"\ntime = \"3s\"\n",
                _ => "",
            };
            text += &format!("{section}\n{needed}");
        }
        text += &format!("{} = {value}\n", knob.key);
    }
    text
}
