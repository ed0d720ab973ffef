//! Listeners that forward to themselves, directly or through other listeners of the relay: each flow there would start
//! another until resources run out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::sockopt::ipv6_v6only;

use crate::error::RelayError;
use crate::route::Listener;

/// Finds the first listener that forwards to itself.
///
/// # Errors
/// [`RelayError::Loop`] names it.
pub(crate) fn check(listeners: &[Listener]) -> Result<(), RelayError> {
    let leads: Vec<Vec<(SocketAddr, usize)>> = listeners
        .iter()
        .map(|listener| onward(listener, listeners))
        .collect();
    for (start, listener) in listeners.iter().enumerate() {
        for &(to, next) in &leads[start] {
            if reaches(&leads, next, start) {
                return Err(RelayError::Loop {
                    listen: listener.route.config.listen.clone(),
                    to,
                });
            }
        }
    }
    Ok(())
}

/// The listeners that a listener forwards to, and the address of each.
fn onward(listener: &Listener, listeners: &[Listener]) -> Vec<(SocketAddr, usize)> {
    let mut onward = Vec::new();
    for to in listener.route.addresses() {
        let to = reached(*to);
        let takes = |it: &&(usize, &Listener)| takes(it.1, to);
        let taker = listeners.iter().enumerate().find(|it| takes(&it));
        onward.extend(taker.map(|(place, _)| (to, place)));
    }
    onward
}

/// Whether `to` can be reached from `from`.
fn reaches(leads: &[Vec<(SocketAddr, usize)>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; leads.len()];
    let mut next = vec![from];
    while let Some(place) = next.pop() {
        if place == to {
            return true;
        }
        if !std::mem::replace(&mut seen[place], true) {
            next.extend(leads[place].iter().map(|(_, place)| *place));
        }
    }
    false
}

/// Where a connection to `to` arrives: the unspecified address means the local host (RFC 1122 §3.2.1.3, ip(7)).
fn reached(to: SocketAddr) -> SocketAddr {
    let ip = match to.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        // Keep the given scope.
        ip if ip == to.ip() => return to,
        ip => ip,
    };
    SocketAddr::new(ip, to.port())
}

/// Whether that listener accepts connections to `to`.
fn takes(listener: &Listener, to: SocketAddr) -> bool {
    let own = listener.address;
    if own.port() != to.port() {
        return false;
    }
    let is_of_family = own.is_ipv4() == to.is_ipv4() || takes_both(listener);
    let here = own.ip().to_canonical();
    here == to.ip() || (here.is_unspecified() && is_of_family && is_own(to))
}

/// Whether an IPv6 listener accepts IPv4 connections too.
fn takes_both(listener: &Listener) -> bool {
    listener.address.is_ipv6() && ipv6_v6only(listener).is_ok_and(|only| !only)
}

/// Whether an address is local in this network namespace.
fn is_own(to: SocketAddr) -> bool {
    let ip = to.ip();
    if ip.is_loopback() {
        return true;
    }
    // Packets to a local address have it as their source; but where several are in one network, the first of them.
    source_to(to) == Some(ip) || (!binds_any(ip) && UdpSocket::bind((ip, 0)).is_ok())
}

/// The source address of packets to `to`. Sends nothing.
fn source_to(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Whether sockets may be bound to foreign addresses here, so that binding proves nothing.
fn binds_any(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let setting = std::fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
    setting.is_ok_and(|setting| setting.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Signaller;
    use crate::settings::ListenerConfig;

    fn open(listen: &str, to: &str) -> Listener {
        Listener::open(&ListenerConfig::new(listen, to), &Signaller::default()).unwrap()
    }

    /// The same listener with another target.
    fn lead(listener: &Listener, to: &str) -> Listener {
        let config = ListenerConfig::new(&listener.route.config.listen, to);
        listener.with(&config, &Signaller::default()).unwrap()
    }

    #[test]
    fn a_listener_that_leads_to_itself_is_found() {
        for (listen, to, is_itself) in [
            ("127.0.0.1:0", "127.0.0.1", true),
            ("127.0.0.1:0", "0.0.0.0", true),
            ("127.0.0.1:0", "127.0.0.2", false),
            ("0.0.0.0:0", "127.0.0.9", true),
            ("0.0.0.0:0", "192.0.2.1", false),
            ("0.0.0.0:0", "[::1]", false),
            ("[::]:0", "[::1]", true),
            ("[::]:0", "127.0.0.1", true),
            ("[::]:0", "[2001:db8::1]", false),
        ] {
            let first = open(listen, "127.0.0.1:9");
            let itself = lead(&first, &format!("{to}:{}", first.address.port()));
            assert_eq!(check(&[itself]).is_err(), is_itself, "{listen} {to}");
            let other = lead(&first, &format!("{to}:{}", first.address.port() ^ 1));
            assert!(check(&[other]).is_ok(), "{listen} {to}");
        }
    }

    /// A local address other than loopback: the source of packets to other hosts.
    #[test]
    fn an_own_address_is_known_without_a_list_of_them() {
        let elsewhere = "192.0.2.1:9".parse().unwrap();
        let Some(own) = source_to(elsewhere) else {
            assert!(!is_own(elsewhere), "there is no way out");
            return;
        };
        assert!(
            is_own(SocketAddr::new(own, 9)) && !is_own(elsewhere),
            "{own}"
        );
        let first = open("0.0.0.0:0", "127.0.0.1:9");
        let itself = lead(&first, &format!("{own}:{}", first.address.port()));
        let error = check(&[itself]).unwrap_err().to_string();
        assert!(
            error.contains("relay itself") && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn listeners_that_lead_to_each_other_are_found_and_chains_are_not() {
        let [a, b, c] = ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"].map(|at| open(at, "127.0.0.1:9"));
        let [at_a, at_b, at_c] = [&a, &b, &c].map(|it| it.address.to_string());
        let chain = [lead(&a, &at_b), lead(&b, &at_c), c];
        check(&chain).unwrap();
        let [a, b, c] = chain;
        let circle = [a, b, lead(&c, &at_a)];
        assert!(matches!(check(&circle), Err(RelayError::Loop { .. })));
    }
}
