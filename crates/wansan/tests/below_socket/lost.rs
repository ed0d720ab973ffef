//! The split when connections are lost: what recovery has repeated is left out with the reason, and every
//! other I/O is split as ever.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use libtest_mimic::Failed;
use tempfile::TempDir;
use wansan_insight::below::{Untold, splits};

use crate::loopback::{keep_stamping, load, target};
use crate::{adds_up, read};

/// I/Os in flight: no more of them can be lost with a connection.
const PARALLEL: u64 = 8;
/// Connections that are cut, and after how many bytes of answers.
const CUTS: usize = 3;
const CUT_AFTER_BYTES: u64 = 4 << 20;

/// Carries connections to `target`, the first [`CUTS`] of them only for a while; says where it listens.
fn carrier(target: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let target = target.to_owned();
    // It ends with the test's process.
    thread::spawn(move || {
        let cuts = AtomicUsize::new(0);
        for initiator in listener.incoming() {
            let (initiator, target) = (initiator.unwrap(), TcpStream::connect(&target).unwrap());
            let is_cut = cuts.fetch_add(1, Ordering::Relaxed) < CUTS;
            let bound = if is_cut { CUT_AFTER_BYTES } else { u64::MAX };
            let back = (target.try_clone().unwrap(), initiator.try_clone().unwrap());
            thread::spawn(move || carry(initiator, target, u64::MAX));
            thread::spawn(move || carry(back.0, back.1, bound));
        }
    });
    address
}

fn carry(mut from: TcpStream, mut to: TcpStream, bound: u64) {
    to.set_nodelay(true).unwrap();
    let mut space = vec![0; 64 << 10];
    let mut carried = 0;
    while let Ok(bytes) = from.read(&mut space)
        && bytes > 0
        && to.write_all(&space[..bytes]).is_ok()
        && carried < bound
    {
        carried += bytes as u64;
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

pub(crate) fn every_io_is_split_or_said_to_be_repeated(level: &str) -> Result<(), Failed> {
    let _kept = keep_stamping();
    let folder = TempDir::with_prefix("wansan-below-")?;
    let target = target(folder.path())?;
    let url = target
        .url(0)
        .replace(target.address(), &carrier(target.address()));
    let arguments = [
        "--parallel",
        "8",
        "--count",
        "6000",
        "--error-recovery-level",
        level,
        "--replacement-timeout",
        "20s",
    ];
    load(&url, folder.path(), &arguments)?;
    assert!(target.stop().unwrap().success());

    let (cell, _) = read(folder.path())?;
    let splits = splits(&cell, cell.joined.records).ok_or("no stamps were recorded")?;
    let (told, untold) = (splits.told.len() as u64, &splits.untold);
    // What is lost with a connection is repeated on the next one, or is under way in two sessions, of
    // each of which it has a part.
    let known = [Untold::SentAgain, Untold::NoPdu].map(|reason| untold.get(&reason));
    let known: u64 = known.into_iter().flatten().sum();
    assert_eq!(known, untold.values().sum::<u64>(), "{untold:?}");
    assert!((1..=CUTS as u64 * PARALLEL).contains(&known), "{untold:?}");
    assert!(told + known >= 6000, "{told} {untold:?}");
    splits.told.iter().try_for_each(adds_up)
}
