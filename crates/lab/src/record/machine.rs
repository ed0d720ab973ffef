//! The machine that makes a result.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// What is known about the machine. What it does not tell is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Kernel name, release and version, as uname(2) gives them.
    pub kernel: String,
    /// Architecture.
    pub architecture: String,
    /// The processor's name.
    pub cpu: String,
    /// How many processors the lab may use.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's clock source.
    pub clock_source: String,
    /// How often a second the kernel's scheduler ticks, where its configuration can be read, and
    /// what else is known about scheduling, by the names of the files that say it.
    pub scheduling: BTreeMap<String, String>,
    /// Congestion controls that the kernel has (`net.ipv4.tcp_available_congestion_control`).
    pub congestion_controls_available: String,
    /// Those that any process may choose (`net.ipv4.tcp_allowed_congestion_control`).
    pub congestion_controls_allowed: String,
}

/// Files that say something about punctuality.
const SCHEDULING: [&str; 5] = [
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/kernel/debug/sched/preempt",
    "/proc/sys/kernel/sched_autogroup_enabled",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/timer_migration",
];

impl Machine {
    /// The machine that this runs on.
    #[must_use]
    pub fn here() -> Machine {
        let name = rustix::system::uname();
        let text = |words: &std::ffi::CStr| words.to_string_lossy().into_owned();
        let scheduling = SCHEDULING
            .into_iter()
            .filter_map(|file| Some((file.to_owned(), line(file)?)))
            .collect();
        Machine {
            kernel: format!(
                "{} {} {}",
                text(name.sysname()),
                text(name.release()),
                text(name.version())
            ),
            architecture: text(name.machine()),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal")
                .and_then(|value| value.trim_end_matches("kB").trim().parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_default(),
            scheduling,
            congestion_controls_available: setting("tcp_available_congestion_control"),
            congestion_controls_allowed: setting("tcp_allowed_congestion_control"),
        }
    }
}

fn setting(name: &str) -> String {
    line(&format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
}

fn line(file: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(file)).ok()?;
    Some(text.trim().to_owned())
}

/// The value behind `name :` in a file of the kernel's.
fn field(file: &str, name: &str) -> Option<String> {
    fs::read_to_string(file).ok()?.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_tells_its_kernel_and_memory() {
        let machine = Machine::here();
        assert!(machine.kernel.starts_with("Linux "));
        assert!(machine.cpus > 0);
        assert!(machine.memory_bytes > 1 << 20);
    }
}
