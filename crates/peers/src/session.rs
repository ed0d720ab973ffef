//! An idle session, logged in over a plain socket, for tests of a target's treatment of a session, or of the bytes that
//! a test sends in it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use wansan_iscsi::initiator::Handshake;
use wansan_iscsi::keys::Wanted;

/// Timeout for a target's answer.
const LIMIT: Duration = Duration::from_secs(60);

/// Logs in to `target` at `portal` as `initiator`; the session lasts as long as the connection.
///
/// # Errors
/// Socket errors, and a rejected login.
pub fn log_in(portal: &str, target: &str, initiator: &str) -> io::Result<TcpStream> {
    let isid = [0x80, 0, 0, 0, 0, 1];
    let mut handshake = Handshake::begin(initiator, isid, Some(target), Wanted::default())
        .map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(portal)?;
    stream.set_read_timeout(Some(LIMIT))?;
    while !handshake.is_done() {
        let sent = stream.write(handshake.pending())?;
        handshake.sent(sent);
        match stream.read(handshake.space())? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => handshake.filled(read),
        }
        handshake.receive().map_err(io::Error::other)?;
    }
    Ok(stream)
}
