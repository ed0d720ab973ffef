//! Load on a proxy: streams, echoes, connections.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use wansan_peers::compare::median;
use wansan_peers::cpu;

/// Bytes of each write of a stream, and the most of each read.
const BLOCK_BYTES: usize = 256 << 10;

/// A target that discards or echoes data.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    taken_bytes: Arc<AtomicU64>,
}

impl Target {
    /// A sink for streams. Its threads end with the process.
    pub(crate) fn sink() -> io::Result<Target> {
        let taken = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&taken);
        let address = accept_all(move |stream| {
            let mut block = vec![0; BLOCK_BYTES];
            // TCP discards the bytes without copying: the load stays small compared with the proxy.
            while let Ok((_, bytes @ 1..)) = recv(&stream, &mut block, RecvFlags::TRUNC) {
                counter.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        })?;
        Ok(Target {
            address,
            taken_bytes: taken,
        })
    }

    /// An echo server.
    pub(crate) fn echo() -> io::Result<Target> {
        let address = accept_all(|mut stream| {
            let mut block = [0; 4096];
            while let Ok(bytes @ 1..) = stream.read(&mut block) {
                if stream.write_all(&block[..bytes]).is_err() {
                    return;
                }
            }
        })?;
        Ok(Target {
            address,
            taken_bytes: Arc::default(),
        })
    }

    /// Echoes one byte per connection, up to `at_once` in parallel.
    pub(crate) fn brief(at_once: usize) -> io::Result<Target> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        for _ in 0..at_once {
            let listener = listener.try_clone()?;
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let mut byte = [0];
                    // A client may close early.
                    if stream.read_exact(&mut byte).is_ok() {
                        let _ = stream.write_all(&byte);
                    }
                    // It closes first: TIME-WAIT (RFC 9293 §3.6.1) then holds no port of the client.
                }
            });
        }
        Ok(Target {
            address,
            taken_bytes: Arc::default(),
        })
    }

    fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }
}

fn accept_all(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            let _ = stream.set_nodelay(true);
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// Results of streams through a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    /// Throughput, in GiB per second.
    pub(crate) gib_per_s: f64,
    /// Processor time per GiB, in seconds.
    pub(crate) cpu_s_per_gib: f64,
}

/// Sends `flows` streams to `proxy`, process `id`, in front of the sink `target`, for `time`.
pub(crate) fn streams(
    proxy: SocketAddr,
    id: u32,
    target: &Target,
    flows: usize,
    time: Duration,
) -> io::Result<Streams> {
    let over = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..flows)
        .map(|_| {
            let mut stream = TcpStream::connect(proxy)?;
            let over = Arc::clone(&over);
            Ok(std::thread::spawn(move || {
                let block = vec![0x5a; BLOCK_BYTES];
                while !over.load(Ordering::Relaxed) && stream.write_all(&block).is_ok() {}
            }))
        })
        .collect::<io::Result<_>>()?;
    // Windows grow first.
    std::thread::sleep(time / 4);
    let (bytes, used, began) = (target.taken_bytes(), cpu::time_used(id)?, Instant::now());
    std::thread::sleep(time);
    let seconds = began.elapsed().as_secs_f64();
    let cpu_s = (cpu::time_used(id)? - used).as_secs_f64();
    let gib = (target.taken_bytes() - bytes) as f64 / f64::from(1 << 30);
    over.store(true, Ordering::Relaxed);
    for sender in senders {
        let _ = sender.join();
    }
    Ok(Streams {
        gib_per_s: gib / seconds,
        cpu_s_per_gib: cpu_s / gib,
    })
}

/// What `proxy` adds to the median round trip of single bytes to the echo server `target`, over `time`, in µs. Round
/// trips with and without the proxy alternate, so that other load on the machine slows both alike.
pub(crate) fn echo_added_p50_us(
    target: SocketAddr,
    proxy: SocketAddr,
    time: Duration,
) -> io::Result<f64> {
    let connect = |address| {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok::<_, io::Error>((stream, Vec::new()))
    };
    let mut ways = [connect(target)?, connect(proxy)?];
    let began = Instant::now();
    while began.elapsed() < time {
        for (stream, trips_us) in &mut ways {
            let mut byte = [7];
            let sent = Instant::now();
            stream.write_all(&byte)?;
            stream.read_exact(&mut byte)?;
            trips_us.push(sent.elapsed().as_secs_f64() * 1e6);
        }
    }
    let [straight, through] = ways.map(|(_, trips_us)| median(&trips_us));
    Ok(through - straight)
}

/// Results of brief connections through a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connects {
    /// Connections per second.
    pub(crate) per_s: f64,
    /// Processor time of the proxy per connection, in µs.
    pub(crate) cpu_us: f64,
}

/// Opens connections through `proxy`, process `id`, for `time`: each with one byte echoed and an orderly close,
/// sequentially from each of `clients`.
///
/// # Errors
/// The first failure of any client.
pub(crate) fn connects(
    proxy: SocketAddr,
    id: u32,
    clients: usize,
    time: Duration,
) -> io::Result<Connects> {
    let (used, began) = (cpu::time_used(id)?, Instant::now());
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            std::thread::spawn(move || {
                let mut connects = 0u64;
                while began.elapsed() < time {
                    let mut stream = TcpStream::connect(proxy)?;
                    stream.write_all(b"x")?;
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer)?;
                    if answer != b"x" {
                        let what = format!("{answer:?} came back");
                        return Err(io::Error::other(what));
                    }
                    connects += 1;
                }
                Ok::<u64, io::Error>(connects)
            })
        })
        .collect();
    let mut all = 0;
    for client in clients {
        all += client.join().map_err(|_| io::ErrorKind::Other)??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu_s = (cpu::time_used(id)? - used).as_secs_f64();
    Ok(Connects {
        per_s: all as f64 / seconds,
        cpu_us: cpu_s * 1e6 / all as f64,
    })
}
