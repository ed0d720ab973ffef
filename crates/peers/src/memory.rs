//! Memory of a process, from `/proc`.

use std::io;

/// Resident memory of process `id`, in bytes.
///
/// # Errors
/// No such process, or `/proc` does not match proc(5).
pub fn resident_bytes(id: u32) -> io::Result<f64> {
    let statm = std::fs::read_to_string(format!("/proc/{id}/statm"))?;
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages as f64 * rustix::param::page_size() as f64)
}

/// Peak resident memory of process `id`, in bytes.
///
/// # Errors
/// No such process, or `/proc` does not match proc(5).
pub fn most_resident_bytes(id: u32) -> io::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next());
    let kib: u64 = kib
        .and_then(|kib| kib.parse().ok())
        .ok_or(io::ErrorKind::InvalidData)?;
    Ok(kib as f64 * 1024.0)
}
