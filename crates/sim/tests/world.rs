//! One or several senders and receivers, over one link in each direction.

use std::time::Duration;

use wansan_path::{Capacity, Effects, Limit, LossModel, Probability, Rate};
use wansan_sim::network::{Latency, Network, Program};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::connection::Connection;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::{Opening, ReceiveConfig};
use wansan_sim::tcp::send::{BufferConfig, SendConfig};

/// Payload bytes of a full packet.
pub(crate) const MSS: u64 = 1_448;

/// Bytes of a full packet on a link.
pub(crate) const PACKET_BYTES: u64 = 1_514;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Settings of a test; by default, buffers never limit a flow.
pub(crate) struct World {
    pub(crate) law: &'static str,
    pub(crate) mbit_per_s: u64,
    pub(crate) rtt: Duration,
    /// The queue limit, in packets.
    pub(crate) queue: u64,
    pub(crate) loss: f64,
    pub(crate) send: SendConfig,
    pub(crate) receive: ReceiveConfig,
    pub(crate) seed: u64,
    /// When the receiving programs start to read.
    pub(crate) reads_from_ns: u64,
}

impl Default for World {
    fn default() -> Self {
        let most = 1 << 28;
        World {
            law: "reno",
            mbit_per_s: 100,
            rtt: Duration::from_millis(40),
            queue: 330,
            loss: 0.0,
            send: SendConfig {
                buffer: BufferConfig {
                    wmem_bytes: [4_096, 16_384, most],
                    ..BufferConfig::default()
                },
                ..SendConfig::default()
            },
            receive: ReceiveConfig {
                rmem_bytes: [4_096, 131_072, most],
                ..ReceiveConfig::default()
            },
            seed: 1,
            reads_from_ns: 0,
        }
    }
}

impl World {
    /// Effects on data.
    pub(crate) fn forward(&self) -> Effects {
        let rate = Rate::from_bits_per_s(self.mbit_per_s * 1_000_000).expect("a rate");
        Effects {
            capacity: Capacity::Constant(rate),
            queue_limit: Limit::bytes(self.queue * PACKET_BYTES),
            loss: LossModel::Bernoulli(Probability::new(self.loss).expect("a probability")),
            ..self.back()
        }
    }

    /// Effects on acknowledgements.
    pub(crate) fn back(&self) -> Effects {
        Effects {
            delay: self.rtt / 2,
            queue_limit: Limit::bytes(1 << 30),
            ..Effects::default()
        }
    }

    /// A network with that many senders of `bytes` each, and the senders' ends.
    pub(crate) fn network(&self, flows: u64, bytes: u64) -> (Network, Vec<u32>) {
        self.network_of(&self.forward(), &self.back(), flows, bytes)
    }

    pub(crate) fn network_of(
        &self,
        forward: &Effects,
        back: &Effects,
        flows: u64,
        bytes: u64,
    ) -> (Network, Vec<u32>) {
        let mut network = Network::default();
        network.set_latency(Latency::default(), self.seed);
        let out = network.link(forward, self.seed).expect("a link");
        let home = network.link(back, self.seed + 1).expect("a link");
        let senders = (0..flows).map(|flow| {
            let end = |opening| {
                let law = Law::named(self.law, Hz::default(), self.seed + flow).expect("a law");
                Connection::new(opening, self.send, &self.receive, law, 0)
            };
            let [sender, _] = network.connect(
                [
                    (
                        end(Opening::Active),
                        Program::Source { bytes },
                        vec![out.into()],
                    ),
                    (
                        end(Opening::Passive),
                        Program::Sink {
                            from_ns: self.reads_from_ns,
                        },
                        vec![home.into()],
                    ),
                ],
                flow * 10_000_000,
            );
            sender
        });
        let senders = senders.collect();
        (network, senders)
    }

    /// Goodput of a single endless sender between two times, in bytes per second.
    pub(crate) fn goodput(&self, from_s: u64, to_s: u64) -> f64 {
        let (mut network, senders) = self.network(1, u64::MAX >> 1);
        let at = |network: &mut Network, s: u64| {
            network.run_until(s * SECOND_NS).expect("it goes on");
            network.end(senders[0]).sender().acknowledged_bytes()
        };
        let before = at(&mut network, from_s);
        let after = at(&mut network, to_s);
        (after - before) as f64 / (to_s - from_s) as f64
    }

    /// Maximum goodput of the link, in bytes per second.
    pub(crate) fn capacity(&self) -> f64 {
        (self.mbit_per_s * 1_000_000 / 8 * MSS) as f64 / PACKET_BYTES as f64
    }
}
