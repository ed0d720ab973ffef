//! Expressions as the filter programs that the kernel runs on each socket (`INET_DIAG_REQ_BYTECODE`
//! of linux/inet_diag.h).
//!
//! A program is a row of operations of 4 bytes and what belongs to them: a code, how far on to go
//! when the test holds (`yes`), and how far when it does not (`no`). Who leaves it exactly at its end
//! is taken; who goes 4 bytes farther is left out.

use std::net::IpAddr;

use crate::expression::{Bound, End, Expression};

const JUMP: u8 = 1;
const LOCAL_PORT_AT_LEAST: u8 = 2;
const LOCAL_PORT_AT_MOST: u8 = 3;
const REMOTE_PORT_AT_LEAST: u8 = 4;
const REMOTE_PORT_AT_MOST: u8 = 5;
const LOCAL_ADDRESS: u8 = 7;
const REMOTE_ADDRESS: u8 = 8;

/// Bytes of an operation alone.
const OPERATION: usize = 4;

/// The program that takes the sockets that `expression` means.
pub(super) fn program(expression: &Expression) -> Vec<u8> {
    match expression {
        Expression::And(a, b) => {
            let (mut first, second) = (program(a), program(b));
            let end = first.len();
            // Who is left out by the first must go past the second as well.
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
            // Who is left out by the first passes over the jump and comes to the second.
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
            // The port stands where a second operation has its `no`.
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

/// A test that leaves a socket out when it does not hold.
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

/// Where each operation stands.
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
