//! A way to a target on which PDUs are seen, and changed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// The basic header segment (RFC 7143 §11.2.1).
const HEADER_BYTES: usize = 48;

/// What is done to PDUs without digests. Connections are numbered in the order in which they are made.
pub(crate) trait Change: Send + Sync + 'static {
    /// To one that the initiator sends.
    fn asked(&self, _connection: u64, _pdu: &mut [u8]) {}

    /// To one that the target sends.
    fn answered(&self, connection: u64, pdu: &mut [u8]);

    /// Both ends of another connection, the initiator's first.
    fn connected(&self, _ends: [TcpStream; 2]) {}
}

/// The type of a PDU.
pub(crate) fn opcode(pdu: &[u8]) -> u8 {
    pdu[0] & 0x3f
}

/// Opens a way to `target`; returns where it begins. It ends with the test's process.
pub(crate) fn open(target: SocketAddr, change: Arc<impl Change>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for (connection, near) in (0..).zip(listener.incoming().map_while(Result::ok)) {
            let _ = join(connection, near, target, &change);
        }
    });
    Ok(address)
}

fn join(
    connection: u64,
    near: TcpStream,
    target: SocketAddr,
    change: &Arc<impl Change>,
) -> io::Result<()> {
    let far = TcpStream::connect(target)?;
    change.connected([near.try_clone()?, far.try_clone()?]);
    let there = [near.try_clone()?, far.try_clone()?];
    let asking = Arc::clone(change);
    thread::spawn(move || carry(there, |pdu| asking.asked(connection, pdu)));
    let answering = Arc::clone(change);
    thread::spawn(move || carry([far, near], |pdu| answering.answered(connection, pdu)));
    Ok(())
}

/// Carries PDUs from one end to the other until one is closed.
fn carry(ends: [TcpStream; 2], mut change: impl FnMut(&mut [u8])) {
    let [mut from, mut to] = ends;
    let mut one = || -> io::Result<()> {
        let mut pdu = vec![0; HEADER_BYTES];
        from.read_exact(&mut pdu)?;
        let data_bytes = u32::from_be_bytes([0, pdu[5], pdu[6], pdu[7]]) as usize;
        let more_bytes = usize::from(pdu[4]) * 4 + data_bytes.next_multiple_of(4);
        pdu.resize(HEADER_BYTES + more_bytes, 0);
        from.read_exact(&mut pdu[HEADER_BYTES..])?;
        change(&mut pdu);
        to.write_all(&pdu)
    };
    while one().is_ok() {}
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
