//! Properties of this machine.

/// Memory of the machine, in bytes.
pub(crate) fn memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram as u64 * u64::from(machine.mem_unit.max(1))
}
