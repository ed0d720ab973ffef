//! UDP that the sender's kernel segments (UDP_SEGMENT), also on a kernel whose packet sockets pass no super-frames of it
//! (Linux before 6.2).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;

use libtest_mimic::Trial;
use tempfile::TempDir;
use wansan_arms::ROLE;
use wansan_lab::world::World;
use wansan_peers::guest::{Guest, image};
use wansan_peers::trial::trial_on_request;

use super::{check, clean, receive, socket, start, stop};

pub(super) const NAME: &str = "UDP that its sender's kernel segments arrives";

const SEGMENT_BYTES: usize = 1000;
/// Segments of a message.
const SEGMENTS: u64 = 10;
/// Few enough for the receiver's buffer.
const MESSAGES: u64 = 5;

pub(super) fn all_segments_arrive(world: &World) -> Result<(), String> {
    let emulator = start(world, &clean())?;
    let (storage, address) = socket(world, 0)?;
    let (client, _) = socket(world, 1)?;
    segment(&client).map_err(|error| format!("UDP_SEGMENT: {error}"))?;
    for message in 0..MESSAGES {
        let numbers = message * SEGMENTS..(message + 1) * SEGMENTS;
        let payload: Vec<u8> = numbers
            .flat_map(|number| {
                let mut segment = [0; SEGMENT_BYTES];
                segment[..8].copy_from_slice(&number.to_ne_bytes());
                segment
            })
            .collect();
        let sent = client.send_to(&payload, (address, 7));
        sent.map_err(|error| format!("send: {error}"))?;
    }
    for number in 0..MESSAGES * SEGMENTS {
        let arrived = receive(&storage)?;
        check(
            arrived == number,
            format!("{arrived} arrived instead of {number}"),
        )?;
    }
    let statistics = stop(emulator)?.statistics;
    check(
        statistics.offloaded == 0 && statistics.send_failures == 0 && statistics.ring_drops == 0,
        format!("what hosts sent is not what they got: {statistics:?}"),
    )
}

/// The same on Debian's kernel.
pub(super) fn on_debians_kernel() -> Trial {
    let reason = "boots a kernel, which takes a minute: make test-kernels";
    trial_on_request("kernels::segmented_udp_arrives", reason, || {
        let folder = TempDir::with_prefix("wansan-test-")?;
        let image = image(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        let image = image.with_program(&std::env::current_exe()?, "emulator", folder.path())?;
        let mut guest = Guest::boot(&image, &[], &[])?;
        guest.run("modprobe veth")?;
        guest.run(&format!("emulator {ROLE} \"{NAME}\" 2>&1"))?;
        Ok(())
    })
}

/// Has the kernel cut what the socket sends into segments.
#[allow(unsafe_code, reason = "rustix has no UDP_SEGMENT")]
fn segment(socket: &UdpSocket) -> io::Result<()> {
    let bytes = SEGMENT_BYTES as libc::c_int;
    // SAFETY: the kernel reads one int.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
