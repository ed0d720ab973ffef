//! Two hosts with a path between them, programs that work, and diagnoses beside these.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wansan_lab::emulator::{Config, Direction, Emulator, Route};
use wansan_lab::world::{Interface, Node, Process, TcpSettings, Topology, World};
use wansan_trace::{Kinds, Recorder};

use crate::cases::Case;

/// Longer than any machine takes for what these tests do.
pub(crate) const LONG: Duration = Duration::from_secs(120);
pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const TARGET: &str = "iqn.2026-11.net.example:it";

/// Whether packets can be seen in a world, as far as that takes rights.
pub(crate) fn sees_packets() -> Result<(), String> {
    let world = world([4 << 20, 4 << 20])?;
    let Some(node) = world.nodes().first() else {
        return Err("no host".to_owned());
    };
    let mut diagnose = Command::new(WANSAN);
    diagnose.args(["diagnose", "--for", "100ms"]);
    let said = node.start("diagnose", diagnose).map_err(text)?;
    match said.succeed(LONG) {
        // There is no iSCSI there, which it says before it opens anything.
        Err(error) if error.to_string().contains("there is no iSCSI") => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(said) => Err(said.join(" ")),
    }
}

fn world(buffers: [u64; 2]) -> Result<World, String> {
    let [rmem, wmem] = buffers;
    let settings = TcpSettings {
        congestion_control: "cubic".to_owned(),
        rmem_bytes: [4_096, rmem.min(131_072), rmem],
        wmem_bytes: [4_096, wmem.min(16_384), wmem],
        ecn: false,
    };
    let topology = Topology::flat(&["storage", "client"], &settings, 1500);
    World::build(&topology).map_err(text)
}

/// A case whose programs are at work.
pub(crate) struct Loaded {
    // Before the world, whose threads they are children of. Dropped, they are killed.
    bench: Process,
    target: Process,
    emulator: Emulator,
    world: World,
}

impl Loaded {
    /// Has them begin.
    pub(crate) fn begin(case: &Case) -> Result<Loaded, String> {
        let world = world(case.buffers)?;
        let emulator = emulate(&world, case)?;
        let [storage, client] = world.nodes() else {
            return Err("two hosts".to_owned());
        };
        let portal = format!("{}:3260", storage.address());
        let mut target = Command::new(WANSAN);
        target.args(["target", "--json", "--listen", &portal, "--name", TARGET]);
        target.args(case.target.split_whitespace());
        if !case.target.contains("--lun") {
            target.args(["--lun", "memory:16MiB"]);
        }
        let mut target = storage.start("the target", target).map_err(text)?;
        target.line("listen", LONG).map_err(text)?;
        let mut bench = Command::new(WANSAN);
        bench.args([
            "bench",
            &format!("iscsi://{portal}/{TARGET}/0"),
            "--json",
            "--time",
            "60s",
        ]);
        bench.args(case.bench.split_whitespace());
        let bench = client.start("the bench", bench).map_err(text)?;
        Ok(Loaded {
            bench,
            target,
            emulator,
            world,
        })
    }

    /// The target's host, and the initiator's.
    pub(crate) fn hosts(&self) -> [&Node; 2] {
        ["storage", "client"].map(|name| self.world.node(name).expect("one of the two"))
    }

    pub(crate) fn end(self) -> Result<(), String> {
        drop(self.bench);
        self.target.terminate();
        self.target.end(LONG).map_err(text)?;
        self.emulator.stop().map(drop).map_err(text)
    }
}

