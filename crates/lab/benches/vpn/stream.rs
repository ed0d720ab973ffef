//! A TCP stream from host to host, as fast as possible.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wansan_lab::world::Node;

/// Duration of the measurement.
pub(crate) const TIME: Duration = Duration::from_secs(2);
/// Warm-up, excluded from results: slow start.
const WARMUP: Duration = Duration::from_millis(500);
const PORT: u16 = 5001;
const CHUNK_BYTES: usize = 1 << 18;
/// A stream that stalls for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Stream {
    received: Arc<AtomicU64>,
    sending: TcpStream,
    threads: [JoinHandle<()>; 2],
}

/// Starts a stream from `sender` to `address` of `receiver`, and lets it warm up.
pub(crate) fn begin(sender: &Node, receiver: &Node, address: Ipv4Addr) -> io::Result<Stream> {
    let listener = receiver
        .namespace()
        .run(move || TcpListener::bind((address, PORT)))?;
    let sending = sender
        .namespace()
        .run(move || TcpStream::connect((address, PORT)))?;
    let (mut arriving, _) = listener.accept()?;
    arriving.set_read_timeout(Some(PATIENCE))?;
    sending.set_write_timeout(Some(PATIENCE))?;
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    let reader = thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(n @ 1..) = arriving.read(&mut chunk) {
            count.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
    let mut outgoing = sending.try_clone()?;
    let writer = thread::spawn(move || {
        let chunk = vec![0x5a; CHUNK_BYTES];
        while outgoing.write_all(&chunk).is_ok() {}
    });
    thread::sleep(WARMUP);
    Ok(Stream {
        received,
        sending,
        threads: [reader, writer],
    })
}

impl Stream {
    /// Bytes received so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub(crate) fn end(self) {
        // It may have failed already.
        let _ = self.sending.shutdown(Shutdown::Both);
        for thread in self.threads {
            thread.join().expect("a stream does not panic");
        }
    }
}
