//! Bursts with pauses between them: what of one was unsent when nothing woke the relay any more has left
//! before the next one comes, and is not taken for backlog then.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use wansan_path::{Effects, Limit, Rate};
use wansan_relay::EceSnapshot;

use crate::linear_topology::{LinearTopology, text};
use crate::machine::{Machine, Trouble, lateness};
use crate::program::LIMIT;

const CLIENT: usize = 0;
const RELAY: usize = 1;

/// One way, between relay and target.
const FAR: Duration = Duration::from_millis(5);

/// Less than half of what drains of 20 Mbit/s in the latency, above which the law signals, and much more
/// than what is on its way then.
const BURST_BYTES: usize = 225_000;
const MBIT_PER_S: u64 = 20;
const LATENCY: Duration = Duration::from_millis(200);

/// So many packets may wait for the far link that a window is a few of them.
const QUEUE_BYTES: u64 = 25_000;

/// After a burst has arrived.
const PAUSE: Duration = Duration::from_secs(1);

const BURSTS: usize = 5;

pub(crate) fn judged() -> Result<(), Trouble> {
    let mut far = Effects {
        delay: FAR,
        queue_limit: Limit::bytes(QUEUE_BYTES),
        ..Effects::default()
    };
    let rate = Rate::from_bits_per_s(MBIT_PER_S * 1_000_000).ok_or("no rate".to_owned())?;
    far.capacity = rate.into();
    let line = LinearTopology::build(&["client", "relay", "target"], &[None, Some(far)], true)?;
    let machine = Machine::watch();
    for node in [CLIENT, RELAY] {
        // Windows stay what they are in a pause, so that a burst comes as fast as it can.
        let path = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
        let set = line.node(node).run(move || std::fs::write(path, "0"));
        set.map_err(text)?;
    }
    let (relay, target) = line.arrival(LATENCY, false)?;
    let at = relay.addresses()[0];
    let client = line.node(CLIENT).run(move || TcpStream::connect(at));
    let mut client = client.map_err(text)?;
    let (mut server, _) = target.accept().map_err(text)?;
    server.set_read_timeout(Some(LIMIT)).map_err(text)?;
    let mut burst = vec![7; BURST_BYTES];
    let mut most = Vec::new();
    for _ in 0..BURSTS {
        client.write_all(&burst).map_err(text)?;
        server.read_exact(&mut burst).map_err(text)?;
        thread::sleep(PAUSE);
        let flow = relay.observer().snapshot().flows.into_iter().next();
        let ece = flow.and_then(|flow| flow.ece);
        let EceSnapshot { signals, .. } =
            ece.ok_or("no flow under a law that signals".to_owned())?;
        most.push(signals.backlog_max_bytes);
    }
    let waiting = machine.waiting();
    drop((client, server, relay));
    let statistics = line.end()?;
    eprintln!("of bursts of {BURST_BYTES} bytes at most {most:?} wait");
    // Nothing was judged where there is no ECN.
    if most[0] == 0 {
        return Err("no segment was judged".to_owned().into());
    }
    if most.iter().any(|most| *most > BURST_BYTES as u64) {
        let what = format!("more is taken to wait than came: {most:?} of {BURST_BYTES}");
        return Err(Trouble::of(
            what,
            waiting.or_else(|| lateness(&statistics, FAR)),
        ));
    }
    Ok(())
}
