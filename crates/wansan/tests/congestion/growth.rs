//! How windows grow while nothing is lost.

use wansan_peers::trial::{Stop, require};
use wansan_tcp::control::HighSpeed;
use wansan_trace::event::CongestionState;
use wansan_trace::event::Tcp;

use super::lab::{Kept, Scene};

/// The window after one loss against the window that the law makes of the packets acknowledged
/// meanwhile: a window of w segments grows by a(w) while w packets are acknowledged.
pub(crate) fn by_law() -> Result<(), Stop> {
    let highspeed = HighSpeed::default();
    let laws: [(&str, &dyn Fn(f64) -> f64); 3] = [
        ("wansan_reno", &|_| 1.0),
        ("wansan_hstcp", &|window| highspeed.increase(window)),
        ("wansan_scal", &|window| 0.01 * window),
    ];
    for (control, increase) in laws {
        let (found, expected) = grown(control, increase)?;
        require((found / expected - 1.0).abs() < 0.05, || {
            format!("{control} grows by {found} segments, by its law {expected:.1}")
        })?;
    }
    Ok(())
}

/// With ACKs that stretch over several packets, as every second one is acknowledged at most.
pub(crate) fn by_acks() -> Result<(), Stop> {
    let _kept = Kept::load("wansan_hstcp", &["--count", "acks"])?;
    let highspeed = HighSpeed::default();
    let (found, expected) = grown("wansan_hstcp", &|window| highspeed.increase(window))?;
    require(found < 0.6 * expected && found > 0.0, || {
        format!("it grows by {found} segments, {expected:.1} if packets were counted")
    })
}

/// By how many segments the window has grown after its only loss, and by how many it should have.
fn grown(control: &'static str, increase: &dyn Fn(f64) -> f64) -> Result<(f64, f64), Stop> {
    let scene = Scene {
        control,
        lost: vec![600],
        ..Scene::default()
    };
    let ran = scene.run()?;
    let mut samples = ran.samples.iter().filter(|sample| avoids(sample));
    let none = || Stop::Failed(format!("{control}: no congestion avoidance"));
    let first = samples.next().ok_or_else(none)?;
    let last = samples.next_back().ok_or_else(none)?;
    let acked_bytes = last.acked_bytes - first.acked_bytes;
    let acked = acked_bytes / u64::from(first.mss_bytes);
    let mut window = f64::from(first.cwnd_packets);
    for _ in 0..acked {
        window += increase(window) / window;
    }
    let begin = f64::from(first.cwnd_packets);
    Ok((f64::from(last.cwnd_packets) - begin, window - begin))
}

/// Congestion avoidance: no loss is being mended, and the window has come to `ssthresh`.
fn avoids(sample: &Tcp) -> bool {
    sample.congestion_state == CongestionState::OPEN
        && sample.ssthresh_packets < 1 << 20
        && sample.cwnd_packets >= sample.ssthresh_packets
}

/// RFC 3742 §2: above max_ssthresh by (max_ssthresh / 2) / K segments in a round trip, where
/// K = ⌊cwnd / (max_ssthresh / 2)⌋: between half of max_ssthresh and, just below the next K, more.
pub(crate) fn limited() -> Result<(), Stop> {
    let _kept = Kept::load("wansan_reno", &["--max-ssthresh", "100"])?;
    let ran = Scene::default().run()?;
    let above = |sample: &&Tcp| (200..5000).contains(&sample.cwnd_packets);
    let mut samples = ran.samples.iter().filter(above);
    let none = || Stop::Failed("the window does not come above 200 segments".to_owned());
    let first = samples.next().ok_or_else(none)?;
    let last = samples.next_back().ok_or_else(none)?;
    let acked = (last.acked_bytes - first.acked_bytes) / u64::from(first.mss_bytes);
    let mut window = f64::from(first.cwnd_packets);
    for _ in 0..acked {
        window += 1.0 / (window / 50.0).floor();
    }
    let begin = f64::from(first.cwnd_packets);
    let (found, expected) = (f64::from(last.cwnd_packets) - begin, window - begin);
    require((found / expected - 1.0).abs() < 0.05, || {
        format!("it grows by {found} segments, by RFC 3742 {expected:.1}")
    })
}
