//! A socket filter program (classic BPF) that passes packets of given TCP ports.
//!
//! It sees packets from their IP header on, as packet sockets of type SOCK_DGRAM do.

use std::collections::BTreeSet;

/// Most ports in one program: a jump spans at most 255 instructions.
pub(crate) const MOST_PORTS: usize = 50;

// Instructions, from linux/bpf_common.h.
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF_INDEXED: u16 = 0x48;
/// X = 4 · (byte & 15): the length of an IPv4 header.
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const SHIFT_RIGHT: u16 = 0x74;
const RETURN: u16 = 0x06;

// Ancillary fields that are not packet bytes, from linux/filter.h.
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
const INTERFACE: u32 = 0xffff_f000 + 8;
/// linux/if_packet.h: a copy of an outgoing packet.
const PACKET_OUTGOING: u32 = 4;

const TCP: u32 = 6;

/// A jump target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ports,
    Version6,
    Accept,
    Drop,
}

/// An instruction with unresolved jumps; without a jump it falls through.
struct Instruction {
    code: u16,
    k: u32,
    jumps: [Option<Label>; 2],
}

#[derive(Default)]
struct Program {
    instructions: Vec<Instruction>,
    labels: Vec<(Label, usize)>,
}

impl Program {
    fn plain(&mut self, code: u16, k: u32) {
        self.jump(code, k, None, None);
    }

    fn jump(&mut self, code: u16, k: u32, if_true: Option<Label>, if_false: Option<Label>) {
        let jumps = [if_true, if_false];
        self.instructions.push(Instruction { code, k, jumps });
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.instructions.len()));
    }

    /// The program in the kernel's format: code, two jumps, and the constant.
    fn assemble(&self) -> Vec<(u16, u8, u8, u32)> {
        let offset = |at: usize, to: Option<Label>| -> u8 {
            let place = |label| self.labels.iter().find(|(known, _)| *known == label);
            let to = to.and_then(place).map_or(at + 1, |(_, place)| *place);
            u8::try_from(to - at - 1).expect("programs are short, and jump forward")
        };
        let each = self.instructions.iter().enumerate();
        let each = each.map(|(at, instruction)| {
            let [if_true, if_false] = instruction.jumps.map(|to| offset(at, to));
            (instruction.code, if_true, if_false, instruction.k)
        });
        each.collect()
    }
}

