//! What controls make of a queue.

use wansan_peers::trial::{Stop, require};

use super::lab::{Ran, Scene};

/// Reno fills whatever queue there is. Vegas keeps 2 to 4 packets in it (§3.2 of its paper), as it
/// sees it by each round's shortest round trip; by the mean one, which a busy machine makes longer,
/// it is somewhat more.
pub(crate) fn vegas() -> Result<(), Stop> {
    let ran = over("wansan_vegas")?;
    let vegas = queued_packets(&ran);
    require((1.0..16.0).contains(&vegas), || {
        format!("Vegas keeps {vegas:.1} packets queued")
    })?;
    require(ran.cell["path_dropped"] == 0, || {
        ran.cell["path_dropped"].to_string()
    })?;
    let reno = queued_packets(&over("wansan_reno")?);
    require(reno > 50.0, || {
        format!("Reno keeps {reno:.1} packets queued, Vegas {vegas:.1}")
    })
}

/// Mean of w (1 - least RTT / RTT) in the measured time: the window's packets that wait in queues.
fn queued_packets(ran: &Ran) -> f64 {
    let from_ns = ran.cell["measured_from_ns"].as_u64().unwrap_or(0);
    let measured = ran
        .samples
        .iter()
        .filter(|sample| sample.time.ns() >= from_ns);
    let queued: Vec<f64> = measured
        .map(|sample| {
            let empty = sample.min_rtt_ns as f64 / sample.srtt_ns.max(1) as f64;
            f64::from(sample.cwnd_packets) * (1.0 - empty)
        })
        .collect();
    queued.iter().sum::<f64>() / queued.len().max(1) as f64
}

fn over(control: &'static str) -> Result<Ran, Stop> {
    let scene = Scene {
        control,
        delay_ms: 20,
        of_path: "rate = \"20Mbit/s\"\nqueue = \"512KiB\"",
        // Where a busy machine ends Vegas's slow start early, a segment in each round takes it there.
        warmup_ms: 6000,
        time_ms: 1500,
        ..Scene::default()
    };
    scene.run()
}
