//! A host between two others that emulates the path of a plan.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use wansan_lab::world::{Node, Process};
use wansan_trace::event::Packet;
use wansan_trace::file::read_folder;

use crate::cases::says;
use crate::cut_off;
use crate::stage::{DELAY, LONG, Stage, check, json, text};

/// One way, beside what the stage's own path takes.
const EMULATED: Duration = Duration::from_millis(10);

fn plan(stage: &Stage, time: &str, more: &str) -> Result<PathBuf, String> {
    let hosts = stage.hosts(&[
        ("storage", "storage"),
        ("client", "client"),
        ("edge", "edge"),
    ]);
    stage.write(&format!(
        "title = \"Trial\"\n{hosts}\
         [world]\nkind = \"hosts\"\n\
         [[path]]\nname = \"line\"\nbetween = [\"client\", \"storage\"]\nrouter = \"edge\"\n\
         delay = \"{}ms\"\nrate = \"100Mbit/s\"\n\
         [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n\
         [[initiator]]\nhost = \"client\"\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"{time}\"\nwarmup = \"200ms\"\n{more}",
        EMULATED.as_millis()
    ))
}

/// Runs a command on a host.
fn run(node: &Node, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let ended = node.start(words[0], command).map_err(text)?;
    ended.succeed(LONG).map_err(text).map(drop)
}

/// Has what one host sends to another go by the router.
fn lead(stage: &Stage, from: &str, to: &str) -> Result<(), String> {
    let address = |name: &str| stage.node(name).address().to_string();
    let words = ["ip", "route", "add", &address(to), "via", &address("edge")];
    run(stage.node(from), &words)
}

/// I/Os take as long as the plan says, and packets are recorded on the router.
pub(crate) fn emulated(stage: &Stage) -> Result<(), String> {
    lead(stage, "client", "storage")?;
    lead(stage, "storage", "client")?;
    let sweep = "[sweep]\nworkload.parallel = [1, 8]\n\
                 [[expect]]\nmetric = \"cells.path_dropped\"\nequals = 0\n";
    let folder = stage.run(&plan(stage, "2s", sweep)?, &[])?;
    let manifest = json(&folder.join("manifest.json"))?;
    let results = json(&folder.join("results.json"))?;
    // Two of the stage's paths each way, and the plan's.
    let ways_ns = 4.0 * DELAY.as_nanos() as f64;
    let round_trip_ns = ways_ns + 2.0 * EMULATED.as_nanos() as f64;
    let bare_ns = manifest["measured_paths"][0]["rtt_min_ns"].as_f64();
    let bare_ns = bare_ns.unwrap_or_default();
    // Measured, the path is as it is without the emulator.
    check((ways_ns..round_trip_ns).contains(&bare_ns), || {
        manifest["measured_paths"].to_string()
    })?;
    for cell in results["cells"].as_array().into_iter().flatten() {
        let latency_ns = cell["latency_p50_ns"].as_f64().unwrap_or_default();
        let is_it = (round_trip_ns..1.5 * round_trip_ns).contains(&latency_ns);
        check(is_it, || format!("{latency_ns} ns, not {round_trip_ns}"))?;
        for (place, name) in ["line:forward", "line:back"].into_iter().enumerate() {
            let path = &cell["paths"][place];
            let packets = path["in_packets"].as_u64().unwrap_or_default();
            check(path["name"] == name && packets > 50, || path.to_string())?;
        }
    }
    check(results["expectations"][0]["met"] == true, || {
        results["expectations"].to_string()
    })?;
    let clocks = manifest["cells"][0]["clocks"].to_string();
    check(clocks.contains("\"edge\""), || clocks.clone())?;
    let packets = read_folder::<Packet>(&folder.join("cell-001")).map_err(text)?;
    let packets = packets.map_or(0, |table| table.rows.len());
    check(packets > 1000, || {
        format!("{packets} packets were recorded")
    })?;
    let samples = folder.join("cell-000/path.parquet");
    check(samples.exists(), || "no path was recorded".to_owned())
}

