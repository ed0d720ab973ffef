//! PERSISTENT RESERVE OUT (SPC-4), and RESERVE (6) and RELEASE (6) (SPC-2): commands that change the reservations of a
//! unit.

use std::sync::Arc;

use super::answer::Reply;
use super::command::{Call, Delivery, Outcome, Refused};
use super::fence::Fence;
use super::nexus::State;
use super::port::InitiatorPort;
use super::reservation::{Kind, Reservation, Reservations};
use super::reserve_effects::Effects;
use super::reserve_keep::{Replaced, ReservationChange};
use super::{AdditionalSense, MediumOperation, Sense, UnitAttention, be16, be32, be64};

/// Service actions.
pub(super) const REGISTER: u8 = 0x00;
pub(super) const RESERVE: u8 = 0x01;
pub(super) const RELEASE: u8 = 0x02;
pub(super) const CLEAR: u8 = 0x03;
pub(super) const PREEMPT: u8 = 0x04;
pub(super) const PREEMPT_AND_ABORT: u8 = 0x05;
pub(super) const REGISTER_AND_IGNORE: u8 = 0x06;
pub(super) const REGISTER_AND_MOVE: u8 = 0x07;

/// The basic parameter list.
const BASIC_BYTES: usize = 24;
/// Longest parameter list: TransportIDs of some hundred initiator ports.
const MAX_LIST_BYTES: u32 = 64 << 10;

/// Flags in byte 20 of the parameter list.
const SPEC_I_PT: u8 = 0x08;
pub(super) const APTPL: u8 = 0x01;
/// UNREG and APTPL in byte 17 of the list of REGISTER AND MOVE.
const UNREG: u8 = 0x02;

fn in_list() -> Refused {
    Sense::illegal(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST).into()
}

fn list_length() -> Refused {
    Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH).into()
}

/// RESERVE (6): reserves the unit for this nexus alone. Not together with persistent reservations (SPC-4 5.12.3).
pub(super) fn reserve_6(call: &mut Call<'_>) -> Outcome {
    let (place, id) = (call.place, call.nexus.id());
    let fence = call.change(|state| {
        check_settled(state, place)?;
        let reservations = &mut state.units[place].reservations;
        let free = reservations.exclusive.is_none_or(|holder| holder == id);
        if !free || !reservations.registrations.is_empty() {
            return Err(Refused::Conflict);
        }
        reservations.exclusive = Some(id);
        Ok(state.fence(place, |other| other != id))
    })?;
    call.nexus.wait_for(fence);
    Ok(Reply::DONE)
}

/// RELEASE (6): another nexus's reservation stays, which is no error.
pub(super) fn release_6(call: &mut Call<'_>) -> Outcome {
    let (place, id) = (call.place, call.nexus.id());
    call.change(|state| {
        check_settled(state, place)?;
        let reservations = &mut state.units[place].reservations;
        if !reservations.registrations.is_empty() {
            return Err(Refused::Conflict);
        }
        reservations.exclusive = reservations.exclusive.filter(|holder| *holder != id);
        Ok(Reply::DONE)
    })
}

pub(super) fn list_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    match be32(call.cdb, 5) {
        bytes if (BASIC_BYTES as u32..=MAX_LIST_BYTES).contains(&bytes) => Ok(bytes),
        _ => Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH)),
    }
}

/// A parsed PERSISTENT RESERVE OUT.
struct Request {
    action: u8,
    /// SCOPE and TYPE, which some service actions use.
    kind: Option<Kind>,
    key: u64,
    action_key: u64,
    persist: bool,
    /// Ports to register in addition to the initiator's own.
    others: Vec<InitiatorPort>,
}

impl Request {
    fn kind(&self) -> Result<Kind, Refused> {
        self.kind.ok_or(Sense::invalid_field(2, Some(3)).into())
    }
}

