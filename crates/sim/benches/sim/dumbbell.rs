//! A dumbbell in this simulator: senders behind one router, receivers behind another, and a bottleneck between them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wansan_path::{Capacity, Effects, Limit, Rate};
use wansan_sim::network::{Hop, Network, Program};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::connection::Connection;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::{Opening, ReceiveConfig};
use wansan_sim::tcp::send::{BufferConfig, SendConfig};

use crate::Simulated;

/// Round-trip time of the empty path.
pub(crate) const RTT: Duration = Duration::from_millis(40);

/// Bits to simulate: 60 s at 100 Mbit/s; at other rates, the time in which the same amount passes.
const BITS: u64 = 60 * 100_000_000;

/// Offset between the starts of consecutive flows.
const APART_NS: u64 = 10_000_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Dumbbell {
    pub(crate) flows: u32,
    pub(crate) mbit_per_s: u64,
}

impl Dumbbell {
    /// Simulated time in seconds.
    pub(crate) fn time_s(&self) -> u64 {
        BITS / (self.mbit_per_s * 1_000_000)
    }

    pub(crate) fn simulate(&self) -> Simulated {
        let (mut network, receivers) = self.network();
        let began_s = cpu_s();
        let time_ns = self.time_s() * 1_000_000_000;
        network.run_until(time_ns).expect("it goes on");
        let cpu_s = cpu_s() - began_s;
        let taken = |end: &u32| network.end(*end).receiver().next() - 1;
        let bytes: u64 = receivers.iter().map(taken).sum();
        Simulated {
            segments: bytes / u64::from(SendConfig::default().mss),
            cpu_s,
        }
    }

    /// The network, and the receivers' ends.
    fn network(&self) -> (Network, Vec<u32>) {
        let mut network = Network::default();
        let bits_per_s = self.mbit_per_s * 1_000_000;
        let effects = |bits_per_s, delay, queue_bytes| Effects {
            delay,
            capacity: Capacity::Constant(Rate::from_bits_per_s(bits_per_s).expect("a rate")),
            queue_limit: Limit::bytes(queue_bytes),
            ..Effects::default()
        };
        let product_bytes = bits_per_s / 8 * RTT.as_millis() as u64 / 1_000;
        // The bottleneck path holds at most two bandwidth-delay products, so buffers of twice that never limit a flow.
        let buffer_bytes = 4 * product_bytes;
        let bottleneck = effects(bits_per_s, RTT / 2, product_bytes);
        let access = effects(10 * bits_per_s, Duration::ZERO, buffer_bytes);
        let mut link = |effects: &Effects| network.link(effects, 1).expect("plain effects");
        let between = [link(&bottleneck), link(&bottleneck)];
        let flows: Vec<[u32; 4]> = (0..self.flows)
            .map(|_| [(); 4].map(|()| link(&access)))
            .collect();
        let end = |opening| {
            let send = SendConfig {
                buffer: BufferConfig {
                    wmem_bytes: [4_096, 16_384, 4 * buffer_bytes],
                    ..BufferConfig::default()
                },
                ..SendConfig::default()
            };
            let receive = ReceiveConfig {
                rmem_bytes: [4_096, 131_072, 4 * buffer_bytes],
                ..ReceiveConfig::default()
            };
            let law = Law::named("cubic", Hz::default(), 1).expect("it is known");
            Connection::new(opening, send, &receive, law, 0)
        };
        let connect = |(number, access): (u64, [u32; 4])| {
            let bytes = u64::MAX >> 1;
            let out = [access[0], between[0], access[1]].map(Hop::from).to_vec();
            let home = [access[2], between[1], access[3]].map(Hop::from).to_vec();
            let sender = (end(Opening::Active), Program::Source { bytes }, out);
            let sink = Program::Sink { from_ns: 0 };
            let receiver = (end(Opening::Passive), sink, home);
            network.connect([sender, receiver], number * APART_NS)[1]
        };
        let receivers = (0..).zip(flows).map(connect).collect();
        (network, receivers)
    }
}

/// CPU time used by this process.
fn cpu_s() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
