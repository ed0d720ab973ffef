//! Selects connections: the filter expressions of ss(8) on addresses and ports.
//!
//! ```text
//! expression = term { ["and" | "&" | "&&" | "or" | "|" | "||"] term }     (`and` binds tighter)
//! term       = ("not" | "!") term | "(" expression ")"
//!            | ("src" | "dst") ["=" | "!="] (ADDRESS[/PREFIX][:PORT] | :PORT)
//!            | ("sport" | "dport") ("=" | "!=" | "<" | "<=" | ">" | ">=") [:]PORT
//! ```
//!
//! An IPv6 address before a port is in brackets; `==`, `eq`, `ne`, `neq`, `lt`, `le`, `leq`, `gt`, `ge` and `geq` are
//! aliases of the comparisons. Adjacent terms without an operator are joined by `and`. `src` and `sport` are the
//! socket's own end.

mod parse;

use std::net::{IpAddr, SocketAddr};

pub use parse::{ExpressionError, Wanted};

/// The end of a socket to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The socket's own.
    Local,
    /// The peer's.
    Remote,
}

/// Comparison of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// At least the port.
    AtLeast,
    /// At most the port.
    AtMost,
}

/// A filter of connections. Parse one with [`str::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// Connections that the inner expression rejects.
    Not(Box<Expression>),
    /// Connections that match both.
    And(Box<Expression>, Box<Expression>),
    /// Connections that match either.
    Or(Box<Expression>, Box<Expression>),
    /// Connections whose address starts with `prefix_bits` of `address`; an IPv4 address also matches IPv6 sockets with
    /// mapped addresses (`::ffff:a.b.c.d`).
    Address {
        /// The end to compare.
        end: End,
        /// The network's address.
        address: IpAddr,
        /// Significant bits: at most 32 or 128.
        prefix_bits: u8,
    },
    /// Connections with a port within a bound.
    Port {
        /// The end to compare.
        end: End,
        /// The kind of bound.
        bound: Bound,
        /// The port.
        port: u16,
    },
}

impl Expression {
    /// Both.
    #[must_use]
    pub fn and(self, other: Expression) -> Expression {
        Expression::And(Box::new(self), Box::new(other))
    }

    /// Either.
    #[must_use]
    pub fn or(self, other: Expression) -> Expression {
        Expression::Or(Box::new(self), Box::new(other))
    }

    /// One end has that port.
    #[must_use]
    pub fn port_is(end: End, port: u16) -> Expression {
        let within = |bound| Expression::Port { end, bound, port };
        within(Bound::AtLeast).and(within(Bound::AtMost))
    }

    /// Either end has that port.
    #[must_use]
    pub fn port(port: u16) -> Expression {
        Expression::port_is(End::Local, port).or(Expression::port_is(End::Remote, port))
    }

    /// Whether a socket with these ends matches.
    #[must_use]
    pub fn matches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let of = |end| match end {
            End::Local => local,
            End::Remote => remote,
        };
        match self {
            Expression::Not(inner) => !inner.matches(local, remote),
            Expression::And(a, b) => a.matches(local, remote) && b.matches(local, remote),
            Expression::Or(a, b) => a.matches(local, remote) || b.matches(local, remote),
            Expression::Address {
                end,
                address,
                prefix_bits,
            } => inside(of(*end).ip(), *address, *prefix_bits),
            Expression::Port { end, bound, port } => match bound {
                Bound::AtLeast => of(*end).port() >= *port,
                Bound::AtMost => of(*end).port() <= *port,
            },
        }
    }
}

/// Whether `address` is in `network`.
fn inside(address: IpAddr, network: IpAddr, prefix_bits: u8) -> bool {
    let same = |differing: u128, length_bits: u8| {
        prefix_bits == 0
            || differing
                .checked_shr(u32::from(length_bits.saturating_sub(prefix_bits)))
                .unwrap_or_default()
                == 0
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u128::from(a.to_bits() ^ b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits() ^ b.to_bits(), 128),
        (IpAddr::V6(a), IpAddr::V4(b)) => a
            .to_ipv4_mapped()
            .is_some_and(|a| same(u128::from(a.to_bits() ^ b.to_bits()), 32)),
        (IpAddr::V4(_), IpAddr::V6(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(expression: &str, local: &str, remote: &str) -> bool {
        let expression: Expression = expression.parse().unwrap();
        expression.matches(local.parse().unwrap(), remote.parse().unwrap())
    }

    #[test]
    fn terms_of_ss_mean_what_they_mean_there() {
        let (local, remote) = ("10.1.2.3:40000", "10.0.0.9:3260");
        for (expression, meant) in [
            ("dst 10.0.0.0/8 and dport = 3260", true),
            ("dst 10.0.0.0/8 dport = :3260", true),
            ("src 10.1.2.3:40000", true),
            ("src = 10.1.2.3:40001", false),
            ("dst :3260", true),
            ("dst != 10.0.0.9", false),
            ("not ( sport lt 1024 or dport gt 3260 )", true),
            ("sport >= :40000 && sport <= :40000", true),
            ("!dport==3260|sport 40000", true),
            ("dst ::/0", false),
            ("dst 0.0.0.0/0", true),
            ("dst * sport != 40000", false),
            // `and` binds tighter than `or`.
            ("dport 1 and dport 2 or sport 40000", true),
            ("sport 40000 or dport 1 and dport 2", true),
        ] {
            assert_eq!(matches(expression, local, remote), meant, "{expression}");
        }
        assert!(matches("dst [fd00::1]:22", "[::1]:9", "[fd00::1]:22"));
        assert!(matches("dst fd00::/8", "[::1]:9", "[fd00::1]:22"));
        assert!(matches("dst 10.0.0.0/8", "[::1]:9", "[::ffff:10.0.0.1]:22"));
        assert!(!matches("dst 10.0.0.0/8", "[::1]:9", "[fd00::1]:22"));
    }

    #[test]
    fn a_port_of_either_end() {
        let of = |local: &str, remote: &str| {
            Expression::port(3260).matches(local.parse().unwrap(), remote.parse().unwrap())
        };
        assert!(of("127.0.0.1:3260", "127.0.0.1:9"));
        assert!(of("127.0.0.1:9", "127.0.0.1:3260"));
        assert!(!of("127.0.0.1:9", "127.0.0.1:10"));
    }
}