/// PERSISTENT RESERVE OUT. If it removes access, it is answered after the operations of the nexuses concerned have
/// completed; if it changes persistent state, after that was saved.
pub(super) fn persistent_reserve_out(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let bytes = list_bytes(call)?;
    let list = delivery.data;
    if list.len() < bytes as usize {
        return Err(list_length());
    }
    let action = call.cdb[1] & 0x1f;
    let place = call.place;
    let port = call.nexus.port().clone();
    let mut request = Request {
        action,
        // SCOPE 0 is the only one: the logical unit.
        kind: Kind::from_code(call.cdb[2]),
        key: be64(&list, 0),
        action_key: be64(&list, 8),
        persist: list[20] & APTPL != 0,
        others: Vec::new(),
    };
    let mut moved = None;
    if action == REGISTER_AND_MOVE {
        request.persist = list[17] & APTPL != 0;
        moved = Some(Move::read(call, &list)?);
    } else if list[20] & SPEC_I_PT != 0 {
        if action != REGISTER {
            return Err(in_list());
        }
        request.others = others(&list[BASIC_BYTES..])?;
    } else if list.len() != BASIC_BYTES {
        return Err(list_length());
    }
    let registers = matches!(action, REGISTER | REGISTER_AND_IGNORE | REGISTER_AND_MOVE);
    if registers && request.persist && !call.unit.keeps_reservations {
        return Err(in_list());
    }
    // Actions that remove access, also of the nexus itself.
    let takes_rights = match action {
        RESERVE | PREEMPT | PREEMPT_AND_ABORT | REGISTER_AND_MOVE => true,
        REGISTER | REGISTER_AND_IGNORE => request.action_key == 0,
        _ => false,
    };
    let mut effects = Effects::of(call.nexus.id(), takes_rights);
    let aborts = action == PREEMPT_AND_ABORT;
    let (kept, fence) = call.change(|state| {
        check_settled(state, place)?;
        let unit = &mut state.units[place];
        let reservations = &mut unit.reservations;
        // SPC-2 5.5.1: a unit reserved by RESERVE (6) has no persistent reservations.
        if reservations.exclusive.is_some() {
            return Err(Refused::Conflict);
        }
        let (before, text_before) = (reservations.clone(), reservations.to_text());
        match (action, &moved) {
            (REGISTER | REGISTER_AND_IGNORE, _) => {
                register(reservations, &port, &request, &mut effects)
            }
            (RESERVE, _) => reserve(reservations, &port, &request),
            (RELEASE, _) => release(reservations, &port, &request, &mut effects),
            (CLEAR, _) => clear(reservations, &port, &request, &mut effects),
            (REGISTER_AND_MOVE, Some(moved)) => hand_over(reservations, &port, &request, moved),
            _ => preempt(reservations, &port, &request, &mut effects),
        }?;
        let text = reservations.to_text();
        if text == text_before {
            return Ok((None, effects.apply(state, place)));
        }
        unit.kept_version += 1;
        unit.replaced = Some(Replaced::new(unit.kept_version, before, effects));
        Ok::<_, Refused>((Some((unit.kept_version, text)), Fence::default()))
    })?;
    let Some((version, text)) = kept else {
        call.nexus.wait_for(fence);
        if aborts {
            // Idle sessions must drop aborted tasks, too.
            call.device.common().ring();
        }
        return Ok(Reply::DONE);
    };
    let common = Arc::clone(call.device.common());
    let change = ReservationChange::new(common, place, version, text);
    let operation = MediumOperation::KeepReservations(Arc::new(change));
    Ok(Reply::Medium(Box::new(operation)))
}

/// While a change is being saved, which can still fail, the reservations do not change.
fn check_settled(state: &State, place: usize) -> Result<(), Refused> {
    match state.units[place].replaced {
        None => Ok(()),
        Some(_) => Err(Refused::Busy),
    }
}

