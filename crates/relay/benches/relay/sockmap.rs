//! A map of sockets whose program redirects data arriving at each to the other one of its flow, in the kernel
//! (BPF_MAP_TYPE_SOCKHASH, BPF_SK_SKB_STREAM_VERDICT). Needs CAP_BPF and CAP_NET_ADMIN.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::net::sockopt::socket_cookie;

const MAP_CREATE: i64 = 0;
const MAP_UPDATE: i64 = 2;
const PROG_LOAD: i64 = 5;
const PROG_ATTACH: i64 = 8;
const SOCKHASH: u32 = 18;
const SK_SKB: u32 = 14;
const STREAM_VERDICT: u32 = 5;
const GET_SOCKET_COOKIE: i32 = 46;
const SK_REDIRECT_HASH: i32 = 72;

/// The most sockets of a map.
const SOCKETS: u32 = 4096;

/// Sockets by the cookie of the socket whose bytes they forward.
pub(crate) struct Sockmap {
    map: OwnedFd,
    _program: OwnedFd,
}

/// One instruction: opcode, registers (destination, source), offset, immediate.
fn instruction(operation: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let mut bytes = [operation, source << 4 | destination, 0, 0, 0, 0, 0, 0];
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    bytes[4..].copy_from_slice(&immediate.to_ne_bytes());
    bytes
}

impl Sockmap {
    pub(crate) fn new() -> io::Result<Sockmap> {
        // Type, key size, value size, entries.
        let mut create = words(&[SOCKHASH, 8, 4, SOCKETS]);
        let map = descriptor(bpf(MAP_CREATE, &mut create)?);
        let program = [
            // r6 = context; cookie of the socket at which the bytes arrived, on the stack
            instruction(0xbf, 6, 1, 0, 0),
            instruction(0x85, 0, 0, 0, GET_SOCKET_COOKIE),
            instruction(0x7b, 10, 0, -8, 0),
            // redirect(context, map, &cookie, 0): to the send queue of the socket found
            instruction(0xbf, 1, 6, 0, 0),
            instruction(0x18, 2, 1, 0, map.as_raw_fd()),
            instruction(0, 0, 0, 0, 0),
            instruction(0xbf, 3, 10, 0, 0),
            instruction(0x07, 3, 0, 0, -8),
            instruction(0xb7, 4, 0, 0, 0),
            instruction(0x85, 0, 0, 0, SK_REDIRECT_HASH),
            instruction(0x95, 0, 0, 0, 0),
        ];
        let licence = c"GPL";
        let mut load = words(&[SK_SKB, program.len() as u32]);
        load.extend((program.as_ptr() as u64).to_ne_bytes());
        load.extend((licence.as_ptr() as u64).to_ne_bytes());
        let program = descriptor(bpf(PROG_LOAD, &mut load)?);
        let ends = [map.as_raw_fd() as u32, program.as_raw_fd() as u32];
        bpf(
            PROG_ATTACH,
            &mut words(&[ends[0], ends[1], STREAM_VERDICT, 0]),
        )?;
        Ok(Sockmap {
            map,
            _program: program,
        })
    }

    /// Connects two sockets so that each forwards what arrives at the other.
    pub(crate) fn join(&self, [a, b]: &[TcpStream; 2]) -> io::Result<()> {
        for (from, to) in [(a, b), (b, a)] {
            let key = socket_cookie(from)?;
            let value = to.as_raw_fd();
            let mut update = words(&[self.map.as_raw_fd() as u32, 0]);
            update.extend(((&raw const key) as u64).to_ne_bytes());
            update.extend(((&raw const value) as u64).to_ne_bytes());
            update.extend(0u64.to_ne_bytes());
            bpf(MAP_UPDATE, &mut update)?;
        }
        Ok(())
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[allow(unsafe_code, reason = "bpf(2) has no safe wrapper")]
fn bpf(command: i64, attributes: &mut Vec<u8>) -> io::Result<i32> {
    // The kernel requires unused attributes to be 0.
    attributes.resize(120, 0);
    // SAFETY: the kernel reads `attributes` and the data that they point to, which outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            attributes.len(),
        )
    };
    match i32::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

#[allow(unsafe_code, reason = "the kernel gave it as a number")]
fn descriptor(number: i32) -> OwnedFd {
    // SAFETY: bpf(2) has just opened it, and it has no other owner.
    unsafe { OwnedFd::from_raw_fd(number) }
}
