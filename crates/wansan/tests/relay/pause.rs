//! A sender that pauses after a signal answers late; the law of arrival holds it all the same.

use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use wansan_tcp::ece::Order;
use wansan_tcp::queues;
use wansan_trace::clock;

use crate::linear_topology::text;
use crate::machine::Trouble;
use crate::pair::Pair;

const ROUND_TRIP: Duration = Duration::from_millis(10);

/// Of the sender, after the first signal.
const PAUSE: Duration = Duration::from_secs(2);

/// How long it floods the receiver then.
const FLOOD: Duration = Duration::from_secs(4);

/// How fast bytes leave the receiver, in bytes per second.
const DRAIN: u64 = 2_500_000;

/// A cut costs 24 kB of backlog at this rate and round trip, so there is room for one.
const BOUND_BYTES: u64 = 125_000;

pub(crate) fn held() -> Result<(), Trouble> {
    let pair = Pair::build("reno", ROUND_TRIP)?;
    let (asked, may_begin) = channel();
    let ends = pair.connect(move |mut stream| {
        // One signal is asked for: the first segment brings it about, and nothing follows to answer it.
        if may_begin.recv().is_ok() {
            stream.write_all(&[7; 1000])?;
            thread::sleep(PAUSE);
            // Until the receiver has seen enough.
            while stream.write_all(&[7; 64 << 10]).is_ok() {}
        }
        Ok(())
    })?;
    let mut stream = &ends.to;
    let mut order = Order {
        asked: 1,
        drain_bytes_per_s: DRAIN,
        bound_bytes: BOUND_BYTES,
        ..Order::default()
    };
    pair.signal.order(stream, &order).map_err(text)?;
    asked.send(()).map_err(text)?;
    let mut piece = vec![0; 1 << 20];
    let mut loops = 0;
    let mut waits = Vec::new();
    let mut last = Instant::now();
    let mut flooded = None;
    while flooded.is_none_or(|began: Instant| began.elapsed() < FLOOD) {
        thread::sleep(Duration::from_millis(1));
        let room = (DRAIN as f64 * last.elapsed().as_secs_f64()) as u64;
        last = Instant::now();
        let backlog = queues::received_bytes(stream).map_err(text)?;
        let read = backlog.min(room) as usize;
        if read > 0 {
            stream.read_exact(&mut piece[..read]).map_err(text)?;
        }
        order.passed_bytes += read as u64;
        order.passed_at = clock::now();
        pair.signal.order(stream, &order).map_err(text)?;
        loops = pair.signal.signals(stream).loop_ns.max(loops);
        if order.passed_bytes > 1000 {
            let began = *flooded.get_or_insert(last);
            if began.elapsed() > FLOOD / 2 {
                waits.push(backlog);
            }
        }
    }
    let signals = pair.signal.signals(stream);
    let disturbance = pair.end(ends)?;
    waits.sort_unstable();
    let most = waits[waits.len() * 99 / 100];
    eprintln!("{most} bytes wait in 99 of 100 samples: {signals:?}");
    // The segment before the pause may have been later on its way than the one behind it.
    if loops < PAUSE.as_nanos() as u64 / 2 {
        let most = Duration::from_nanos(loops);
        let what = format!("the pause is in no answer, of {most:?} at most: {signals:?}");
        return Err(Trouble::of(what, disturbance));
    }
    // A cycle of the saw-tooth is some 120 ms.
    if signals.signals < 5 || most > 2 * BOUND_BYTES {
        let what = format!("the sender is not held: {most} wait, {signals:?}");
        return Err(Trouble::of(what, disturbance));
    }
    Ok(())
}
