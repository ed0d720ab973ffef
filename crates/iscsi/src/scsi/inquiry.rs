//! INQUIRY: the identity of a logical unit (SPC-4).

use super::answer::{Reply, cut};
use super::cdb::EVPD;
use super::command::{Call, Outcome};
use super::unit::{PRODUCT, REVISION, VENDOR};
use super::{Cdb, Malformed, Sense, be16, vpd};

/// Length of the standard data sent: all fields up to the vendor specific ones.
const STANDARD_BYTES: usize = 96;
/// PERIPHERAL QUALIFIER 011b and PERIPHERAL DEVICE TYPE 1Fh: no unit can be here.
const NO_UNIT: u8 = 0x7f;
/// VERSION of a device that follows SPC-4.
const SPC_4: u8 = 0x06;
/// VERSION DESCRIPTORs: SAM-5, SPC-4, SBC-3 and iSCSI, none with a revision.
const VERSIONS: [u16; 4] = [0x00a0, 0x0460, 0x04c0, 0x0960];

/// TPGS in byte 5.
const TPGS: u8 = 0x30;

/// ALLOCATION LENGTH of an INQUIRY CDB.
pub(super) fn allocation_bytes(cdb: &Cdb) -> u16 {
    be16(cdb, 3)
}

/// INQUIRY: the standard data of a disk, or a VPD page.
pub(super) fn inquiry(call: &mut Call<'_>) -> Outcome {
    let data = match call.cdb[1] & EVPD {
        0 => standard_of_type(call.cdb, 0x00)?,
        _ => vpd::page(call.unit, call.cdb)?,
    };
    Ok(Reply::Data(data))
}

/// Standard INQUIRY data for a LUN without a logical unit.
pub(super) fn no_unit(cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    standard_of_type(cdb, NO_UNIT)
}

fn standard_of_type(cdb: &Cdb, peripheral: u8) -> Result<Vec<u8>, Sense> {
    if cdb[1] & 0x02 != 0 {
        // CMDDT, obsolete since SPC-3.
        return Err(Sense::invalid_field(1, Some(1)));
    }
    if cdb[2] != 0 {
        // A page is requested without EVPD.
        return Err(Sense::invalid_field(2, None));
    }
    let mut data = vec![0; STANDARD_BYTES];
    data[0] = peripheral;
    data[2] = SPC_4;
    data[3] = 0x12; // HISUP: LUNs in the format of SAM-5; RESPONSE DATA FORMAT 2
    data[4] = (STANDARD_BYTES - 5) as u8;
    data[5] = 0x18; // TPGS: implicit ALUA; 3PC: third-party copies
    data[7] = 0x02; // CMDQUE: command queuing
    data[8..16].copy_from_slice(&VENDOR);
    data[16..32].copy_from_slice(&PRODUCT);
    data[32..36].fill(b' ');
    for (place, byte) in data[32..36].iter_mut().zip(REVISION.bytes()) {
        *place = byte;
    }
    for (place, version) in data[58..].chunks_exact_mut(2).zip(VERSIONS) {
        place.copy_from_slice(&version.to_be_bytes());
    }
    Ok(cut(data, allocation_bytes(cdb)))
}

/// Standard INQUIRY data, parsed by an initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// PERIPHERAL QUALIFIER: 0 if a unit is connected, 1 if one could be, 3 if none can be.
    pub qualifier: u8,
    /// PERIPHERAL DEVICE TYPE: 0 for a disk.
    pub device_type: u8,
    /// Claimed VERSION of SPC: 6 for SPC-4.
    pub version: u8,
    /// TPGS: access may be better through some ports than through others, as REPORT TARGET PORT GROUPS shows.
    pub has_port_groups: bool,
    /// T10 VENDOR IDENTIFICATION without its padding.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION without its padding.
    pub product: String,
    /// PRODUCT REVISION LEVEL without its padding.
    pub revision: String,
}

impl Inquiry {
    /// Parses standard INQUIRY data. Non-printable bytes read as `?`.
    ///
    /// # Errors
    /// When it is shorter than the 36 bytes that SPC-4 requires.
    pub fn parse(data: &[u8]) -> Result<Inquiry, Malformed> {
        Malformed::check_bytes("INQUIRY data", data, 36)?;
        Ok(Inquiry {
            qualifier: data[0] >> 5,
            device_type: data[0] & 0x1f,
            version: data[2],
            has_port_groups: data[5] & TPGS != 0,
            vendor: text(&data[8..16]),
            product: text(&data[16..32]),
            revision: text(&data[32..36]),
        })
    }

    /// Whether it is a connected disk.
    #[must_use]
    pub const fn is_disk(&self) -> bool {
        self.qualifier == 0 && self.device_type == 0
    }
}

fn text(bytes: &[u8]) -> String {
    let printable = bytes.iter().map(|byte| match byte {
        b' '..=b'~' => char::from(*byte),
        0 => ' ',
        _ => '?',
    });
    printable.collect::<String>().trim().to_owned()
}
