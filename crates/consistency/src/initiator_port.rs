//! Names, ISIDs and numbers of the initiator ports.

/// Number of ISIDs that a script uses in turn.
pub(crate) const ISIDS: u8 = 16;

/// The initiator's iSCSI name.
pub(crate) fn name(host: u8) -> String {
    format!("iqn.2026-01.net.example:host{host}")
}

/// The ISID of a port, by the index of its script and the number of its ISID changes.
pub(crate) fn isid(script: usize, changes: u8) -> [u8; 6] {
    [0x80, 0, 0, changes, 0, script as u8]
}

/// The number of the port with that ISID.
pub(crate) fn number(script: usize, changes: u8) -> u16 {
    script as u16 * u16::from(ISIDS) + u16::from(changes)
}

/// The number of the port that an iSCSI TransportID names (SPC-4 7.6.4.6).
pub(crate) fn of_transport_id(transport_id: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(transport_id.get(4..)?).ok()?;
    let (_, isid) = text.trim_end_matches('\0').split_once(",i,0x")?;
    let [.., changes, _, script] = u64::from_str_radix(isid, 16).ok()?.to_be_bytes();
    Some(number(usize::from(script), changes))
}