/// The TransportIDs of SPEC_I_PT, after their length.
fn others(bytes: &[u8]) -> Result<Vec<InitiatorPort>, Refused> {
    let length = bytes
        .first_chunk()
        .map(|length| u32::from_be_bytes(*length));
    let mut rest = length
        .and_then(|length| bytes[4..].get(..length as usize))
        .ok_or(list_length())?;
    let mut ports = Vec::new();
    while !rest.is_empty() {
        let (port, bytes) = InitiatorPort::from_transport_id(rest).ok_or(in_list())?;
        ports.push(port);
        rest = &rest[bytes..];
    }
    Ok(ports)
}

/// The additional fields of REGISTER AND MOVE.
struct Move {
    to: InitiatorPort,
    unregister: bool,
}

impl Move {
    fn read(call: &Call<'_>, list: &[u8]) -> Result<Move, Refused> {
        if be32(list, 20) as usize != list.len() - BASIC_BYTES {
            return Err(list_length());
        }
        if be16(list, 18) != call.unit.identity.relative_port() {
            return Err(in_list());
        }
        let (to, _) = InitiatorPort::from_transport_id(&list[BASIC_BYTES..]).ok_or(in_list())?;
        Ok(Move {
            to,
            unregister: list[17] & UNREG != 0,
        })
    }
}

/// Only a registered nexus that gives its key may continue.
fn check_key(
    reservations: &Reservations,
    port: &InitiatorPort,
    request: &Request,
) -> Result<(), Refused> {
    match reservations.key_of(port) {
        Some(key) if key == request.key => Ok(()),
        _ => Err(Refused::Conflict),
    }
}

/// Registered nexuses report that the reservation that gave them access is released (SPC-4 5.13.11.1).
fn report_released(reservations: &Reservations, kind: Kind, effects: &mut Effects) {
    if kind.admits_registrants() {
        let registered = reservations.registrations.iter();
        let ports = registered.map(|one| one.port.clone()).collect();
        effects.establish(UnitAttention::ReservationsReleased, ports);
    }
}

/// REGISTER and REGISTER AND IGNORE EXISTING KEY (SPC-4 5.13.7).
fn register(
    reservations: &mut Reservations,
    port: &InitiatorPort,
    request: &Request,
    effects: &mut Effects,
) -> Result<(), Refused> {
    let registered = reservations.key_of(port);
    if request.action == REGISTER && registered.unwrap_or(0) != request.key {
        return Err(Refused::Conflict);
    }
    if !request.others.is_empty() && (registered.is_some() || request.action_key == 0) {
        return Err(in_list());
    }
    if request.action_key == 0 {
        if registered.is_none() {
            return Ok(());
        }
        let (_, released) = reservations.unregister(|one| one.port == *port);
        if let Some(kind) = released {
            report_released(reservations, kind, effects);
        }
    } else {
        let new = request.others.iter().chain([port]);
        let new = new
            .filter(|port| reservations.key_of(port).is_none())
            .count();
        if reservations.registrations.len() + new > super::reservation::MAX_REGISTRATIONS {
            let additional = AdditionalSense::NO_REGISTRATION_RESOURCES;
            return Err(Sense::illegal(additional).into());
        }
        for port in request.others.iter().chain([port]) {
            reservations.register(port, request.action_key);
        }
    }
    reservations.persist = request.persist;
    reservations.generation = reservations.generation.wrapping_add(1);
    Ok(())
}

/// RESERVE (SPC-4 5.13.9).
fn reserve(
    reservations: &mut Reservations,
    port: &InitiatorPort,
    request: &Request,
) -> Result<(), Refused> {
    check_key(reservations, port, request)?;
    let kind = request.kind()?;
    match &reservations.reservation {
        None => {
            reservations.reservation = Some(Reservation {
                kind,
                holder: port.clone(),
            });
            Ok(())
        }
        Some(held) if held.kind == kind && reservations.is_held_by(port) => Ok(()),
        Some(_) => Err(Refused::Conflict),
    }
}

