//! How far the kernel lets the buffers of a socket grow by itself.

use std::io;

/// The greatest sizes that automatic tuning gives to a socket's buffers, in bytes (tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferLimits {
    /// Third number of `net.ipv4.tcp_rmem`.
    pub receive_bytes: u64,
    /// Third number of `net.ipv4.tcp_wmem`.
    pub send_bytes: u64,
}

impl BufferLimits {
    /// Those of this network namespace.
    ///
    /// # Errors
    /// Those of reading /proc, and `InvalidData` for what is no three numbers.
    pub fn here() -> io::Result<BufferLimits> {
        let greatest = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"))?;
            let third = text.split_whitespace().nth(2);
            third.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| {
                let problem = format!("net.ipv4.{name} is '{}', no three numbers", text.trim());
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })
        };
        Ok(BufferLimits {
            receive_bytes: greatest("tcp_rmem")?,
            send_bytes: greatest("tcp_wmem")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_says_how_far_buffers_grow() {
        let limits = BufferLimits::here().unwrap();
        assert!(
            limits.receive_bytes >= 4096 && limits.send_bytes >= 4096,
            "{limits:?}"
        );
    }
}
