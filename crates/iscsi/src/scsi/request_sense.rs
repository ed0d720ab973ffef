//! REQUEST SENSE: sense data as data (SPC-4).

use super::answer::{Reply, cut};
use super::command::{Call, Outcome};
use super::{Cdb, Sense, UnitAttention};

/// REQUEST SENSE: takes the pending unit attention, and returns it (SAM-5 5.14.1).
pub(super) fn request_sense(call: &mut Call<'_>) -> Outcome {
    let attention = call.nexus.take_attention(call.place);
    let sense = attention.map_or(Sense::NONE, UnitAttention::sense);
    Ok(Reply::Data(report(&sense, call.cdb)))
}

/// The data of REQUEST SENSE: `sense` in the format selected by DESC.
pub(super) fn report(sense: &Sense, cdb: &Cdb) -> Vec<u8> {
    let data = match cdb[1] & 0x01 {
        0 => sense.fixed().to_vec(),
        _ => sense.descriptor(),
    };
    cut(data, cdb[4])
}
