//! SCSI initiator ports and their TransportIDs (SPC-4 7.6.4.6).

use super::be16;

/// A SCSI initiator port: the initiator's end of an iSCSI session (RFC 7143 §4.4.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InitiatorPort {
    /// The initiator's iSCSI name.
    pub name: String,
    /// The session's ISID.
    pub isid: [u8; 6],
}

/// PROTOCOL IDENTIFIER 5h, iSCSI, with FORMAT CODE 01b: a name and an ISID.
const NAME_AND_ISID: u8 = 0x45;

impl InitiatorPort {
    /// The name of the initiator port: `name,i,0xISID`.
    pub(super) fn text(&self) -> String {
        let isid: String = self.isid.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{},i,0x{isid}", self.name)
    }

    /// Parses the output of [`InitiatorPort::text`].
    pub(super) fn from_text(text: &str) -> Option<InitiatorPort> {
        let (name, digits) = text.split_once(",i,0x")?;
        let digits: &[u8; 12] = digits.as_bytes().try_into().ok()?;
        let mut isid = [0; 6];
        for (byte, pair) in isid.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = core::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        // An iSCSI name has 223 bytes at most (RFC 7143 §4.2.7.1).
        let is_name = !name.is_empty() && name.len() <= 223;
        (is_name && !name.contains(char::is_whitespace)).then(|| InitiatorPort {
            name: name.to_owned(),
            isid,
        })
    }

    /// Its TransportID.
    pub(super) fn transport_id(&self) -> Vec<u8> {
        let mut text = self.text().into_bytes();
        text.push(0);
        text.resize(text.len().next_multiple_of(4).max(20), 0);
        let mut id = vec![NAME_AND_ISID, 0];
        id.extend((text.len() as u16).to_be_bytes());
        id.extend(text);
        id
    }

    /// Parses the TransportID at the start of `bytes`; returns its length, too. One without an ISID names no port, so
    /// it is rejected.
    pub(super) fn from_transport_id(bytes: &[u8]) -> Option<(InitiatorPort, usize)> {
        if bytes.len() < 4 || bytes[0] != NAME_AND_ISID {
            return None;
        }
        let end = 4 + usize::from(be16(bytes, 2));
        let text = bytes.get(4..end)?;
        let text = text.split(|byte| *byte == 0).next()?;
        let port = InitiatorPort::from_text(core::str::from_utf8(text).ok()?)?;
        Some((port, end))
    }
}

/// The initiator's name in an iSCSI TransportID, with an ISID or without.
pub(super) fn initiator_name(id: &[u8]) -> Option<String> {
    /// PROTOCOL IDENTIFIER, next to FORMAT CODE.
    const PROTOCOL: u8 = 0x0f;
    let text = id.get(4..).filter(|_| id[0] & PROTOCOL == 5)?;
    let text = text.split(|byte| *byte == 0).next()?;
    let text = core::str::from_utf8(text).ok()?;
    let (name, _) = text.split_once(",i,0x").unwrap_or((text, ""));
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_ids_read_back() {
        let port = InitiatorPort {
            name: "iqn.2026-01.net.example:host".to_owned(),
            isid: [0x80, 0, 0xab, 0, 0, 1],
        };
        let mut bytes = port.transport_id();
        assert_eq!(bytes[..4], [0x45, 0, 0, 48]);
        assert!(bytes[4..].starts_with(b"iqn.2026-01.net.example:host,i,0x8000ab000001\0"));
        let length = bytes.len();
        bytes.extend([1, 2, 3]);
        assert_eq!(
            InitiatorPort::from_transport_id(&bytes),
            Some((port, length))
        );
        for end in 0..length {
            assert_eq!(InitiatorPort::from_transport_id(&bytes[..end]), None);
        }
    }

    #[test]
    fn what_names_no_port_is_not_taken() {
        for text in [
            "",
            "iqn.x",
            "iqn.x,i,0x12",
            "iqn.x,i,0x12345678901g",
            ",i,0x000000000000",
        ] {
            assert_eq!(InitiatorPort::from_text(text), None, "{text}");
        }
    }
}
