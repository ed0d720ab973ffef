//! Which packets a real router captures: those of one host to the others that a direction leads to.

use std::net::Ipv4Addr;

use super::Config;
use super::superframe::ETHERNET_BYTES;

/// Offset of IPv4's total length in a frame (RFC 791 §3.1).
const LENGTH: usize = ETHERNET_BYTES + 2;
/// Offsets of IPv4's source and destination address in a frame.
const SOURCE: usize = ETHERNET_BYTES + 12;
const DESTINATION: usize = ETHERNET_BYTES + 16;
/// Offset of the EtherType, and its value for IPv4.
const ETHERTYPE: usize = 12;
const IPV4: u32 = 0x0800;
/// Accepts a packet in full.
const WHOLE: u32 = u32::MAX;
/// Most hosts in one program: a jump spans at most 255 instructions.
const MOST_HOSTS: usize = 250;

// Instructions, from linux/bpf_common.h.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// A socket filter program that accepts packets of `host`, the host behind port `place`, to the hosts that the
/// configuration's routes lead to from there.
pub(super) fn of(host: Ipv4Addr, place: usize, config: &Config) -> Vec<libc::sock_filter> {
    let routes = config.routes.iter().filter(|route| route.from == place);
    let others = routes.filter_map(|route| config.ports[route.to].routed);
    let others: Vec<Ipv4Addr> = others.map(|routed| routed.host).take(MOST_HOSTS).collect();
    program(host, &others)
}

fn program(host: Ipv4Addr, others: &[Ipv4Addr]) -> Vec<libc::sock_filter> {
    // To the instruction that rejects, the last but one.
    let to_none = |behind: usize| (others.len() + behind) as u8;
    let mut program = vec![
        instruction(LOAD_HALF, 0, 0, ETHERTYPE as u32),
        instruction(JUMP_EQUAL, 0, to_none(3), IPV4),
        instruction(LOAD_WORD, 0, 0, SOURCE as u32),
        instruction(JUMP_EQUAL, 0, to_none(1), host.into()),
        instruction(LOAD_WORD, 0, 0, DESTINATION as u32),
    ];
    let left = (1..=others.len()).rev();
    for (other, to_whole) in others.iter().zip(left) {
        program.push(instruction(JUMP_EQUAL, to_whole as u8, 0, (*other).into()));
    }
    program.push(instruction(RETURN, 0, 0, 0));
    program.push(instruction(RETURN, 0, 0, WHOLE));
    program
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// The destination host of a frame that such a program accepted.
pub(super) fn destination(frame: &[u8]) -> Option<Ipv4Addr> {
    let bytes: [u8; 4] = frame.get(DESTINATION..DESTINATION + 4)?.try_into().ok()?;
    Some(bytes.into())
}

/// The length of such a frame without Ethernet padding (IEEE 802.3 §3.2.8).
pub(super) fn unpadded_bytes(frame: &[u8]) -> usize {
    let ip_bytes = frame.get(LENGTH..LENGTH + 2);
    let ip_bytes = ip_bytes.map_or(usize::MAX, |bytes| {
        usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
    });
    frame.len().min(ip_bytes.saturating_add(ETHERNET_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_up_a_frame_is_no_part_of_it() {
        let mut padded = frame([10, 0, 0, 1], [10, 0, 0, 2]);
        padded[LENGTH..LENGTH + 2].copy_from_slice(&[0, 40]);
        assert_eq!((padded.len(), unpadded_bytes(&padded)), (60, 54));
        padded[LENGTH..LENGTH + 2].copy_from_slice(&[1, 0]);
        assert_eq!(unpadded_bytes(&padded), 60);
        assert_eq!(unpadded_bytes(&padded[..14]), 14);
    }

    fn frame(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[ETHERTYPE..ETHERNET_BYTES].copy_from_slice(&[8, 0]);
        frame[SOURCE..SOURCE + 4].copy_from_slice(&source);
        frame[DESTINATION..DESTINATION + 4].copy_from_slice(&destination);
        frame
    }

    /// Interprets a program as the kernel would.
    fn takes(program: &[libc::sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut accumulator) = (0, 0_u32);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            let field = |bytes: usize| {
                let field = frame[k as usize..k as usize + bytes].iter();
                field.fold(0, |value, byte| value << 8 | u32::from(*byte))
            };
            at += 1;
            match code {
                LOAD_HALF => accumulator = field(2),
                LOAD_WORD => accumulator = field(4),
                JUMP_EQUAL if accumulator == k => at += usize::from(jt),
                JUMP_EQUAL => at += usize::from(jf),
                _ => return k > 0,
            }
        }
    }

    #[test]
    fn a_program_takes_the_packets_of_its_pairs_alone() {
        let (host, others) = ([10, 0, 0, 1], [[10, 0, 1, 2], [10, 0, 1, 3], [10, 0, 1, 4]]);
        let program = program(host.into(), &others.map(Ipv4Addr::from));
        for other in others {
            assert!(takes(&program, &frame(host, other)));
            assert!(!takes(&program, &frame(other, host)));
            assert!(!takes(&program, &frame([10, 0, 0, 9], other)));
        }
        assert!(!takes(&program, &frame(host, [10, 0, 1, 9])));
        let mut arp = frame(host, others[0]);
        arp[ETHERTYPE..ETHERNET_BYTES].copy_from_slice(&[8, 6]);
        assert!(!takes(&program, &arp));
        assert_eq!(destination(&arp), Some(others[0].into()));
    }

    #[test]
    fn a_program_has_room_for_the_most_hosts() {
        let others: Vec<Ipv4Addr> = (0..MOST_HOSTS as u32).map(|n| (n + 1).into()).collect();
        let program = program(Ipv4Addr::new(10, 0, 0, 1), &others);
        let last = others.last().unwrap().octets();
        assert!(takes(&program, &frame([10, 0, 0, 1], last)));
        assert!(!takes(&program, &frame([10, 0, 0, 2], last)));
    }
}
