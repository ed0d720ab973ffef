//! How a session begins: connecting, login, and the error if the target does not exist.

use wansan_iscsi::initiator::{Event, Handshake, HandshakeError, Splitter};
use wansan_iscsi::login::InitiatorLoginError;
use wansan_iscsi::text::send_targets::TargetRecord;
use wansan_iscsi::wire::LoginStatus;
use wansan_trace::{Recorder, clock};

use super::dial::{Destination, Dial, finish_all};
use super::socket::Socket;
use super::{Initiator, InitiatorConfig, InitiatorError};
use crate::url::IscsiUrl;

/// Most redirections followed before a session: more indicate a loop.
const MAX_MOVES: u32 = 4;

/// Logs in to the target that `url` names. If there is none, discovers which exist.
pub(super) fn connect(
    url: &IscsiUrl,
    config: &InitiatorConfig,
    trace: Recorder,
) -> Result<Initiator, InitiatorError> {
    connect_to(Destination::of(url, config), trace)
}

/// The same, to a destination whose host names may be resolved already.
pub(crate) fn connect_to(
    mut to: Destination,
    trace: Recorder,
) -> Result<Initiator, InitiatorError> {
    to.look_up()?;
    let connected = log_in(to.clone(), trace);
    let Err(InitiatorError::Login { source, portal, .. }) = &connected else {
        return connected;
    };
    if !matches!(**source, HandshakeError::Login(InitiatorLoginError::Refused { status }) if status == LoginStatus::NotFound)
    {
        return connected;
    }
    let portal = portal.clone();
    let target = to.in_words().to_owned();
    // Some portals hide targets from unknown initiators; then the login error says it all.
    let Ok(targets) = discover(to) else {
        return connected;
    };
    Err(InitiatorError::NoSuchTarget {
        target,
        portal,
        offered: targets.into_iter().map(|target| target.name).collect(),
    })
}

/// Lists the first portal's targets in a discovery session.
pub(crate) fn discover(mut to: Destination) -> Result<Vec<TargetRecord>, InitiatorError> {
    to.target = None;
    to.routes.truncate(1);
    to.look_up()?;
    to.config.wanted.max_connections = 1;
    let (patience, portal) = (to.config.patience, to.portal());
    let deadline = clock::now() + patience;
    let mut initiator = log_in(to, Recorder::off())?;
    initiator
        .session
        .send_targets(clock::now(), &mut initiator.trace);
    while clock::now() < deadline {
        if let Some(Event::Targets(targets)) = initiator.poll_event() {
            let _ = initiator.logout();
            return Ok(targets);
        }
        initiator.turn(deadline)?;
    }
    Err(InitiatorError::Slow { portal, patience })
}

/// Describes which of the offered names is closest to `wanted`.
pub(super) fn nearest(wanted: &str, offered: &[String]) -> String {
    let near = offered
        .iter()
        .min_by_key(|name| strsim::damerau_levenshtein(wanted, name));
    match (near, offered.len()) {
        (None, _) => "it offers no target to this initiator".to_owned(),
        (Some(near), 1) => format!("its only target is {near}"),
        (Some(near), all) => format!("the nearest of its {all} targets is {near}"),
    }
}

/// Connects and logs in: the first connection alone, because it creates the session, then all others in parallel.
fn log_in(mut to: Destination, trace: Recorder) -> Result<Initiator, InitiatorError> {
    let (stream, handshake) = lead(&mut to)?.into_parts();
    let joining = &to.routes[1..];
    let portal = to.portal();
    let refused = |portal| |source| InitiatorError::NotAdmitted { portal, source };
    let session = handshake.into_session(Splitter::session_tasks(to.config.tasks));
    let mut session = session.map_err(refused(portal.clone()))?;
    let mut sockets = vec![Socket::new(stream, portal.clone(), to.config.delayed_ack)?];
    session.set_schedule(to.config.schedule);
    let granted = session.parameters().max_connections;
    if to.routes.len() > usize::from(granted) {
        return Err(InitiatorError::TooFewConnections {
            portal,
            asked: to.routes.len(),
            granted,
        });
    }
    let mut dials = Vec::new();
    for (route, cid) in joining.iter().zip(1..) {
        let handshake = session.join(&to.login()?, cid);
        let handshake = handshake.map_err(|source| to.login_error(route, source))?;
        dials.push(Dial::begin(
            route,
            handshake,
            &to,
            to.config.patience,
            clock::now(),
        )?);
    }
    for (dial, route) in finish_all(dials)?.into_iter().zip(joining) {
        let (stream, handshake) = dial.into_parts();
        let portal = route.route.portal();
        session.admit(handshake).map_err(refused(portal.clone()))?;
        sockets.push(Socket::new(stream, portal, to.config.delayed_ack)?);
    }
    Ok(Initiator::over(session, sockets, to, trace))
}

/// The first connection's login, at the target's portal: follows redirections (RFC 7143 §11.13.5), and directs all
/// connections there.
fn lead(to: &mut Destination) -> Result<Dial, InitiatorError> {
    let mut moves = 0;
    loop {
        let leading = &to.routes[0];
        let handshake =
            Handshake::lead(&to.login()?).map_err(|source| to.login_error(leading, source))?;
        let dial = Dial::begin(leading, handshake, to, to.config.patience, clock::now())?;
        match finish_all(vec![dial]) {
            Ok(mut done) => return Ok(done.remove(0)),
            Err(InitiatorError::Login {
                source,
                target,
                portal,
            }) => match *source {
                HandshakeError::Moved { addresses } if moves < MAX_MOVES => {
                    moves += 1;
                    to.move_to(&addresses)?;
                }
                source => {
                    return Err(InitiatorError::Login {
                        source: Box::new(source),
                        target,
                        portal,
                    });
                }
            },
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_target_is_named() {
        let offered = ["iqn.a:disk1", "iqn.a:tape"].map(str::to_owned);
        assert!(nearest("iqn.a:dsik1", &offered).ends_with("of its 2 targets is iqn.a:disk1"));
        assert!(nearest("x", &offered[..1]).ends_with("iqn.a:disk1"));
        assert!(nearest("x", &[]).contains("no target"));
    }
}
