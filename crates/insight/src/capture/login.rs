//! What the login phase of a captured connection shows.

use wansan_iscsi::text::pairs;
use wansan_iscsi::wire::Bhs;
use wansan_trace::{ConnectionId, SessionId};

use super::framing::is_request;

/// Maximum name length kept (RFC 7143 §4.2.7.1 has 223 bytes).
const MOST_NAME_BYTES: usize = 223;

/// The digests in use (RFC 7143 §13.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digests {
    pub(super) header: bool,
    pub(super) data: bool,
}

impl Digests {
    /// All combinations, the most common ones first.
    pub(super) const ALL: [Digests; 4] = [
        Digests {
            header: false,
            data: false,
        },
        Digests {
            header: true,
            data: false,
        },
        Digests {
            header: true,
            data: true,
        },
        Digests {
            header: false,
            data: true,
        },
    ];
}

/// What is known of a connection's session.
#[derive(Debug, Clone, Default)]
pub(super) struct Login {
    /// Which of [`Digests::ALL`] are ruled out.
    excluded: [bool; Digests::ALL.len()],
    session: Option<SessionId>,
    connection: Option<ConnectionId>,
    pub(super) initiator_name: Option<String>,
    pub(super) target_name: Option<String>,
}

impl Login {
    /// The digests in use after login: the most common combination that is possible.
    pub(super) fn digests(&self) -> Digests {
        self.choices().next().unwrap_or_default()
    }

    /// The combinations that are possible.
    pub(super) fn choices(&self) -> impl Iterator<Item = Digests> {
        let all = Digests::ALL.into_iter().zip(self.excluded);
        all.filter_map(|(digests, is_excluded)| (!is_excluded).then_some(digests))
    }

    /// Rules out the combinations that do not fit consecutive PDUs, unless none fits; returns whether any fits.
    /// Several may remain: PDUs without data have no data digest, and with a single digest it is unknown which one it
    /// is.
    pub(super) fn keep(&mut self, fits: impl Fn(Digests) -> bool) -> bool {
        let fitting = self.choices().any(&fits);
        if fitting {
            for (digests, is_excluded) in Digests::ALL.into_iter().zip(&mut self.excluded) {
                *is_excluded |= !fits(digests);
            }
        }
        fitting
    }

    /// The session and connection IDs, once login is complete.
    pub(super) fn ids(&self) -> Option<(SessionId, ConnectionId)> {
        Some((self.session?, self.connection?))
    }

    /// Reads a Login Request or Response (RFC 7143 §11.12, §11.13) with its text. The last value of a key is in
    /// effect.
    pub(super) fn read(&mut self, bhs: &Bhs, text: &[u8]) {
        let isid = [bhs[8], bhs[9], bhs[10], bhs[11], bhs[12], bhs[13]];
        let tsih = u16::from_be_bytes([bhs[14], bhs[15]]);
        if is_request(bhs) {
            self.connection = Some(ConnectionId(u16::from_be_bytes([bhs[20], bhs[21]])));
        }
        if tsih != 0 {
            self.session = Some(SessionId::new(isid, tsih));
        }
        let data_bytes = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]) as usize;
        let text = text.get(..data_bytes).unwrap_or(text);
        let mut digests = self.digests();
        for pair in pairs(text).unwrap_or_default() {
            let is_on = pair.value == "CRC32C";
            let name = || Some(pair.value.chars().take(MOST_NAME_BYTES).collect());
            match pair.name {
                "HeaderDigest" => digests.header = is_on,
                "DataDigest" => digests.data = is_on,
                "InitiatorName" => self.initiator_name = name(),
                "TargetName" => self.target_name = name(),
                _ => {}
            }
        }
        self.excluded = Digests::ALL.map(|other| other != digests);
    }
}
