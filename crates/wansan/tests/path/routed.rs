//! Paths under sessions whose connections are routed by their ports.

use std::collections::BTreeSet;
use std::ops::Range;

use libtest_mimic::Failed;
use wansan_trace::{Direction, Layer, event, file};

use crate::{Lab, check, whole};

/// The ports of the connections that take the plan's first route, and of those that take its second.
const PORTS: [Range<u16>; 2] = [20_000..20_256, 20_256..20_512];
/// Packets that have to be overtaken before a queue counts as one that lets others pass.
const LEAST_OVERTAKEN: usize = 20;

/// Down for longer than it takes a session to give a silent connection up.
pub(crate) fn outage(lab: &Lab) -> Result<(), Failed> {
    let plan = "title = \"Trial\"\n\
         timeline = [\"at 500ms upper down\", \"at 8s upper up\"]\n\
         [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n[[router]]\nname = \"near\"\n\
         [[path]]\nname = \"upper\"\nbetween = [\"client\", \"near\"]\ndelay = \"2ms\"\n\
         [[path]]\nname = \"site\"\nbetween = [\"near\", \"storage\"]\n\
         [[route]]\nname = \"upper\"\nvia = [\"near\"]\n[routing]\nby = \"port\"\n\
         [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n\
         [[initiator]]\nhost = \"client\"\nroutes = [\"upper\"]\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"15s\"\nwarmup = \"0s\"\n\
         [trace]\nkinds = [\"io\", \"packet\"]\nmemory = \"64MiB\"\n";
    lab.write(plan)?;
    let cell = lab.run()?;
    let up_at_ns = whole(&cell["timeline"][1]["made_at_ns"])?;
    let initiator = &cell["initiators"][0];
    check(
        whole(&initiator["recoveries"])? > 0 && initiator["errors"] == 0,
        || initiator.to_string(),
    )?;
    let run = lab.runs()?.pop().ok_or("there is no run folder")?;
    let io = file::read::<event::Crossing>(&run.join("cell-000/io.parquet"))?;
    let done_after = io.rows.iter().filter(|row| {
        let crossing = &row.record;
        let is_done = crossing.layer == Layer::App && crossing.direction == Direction::Leave;
        is_done && crossing.time.ns() > up_at_ns
    });
    check(done_after.count() > 1, || {
        "the reads do not go on".to_owned()
    })?;
    // What asked for a connection: SYN without ACK, as often as TCP sends it.
    let packets = file::read::<event::Packet>(&run.join("cell-000/packet.parquet"))?;
    let asked = packets.rows.iter().map(|row| &row.record);
    let asked: Vec<_> = asked.filter(|packet| packet.flags & 0x12 == 0x02).collect();
    let ends: BTreeSet<_> = asked.iter().map(|p| (p.source, p.destination)).collect();
    let connections: BTreeSet<u32> = asked.iter().map(|packet| packet.seq).collect();
    check(ends.len() == 1 && connections.len() > 1, || {
        format!("between {ends:?}: {connections:?}")
    })
}

/// Whichever of two routes has it: what stands first in the queue of the path that both share.
pub(crate) fn priority(lab: &Lab) -> Result<(), Failed> {
    for first in ["upper", "lower"] {
        let second = if first == "upper" { "lower" } else { "upper" };
        lab.write(&format!(
            "title = \"Trial\"\n\
             [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n\
             [[router]]\nname = \"near\"\ncount = 2\n[[router]]\nname = \"far\"\n\
             [[path]]\nname = \"to-upper\"\nbetween = [\"client\", \"near-1\"]\n\
             [[path]]\nname = \"to-lower\"\nbetween = [\"client\", \"near-2\"]\n\
             [[path]]\nname = \"upper\"\nbetween = [\"near-1\", \"far\"]\n\
             [[path]]\nname = \"lower\"\nbetween = [\"near-2\", \"far\"]\n\
             [[path]]\nname = \"site\"\nbetween = [\"far\", \"storage\"]\nrate = \"20Mbit/s\"\n\
             queue = {{ kind = \"priority\", limit = \"1MiB\", routes = [\"{first}\", \"{second}\"] }}\n\
             [[route]]\nname = \"upper\"\nvia = [\"near-1\", \"far\"]\n\
             [[route]]\nname = \"lower\"\nvia = [\"near-2\", \"far\"]\n[routing]\nby = \"port\"\n\
             [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n\
             [[initiator]]\nhost = \"client\"\nroutes = [\"upper\", \"lower\"]\n\
             schedule = \"round-robin\"\n\
             [workload]\nop = \"read\"\nblock = \"64KiB\"\nparallel = 8\n\
             time = \"1s\"\nwarmup = \"0s\"\n\
             [trace]\nkinds = [\"io\", \"packet\"]\nmemory = \"32MiB\"\n"
        ))?;
        lab.run()?;
        let mut ports = PORTS;
        if first == "lower" {
            ports.reverse();
        }
        first_is_served_first(lab, ports).map_err(|failed| {
            let why = failed.message().unwrap_or_default();
            Failed::from(format!("{first} before {second}: {why}"))
        })?;
    }
    Ok(())
}

/// Holds that no packet to the second of the `ports` left the shared path while one to the first
/// waited there, but for the one that was being sent when that came; and that some were overtaken.
fn first_is_served_first(lab: &Lab, ports: [Range<u16>; 2]) -> Result<(), Failed> {
    let run = lab.runs()?.pop().ok_or("there is no run folder")?;
    let packets = file::read::<event::Packet>(&run.join("cell-000/packet.parquet"))?;
    // When each came and left.
    let [first, second] = ports.map(|ports| -> Vec<(u64, u64)> {
        let to_client = packets.rows.iter().map(|row| &row.record).filter(|packet| {
            packets.names.get(packet.path) == "site:back"
                && ports.contains(&packet.destination.port())
                && packet.verdict == event::Verdict::Delivered
        });
        let times = to_client.map(|packet| (packet.time.ns(), packet.departed.ns()));
        times.collect()
    });
    check(!first.is_empty() && !second.is_empty(), || {
        format!("{} and {} packets", first.len(), second.len())
    })?;
    let mut overtaken: BTreeSet<&(u64, u64)> = BTreeSet::new();
    for (came, left) in first {
        let before = second
            .iter()
            .filter(|(_, other)| (came..left).contains(other));
        let before = before.count();
        check(before <= 1, || {
            format!("{before} packets went before one that had come at {came} and left at {left}")
        })?;
        let waiting = second
            .iter()
            .filter(|(other_came, other_left)| *other_came < came && *other_left > left);
        overtaken.extend(waiting);
    }
    check(overtaken.len() >= LEAST_OVERTAKEN, || {
        format!("only {} packets were overtaken", overtaken.len())
    })
}
