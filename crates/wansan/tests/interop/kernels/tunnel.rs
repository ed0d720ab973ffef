//! A tunnel through our emulator on a kernel whose packet sockets pass no super-frames of UDP (Linux before 6.2): bursts
//! of a tunnel's packets, which newer kernels take joined, have to reach it one by one.

use libtest_mimic::Trial;
use wansan_peers::guest::Guest;

use super::plan::{self, Ran};
use super::{image, kernel_trial, with_wansan};
use crate::stage::{Stop, folder, require};

/// Reads of 64 KiB cross the tunnel in bursts.
const PLAN: &str = r#"
title = "A tunnel through the emulator"
host = [{ name = "client" }, { name = "storage" }]
router = [{ name = "near" }, { name = "far" }]

[[path]]
name = "near"
between = ["client", "near"]

[[path]]
between = ["near", "far"]
delay = "5ms"

[[path]]
name = "far"
between = ["far", "storage"]

[[route]]
name = "tunnel"
via = ["near", "far"]
vpn = "wireguard"

[target]
host = "storage"
luns = ["memory:16MiB"]

[[initiator]]
host = "client"
routes = ["tunnel"]

[workload]
op = "read"
block = "64KiB"
parallel = 4
time = "3s"
warmup = "1s"

[trace]
kinds = ["io", "tcp"]
memory = "16MiB"
"#;

/// Fewer packets would show little.
const LEAST_PACKETS: u64 = 500;

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "a_tunnel_loses_nothing_in_our_emulator",
        loses_nothing,
    )]
}

fn loses_nothing() -> Result<(), Stop> {
    let folder = folder()?;
    let image = with_wansan(&image()?, folder.path())?;
    let mut guest = Guest::boot(&image, &[], &[])?;
    guest.run("modprobe -a veth tun")?;
    let Ran { results, manifest } = plan::run(&mut guest, "tunnel", PLAN)?;
    let paths = results["cells"][0]["paths"].as_array();
    let packets = paths.into_iter().flatten();
    let packets: u64 = packets.filter_map(|path| path["in_packets"].as_u64()).sum();
    println!("{packets} packets through the emulator");
    require(packets >= LEAST_PACKETS, || {
        format!("{packets} packets: {results}")
    })?;
    let cell = &manifest["cells"][0];
    for loss in ["emulator_send_failures", "emulator_ring_drops"] {
        require(cell[loss] == 0, || format!("{loss}: {manifest}"))?;
    }
    Ok(())
}
