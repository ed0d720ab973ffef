//! Memory use of a process: its own, and the kernel's for its sockets and pipes. No single kernel counter covers it:
//! resident memory excludes the kernel's, and /proc/net/sockstat covers all processes' sockets but not data spliced out
//! of them.

use std::fmt;
use std::io;
use std::ops::Add;
use std::path::Path;
use std::str::FromStr;

/// Memory of a socket besides its queues: tcp_sock (2368 bytes in Linux 6.18), its inode, dentry, file, epoll item, and
/// its port's bind bucket (/proc/slabinfo).
const SOCKET_BYTES: u64 = 4096;

/// Memory of an empty pipe of 64 slots: the slots, its inode, dentries and files.
const PIPE_BYTES: u64 = 4096;

/// Words of SO_MEMINFO (linux/sock_diag.h): data received and not read, forward-allocated memory, data written and not
/// acknowledged, options, and the socket's backlog.
const COUNTED_WORDS: [usize; 5] = [0, 4, 5, 6, 7];

/// Bytes of memory, by owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The process's resident memory.
    process_bytes: u64,
    /// Its sockets, with queued data.
    sockets_bytes: u64,
    /// Its pipes, with their content.
    pipes_bytes: u64,
}

impl Memory {
    /// Memory of this process.
    pub(crate) fn of_this_process() -> io::Result<Memory> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        let mut memory = Memory {
            process_bytes: kib.ok_or(io::ErrorKind::InvalidData)? << 10,
            sockets_bytes: 0,
            pipes_bytes: 0,
        };
        for entry in std::fs::read_dir("/proc/self/fd")? {
            memory.count(&entry?.path());
        }
        Ok(memory)
    }

    /// Counts a descriptor; one closed meanwhile counts nothing.
    fn count(&mut self, path: &Path) {
        let Ok(what) = std::fs::read_link(path) else {
            return;
        };
        let name = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let (Some(descriptor), Some(what)) = (name, what.to_str()) else {
            return;
        };
        if what.starts_with("socket:") {
            self.sockets_bytes += SOCKET_BYTES + queued_bytes(descriptor);
        } else if what.starts_with("pipe:") {
            // Both ends report the same.
            self.pipes_bytes += (PIPE_BYTES + piped_bytes(descriptor)) / 2;
        }
    }

    /// The sum, in bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.process_bytes + self.sockets_bytes + self.pipes_bytes
    }
}

impl Add for Memory {
    type Output = Memory;

    fn add(self, other: Memory) -> Memory {
        Memory {
            process_bytes: self.process_bytes + other.process_bytes,
            sockets_bytes: self.sockets_bytes + other.sockets_bytes,
            pipes_bytes: self.pipes_bytes + other.pipes_bytes,
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memory {
            process_bytes,
            sockets_bytes,
            pipes_bytes,
        } = self;
        write!(f, "{process_bytes} {sockets_bytes} {pipes_bytes}")
    }
}

impl FromStr for Memory {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Memory> {
        let parts: Option<Vec<u64>> = text
            .split_whitespace()
            .map(|part| part.parse().ok())
            .collect();
        match parts.as_deref() {
            Some(&[process_bytes, sockets_bytes, pipes_bytes]) => Ok(Memory {
                process_bytes,
                sockets_bytes,
                pipes_bytes,
            }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// In MiB, by owner.
pub(crate) fn in_words(memory: Memory) -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "process {} MiB, sockets {} MiB, pipes {} MiB",
        mib(memory.process_bytes),
        mib(memory.sockets_bytes),
        mib(memory.pipes_bytes)
    )
}

#[allow(unsafe_code, reason = "no safe wrapper of SO_MEMINFO exists in rustix")]
fn queued_bytes(socket: i32) -> u64 {
    let mut words = [0_u32; 9];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `words`, and rejects a descriptor that is no longer
    // a socket.
    unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        );
    }
    COUNTED_WORDS
        .iter()
        .map(|place| u64::from(words[*place]))
        .sum()
}

#[allow(unsafe_code, reason = "the pipe is another thread's")]
fn piped_bytes(pipe: i32) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, and rejects a descriptor that is no longer a pipe.
    unsafe {
        libc::ioctl(pipe, libc::FIONREAD, &raw mut bytes);
    }
    u64::try_from(bytes).unwrap_or(0)
}
