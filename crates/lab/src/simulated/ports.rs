//! Ports that no plan chose.

/// Where they begin.
const FIRST: u16 = 40_000;

/// Those that each host has given to its connections.
#[derive(Debug)]
pub(super) struct Ports(Vec<u16>);

impl Ports {
    /// Of so many hosts.
    pub(super) fn new(hosts: usize) -> Ports {
        Ports(vec![FIRST; hosts])
    }

    /// The next one of a host.
    pub(super) fn next(&mut self, host: usize) -> u16 {
        let port = self.0[host];
        self.0[host] = match port {
            u16::MAX => FIRST,
            port => port + 1,
        };
        port
    }
}