/// RELEASE (SPC-4 5.13.11.2).
fn release(
    reservations: &mut Reservations,
    port: &InitiatorPort,
    request: &Request,
    effects: &mut Effects,
) -> Result<(), Refused> {
    check_key(reservations, port, request)?;
    let held = reservations.reservation.as_ref();
    let Some(held) = held.filter(|_| reservations.is_held_by(port)) else {
        return Ok(());
    };
    if request.kind != Some(held.kind) {
        return Err(Sense::illegal(AdditionalSense::INVALID_RELEASE).into());
    }
    let kind = held.kind;
    reservations.reservation = None;
    report_released(reservations, kind, effects);
    Ok(())
}

/// CLEAR (SPC-4 5.13.11.6).
fn clear(
    reservations: &mut Reservations,
    port: &InitiatorPort,
    request: &Request,
    effects: &mut Effects,
) -> Result<(), Refused> {
    check_key(reservations, port, request)?;
    let (cleared, _) = reservations.unregister(|_| true);
    reservations.reservation = None;
    reservations.generation = reservations.generation.wrapping_add(1);
    effects.establish(UnitAttention::ReservationsPreempted, cleared);
    Ok(())
}

/// PREEMPT and PREEMPT AND ABORT (SPC-4 5.13.11.4).
fn preempt(
    reservations: &mut Reservations,
    port: &InitiatorPort,
    request: &Request,
    effects: &mut Effects,
) -> Result<(), Refused> {
    check_key(reservations, port, request)?;
    let wanted = request.action_key;
    let held = reservations.reservation.clone();
    let holder_key = held
        .as_ref()
        .and_then(|held| reservations.key_of(&held.holder));
    // Whether it takes over the reservation itself: with all registrants by key 0.
    let takes = match &held {
        Some(held) if held.kind.is_all_registrants() => wanted == 0,
        Some(_) => holder_key == Some(wanted),
        None => false,
    };
    if wanted == 0 && !takes {
        return Err(in_list());
    }
    let kind = if takes { Some(request.kind()?) } else { None };
    let known = reservations
        .registrations
        .iter()
        .any(|one| one.key == wanted);
    if !takes && !known {
        return Err(Refused::Conflict);
    }
    let (removed, _) =
        reservations.unregister(|one| one.port != *port && (wanted == 0 || one.key == wanted));
    if let Some(kind) = kind {
        reservations.reservation = Some(Reservation {
            kind,
            holder: port.clone(),
        });
    }
    reservations.generation = reservations.generation.wrapping_add(1);
    if request.action == PREEMPT_AND_ABORT {
        effects.abort(removed.clone());
    }
    effects.establish(UnitAttention::RegistrationsPreempted, removed);
    if let (Some(held), Some(kind)) = (held, kind)
        && held.kind != kind
    {
        report_released(reservations, held.kind, effects);
    }
    Ok(())
}

/// REGISTER AND MOVE (SPC-4 5.13.8).
fn hand_over(
    reservations: &mut Reservations,
    port: &InitiatorPort,
    request: &Request,
    moved: &Move,
) -> Result<(), Refused> {
    check_key(reservations, port, request)?;
    let held = reservations.reservation.as_ref();
    let Some(kind) = held
        .filter(|held| held.holder == *port)
        .map(|held| held.kind)
    else {
        return Err(Refused::Conflict);
    };
    if kind.is_all_registrants() {
        return Err(Refused::Conflict);
    }
    if request.action_key == 0 || moved.to == *port {
        return Err(in_list());
    }
    if !reservations.register(&moved.to, request.action_key) {
        let additional = AdditionalSense::NO_REGISTRATION_RESOURCES;
        return Err(Sense::illegal(additional).into());
    }
    reservations.reservation = Some(Reservation {
        kind,
        holder: moved.to.clone(),
    });
    if moved.unregister {
        reservations.unregister(|one| one.port == *port);
    }
    reservations.persist = request.persist;
    reservations.generation = reservations.generation.wrapping_add(1);
    Ok(())
}
