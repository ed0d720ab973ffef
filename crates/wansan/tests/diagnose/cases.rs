//! What is set up, and what has to be said of it.

use std::time::Duration;

use wansan_path::{Effects, Limit, LossModel, Probability, Rate};

/// A world, and what limits in it.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The verdict, and which of those of its kind.
    pub(crate) limit: &'static str,
    pub(crate) of: Option<(&'static str, &'static str)>,
    /// The verdict at the receiver's end, where packets alone do not show the sender's limit.
    pub(crate) elsewhere: Option<(&'static str, &'static str)>,
    pub(crate) target: &'static str,
    pub(crate) bench: &'static str,
    /// What receive and send buffers grow to at both ends, in bytes.
    pub(crate) buffers: [u64; 2],
    /// The path from the target to the initiator, and back.
    pub(crate) path: fn() -> [Effects; 2],
    /// What is printed as a change has to begin so; none where nothing is to be changed.
    pub(crate) change: Option<&'static str>,
}

const PLENTY: [u64; 2] = [16 << 20, 16 << 20];

fn long() -> Effects {
    Effects {
        delay: Duration::from_millis(10),
        queue_limit: Limit::bytes(16 << 20),
        ..Effects::default()
    }
}

fn clear() -> [Effects; 2] {
    [long(), long()]
}

fn slow() -> [Effects; 2] {
    let slow = Effects {
        capacity: Rate::from_bits_per_s(20_000_000).expect("a rate").into(),
        ..long()
    };
    [slow.clone(), slow]
}

fn slower() -> [Effects; 2] {
    let slower = Effects {
        capacity: Rate::from_bits_per_s(2_000_000).expect("a rate").into(),
        ..long()
    };
    [slower.clone(), slower]
}

fn lossy() -> [Effects; 2] {
    let lossy = Effects {
        loss: LossModel::Bernoulli(Probability::new(0.002).expect("a probability")),
        ..long()
    };
    [lossy, long()]
}

pub(crate) const CASES: [Case; 12] = [
    Case {
        name: "a small command window",
        limit: "bound",
        of: Some(("bound", "command_window")),
        elsewhere: None,
        target: "--command-window 8",
        bench: "--op read --block 4KiB --parallel 32",
        buffers: PLENTY,
        path: clear,
        change: Some("wansan target --command-window"),
    },
    Case {
        name: "writes that have to be asked for",
        limit: "wire",
        of: Some(("of", "r2t_round_trips")),
        elsewhere: None,
        target: "--initial-r2t yes --immediate-data no",
        bench: "--op write --block 64KiB --parallel 4 --initial-r2t yes --immediate-data no",
        buffers: PLENTY,
        path: clear,
        change: Some("wansan target --initial-r2t no"),
    },
    Case {
        name: "a receive buffer that cannot grow",
        limit: "wire",
        of: Some(("of", "receive_window")),
        elsewhere: None,
        target: "",
        bench: "--op read --block 256KiB --parallel 16",
        buffers: [131_072, 16 << 20],
        path: clear,
        change: Some("sysctl -w net.core.rmem_max"),
    },
    Case {
        name: "a send buffer that cannot grow",
        limit: "wire",
        of: Some(("of", "send_buffer")),
        elsewhere: Some(("of", "congestion_window")),
        target: "",
        bench: "--op read --block 256KiB --parallel 16",
        buffers: [16 << 20, 131_072],
        path: clear,
        change: Some("sysctl -w net.core.wmem_max"),
    },
    Case {
        name: "losses",
        limit: "wire",
        of: Some(("of", "congestion_window")),
        elsewhere: None,
        target: "--congestion-control cubic",
        bench: "--op read --block 64KiB --parallel 16",
        buffers: PLENTY,
        path: lossy,
        change: Some("modprobe tcp_bbr"),
    },
    Case {
        name: "a full link",
        limit: "wire",
        of: Some(("of", "path_rate")),
        elsewhere: None,
        target: "",
        bench: "--op read --block 64KiB --parallel 16",
        buffers: PLENTY,
        path: slow,
        change: None,
    },
    Case {
        name: "a full link whose queue never empties",
        limit: "wire",
        of: Some(("of", "path_rate")),
        elsewhere: None,
        target: "",
        bench: "--op read --block 4KiB --parallel 8",
        buffers: PLENTY,
        path: slower,
        change: None,
    },
    Case {
        name: "a full link before a small send buffer",
        limit: "wire",
        of: Some(("of", "path_rate")),
        elsewhere: None,
        target: "",
        bench: "--op write --block 64KiB --parallel 16",
        buffers: [16 << 20, 262_144],
        path: slow,
        change: None,
    },
    Case {
        name: "Nagle's algorithm against delayed acknowledgements",
        limit: "wire",
        of: Some(("of", "stalls")),
        elsewhere: None,
        target: "--nagle on --status separate --join-sends off",
        bench: "--op read --block 1KiB --parallel 1",
        buffers: PLENTY,
        path: clear,
        change: None,
    },
    Case {
        name: "a slow store",
        limit: "target",
        of: None,
        elsewhere: None,
        target: "--lun memory:16MiB,service-time=20ms,servers=2",
        bench: "--op read --block 4KiB --parallel 16",
        buffers: PLENTY,
        path: clear,
        change: None,
    },
    Case {
        name: "one I/O at a time",
        limit: "too_few_ios",
        of: None,
        elsewhere: None,
        target: "",
        bench: "--op read --block 4KiB --parallel 1",
        buffers: PLENTY,
        path: clear,
        change: None,
    },
    Case {
        name: "hardly any load",
        limit: "idle",
        of: None,
        elsewhere: None,
        target: "",
        bench: "--op read --block 4KiB --parallel 4 --rate 5",
        buffers: PLENTY,
        path: clear,
        change: None,
    },
];
