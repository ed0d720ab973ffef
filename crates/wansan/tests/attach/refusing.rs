//! A target that registers initiators, and refuses their writes all the same.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use libtest_mimic::Trial;
use wansan_iscsi::scsi::opcode;
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::peer::{OWN, Peer};
use crate::program::Program;
use crate::stage::{Stage, WANSAN};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "writes that a registered session is refused end",
        refused,
    )]
}

/// The basic header segment (RFC 7143 §11.2.1).
const HEADER_BYTES: usize = 48;
const SCSI_COMMAND: u8 = 0x01;
const SCSI_RESPONSE: u8 = 0x21;
/// A status (SAM-5 5.3.1).
const RESERVATION_CONFLICT: u8 = 0x18;

type Writes = Arc<Mutex<HashSet<[u8; 4]>>>;

/// Carries PDUs without digests on, once `see` has seen their headers.
fn carry(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&mut [u8])) -> io::Result<()> {
    loop {
        let mut pdu = vec![0; HEADER_BYTES];
        from.read_exact(&mut pdu)?;
        let data_bytes = u32::from_be_bytes([0, pdu[5], pdu[6], pdu[7]]) as usize;
        let more_bytes = usize::from(pdu[4]) * 4 + data_bytes.next_multiple_of(4);
        pdu.resize(HEADER_BYTES + more_bytes, 0);
        from.read_exact(&mut pdu[HEADER_BYTES..])?;
        see(&mut pdu[..HEADER_BYTES]);
        to.write_all(&pdu)?;
    }
}

/// A way to `target` on which each write is answered with RESERVATION CONFLICT.
fn refusing(target: SocketAddr) -> Result<SocketAddr, Stop> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        // Ends with the test's process.
        while let Ok((near, _)) = listener.accept() {
            let _ = pass(near, target);
        }
    });
    Ok(address)
}

fn pass(near: TcpStream, target: SocketAddr) -> io::Result<()> {
    let far = TcpStream::connect(target)?;
    let writes = Writes::default();
    let (asked, both) = (Arc::clone(&writes), [near.try_clone()?, far.try_clone()?]);
    let tag = |header: &[u8]| [header[16], header[17], header[18], header[19]];
    let end = |both: [TcpStream; 2]| both.map(|end| end.shutdown(Shutdown::Both));
    let ends = [near.try_clone()?, far.try_clone()?];
    thread::spawn(move || {
        let [near, far] = both;
        let _ = carry(near, far, |header| {
            let is_write = [opcode::WRITE_10, opcode::WRITE_16].contains(&header[32]);
            if header[0] & 0x3f == SCSI_COMMAND
                && is_write
                && let Ok(mut writes) = asked.lock()
            {
                writes.insert(tag(header));
            }
        });
        end(ends)
    });
    thread::spawn(move || {
        let ends = [near.try_clone(), far.try_clone()];
        let _ = carry(far, near, |header| {
            if header[0] & 0x3f == SCSI_RESPONSE
                && let Ok(mut writes) = writes.lock()
                && writes.remove(&tag(header))
            {
                header[3] = RESERVATION_CONFLICT;
            }
        });
        ends.into_iter()
            .flatten()
            .try_for_each(|end| end.shutdown(Shutdown::Both))
    });
    Ok(())
}

fn refused() -> Result<(), Stop> {
    for routes in [&[][..], &["--multipath", "--connections", "2"]] {
        let stage = Stage::new()?;
        let target = stage.target.address();
        let way = refusing(target.parse().expect("an address"))?.to_string();
        let url = stage.target.url(0).replace(target, &way);
        let own = ["--write-through", "--reservation-key", OWN];
        let attach = Attach::start(WANSAN.as_ref(), &url, &[routes, &own].concat())?;
        let mut program = Program::connect(attach.socket())?;
        for number in 0..8 {
            let write = Command::Write {
                offset_bytes: 0,
                data: &[7; 4096],
                fua: false,
            };
            program.submit(write, number)?;
            match program.answer() {
                Err(Stop::Failed(why)) if why.contains("not permitted") => {}
                other => return Err(Stop::Failed(format!("{other:?}: {}", attach.log()))),
            }
        }
        program.read(0, 4096)?;
        let says = "refuses writes of this host with RESERVATION CONFLICT";
        require(attach.log().matches(says).count() == 1, || attach.log())?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        peer.is_kept_off(true)?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}