/// One line each, before anything is measured.
pub(crate) fn refused(stage: &Stage) -> Result<(), String> {
    let plan = || plan(stage, "500ms", "");
    // They reach each other without it.
    let said = stage.refusal(&plan()?, &[])?;
    let storage = stage.node("storage").address();
    let command = format!(
        "ip route add {storage} via {}",
        stage.node("edge").address()
    );
    let parts = ["`line`", "`client`", "`storage`", "`edge`", &command];
    says(&said, &parts)?;
    lead(stage, "client", "storage")?;
    let said = stage.refusal(&plan()?, &[])?;
    says(&said, &["what `storage` sends to `client`"])?;
    lead(stage, "storage", "client")?;
    let edge = stage.node("edge");
    let forward = |how: &str| {
        let command = format!("echo {how} > /proc/sys/net/ipv4/ip_forward");
        run(edge, &["sh", "-c", &command])
    };
    forward("1")?;
    let said = stage.refusal(&plan()?, &[])?;
    let parts = ["the router `edge`", "forwards packets", "forwarding=0"];
    says(&said, &parts)?;
    forward("0")?;
    let client = stage.node("client").address().to_string();
    run(edge, &["ip", "route", "add", "unreachable", &client])?;
    let said = stage.refusal(&plan()?, &[])?;
    says(&said, &["the router `edge`", "host `client`", "no route"])?;
    let is_left = stage.path("runs").join("trial");
    let left = fs::read_dir(is_left).map_or(0, Iterator::count);
    check(left == 0, || {
        format!("{left} runs are left that never began")
    })
}

/// An ordinary user's login does for all but a router, of which it is said what that takes.
pub(crate) fn unprivileged(stage: &Stage) -> Result<(), String> {
    const PORT: u16 = 2225;
    let user = "LANG=C\nForceCommand setpriv --reuid=65534 --regid=65534 --clear-groups \
                -- sh -c \"$SSH_ORIGINAL_COMMAND\"";
    let mut servers = Vec::new();
    let mut named = Vec::new();
    for host in ["storage", "client", "edge"] {
        servers.push(stage.serve(host, user, PORT, "")?);
        let temporary = stage.temporary(host, PORT);
        for (folder, mode) in [(stage.path(""), 0o711), (temporary, 0o1777)] {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).map_err(text)?;
        }
        named.push((
            host,
            format!("ssh://root@{}:{PORT}", stage.node(host).address()),
        ));
    }
    let named: Vec<(&str, &str)> = named.iter().map(|(host, ssh)| (*host, &**ssh)).collect();
    let of_user = |plan: PathBuf, count: usize| {
        let plan = fs::read_to_string(plan).map_err(text)?;
        let from = plan.find("[world]").ok_or("a plan")?;
        let hosts = stage.hosts(&named[..count]);
        stage.write(&format!("title = \"Trial\"\n{hosts}{}", &plan[from..]))
    };
    // Which others ordinary users may choose, each kernel has its own mind of.
    let tcp = "[tcp]\ncongestion_control = \"reno\"\n";
    let folder = stage.run(&of_user(stage.plan("storage", "500ms", tcp)?, 2)?, &[])?;
    let uid = &json(&folder.join("manifest.json"))?["hosts"][0]["uid"];
    check(*uid == 65534, || uid.to_string())?;
    lead(stage, "client", "storage")?;
    lead(stage, "storage", "client")?;
    let said = stage.refusal(&of_user(plan(stage, "500ms", tcp)?, 3)?, &[])?;
    says(&said, &["the router `edge`", "CAP_NET_RAW", "setcap"])
}

/// A lab in the middle of a cell.
fn under_load(stage: &Stage) -> Result<Process, String> {
    lead(stage, "client", "storage")?;
    lead(stage, "storage", "client")?;
    let programs = ["wansan lab carry", "wansan bench"];
    cut_off::running(stage, &plan(stage, "60s", "")?, programs)
}

pub(crate) fn interrupted(stage: &Stage) -> Result<(), String> {
    cut_off::interrupt(stage, under_load(stage)?)
}

pub(crate) fn connection_lost(stage: &Stage) -> Result<(), String> {
    cut_off::lose(stage, under_load(stage)?, "edge")
}

pub(crate) fn silent(stage: &Stage) -> Result<(), String> {
    cut_off::silence(stage, under_load(stage)?, "edge")
}
