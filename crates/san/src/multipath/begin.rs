//! Starting sessions over several routes: finding the routes, and checking that all lead to one unit.

use std::io;
use std::time::Duration;

use wansan_trace::clock;

use super::errand::{Errands, Joined, Outcome};
use super::unit::Unit;
use crate::initiator::dial::Destination;
use crate::initiator::{InitiatorConfig, InitiatorError, Route, login};
use crate::reservation::{Before, Claim, Reservation, hold, release};
use crate::url::IscsiUrl;

/// How long a route may take to come up at first, before the others start without it.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);

/// Logs in over all routes in parallel; returns each result, and their unit.
///
/// # Errors
/// No route comes up, or two lead to different units.
pub(super) fn log_in(
    errands: &Errands,
    destinations: &[Destination],
    lun: u16,
    patience: Duration,
) -> Result<(Vec<Joined>, Unit), InitiatorError> {
    let first = FIRST_PATIENCE.min(patience);
    let mut joined = join_all(errands, destinations, lun, first)?;
    let is_slow = |joined: &Joined| matches!(joined, Err(error) if is_slow(error));
    if first < patience && joined.iter().all(is_slow) {
        joined = join_all(errands, destinations, lun, patience)?;
    }
    let unit = check_units(&mut joined, destinations, lun)?;
    Ok((joined, unit))
}

/// The destination of each session.
pub(super) fn destinations(
    url: &IscsiUrl,
    config: &InitiatorConfig,
) -> Result<Vec<Destination>, InitiatorError> {
    let routes = match &config.routes[..] {
        [] => portals(url, config)?,
        routes => routes.to_vec(),
    };
    // A session with a full queue has room for commands that fence sessions of the other routes.
    let tasks = config.tasks + routes.len();
    let each = routes.into_iter().zip(0..).map(|(route, place)| {
        let mut config = InitiatorConfig {
            isid: isid(config.isid, place),
            tasks,
            routes: vec![route],
            replacement_timeout: Duration::ZERO,
            ..config.clone()
        };
        config.wanted.max_connections = 1;
        Destination::of(url, &config)
    });
    Ok(each.collect())
}

/// The ISID of the session at an index: the qualifier counts up (RFC 7143 §11.12.5).
fn isid(first: [u8; 6], place: u16) -> [u8; 6] {
    let [t, a, b, c, d, e] = first;
    let [d, e] = u16::from_be_bytes([d, e]).wrapping_add(place).to_be_bytes();
    [t, a, b, c, d, e]
}

/// All portals of the target, as listed by the one in the URL.
fn portals(url: &IscsiUrl, config: &InitiatorConfig) -> Result<Vec<Route>, InitiatorError> {
    let to = Destination::of(url, config);
    let targets = login::discover(to)?.into_iter();
    let addresses = targets
        .filter(|target| target.name == url.target)
        .flat_map(|target| target.addresses);
    let mut routes: Vec<Route> = Vec::new();
    for address in addresses {
        let is_any = ["0.0.0.0", "::"].contains(&address.host.as_str());
        let route = Route {
            source: None,
            host: if is_any {
                url.host.clone()
            } else {
                address.host
            },
            port: address.port,
        };
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    if routes.is_empty() {
        routes.push(Route::to(url));
    }
    Ok(routes)
}

/// Logs in over all routes in parallel.
fn join_all(
    errands: &Errands,
    destinations: &[Destination],
    lun: u16,
    patience: Duration,
) -> Result<Vec<Joined>, InitiatorError> {
    for (place, to) in destinations.iter().enumerate() {
        let begun = errands.join(place, to, (lun, None), patience);
        begun.map_err(InitiatorError::NoSocket)?;
    }
    let mut ended: Vec<(usize, Joined)> = Vec::new();
    while ended.len() < destinations.len()
        && let Some((place, outcome)) = errands.wait()
    {
        if let Outcome::Joined(joined) = outcome {
            ended.push((place, joined));
        }
    }
    ended.sort_by_key(|(place, _)| *place);
    Ok(ended.into_iter().map(|(_, joined)| joined).collect())
}

/// Registers all sessions with their `unit`, and reserves it.
///
/// # Errors
/// It is not the unit to keep, it cannot be reserved, or no session is left; then none is registered, unless this host
/// held the unit already.
pub(super) fn hold_all(
    joined: &mut [Joined],
    (lun, unit): (u16, &Unit),
    reservation: &Reservation,
    patience: Duration,
) -> Result<(), InitiatorError> {
    let first = joined.iter().flatten().next();
    let portal = first.map(|(initiator, _)| initiator.destination().portal());
    let portal = portal.unwrap_or_default();
    if let Claim::Keep(known) = &reservation.claim
        && !unit.is(known)
    {
        return Err(InitiatorError::OtherUnit { lun, portal });
    }
    let _turn = reservation.registering.turn(lun, &portal)?;
    let key = reservation.key;
    for place in 0..joined.len() {
        let is_held = joined[..place].iter().any(Result::is_ok);
        let Ok((initiator, _)) = &mut joined[place] else {
            continue;
        };
        let before = match reservation.claim {
            Claim::Keep(_) => Before::Held,
            _ if is_held => Before::Taken,
            Claim::Take => Before::Nothing { preempts: false },
            Claim::Preempt => Before::Nothing { preempts: true },
        };
        let deadline = clock::now() + patience;
        let Err(error) = hold(initiator, lun, ((key, place), before), deadline) else {
            continue;
        };
        let is_of_the_unit = error.is_of_the_reservation();
        let is_last = joined[place + 1..].iter().all(Result::is_err);
        if !is_of_the_unit && (is_held || !is_last) {
            joined[place] = Err(error);
            continue;
        }
        if before != Before::Held {
            for (place, joined) in joined[..place].iter_mut().enumerate() {
                if let Ok((initiator, _)) = joined {
                    // The error returned is why the unit cannot be reserved.
                    let _ = release(initiator, lun, (key, place), deadline);
                }
            }
        }
        return Err(error);
    }
    Ok(())
}

/// Whether a login might succeed with more time.
fn is_slow(error: &InitiatorError) -> bool {
    match error {
        InitiatorError::Slow { .. } => true,
        InitiatorError::Connect { source, .. } => source.kind() == io::ErrorKind::TimedOut,
        _ => false,
    }
}

/// The common unit of all routes that are up.
///
/// # Errors
/// None is up, or one leads to another unit.
fn check_units(
    joined: &mut Vec<Joined>,
    destinations: &[Destination],
    lun: u16,
) -> Result<Unit, InitiatorError> {
    let Some((_, unit)) = joined.iter().find_map(|joined| joined.as_ref().ok()) else {
        return Err(joined
            .swap_remove(0)
            .err()
            .unwrap_or_else(|| InitiatorError::NoSocket(io::Error::other("no login was begun"))));
    };
    for (joined, to) in joined.iter().zip(destinations) {
        if let Ok((_, other)) = joined
            && !other.is(unit)
        {
            let portal = to.portal();
            return Err(InitiatorError::OtherUnit { lun, portal });
        }
    }
    Ok(unit.clone())
}
