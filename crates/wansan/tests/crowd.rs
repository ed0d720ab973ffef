//! A crowd of connections that never log in, and an initiator that wants to.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wansan_peers::wansan::{Target, bench};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);
/// Three times as many as may wait to log in.
const CROWD: usize = 3200;
/// Logins that fail.
const FAILURES: usize = 2000;
/// Those of the crowd that the target keeps.
const MAX_WAITING: usize = 1024;
/// Addresses that the crowd comes from: each has 127.0.1.0/24's next one.
const ADDRESSES: usize = 100;
/// What one connection that has not logged in may cost: its buffers, and what the allocator adds.
const MAX_BYTES_EACH: usize = 48 << 10;

/// The beginning of a Login Request that says 8 KiB of text will come.
const LOGIN: [u8; 48] = {
    let mut bhs = [0; 48];
    bhs[0] = 0x43;
    bhs[1] = 0x81;
    bhs[6] = 0x20;
    bhs
};

#[test]
fn a_thousand_that_never_log_in_keep_nobody_out() {
    let arguments = ["--lun", "memory:16MiB", "--threads", "2"];
    let target = Target::start(Path::new(WANSAN), &arguments).unwrap();
    // Now, and not before: the target raises its limit itself.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
    let portal: SocketAddr = target.address().parse().unwrap();
    bench_works(&target);
    let before = resident_bytes(&target);

    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|n| connect_from(n, portal)).collect();
    // A third says nothing, a third stops in the middle, a third goes on byte by byte.
    for (n, stream) in crowd.iter_mut().enumerate() {
        if n % 3 != 0 {
            // It may have had to make room for others already.
            let _ = stream.write_all(&LOGIN[..1 + n % 40]);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for stream in crowd.iter().skip(2).step_by(3) {
                    let mut stream = stream;
                    let _ = stream.write_all(&[0]);
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let outcome = std::panic::catch_unwind(|| {
            for _ in 0..5 {
                bench_works(&target);
            }
        });
        over.store(true, Ordering::Relaxed);
        assert!(outcome.is_ok(), "{}", target.log());
    });

    let cost = resident_bytes(&target).saturating_sub(before);
    assert!(
        cost < MAX_WAITING * MAX_BYTES_EACH,
        "{MAX_WAITING} connections cost {cost} bytes"
    );
    // The log says it in a few lines, not in one for each.
    let lines = target.log().lines().count();
    assert!(lines < CROWD / 10, "{lines} lines:\n{}", target.log());
}

#[test]
fn logins_that_fail_do_not_fill_the_log() {
    let arguments = ["--lun", "memory:16MiB", "--threads", "1"];
    let target = Target::start(Path::new(WANSAN), &arguments).unwrap();
    let began = Instant::now();
    for _ in 0..FAILURES {
        let mut stream = TcpStream::connect(target.address()).unwrap();
        // No Login Request: the target closes.
        stream.write_all(&[0; 48]).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    bench_works(&target);
    // A few in each second, and one line of the others.
    let most = (began.elapsed().as_secs() as usize + 2) * 5;
    let lines = target.log().lines().count();
    assert!(
        (1..most.min(FAILURES)).contains(&lines),
        "{lines} lines:\n{}",
        target.log()
    );
}

fn bench_works(target: &Target) {
    let report = bench(
        Path::new(WANSAN),
        &target.url(0),
        &["--count", "100"],
        LIMIT,
    )
    .unwrap();
    assert_eq!(report["errors"], 0, "{report}");
}

fn connect_from(number: usize, portal: SocketAddr) -> TcpStream {
    let last = u8::try_from(1 + number % ADDRESSES).unwrap();
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 1, last), 0));
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &from).unwrap();
    connect(&stream, &portal).unwrap();
    stream.into()
}

/// What the kernel says the target's process has in memory.
fn resident_bytes(target: &Target) -> usize {
    wansan_peers::memory::resident_bytes(target.id()).unwrap() as usize
}
