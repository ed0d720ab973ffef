//! What reduced a window, by the call stack in the kernel.

use std::fs;
use std::ops::Range;

use wansan_trace::event::TcpEvent;

/// The function that passes a segment to the device, and reduces the window when the queueing discipline signals
/// congestion (`NET_XMIT_CN`).
const SENDING: &str = "__tcp_transmit_skb";

/// Functions that process an acknowledgement.
const RECEIVING: [&str; 4] = [
    "tcp_ack",
    "tcp_fastretrans_alert",
    "tcp_rcv_established",
    "tcp_rcv_state_process",
];

/// Addresses of functions of the running kernel.
#[derive(Debug, Default)]
pub(super) struct Callers {
    sending: Vec<Range<u64>>,
    receiving: Vec<Range<u64>>,
}

impl Callers {
    /// Those of this kernel; empty where it hides its addresses (kernel.kptr_restrict).
    pub(super) fn of_this_kernel() -> Callers {
        let symbols = fs::read_to_string("/proc/kallsyms");
        symbols.map_or_else(|_| Callers::default(), |symbols| Callers::among(&symbols))
    }

    /// Parses a list of symbols, `ADDRESS KIND NAME` each, sorted by address.
    fn among(symbols: &str) -> Callers {
        let mut found = Callers::default();
        // A function ends where the next symbol begins.
        let mut open: Option<(bool, u64)> = None;
        for line in symbols.lines() {
            let mut words = line.split_whitespace();
            let address = words
                .next()
                .and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(name)) = (address, words.nth(1)) else {
                continue;
            };
            if let Some((sends, from)) = open.filter(|(_, from)| address > *from) {
                let ranges = if sends {
                    &mut found.sending
                } else {
                    &mut found.receiving
                };
                ranges.push(from..address);
                open = None;
            }
            // Compilers name parts and copies of functions with a dot.
            let name = name.split('.').next().unwrap_or_default();
            if address > 0 && (name == SENDING || RECEIVING.contains(&name)) {
                open = Some((name == SENDING, address));
            }
        }
        found
    }

    /// Why a window was reduced without a loss: `callers` are return addresses, innermost first, and `ece` is whether
    /// the last received segment had ECE set.
    pub(super) fn cause(&self, callers: impl IntoIterator<Item = u64>, ece: bool) -> TcpEvent {
        let within = |ranges: &[Range<u64>], caller| ranges.iter().any(|r| r.contains(&caller));
        for caller in callers {
            if within(&self.sending, caller) {
                return TcpEvent::CwrByDevice;
            }
            // Frames farther out may belong to another connection, on loopback.
            if within(&self.receiving, caller) {
                break;
            }
        }
        match ece {
            true => TcpEvent::CwrByEce,
            // A loss probe has repaired the loss of the last segment (RFC 8985 §7.4.2), or the cause is unknown.
            false => TcpEvent::Cwr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
1000 T __tcp_transmit_skb
1100 t tcp_write_xmit
2000 t tcp_ack
2000 t __pfx_tcp_ack
2800 T tcp_rcv_established
3000 t other
";

    #[test]
    fn the_innermost_function_that_is_known_counts() {
        let callers = Callers::among(SYMBOLS);
        let cause = |of: &[u64], ece| callers.cause(of.iter().copied(), ece);
        assert_eq!(cause(&[9, 0x1010, 0x2010], true), TcpEvent::CwrByDevice);
        assert_eq!(cause(&[9, 0x2010, 0x1010], true), TcpEvent::CwrByEce);
        assert_eq!(cause(&[0x2010, 0, 0], false), TcpEvent::Cwr);
        // The functions before and after are others.
        assert_eq!(cause(&[0x0fff, 0x1100], false), TcpEvent::Cwr);
    }

    #[test]
    fn hidden_addresses_tell_nothing() {
        let hidden = SYMBOLS.replace(['1', '2', '3', '8'], "0");
        let callers = Callers::among(&hidden);
        assert_eq!(callers.cause([0x1010], false), TcpEvent::Cwr);
        assert_eq!(callers.cause([0x1010], true), TcpEvent::CwrByEce);
    }
}
