//! A TCP stream between namespaces, as fast as possible.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_tcp_congestion;
use wansan_trace::clock;

/// The congestion control of every stream, whatever its namespace's default.
pub(crate) const CONGESTION_CONTROL: &str = "cubic";
const PORT: u16 = 5001;
const CHUNK_BYTES: usize = 256 << 10;

/// Sends to that address for a time.
pub(crate) fn source(to: Ipv4Addr, time: Duration) -> std::io::Result<()> {
    let mut stream = loop {
        // The sink may not listen yet.
        match TcpStream::connect((to, PORT)) {
            Ok(stream) => break stream,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error),
        }
    };
    set_tcp_congestion(&stream, CONGESTION_CONTROL)?;
    let chunk = vec![0; CHUNK_BYTES];
    let end = clock::now() + time;
    while clock::now() < end {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// Receives one stream, and prints its goodput in bits per second, excluding its first fifth.
pub(crate) fn sink(time: Duration) -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    println!("ready");
    let (mut stream, _) = listener.accept()?;
    let begin = clock::now() + time / 5;
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut counted, mut first, mut last) = (0u64, None, begin);
    loop {
        let bytes = stream.read(&mut chunk)?;
        if bytes == 0 {
            break;
        }
        let now = clock::now();
        if now >= begin {
            if first.is_some() {
                counted += bytes as u64;
            }
            first.get_or_insert(now);
            last = now;
        }
    }
    let took = last - first.unwrap_or(last);
    println!("{}", counted as f64 * 8.0 / took.as_secs_f64().max(1e-9));
    Ok(())
}
