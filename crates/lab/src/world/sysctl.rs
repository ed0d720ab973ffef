//! The kernel's network settings, which are per namespace.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use super::{Role, TcpSettings};

/// Settings recorded in the manifest, whether set by us or not.
const RECORDED: [&str; 24] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.all.send_redirects",
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_min_rtt_wlen",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv6.conf.all.disable_ipv6",
];

/// Applies the plan's TCP settings, the node's role, and the settings of a quiet namespace, in the calling thread's
/// namespace; returns every recorded setting as now in force. Call it before interfaces are created, which inherit some
/// settings.
///
/// Setting `tcp_congestion_control` is best effort: outside the initial namespace the kernel permits only algorithms
/// marked as unrestricted, so the programs also choose it per socket.
pub(super) fn apply(role: Role, tcp: &TcpSettings) -> io::Result<BTreeMap<String, String>> {
    let forward = match role {
        Role::Host => "0",
        Role::Router => "1",
    };
    let triple = |[least, default, most]: [u64; 3]| format!("{least} {default} {most}");
    for (name, value) in [
        ("net.ipv4.tcp_rmem", triple(tcp.rmem_bytes)),
        ("net.ipv4.tcp_wmem", triple(tcp.wmem_bytes)),
        ("net.ipv4.tcp_ecn", u8::from(tcp.ecn).to_string()),
        // Cached path metrics must not affect the next connection.
        ("net.ipv4.tcp_no_metrics_save", "1".to_owned()),
        // First of these, as it resets others.
        ("net.ipv4.ip_forward", forward.to_owned()),
        // A node has interfaces into several networks, and the plan determines which of them packets use: asymmetric
        // routing is intended (RFC 3704 §2.3), and redirects to a shorter route are not (RFC 1812 §5.2.7.2).
        ("net.ipv4.conf.all.rp_filter", "0".to_owned()),
        ("net.ipv4.conf.default.rp_filter", "0".to_owned()),
        ("net.ipv4.conf.all.send_redirects", "0".to_owned()),
        ("net.ipv4.conf.default.send_redirects", "0".to_owned()),
    ] {
        write(name, &value)?;
    }
    // Absent where the kernel has no IPv6.
    for name in [
        "net.ipv6.conf.all.disable_ipv6",
        "net.ipv6.conf.default.disable_ipv6",
    ] {
        ignore_absent(write(name, "1"))?;
    }
    let _restricted = write("net.ipv4.tcp_congestion_control", &tcp.congestion_control);
    Ok(in_force())
}

/// The recorded settings of the calling thread's namespace. Those unknown to the kernel are left out.
pub(crate) fn in_force() -> BTreeMap<String, String> {
    let read = |name: &str| {
        let value = fs::read_to_string(path(name)).ok()?;
        let words: Vec<&str> = value.split_whitespace().collect();
        Some((name.to_owned(), words.join(" ")))
    };
    RECORDED.into_iter().filter_map(read).collect()
}

fn write(name: &str, value: &str) -> io::Result<()> {
    fs::write(path(name), value)
        .map_err(|error| io::Error::new(error.kind(), format!("{name} = {value}: {error}")))
}

fn ignore_absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}
