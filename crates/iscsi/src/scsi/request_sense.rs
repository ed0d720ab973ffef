//! REQUEST SENSE: sense data as data (SPC-4).

use super::answer::cut;
use super::{Cdb, Sense};

/// The answer to REQUEST SENSE: `sense` in the format that DESC asks for.
pub(super) fn report(sense: &Sense, cdb: &Cdb) -> Vec<u8> {
    let data = match cdb[1] & 0x01 {
        0 => sense.fixed().to_vec(),
        _ => sense.descriptor(),
    };
    cut(data, cdb[4])
}
