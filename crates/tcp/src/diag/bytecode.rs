//! Expressions as the filter programs that the kernel runs on each socket (`INET_DIAG_REQ_BYTECODE`
//! of linux/inet_diag.h).
//!
//! A program is a sequence of 4-byte operations with their operands: a code, and the distance to jump if the test holds
//! (`yes`) or fails (`no`). A jump to exactly the end accepts the socket; one 4 bytes farther rejects it.

use std::net::IpAddr;

use crate::expression::{Bound, End, Expression};

const JUMP: u8 = 1;
const LOCAL_PORT_AT_LEAST: u8 = 2;
const LOCAL_PORT_AT_MOST: u8 = 3;
const REMOTE_PORT_AT_LEAST: u8 = 4;
const REMOTE_PORT_AT_MOST: u8 = 5;
const LOCAL_ADDRESS: u8 = 7;
const REMOTE_ADDRESS: u8 = 8;

/// Bytes of an operation without operand.
const OPERATION: usize = 4;

/// The program that accepts the sockets that match `expression`.
pub(super) fn program(expression: &Expression) -> Vec<u8> {
    match expression {
        Expression::And(a, b) => {
            let (mut first, second) = (program(a), program(b));
            let end = first.len();
            // A socket that the first rejects must skip the second as well.
            for at in operations(&first) {
                if at + no(&first, at) == end + OPERATION {
                    let farther = no(&first, at) + second.len();
                    set_no(&mut first, at, farther);
                }
            }
            first.extend(second);
            first
        }
        Expression::Or(a, b) => {
            let (mut first, second) = (program(a), program(b));
            // A socket that the first rejects skips the jump and reaches the second.
            let over = operation(JUMP, OPERATION, OPERATION + second.len());
            first.extend(over);
            first.extend(second);
            first
        }
        Expression::Not(inner) => {
            let mut inner = program(inner);
            inner.extend(operation(JUMP, OPERATION, 2 * OPERATION));
            inner
        }
        Expression::Port { end, bound, port } => {
            let code = match (end, bound) {
                (End::Local, Bound::AtLeast) => LOCAL_PORT_AT_LEAST,
                (End::Local, Bound::AtMost) => LOCAL_PORT_AT_MOST,
                (End::Remote, Bound::AtLeast) => REMOTE_PORT_AT_LEAST,
                (End::Remote, Bound::AtMost) => REMOTE_PORT_AT_MOST,
            };
            // The port is in the `no` field of a second operation.
            test(code, &operation(0, 0, usize::from(*port)))
        }
        Expression::Address {
            end,
            address,
            prefix_bits,
        } => {
            let code = match end {
                End::Local => LOCAL_ADDRESS,
                End::Remote => REMOTE_ADDRESS,
            };
            let (family, bytes) = match address {
                IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
                IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
            };
            let mut condition = vec![family as u8, *prefix_bits, 0, 0];
            // Any port.
            condition.extend((-1_i32).to_ne_bytes());
            condition.extend(bytes);
            test(code, &condition)
        }
    }
}

/// A test that rejects a socket when it fails.
fn test(code: u8, data: &[u8]) -> Vec<u8> {
    let bytes = OPERATION + data.len();
    let mut test = operation(code, bytes, bytes + OPERATION).to_vec();
    test.extend(data);
    test
}

fn operation(code: u8, yes: usize, no: usize) -> [u8; OPERATION] {
    let no = u16::try_from(no).expect("expressions are bounded, and so are their programs");
    let [a, b] = no.to_ne_bytes();
    [code, yes as u8, a, b]
}

/// The offset of each operation.
fn operations(program: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < program.len() {
        found.push(at);
        at += usize::from(program[at + 1]);
    }
    found
}

fn no(program: &[u8], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([program[at + 2], program[at + 3]]))
}

fn set_no(program: &mut [u8], at: usize, no: usize) {
    let code_and_yes = (program[at], usize::from(program[at + 1]));
    program[at..at + OPERATION].copy_from_slice(&operation(code_and_yes.0, code_and_yes.1, no));
}
