//! Both ends of flows, and a relay between them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::net::sockopt::set_socket_linger;
use wansan_relay::{ListenerConfig, ProcessSettings, Relay, RelayFile, RelaySettings, Snapshot};
use wansan_settings::quantity::Size;
use wansan_settings::usual;

/// Longer than these tests take on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A relay in front of a target, and its listen address.
pub(crate) struct World {
    pub(crate) relay: Relay,
    pub(crate) at: SocketAddr,
    pub(crate) target: TcpListener,
}

/// Settings of a relay with that listener.
pub(crate) fn config(listener: ListenerConfig) -> RelaySettings {
    RelaySettings {
        file: RelayFile {
            listener: vec![listener],
        },
        process: ProcessSettings {
            threads: Some(2),
            flows: 1000,
            memory: Size(64 << 20),
            ..usual()
        },
    }
}

/// Prints problems in the test output.
pub(crate) const REPORT: fn(&str) = |line| eprintln!("relay: {line}");

/// A world with changed settings.
pub(crate) fn world(change: impl FnOnce(&mut RelaySettings)) -> World {
    world_that_says(REPORT, change)
}

/// The same, with problems passed to `report`.
pub(crate) fn world_that_says(report: fn(&str), change: impl FnOnce(&mut RelaySettings)) -> World {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target.local_addr().unwrap().to_string();
    let mut config = config(ListenerConfig::new("127.0.0.1:0", &to));
    change(&mut config);
    let relay = Relay::start(&config, report).unwrap();
    World {
        at: relay.addresses()[0],
        relay,
        target,
    }
}

impl World {
    /// Both ends of a new flow: the client's and the target's.
    pub(crate) fn flow(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.at).unwrap();
        let (target, _) = self.target.accept().unwrap();
        for end in [&client, &target] {
            end.set_nodelay(true).unwrap();
            end.set_read_timeout(Some(LONG)).unwrap();
            end.set_write_timeout(Some(LONG)).unwrap();
        }
        (client, target)
    }

    /// The relay's snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.relay.observer().snapshot()
    }

    /// Waits until the snapshot `holds`.
    pub(crate) fn until(&self, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let began = Instant::now();
        loop {
            let snapshot = self.snapshot();
            if holds(&snapshot) {
                return snapshot;
            }
            assert!(began.elapsed() < LONG, "still: {snapshot:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The error that a refused client gets. The reset may arrive during connect, or later.
pub(crate) fn sees(at: SocketAddr) -> ErrorKind {
    let seen = TcpStream::connect(at).and_then(|mut client| {
        client.set_read_timeout(Some(LONG))?;
        client.read(&mut [0])
    });
    seen.unwrap_err().kind()
}

/// Closes a socket with a reset.
pub(crate) fn reset(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Bytes that depend on a seed only.
pub(crate) struct Content(Pcg64Mcg);

impl Content {
    pub(crate) fn new(seed: u64) -> Content {
        Content(Pcg64Mcg::seed_from_u64(seed))
    }

    /// The next bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        // Drawn one by one, so that the split into pieces does not matter.
        for byte in bytes {
            *byte = self.0.next_u32() as u8;
        }
    }
}

/// Sends the first `length` bytes of a content.
pub(crate) fn send(mut to: &TcpStream, seed: u64, length: usize) -> io::Result<()> {
    let mut content = Content::new(seed);
    let mut piece = vec![0; 100_000];
    let mut left = length;
    while left > 0 {
        let piece = &mut piece[..left.min(100_000)];
        content.fill(piece);
        to.write_all(piece)?;
        left -= piece.len();
    }
    Ok(())
}

/// Data received before a stream ended.
#[derive(Debug)]
pub(crate) struct Received {
    /// Number of bytes, all as sent.
    pub(crate) bytes: usize,
    /// How it ended: `Ok` with a FIN.
    pub(crate) end: io::Result<()>,
}

/// Reads to the end, and compares every byte with the content.
///
/// # Panics
/// At the first byte that differs.
pub(crate) fn receive(from: &TcpStream, seed: u64) -> Received {
    receive_while(from, seed, || true)
}

/// As [`receive`], while `wanted` holds.
///
/// # Panics
/// As for [`receive`].
pub(crate) fn receive_while(
    mut from: &TcpStream,
    seed: u64,
    is_wanted: impl Fn() -> bool,
) -> Received {
    let mut content = Content::new(seed);
    let (mut got, mut sent) = (vec![0; 100_000], vec![0; 100_000]);
    let mut bytes = 0;
    let end = loop {
        match from.read(&mut got) {
            Ok(0) => break Ok(()),
            Ok(_) if !is_wanted() => break Ok(()),
            Ok(read) => {
                content.fill(&mut sent[..read]);
                let same = got[..read] == sent[..read];
                assert!(same, "bytes {bytes} to {} arrive changed", bytes + read);
                bytes += read;
            }
            Err(error) => break Err(error),
        }
    };
    Received { bytes, end }
}
