//! UDP flows between two hosts, each packet numbered, its time of sending kept by the sender and
//! its time of arrival by the receiver.

use std::net::UdpSocket;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wansan_lab::world::{Node, World};
use wansan_trace::clock;

use super::stamped::Stamped;

/// UDP payload of a packet of 1500 bytes.
const PAYLOAD_BYTES: usize = 1500 - 20 - 8;
const PORT: u16 = 9;
/// Packets per wake-up of a sender.
const BURST: u32 = 8;
/// Time between two looks of a receiver. The kernel notes when each packet came, and a receiver
/// that is not woken for each disturbs less.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Longer than any packet stays in the path.
const PATIENCE: Duration = Duration::from_millis(500);

/// One direction's packets.
pub(crate) struct Flow {
    /// When each packet was sent.
    pub(crate) sent_ns: Vec<u64>,
    /// Those that arrived, in order.
    pub(crate) arrivals: Vec<Arrival>,
}

/// A packet that arrived.
pub(crate) struct Arrival {
    /// Which one of those sent.
    pub(crate) number: usize,
    /// When the receiving host's kernel got it.
    pub(crate) stamped_ns: u64,
}

/// Sends a packet every `gap` for `time` from each of the world's two hosts to the other, and
/// notes every arrival.
pub(crate) fn both_ways(world: &World, gap: Duration, time: Duration) -> Vec<Flow> {
    let flows = pairs(world).map(|(from, to)| {
        let (receiving, sending) = sockets(from, to);
        let sender = thread::spawn(move || send(&sending, gap, time));
        thread::spawn(move || {
            let arrivals = receive(&Stamped::new(receiving), &sender);
            let sent_ns = sender.join().expect("the sender ends");
            Flow { sent_ns, arrivals }
        })
    });
    let flows = flows.into_iter();
    flows
        .map(|flow| flow.join().expect("a flow ends"))
        .collect()
}

/// Sends as [`both_ways`] does, to sockets that nobody reads, and gives what came to each host's
/// interface between 20 and 80 % of the time, in bits per second.
pub(crate) fn through_interfaces(world: &World, gap: Duration, time: Duration) -> Vec<u64> {
    let flows = pairs(world).map(|(from, to)| {
        let (receiving, sending) = sockets(from, to);
        (thread::spawn(move || send(&sending, gap, time)), receiving)
    });
    thread::sleep(time / 5);
    let first = world.nodes().iter().map(received).collect::<Vec<_>>();
    thread::sleep(time * 3 / 5);
    let second = world.nodes().iter().map(received);
    let rates = first.into_iter().zip(second);
    let rates = rates.map(|((began_ns, before), (ended_ns, after))| {
        (after - before) * 8 * 1_000_000_000 / (ended_ns - began_ns)
    });
    let rates = rates.collect();
    for (sender, _receiving) in flows {
        sender.join().expect("the sender ends");
    }
    rates
}

fn pairs(world: &World) -> [(&Node, &Node); 2] {
    let [west, east] = world.nodes() else {
        panic!("two hosts");
    };
    [(west, east), (east, west)]
}

fn sockets(from: &Node, to: &Node) -> (UdpSocket, UdpSocket) {
    let (here, there) = (from.address(), to.address());
    let receiving = to.namespace().run(move || UdpSocket::bind((there, PORT)));
    let sending = from.namespace().run(move || {
        let socket = UdpSocket::bind((here, 0))?;
        socket.connect((there, PORT)).map(|()| socket)
    });
    (
        receiving.expect("a receiving socket"),
        sending.expect("a sending socket"),
    )
}

/// The bytes that the host's interface has received, and when.
fn received(host: &Node) -> (u64, u64) {
    host.namespace().run(|| {
        let now_ns = clock::now().ns();
        let devices = std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters");
        let counters = devices
            .lines()
            .find_map(|line| line.trim().strip_prefix("wan:"));
        let bytes = counters.and_then(|counters| counters.split_whitespace().next());
        let bytes = bytes.expect("the interface is there");
        (now_ns, bytes.parse().expect("a number"))
    })
}

fn send(socket: &UdpSocket, gap: Duration, time: Duration) -> Vec<u64> {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut payload = [0; PAYLOAD_BYTES];
    let mut sent_ns = Vec::with_capacity((time.as_nanos() / gap.as_nanos()) as usize);
    let mut next = clock::now();
    let end = next + time;
    while next < end {
        thread::sleep(next - clock::now());
        for _ in 0..BURST {
            payload[..8].copy_from_slice(&(sent_ns.len() as u64).to_ne_bytes());
            sent_ns.push(clock::now().ns());
            // A receiver that is gone shows as packets lost.
            let _ = socket.send(&payload);
        }
        next += gap * BURST;
    }
    sent_ns
}

fn receive(socket: &Stamped, sender: &JoinHandle<Vec<u64>>) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut payload = [0; PAYLOAD_BYTES];
    let mut last_sent = clock::now();
    while clock::now() - last_sent < PATIENCE {
        if !sender.is_finished() {
            last_sent = clock::now();
        }
        while let Some(stamped_ns) = socket.receive(&mut payload) {
            let number = u64::from_ne_bytes(payload[..8].try_into().expect("eight bytes"));
            arrivals.push(Arrival {
                number: number as usize,
                stamped_ns,
            });
        }
        thread::sleep(LOOK_EVERY);
    }
    arrivals
}
