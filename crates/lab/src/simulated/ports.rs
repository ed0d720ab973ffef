//! Ephemeral ports.

/// First ephemeral port.
const FIRST: u16 = 40_000;

/// The next port of each host.
#[derive(Debug)]
pub(super) struct Ports(Vec<u16>);

impl Ports {
    /// For that many hosts.
    pub(super) fn new(hosts: usize) -> Ports {
        Ports(vec![FIRST; hosts])
    }

    /// Allocates a host's next port.
    pub(super) fn next(&mut self, host: usize) -> u16 {
        let port = self.0[host];
        self.0[host] = match port {
            u16::MAX => FIRST,
            port => port + 1,
        };
        port
    }
}
