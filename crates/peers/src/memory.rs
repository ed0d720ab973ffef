//! Memory of a process, from `/proc`.

use std::io;

/// What process `id` has in memory, in bytes.
///
/// # Errors
/// When there is no such process, or `/proc` does not look as proc(5) says.
pub fn resident_bytes(id: u32) -> io::Result<f64> {
    let statm = std::fs::read_to_string(format!("/proc/{id}/statm"))?;
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages as f64 * rustix::param::page_size() as f64)
}
