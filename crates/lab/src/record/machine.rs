//! The machine that produces a result.

use std::fs;
use std::path::Path;

use wansan_schema::Machine;

/// Kernel settings that affect timing.
const SCHEDULING: [&str; 5] = [
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/kernel/debug/sched/preempt",
    "/proc/sys/kernel/sched_autogroup_enabled",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/timer_migration",
];

/// This machine.
#[must_use]
pub(crate) fn here() -> Machine {
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
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
        memory_bytes: memory_bytes(),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default(),
        scheduling,
        congestion_controls_available: setting("tcp_available_congestion_control"),
        congestion_controls_allowed: setting("tcp_allowed_congestion_control"),
    }
}

/// Its memory, in bytes.
pub(crate) fn memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram as u64 * u64::from(machine.mem_unit.max(1))
}

fn setting(name: &str) -> String {
    line(&format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
}

fn line(file: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(file)).ok()?;
    Some(text.trim().to_owned())
}

/// The value after `name :` in a file of the kernel.
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
        let machine = here();
        assert!(machine.kernel.starts_with("Linux "));
        assert!(machine.cpus > 0);
        assert!(machine.memory_bytes > 1 << 20);
    }
}
