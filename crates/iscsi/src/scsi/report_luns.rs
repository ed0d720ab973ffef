//! REPORT LUNS: the logical units of a target device (SPC-4).

use super::answer::{Reply, cut};
use super::command::{Call, Outcome};
use super::{Cdb, Malformed, Sense, be32};
use crate::wire::Lun;

/// REPORT LUNS to an existing unit.
pub(super) fn report_luns(call: &mut Call<'_>) -> Outcome {
    Ok(Reply::Data(report(call.device.luns(), call.cdb)?))
}

/// The data of REPORT LUNS, from the LUNs of all logical units. None of them is well known.
pub(super) fn report(luns: &[Lun], cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let luns = match cdb[2] {
        // SELECT REPORT: all but well known ones; all.
        0x00 | 0x02 => luns,
        // Well known ones; administrative ones and their conglomerates' subsidiaries.
        0x01 | 0x10..=0x12 => &[],
        _ => return Err(Sense::invalid_field(2, None)),
    };
    let mut data = Vec::with_capacity(8 + 8 * luns.len());
    data.extend((8 * luns.len() as u32).to_be_bytes());
    data.extend([0; 4]);
    data.extend(luns.iter().flat_map(|lun| lun.0));
    Ok(cut(data, be32(cdb, 6)))
}

/// The logical units of a target, as reported to the initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LunList {
    /// The LUNs received.
    pub luns: Vec<Lun>,
    /// Total number; if larger than the number of `luns`, request a larger allocation length.
    pub total: usize,
}

impl LunList {
    /// Parses the data of REPORT LUNS.
    ///
    /// # Errors
    /// When its header of 8 bytes is truncated or the list's length is no multiple of 8.
    pub fn parse(data: &[u8]) -> Result<LunList, Malformed> {
        Malformed::check_bytes("REPORT LUNS data", data, 8)?;
        let list_bytes = be32(data, 0) as usize;
        if !list_bytes.is_multiple_of(8) {
            let list_bytes = list_bytes as u64;
            return Err(Malformed::value(
                "REPORT LUNS data",
                "list length",
                list_bytes,
            ));
        }
        let came = &data[8..];
        let came = &came[..came.len().min(list_bytes)];
        Ok(LunList {
            luns: came.as_chunks().0.iter().copied().map(Lun).collect(),
            total: list_bytes / 8,
        })
    }
}
