//! PERSISTENT RESERVE IN (SPC-4): reports registrations and the reservation.

use super::answer::{Reply, cut};
use super::be16;
use super::command::{Call, Outcome};
use super::reservation::{Registration, Reservations};

/// READ KEYS, READ RESERVATION, REPORT CAPABILITIES, READ FULL STATUS.
pub(super) const READ_KEYS: u8 = 0x00;
pub(super) const READ_RESERVATION: u8 = 0x01;
pub(super) const REPORT_CAPABILITIES: u8 = 0x02;
pub(super) const READ_FULL_STATUS: u8 = 0x03;

/// Returns `body` of the unit's reservations, after PRGENERATION and its length.
fn answer(call: &Call<'_>, body: impl FnOnce(&Reservations) -> Vec<u8>) -> Outcome {
    let place = call.place;
    let data = call.device.common().look(|state| {
        let reservations = &state.units[place].reservations;
        let body = body(reservations);
        let generation = reservations.generation.to_be_bytes();
        [&generation[..], &(body.len() as u32).to_be_bytes(), &body].concat()
    });
    Ok(Reply::Data(cut(data, be16(call.cdb, 7))))
}

/// READ KEYS.
pub(super) fn keys(call: &mut Call<'_>) -> Outcome {
    answer(call, |reservations| {
        let registered = reservations.registrations.iter();
        registered.flat_map(|one| one.key.to_be_bytes()).collect()
    })
}

/// READ RESERVATION. An all registrants reservation has no key.
pub(super) fn reservation(call: &mut Call<'_>) -> Outcome {
    answer(call, |reservations| {
        let Some(reservation) = &reservations.reservation else {
            return Vec::new();
        };
        let key = match reservation.kind.is_all_registrants() {
            true => 0,
            false => reservations.key_of(&reservation.holder).unwrap_or(0),
        };
        let mut data = key.to_be_bytes().to_vec();
        data.extend([0, 0, 0, 0, 0, reservation.kind as u8, 0, 0]);
        data
    })
}

/// REPORT CAPABILITIES: SPEC_I_PT and ALL_TG_PT are supported, APTPL if the unit can save it, and all types.
pub(super) fn capabilities(call: &mut Call<'_>) -> Outcome {
    let keeps = call.unit.keeps_reservations;
    let place = call.place;
    let persists = call
        .device
        .common()
        .look(|state| state.units[place].reservations.persist);
    let data = vec![
        0,
        8,
        0x08 | 0x04 | u8::from(keeps), // SIP_C, ATP_C, PTPL_C
        0x80 | u8::from(persists),     // TMV, PTPL_A
        0x80 | 0x40 | 0x20 | 0x08 | 0x02,
        0x01,
        0,
        0,
    ];
    Ok(Reply::Data(cut(data, be16(call.cdb, 7))))
}

/// READ FULL STATUS.
pub(super) fn full_status(call: &mut Call<'_>) -> Outcome {
    let port = call.unit.identity.relative_port().to_be_bytes();
    answer(call, |reservations| {
        let describe = |Registration {
                            port: initiator,
                            key,
                        }: &Registration| {
            let held = reservations
                .reservation
                .as_ref()
                .filter(|_| reservations.is_held_by(initiator));
            let id = initiator.transport_id();
            let mut data = key.to_be_bytes().to_vec();
            // R_HOLDER; SCOPE and TYPE are valid with it.
            data.extend([0, 0, 0, 0, u8::from(held.is_some())]);
            data.push(held.map_or(0, |reservation| reservation.kind as u8));
            data.extend([0, 0, 0, 0]);
            data.extend(port);
            data.extend((id.len() as u32).to_be_bytes());
            data.extend(id);
            data
        };
        reservations
            .registrations
            .iter()
            .flat_map(describe)
            .collect()
    })
}
