//! Where login ends in what the target sends.

use wansan_iscsi::wire::BHS_BYTES;

/// Login Response (RFC 7143 §11.13).
const LOGIN_RESPONSE: u8 = 0x23;
/// The T bit and NSG = full feature phase (RFC 7143 §11.13.3).
const TO_FULL_FEATURE_PHASE: u8 = 0x83;

/// Follows a target's stream up to the end of the last Login Response, which has no digests.
#[derive(Debug, Default)]
pub(super) struct Login {
    header: Vec<u8>,
    /// Of the PDU in hand, behind its header.
    left_bytes: usize,
    is_last: bool,
    is_over: bool,
}

impl Login {
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes in the stream's next bytes.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while !self.is_over && !bytes.is_empty() {
            if self.header.len() < BHS_BYTES {
                let wanted = (BHS_BYTES - self.header.len()).min(bytes.len());
                self.header.extend_from_slice(&bytes[..wanted]);
                bytes = &bytes[wanted..];
                if self.header.len() == BHS_BYTES {
                    self.begin_pdu();
                }
            } else {
                let passed = self.left_bytes.min(bytes.len());
                self.left_bytes -= passed;
                bytes = &bytes[passed..];
            }
            if self.header.len() == BHS_BYTES && self.left_bytes == 0 {
                self.is_over = self.is_last;
                self.header.clear();
            }
        }
    }

    fn begin_pdu(&mut self) {
        let header = &self.header;
        let ahs_bytes = usize::from(header[4]) * 4;
        let data_bytes = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        self.left_bytes = ahs_bytes + data_bytes.next_multiple_of(4);
        let is_success = header[36] == 0;
        self.is_last = header[0] & 0x3f == LOGIN_RESPONSE
            && header[1] & TO_FULL_FEATURE_PHASE == TO_FULL_FEATURE_PHASE
            && is_success;
    }
}
