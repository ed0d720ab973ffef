//! What made a window smaller, where the path or the device is known to have done it.

use std::process::Command;
use std::time::{Duration, Instant};

use wansan_lab::emulator::Emulator;
use wansan_lab::world::World;
use wansan_path::{Change, Effects, Listed, LossModel, Probability};
use wansan_trace::event::CongestionState;
use wansan_trace::event::{Ecn, TcpEvent};

use crate::world::{
    INTERVAL, LONG, Observed, RTT, Sight, build, build_with, check, emulate, order, path,
    under_way, watched,
};

/// What a line of a failure begins with that says how this computer disturbed it.
pub(crate) const DISTURBED: &str = "disturbed: ";

pub(crate) fn an_echoed_mark(sight: Sight) -> Result<(), String> {
    marked(&build(true)?, sight, 0.005, 8 << 20)
}

/// The sender's socket takes all at once, and then only waits for acknowledgements (FIN-WAIT-1).
pub(crate) fn a_mark_after_the_last_byte(sight: Sight) -> Result<(), String> {
    marked(&build_with(true, 4 << 20)?, sight, 0.02, 1 << 20)
}

/// Whether the watch tells marks of a path from all else, while `bytes` are sent.
fn marked(world: &World, sight: Sight, share: f64, bytes: usize) -> Result<(), String> {
    let marks = Effects {
        mark: Probability::new(share).expect("a probability"),
        ..path()
    };
    let emulator = emulate(world, &marks)?;
    let told = watched(world, sight.config(), sight, bytes)?;
    let marked = emulator.statistics().paths[0].counters.marked.packets;
    check(marked > 0, "nothing was marked, so nothing was tested")?;
    check(
        told.count(TcpEvent::CwrByEce) > 0,
        format!("{marked} marks, and no CWR by ECE: {}", told.summary()),
    )?;
    // Where this computer holds packets up, the kernel asks by a probe, and takes the answer for a
    // loss that the probe has mended (RFC 8985 §7.4.2).
    let mended = loss_probe_recoveries(world)?;
    check(
        told.count(TcpEvent::CwrByDevice) == 0 && told.count(TcpEvent::Cwr) <= mended,
        format!(
            "CWR by something else than marks and {mended} probes: {}",
            told.summary()
        ),
    )?;
    let negotiated = told.records.iter().any(|record| record.ecn > Ecn::Off);
    check(negotiated, "ECN does not show")
}

/// How often a probe has mended a loss in the client, by its kernel's count.
fn loss_probe_recoveries(world: &World) -> Result<usize, String> {
    client_count(world, "TCPLossProbeRecovery")
}

/// A counter of TCP's in the client's network namespace (proc_pid_net(5), `netstat`).
fn client_count(world: &World, counter: &str) -> Result<usize, String> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat");
    let counters = world.nodes()[1].namespace().run(read);
    let counters = counters.map_err(|error| format!("netstat: {error}"))?;
    let lines = counters.lines().filter(|line| line.starts_with("TcpExt:"));
    let mut words = lines.map(|line| line.split(' '));
    let (names, values) = (words.next(), words.next());
    let mut pairs = names
        .into_iter()
        .flatten()
        .zip(values.into_iter().flatten());
    let found = pairs.find(|(name, _)| *name == counter);
    found
        .and_then(|(_, count)| count.parse().ok())
        .ok_or_else(|| format!("no {counter} in {counters}"))
}

pub(crate) fn a_full_device(sight: Sight) -> Result<(), String> {
    // ECN is on, so that only the cause tells the two apart.
    let world = build(true)?;
    let _emulator = emulate(&world, &path())?;
    let shaped = world.nodes()[1].namespace().run(|| {
        let shape = "qdisc replace dev wan root tbf rate 40mbit burst 8kb limit 12kb";
        Command::new("tc").args(shape.split(' ')).output()
    });
    let shaped = shaped.map_err(|error| format!("tc: {error}"))?;
    check(
        shaped.status.success(),
        format!("tc: {}", String::from_utf8_lossy(&shaped.stderr)),
    )?;
    let told = watched(&world, sight.config(), sight, 2 << 20)?;
    check(
        told.count(TcpEvent::CwrByEce) == 0,
        format!("CWR by ECE without a mark: {}", told.summary()),
    )?;
    let by_device = told.count(TcpEvent::CwrByDevice);
    match sight {
        Sight::Traced => check(by_device > 0, told.summary()),
        // Where segments were retransmitted as well, samples cannot tell.
        Sight::Sampled => check(
            by_device + told.count(TcpEvent::Cwr) + told.count(TcpEvent::Recovery) > 0,
            told.summary(),
        ),
    }
}

/// Data packets that are lost, far enough apart for each to be a recovery of its own.
const LOST: [u64; 3] = [400, 1400, 2600];

pub(crate) fn listed_losses(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    let list = Listed::new(LOST.to_vec()).map_err(|error| error.to_string())?;
    let losses = Effects {
        loss: LossModel::Listed(list),
        ..path()
    };
    let emulator = emulate(&world, &losses)?;
    let told = watched(&world, sight.config(), sight, 6 << 20)?;
    are_listed(&world, &emulator, &told, sight).map_err(|wrong| {
        let disturbed = disturbance(&world, &emulator);
        disturbed.map_or(wrong.clone(), |by| format!("{wrong}\n{DISTURBED}{by}"))
    })
}