/// Diagnoses a case at both ends.
pub(crate) fn diagnose(case: &Case) -> Result<(), String> {
    let loaded = Loaded::begin(case)?;
    // Windows have grown by then.
    std::thread::sleep(Duration::from_secs(2));
    let begun = loaded.hosts().map(begin);
    let mut wrong = Vec::new();
    // The other end's software is not always known.
    let mut is_lacking = case.change.is_some();
    for (begun, end) in begun.into_iter().zip(["the target's", "the initiator's"]) {
        let told = begun?.succeed(LONG).map_err(text)?.join("\n");
        let told: Value = serde_json::from_str(&told).map_err(text)?;
        is_lacking &= !case.change.is_some_and(|change| is_advised(&told, change));
        let of = match end {
            "the initiator's" => case.elsewhere.or(case.of),
            _ => case.of,
        };
        let right = is_right(case.limit, of, &told).and_then(|()| are_predicted(&told));
        if let Err(why) = right {
            wrong.push(format!("at {end} end: {why}"));
        }
    }
    if wrong.is_empty() && is_lacking {
        wrong.push(format!(
            "nobody is told to run `{}`",
            case.change.unwrap_or_default()
        ));
    }
    loaded.end()?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

/// Begins a diagnosis.
pub(crate) fn begin(node: &Node) -> Result<Process, String> {
    let mut command = Command::new(WANSAN);
    command.args(["diagnose", "--for", "2s", "--json"]);
    node.start("diagnose", command).map_err(text)
}

/// Whether that is what has to be said.
fn is_right(
    limit: &str,
    of: Option<(&'static str, &'static str)>,
    told: &Value,
) -> Result<(), String> {
    let Some([session]) = told["sessions"].as_array().map(Vec::as_slice) else {
        return Err(format!("not one session: {told:#}"));
    };
    let verdict = &session["judgement"];
    let shares = session["shares"].as_array().into_iter().flatten();
    let shares: Vec<String> = shares
        .map(|share| {
            format!(
                "{} {:.3}",
                share["wait"],
                share["share"].as_f64().unwrap_or(0.0)
            )
        })
        .collect();
    let because = || {
        format!(
            "{}\n{verdict}\n{shares:?}\n{}",
            session["finding"], session["bounds"]
        )
    };
    check(verdict["limit"] == limit, because)?;
    if let Some((name, value)) = of {
        let found = match &verdict[name] {
            Value::Object(inner) => &inner[name],
            other => other,
        };
        check(found == value, because)?;
    }
    // Each moment is accounted for once.
    let sum: f64 = session["shares"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|share| share["share"].as_f64())
        .sum();
    check((sum - 1.0).abs() < 1e-6, || {
        format!("shares add up to {sum}")
    })?;
    Ok(())
}

/// Whether it is said what each change brings that can be simulated, or why that is not known.
fn are_predicted(told: &Value) -> Result<(), String> {
    let changes = told["sessions"][0]["changes"].as_array();
    for change in changes.into_iter().flatten() {
        let is_simulated = change["settings"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        let predicted = &change["predicted"];
        let is_said = predicted["gain"].is_object() || predicted["unknown"].is_string();
        check(is_simulated == is_said, || change.to_string())?;
    }
    Ok(())
}

/// Whether one of the changes that are printed begins so.
fn is_advised(told: &Value, change: &str) -> bool {
    let sessions = told["sessions"].as_array().into_iter().flatten();
    let changes = sessions.flat_map(|session| session["changes"].as_array().into_iter().flatten());
    let mut commands = changes
        .flat_map(|change| change["commands"].as_array().into_iter().flatten())
        .filter_map(Value::as_str);
    commands.any(|command| command.starts_with(change))
}

fn emulate(world: &World, case: &Case) -> Result<Emulator, String> {
    let [to_initiator, to_target] = (case.path)();
    let directions: Result<Vec<Direction>, String> = [("out", &to_target), ("back", &to_initiator)]
        .into_iter()
        .map(|(name, effects)| Ok(Direction::new(name, effects.chain(1).map_err(text)?)))
        .collect();
    let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
    let route = |from, to, direction| Route {
        from,
        to,
        direction,
    };
    let config = Config {
        ports: interfaces.filter_map(Interface::port).collect(),
        directions: directions?,
        routes: vec![route(1, 0, 0), route(0, 1, 1)],
        mtu_bytes: 1500,
        sample_interval: Duration::from_millis(100),
        recorder: Recorder::new(Kinds::NONE, 0),
    };
    Emulator::start(world.wan().handle(), config).map_err(text)
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
