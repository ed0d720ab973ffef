//! Messages between programs: JSON, one per line.

use std::io::{self, BufRead, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a message.
pub(crate) fn write(stream: &mut impl Write, said: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

/// Reads the next message, of at most `max_bytes`; `None` at the end.
pub(crate) fn read<T: DeserializeOwned>(
    stream: &mut impl BufRead,
    max_bytes: u64,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    match stream.take(max_bytes).read_until(b'\n', &mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_slice(&line)?)),
    }
}