/// What this computer did to segments: those that it held up come twice, which D-SACK reports (RFC 2883).
fn disturbance(world: &World, emulator: &Emulator) -> Option<String> {
    let late = client_count(world, "TCPDSACKRecv").unwrap_or(0);
    let statistics = emulator.statistics();
    let lost = statistics.ring_drops + statistics.send_failures;
    let is_disturbed = late > 0 || lost > 0;
    is_disturbed.then(|| format!("{late} segments came twice, and this machine lost {lost} frames"))
}

/// Whether the losses that are seen are those of the list.
fn are_listed(
    world: &World,
    emulator: &Emulator,
    told: &Observed,
    sight: Sight,
) -> Result<(), String> {
    let lost = emulator.statistics().paths[0]
        .counters
        .dropped_by_loss
        .packets;
    check(lost == LOST.len() as u64, format!("{lost} were lost"))?;
    let last = told.records.last().ok_or("nothing was told")?;
    // Where this computer holds packets up for more than two round trips, the kernel probes the tail by
    // the last segment, which was not lost (RFC 8985 §7.3).
    let probes = client_count(world, "TCPLossProbes")?;
    let most = LOST.len() + probes;
    check(
        (LOST.len()..=most).contains(&(last.retransmits as usize)),
        format!("{} retransmissions, {probes} probes", last.retransmits),
    )?;
    // An episode lasts for a round trip. A sampled watch misses one only where it says that it has not
    // looked for as long.
    let missed = match sight {
        Sight::Traced => 0,
        Sight::Sampled => {
            let samples_of_one = (RTT.as_nanos() / INTERVAL.as_nanos()) as u64;
            (told.unseen.samples / (samples_of_one - 1)) as usize
        }
    };
    let least = LOST.len().saturating_sub(missed);
    for (event, most) in [
        (TcpEvent::Recovery, LOST.len()),
        (TcpEvent::Retransmit, most),
    ] {
        let expected = least..=most;
        check(
            expected.contains(&told.count(event)),
            format!("{} of {expected:?}: {}", event.name(), told.summary()),
        )?;
    }
    let others = [TcpEvent::Loss, TcpEvent::CwrByEce, TcpEvent::Undo];
    let others: usize = others.iter().map(|event| told.count(*event)).sum();
    check(
        others == 0 && told.count(TcpEvent::Cwr) <= loss_probe_recoveries(world)?,
        format!("others than the list's: {}", told.summary()),
    )
}

pub(crate) fn a_silent_path(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    let emulator = emulate(&world, &path())?;
    let (watch, mut told, sender) = under_way(&world, sight)?;
    order(&emulator, Change::Down)?;
    told.until(&watch, |told| told.count(TcpEvent::Loss) > 0)?;
    order(&emulator, Change::Up)?;
    sender.finish()?;
    told.until(&watch, |told| told.count(TcpEvent::End) > 0)?;
    let timeouts = told.records.iter().map(|record| record.timeouts).max();
    check(timeouts > Some(0), "the kernel has counted no timeout")
}

/// Longer than the retransmission timer, which runs for 200 ms and a little more than a round trip.
const LATE: Duration = Duration::from_millis(400);

/// Nothing is lost: segments are late, the timer runs out, and then their acknowledgements, whose
/// timestamps are older than what was resent (RFC 3522 §3.2), take back what it made of the window.
pub(crate) fn a_late_path(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    let emulator = emulate(&world, &path())?;
    let (watch, mut told, sender) = under_way(&world, sight)?;
    let began = Instant::now();
    loop {
        order(&emulator, Change::Delay(LATE))?;
        let late = Instant::now();
        let is_seen = |told: &Observed| told.count(TcpEvent::Loss) > 0;
        told.until(&watch, |told| is_seen(told) || late.elapsed() > 4 * LATE)?;
        if is_seen(&told) {
            break;
        }
        order(&emulator, Change::Delay(RTT / 2))?;
        // Where this computer holds packets up, the kernel's timer waits for longer (RFC 6298 §2).
        let timeouts = client_count(&world, "TCPTimeouts")?;
        check(
            timeouts == 0 && began.elapsed() < LONG,
            format!("{timeouts} timeouts, and no loss: {}", told.summary()),
        )?;
        let early = Instant::now();
        told.until(&watch, |_| early.elapsed() > 4 * LATE)?;
    }
    // Not before: what is sent on a shorter path overtakes the late segments, and a sampled watch may find
    // the recovery that follows in the sample in which it finds the undo.
    told.until(&watch, |told| told.count(TcpEvent::Undo) > 0)?;
    order(&emulator, Change::Delay(RTT / 2))?;
    sender.finish()?;
    told.until(&watch, |told| told.count(TcpEvent::End) > 0)?;
    let counters = emulator.statistics().paths[0].counters;
    let lost = counters.dropped_by_loss.packets + counters.dropped_by_queue.packets;
    check(lost == 0, format!("{lost} were lost on the path"))?;
    let place = |event| told.records.iter().position(|r| r.event == event);
    let (Some(cut), Some(undo)) = (place(TcpEvent::Loss), place(TcpEvent::Undo)) else {
        return Err(told.summary());
    };
    let before = &told.records[..cut];
    let open = before
        .iter()
        .rfind(|r| r.congestion_state == CongestionState::OPEN);
    let open = open.ok_or_else(|| told.summary())?;
    let (cut, undo) = (&told.records[cut], &told.records[undo]);
    check(
        cut.time < undo.time
            && cut.ssthresh_packets < open.ssthresh_packets
            && undo.ssthresh_packets >= open.ssthresh_packets
            && undo.cwnd_packets >= open.cwnd_packets,
        format!("from {open:?} by {cut:?} to {undo:?}"),
    )
}