/// Passes TCP packets, untruncated, with one of `ports` at either end. On the loopback interface, whose index is given,
/// it passes incoming packets only: everything sent there also arrives.
pub(crate) fn program(ports: &BTreeSet<u16>, loopback: Option<u32>) -> Vec<(u16, u8, u8, u32)> {
    assert!(
        ports.len() <= MOST_PORTS,
        "more ports than there is room for"
    );
    let mut program = Program::default();
    if let Some(loopback) = loopback {
        program.plain(LOAD_WORD, INTERFACE);
        program.jump(JUMP_EQUAL, loopback, None, Some(Label::Ports));
        program.plain(LOAD_WORD, PACKET_TYPE);
        program.jump(JUMP_EQUAL, PACKET_OUTGOING, Some(Label::Drop), None);
    }
    program.label(Label::Ports);
    program.plain(LOAD_BYTE, 0);
    program.plain(SHIFT_RIGHT, 4);
    program.jump(JUMP_EQUAL, 4, None, Some(Label::Version6));
    program.plain(LOAD_BYTE, 9);
    program.jump(JUMP_EQUAL, TCP, None, Some(Label::Drop));
    // Only the first fragment of a packet has ports, and it is useless without the others.
    program.plain(LOAD_HALF, 6);
    program.jump(JUMP_SET, 0x1fff, Some(Label::Drop), None);
    program.plain(LOAD_HEADER_LENGTH, 0);
    for at in [0, 2] {
        program.plain(LOAD_HALF_INDEXED, at);
        for port in ports {
            program.jump(JUMP_EQUAL, u32::from(*port), Some(Label::Accept), None);
        }
    }
    program.plain(RETURN, 0);
    program.label(Label::Version6);
    program.jump(JUMP_EQUAL, 6, None, Some(Label::Drop));
    program.plain(LOAD_BYTE, 6);
    program.jump(JUMP_EQUAL, TCP, None, Some(Label::Drop));
    for at in [40, 42] {
        program.plain(LOAD_HALF, at);
        for port in ports {
            program.jump(JUMP_EQUAL, u32::from(*port), Some(Label::Accept), None);
        }
    }
    program.label(Label::Drop);
    program.plain(RETURN, 0);
    program.label(Label::Accept);
    program.plain(RETURN, u32::MAX);
    program.assemble()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets the program as the kernel would.
    fn run(
        program: &[(u16, u8, u8, u32)],
        packet: &[u8],
        (interface, kind): (u32, u32),
    ) -> Option<u32> {
        let (mut a, mut x, mut at) = (0_u32, 0_u32, 0);
        let byte = |at: u32| packet.get(at as usize).copied().map(u32::from);
        let half = |at: u32| Some(byte(at)? << 8 | byte(at + 1)?);
        loop {
            let (code, if_true, if_false, k) = program[at];
            let mut step = |holds| at += usize::from(if holds { if_true } else { if_false });
            match code {
                LOAD_WORD if k == INTERFACE => a = interface,
                LOAD_WORD if k == PACKET_TYPE => a = kind,
                LOAD_BYTE => a = byte(k)?,
                LOAD_HALF => a = half(k)?,
                LOAD_HALF_INDEXED => a = half(x + k)?,
                LOAD_HEADER_LENGTH => x = 4 * (byte(k)? & 15),
                SHIFT_RIGHT => a >>= k,
                JUMP_EQUAL => step(a == k),
                JUMP_SET => step(a & k != 0),
                RETURN => return Some(k),
                _ => panic!("{code:#x} is not known"),
            }
            at += 1;
        }
    }

    fn v4(protocol: u8, options: usize, fragment: u16, ports: (u16, u16)) -> Vec<u8> {
        let mut packet = vec![0; 20 + 4 * options + 20];
        packet[0] = 0x45 + options as u8;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        let at = 20 + 4 * options;
        packet[at..at + 2].copy_from_slice(&ports.0.to_be_bytes());
        packet[at + 2..at + 4].copy_from_slice(&ports.1.to_be_bytes());
        packet
    }

    fn v6(next: u8, ports: (u16, u16)) -> Vec<u8> {
        let mut packet = vec![0; 60];
        (packet[0], packet[6]) = (0x60, next);
        packet[40..42].copy_from_slice(&ports.0.to_be_bytes());
        packet[42..44].copy_from_slice(&ports.1.to_be_bytes());
        packet
    }

    #[test]
    fn packets_of_the_ports_pass_and_no_others() {
        for count in [1, MOST_PORTS] {
            let ports: BTreeSet<u16> = (3260..).take(count).collect();
            let last = 3260 + count as u16 - 1;
            let program = program(&ports, Some(1));
            let passes = |packet: &[u8], meta| run(&program, packet, meta).unwrap_or(0) != 0;
            let wire = (2, 0);
            assert!(passes(&v4(6, 0, 0, (last, 5)), wire));
            assert!(passes(&v4(6, 0, 0x4000, (5, last)), wire));
            assert!(passes(&v4(6, 3, 0, (5, last)), (2, PACKET_OUTGOING)));
            assert!(passes(&v6(6, (last, 5)), wire));
            assert!(passes(&v6(6, (5, last)), wire));
            assert!(passes(&v4(6, 0, 0, (last, 5)), (1, 0)));
            assert!(!passes(&v4(6, 0, 0, (last, 5)), (1, PACKET_OUTGOING)));
            assert!(!passes(&v4(6, 0, 0, (last + 1, 5)), wire));
            assert!(!passes(&v6(6, (5, last + 1)), wire));
            assert!(!passes(&v4(17, 0, 0, (last, 5)), wire));
            assert!(!passes(&v6(17, (last, 5)), wire));
            assert!(!passes(&v4(6, 0, 1, (last, 5)), wire));
            assert!(!passes(&[0x50; 60], wire));
            assert!(!passes(&[0x45; 4], wire));
        }
    }
}
