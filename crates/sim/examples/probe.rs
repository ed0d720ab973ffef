use std::time::Duration;
use wansan_path::*;
use wansan_sim::network::*;
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::connection::Connection;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::*;
use wansan_sim::tcp::send::*;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let (law, mbit, rtt_ms, bdp, loss, flows, secs): (&str, u64, u64, f64, f64, u32, u64) = (&a[0], a[1].parse().unwrap(), a[2].parse().unwrap(), a[3].parse().unwrap(), a[4].parse().unwrap(), a[5].parse().unwrap(), a[6].parse().unwrap());
    let mut net = Network::default();
    let queue = ((mbit * 1_000_000 / 8) as f64 * rtt_ms as f64 / 1000.0 * bdp) as u64;
    let delay = Duration::from_micros(rtt_ms * 500);
    let fwd = Effects { capacity: Capacity::Constant(Rate::from_bits_per_s(mbit * 1_000_000).unwrap()), queue_limit: Limit::bytes(queue.max(3028)), delay, loss: LossModel::Bernoulli(Probability::new(loss).unwrap()), ..Effects::default() };
    let back = Effects { delay, queue_limit: Limit::bytes(1<<30), ..Effects::default() };
    let f = net.link(&fwd, 1).unwrap();
    let b = net.link(&back, 2).unwrap();
    let mut ends = vec![];
    for i in 0..flows {
        let c = |o| Connection::new(o, SendConfig{ buffer: BufferConfig{ wmem_bytes: [4096, 16384, 256<<20], so_sndbuf_bytes: None}, ..SendConfig::default()}, &ReceiveConfig { rmem_bytes: [4096, 131072, 256<<20], ..ReceiveConfig::default()}, Law::named(law, Hz(250), u64::from(i)).unwrap(), 0);
        let e = net.connect([(c(Opening::Active), Program::Source { bytes: u64::MAX/2 }, vec![f]), (c(Opening::Passive), Program::Sink, vec![b])], u64::from(i) * 10_000_000);
        ends.push(e[0]);
    }
    let t = std::time::Instant::now();
    let mut last = 0;
    for s in 1..=secs {
        net.run_until(s * 1_000_000_000);
        let got: u64 = ends.iter().map(|e| net.end(*e).sender().acknowledged_bytes()).sum();
        let w = net.end(ends[0]).sender().window();
        if secs <= 40 || s % 10 == 0 || s==secs { println!("{s} s: {:.2} Mbit/s cwnd {} ssthresh {} srtt {} us in flight {} {:?} peer {:?}", (got - last) as f64 * 8.0 / 1e6, w.cwnd, w.ssthresh, w.srtt_us, w.in_flight, w.state, net.end(ends[0]).sender().counts()); }
        last = got;
    }
    let el = t.elapsed().as_secs_f64();
    let got: u64 = ends.iter().map(|e| net.end(*e).sender().acknowledged_bytes()).sum();
    println!("mean {:.2} Mbit/s; {} packets, {:.2} s, {:.0} packets/s; {:?}", got as f64*8.0/1e6/secs as f64, net.packets(), el, net.packets() as f64 / el, net.counters(f));
}
