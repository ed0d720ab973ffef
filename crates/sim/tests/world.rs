//! A sender and a receiver, or several, over one link each way.

use std::time::Duration;

use wansan_path::{Capacity, Effects, Limit, LossModel, Probability, Rate};
use wansan_sim::network::{Latency, Network, Program};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::connection::Connection;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::{Opening, ReceiveConfig};
use wansan_sim::tcp::send::{BufferConfig, SendConfig};

/// Data bytes of a full packet.
pub(crate) const MSS: u64 = 1_448;

/// What such a packet takes on a link.
pub(crate) const PACKET_BYTES: u64 = 1_514;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// What is the same in all worlds unless they say otherwise: buffers that never bind.
pub(crate) struct World {
    pub(crate) law: &'static str,
    pub(crate) mbit_per_s: u64,
    pub(crate) rtt: Duration,
    /// The queue, in packets.
    pub(crate) queue: u64,
    pub(crate) loss: f64,
    pub(crate) send: SendConfig,
    pub(crate) receive: ReceiveConfig,
    pub(crate) seed: u64,
    /// When the receiving programs begin to read.
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
    /// What data suffers on its way.
    pub(crate) fn forward(&self) -> Effects {
        let rate = Rate::from_bits_per_s(self.mbit_per_s * 1_000_000).expect("a rate");
        Effects {
            capacity: Capacity::Constant(rate),
            queue_limit: Limit::bytes(self.queue * PACKET_BYTES),
            loss: LossModel::Bernoulli(Probability::new(self.loss).expect("a probability")),
            ..self.back()
        }
    }

    /// What acknowledgements suffer.
    pub(crate) fn back(&self) -> Effects {
        Effects {
            delay: self.rtt / 2,
            queue_limit: Limit::bytes(1 << 30),
            ..Effects::default()
        }
    }

    /// A network in which so many senders have so many bytes each, and the senders' ends.
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

    /// Bytes that a single endless sender gets through in a second, between two times.
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

    /// The most that the link carries of data, in bytes per second.
    pub(crate) fn capacity(&self) -> f64 {
        (self.mbit_per_s * 1_000_000 / 8 * MSS) as f64 / PACKET_BYTES as f64
    }
}
