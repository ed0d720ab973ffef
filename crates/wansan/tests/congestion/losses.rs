//! What losses make of windows.

use std::thread;

use wansan_peers::trial::{Stop, require};
use wansan_tcp::control::HighSpeed;
use wansan_trace::event::CongestionState;
use wansan_trace::event::Tcp;

use super::lab::Scene;

/// Two losses: the first ends slow start, at about 300 segments; the second comes while the window
/// grows by its law. `ssthresh` is then what the law leaves of the window.
pub(crate) fn shares() -> Result<(), Stop> {
    let highspeed = HighSpeed::default();
    let laws: [(&str, &dyn Fn(f64) -> f64); 3] = [
        ("wansan_reno", &|_| 0.5),
        ("wansan_hstcp", &|window| 1.0 - highspeed.decrease(window)),
        ("wansan_scal", &|_| 0.875),
    ];
    for (control, left) in laws {
        let scene = Scene {
            control,
            lost: vec![600, 12_000],
            ..Scene::default()
        };
        let ran = scene.run()?;
        let (before, after) = second_cut(&ran.samples)
            .ok_or_else(|| Stop::Failed(format!("{control}: no second loss")))?;
        let window = f64::from(before.cwnd_packets);
        let expected = window * left(window);
        // The window may have grown a little between the last sample and the loss, and the rest is
        // rounded to a segment.
        let found = f64::from(after.ssthresh_packets);
        require((found - expected).abs() <= 1.0 + 0.03 * expected, || {
            format!("{control}: of {window} segments {found} are left, not {expected}")
        })?;
    }
    Ok(())
}

/// The samples before and after `ssthresh` is set for the second time.
fn second_cut(samples: &[Tcp]) -> Option<(&Tcp, &Tcp)> {
    let mut cuts = samples
        .windows(2)
        .filter(|pair| pair[1].ssthresh_packets < 1 << 20)
        .filter(|pair| pair[0].ssthresh_packets != pair[1].ssthresh_packets);
    cuts.nth(1).map(|pair| (&pair[0], &pair[1]))
}

/// The mean window at a loss of every Nth packet. RFC 3649 §5's w(p) is of just such losses: one
/// congestion event for each 1/p packets.
pub(crate) fn response() -> Result<(), Stop> {
    thread::scope(|scope| {
        let rates = [1_000, 1_500, 2_500, 5_000, 10_000];
        // At these rates the worlds leave the processors mostly idle.
        let all = rates.map(|every| scope.spawn(move || responds(every)));
        all.into_iter().try_for_each(|one| {
            one.join()
                .map_err(|_| Stop::Failed("a world panicked".to_owned()))?
        })
    })
}

/// Whether the window is that of the law at a loss of each packet of so many.
fn responds(every: u64) -> Result<(), Stop> {
    let law = HighSpeed::default();
    let expected = law.response(1.0 / every as f64);
    // At its window the connection sends every Nth packet once in so many ms; the first cycles
    // are on the way from slow start.
    let cycle_ms = (every as f64 / expected * 20.0) as u32;
    let scene = Scene {
        control: "wansan_hstcp",
        lost: [150]
            .into_iter()
            .chain((1..400).map(|n| n * every))
            .collect(),
        warmup_ms: 3 * cycle_ms,
        time_ms: 8 * cycle_ms,
        ..Scene::default()
    };
    let ran = scene.run()?;
    let mean = ran.cell["cwnd"]["sum_mean_packets"].as_f64();
    let found = mean.ok_or_else(|| Stop::Failed("no windows were recorded".to_owned()))?;
    let timeouts = &ran.cell["cwnd"]["loss_events"];
    println!("a loss in {every} packets: {found:.1} segments, {expected:.1} by RFC 3649 §5");
    require((found / expected - 1.0).abs() < 0.15, || {
        let states = ran
            .samples
            .iter()
            .filter(|s| s.congestion_state != CongestionState::OPEN);
        format!(
            "a loss in {every} packets gives a mean window of {found:.1} segments, where RFC \
             3649 §5 has {expected:.1} ({timeouts} timeouts, {} of {} samples outside Open)",
            states.count(),
            ran.samples.len(),
        )
    })
}
