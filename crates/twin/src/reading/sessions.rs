//! Sessions: their keys, their connections, and TCP at both ends.

use wansan_insight::{Cell, CellSummary, Window};
use wansan_iscsi::initiator::Schedule;
use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_iscsi::record::keys_of;
use wansan_path::SUPER_FRAME_MAX_BYTES;
use wansan_sim::tcp::congestion::{INITIAL_WINDOW, Law};
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::BufferConfig;
use wansan_split::DEFAULT_BUFFER_BYTES;
use wansan_trace::event::{self, Ecn, Role};
use wansan_trace::file::{Row, Table};
use wansan_trace::units::format_iops;
use wansan_trace::{ConnectionId, SessionId};

use super::load::SessionLoad;
use super::paths::{self, Routes};
use super::pauses::Shown;
use super::{Unfit, samples};
use crate::setup::{Connection, Direction, End, Initiator, Relay, Tunnel};

/// Assumed congestion control for captures, which do not show it.
const TAKEN_CONTROL: &str = "cubic";
/// Initial receive buffer sizes are multiples of this.
const RECEIVE_STEP_BYTES: u64 = 16_384;

/// The initiators, in the order of their loads, and the tunnels of their connections. The windows are the measured and
/// the simulated one.
pub(super) fn initiators(
    cell: &Cell,
    recorded: &CellSummary,
    directions: &[Direction],
    loads: Vec<SessionLoad>,
    [window, simulated]: [Window; 2],
    unknown: &mut Vec<String>,
) -> Result<(Vec<Initiator>, Vec<Tunnel>), Unfit> {
    let table = cell
        .connection
        .as_ref()
        .ok_or(Unfit::Missing("connection"))?;
    let routes = Routes::of(cell, directions, window, unknown)?;
    let shown = Shown::of(cell, directions, simulated);
    let mut initiators: Vec<Initiator> = Vec::new();
    for load in loads {
        let session = load.session;
        let mut own = of_session(table, session, Role::Initiator);
        own.sort_by_key(|row| row.record.connection);
        let Some(first) = own.first() else {
            return Err(Unfit::NoInitiator);
        };
        if own
            .windows(2)
            .any(|pair| pair[0].record.connection == pair[1].record.connection)
        {
            return Err(Unfit::Recovery(session));
        }
        let (keys, of_connection) = keys_of(&first.record).ok_or(Unfit::NoKeys)?;
        let connections = own.iter().map(|row| {
            let connection = connection(cell, table, row, &routes, unknown)?;
            Ok((row.record.connection, connection))
        });
        let connections: Vec<_> = connections.collect::<Result<_, Unfit>>()?;
        let pauses = shown.pauses(session, &connections);
        let connections = connections.into_iter().map(|(_, it)| it);
        let connections: Vec<Connection> = connections.collect();
        if connections.len() > 1 {
            unknown.push(format!(
                "how session {session} distributes commands over its {} connections: assumed to be to the one with the fewest outstanding, or round-robin if only that fits",
                connections.len(),
            ));
        }
        let digest = |on| match on {
            true => vec![DigestKind::Crc32c],
            false => vec![DigestKind::None],
        };
        // The session ID has the ISID above the TSIH.
        let [a, b, c, d, e, f, ..] = session.0.to_be_bytes();
        initiators.push(Initiator {
            isid: [a, b, c, d, e, f],
            keys: Wanted {
                header_digest: digest(of_connection.header_digest),
                data_digest: digest(of_connection.data_digest),
                initial_r2t: keys.initial_r2t,
                immediate_data: keys.immediate_data,
                max_recv_data_bytes: of_connection.max_recv_data_bytes,
                max_burst_bytes: keys.max_burst_bytes,
                first_burst_bytes: keys.first_burst_bytes,
                max_outstanding_r2t: keys.max_outstanding_r2t,
                data_sequence_in_order: keys.data_sequence_in_order,
                error_recovery_level: keys.error_recovery_level,
                ..Wanted::default()
            },
            target_max_recv_data_bytes: of_connection.max_send_data_bytes,
            connections,
            schedule: Schedule::default(),
            load: load.config,
            pauses,
        });
        paced(
            cell,
            recorded,
            session,
            &initiators[initiators.len() - 1],
            unknown,
        );
    }
    if initiators
        .windows(2)
        .any(|pair| pair[0].keys != pair[1].keys)
    {
        return Err(Unfit::Keys);
    }
    Ok((initiators, routes.tunnels.tunnels))
}

/// Reports what is unknown about a load with a fixed rate.
fn paced(
    cell: &Cell,
    recorded: &CellSummary,
    session: SessionId,
    initiator: &Initiator,
    unknown: &mut Vec<String>,
) {
    let Some(rate) = initiator.load.rate_per_s else {
        return;
    };
    let named = session.to_string();
    let own = recorded.sessions.iter().find(|it| it.session == named);
    let most = own
        .zip(cell.joined.top())
        .and_then(|(it, top)| it.scope.layer(top))
        .and_then(|it| it.in_flight_max)
        .unwrap_or(0);
    let rate = format_iops(rate);
    unknown.push(format!(
        "how many I/Os the load of session {session} ({rate} IOPS) would keep in flight: assumed to be the most that it had, {most}"
    ));
}

fn of_session(
    table: &Table<event::Connection>,
    session: SessionId,
    role: Role,
) -> Vec<&Row<event::Connection>> {
    let rows = table.rows.iter();
    rows.filter(|row| row.record.session == session && row.record.role == role)
        .collect()
}

fn connection(
    cell: &Cell,
    table: &Table<event::Connection>,
    row: &Row<event::Connection>,
    routes: &Routes,
    unknown: &mut Vec<String>,
) -> Result<Connection, Unfit> {
    let record = &row.record;
    let near = end(cell, table, row)?;
    let others = of_session(table, record.session, Role::Target);
    let other = others
        .into_iter()
        .find(|it| it.record.connection == record.connection);
    let far = match other {
        Some(other) => end(cell, table, other)?,
        None => {
            unknown.push(format!(
                "TCP at the target of connection {}: assumed to be as at the initiator",
                record.connection.0,
            ));
            near.clone()
        }
    };
    let known = Connection {
        ends: [near, far],
        routes: [Vec::new(), Vec::new()],
        through: None,
        relay: None,
        addresses: [record.local, record.remote],
    };
    let no_route = Unfit::NoRoute {
        session: record.session,
        connection: record.connection.0,
    };
    if let Some(flow) = of_relay(table, record) {
        let [inward, outward] = flow;
        let target = other.map(|it| (it.record.local, it.record.remote));
        let leads_there =
            target.is_none_or(|ends| ends == (outward.record.remote, outward.record.local));
        if !leads_there || !routes.tunnels.tunnels.is_empty() {
            return Err(Unfit::Relay);
        }
        unknown.push(format!(
            "the relay's buffers and congestion control: assumed to be {} KiB for each direction and none",
            DEFAULT_BUFFER_BYTES >> 10,
        ));
        let target = outward.record.remote;
        let parts = [
            [record.local, record.remote],
            [outward.record.local, target],
        ];
        let (ways, after) = routes.over_relay(parts).ok_or(no_route)?;
        return Ok(Connection {
            routes: ways,
            relay: Some(Relay {
                ends: [end(cell, table, inward)?, end(cell, table, outward)?],
                addresses: [inward.record.local, outward.record.local],
                after,
            }),
            addresses: [record.local, target],
            ..known
        });
    }
    let ways = routes.between((record.session, record.connection), known.addresses);
    let ways = ways.ok_or(no_route)?;
    Ok(Connection {
        routes: ways.places,
        through: ways.through,
        ..known
    })
}

/// Both ends of a relay that accepted a connection: towards the initiator, and towards the target.
fn of_relay<'t>(
    table: &'t Table<event::Connection>,
    taken: &event::Connection,
) -> Option<[&'t Row<event::Connection>; 2]> {
    let rows = || {
        table
            .rows
            .iter()
            .filter(|row| row.record.role == Role::Relay)
    };
    let ends = (taken.remote, taken.local);
    let inward = rows().find(|row| (row.record.local, row.record.remote) == ends)?;
    let flow = (inward.host, inward.record.session, ConnectionId(1));
    let outward =
        rows().find(|row| (row.host, row.record.session, row.record.connection) == flow)?;
    Some([inward, outward])
}

fn end(
    cell: &Cell,
    table: &Table<event::Connection>,
    row: &Row<event::Connection>,
) -> Result<End, Unfit> {
    let record = &row.record;
    let congestion_control = match table.names.get(record.congestion_control) {
        "" => TAKEN_CONTROL.to_owned(),
        name => name.to_owned(),
    };
    let Some(law) = Law::named(&congestion_control, Hz::default(), 0) else {
        return Err(Unfit::CongestionControl(congestion_control));
    };
    let host = table.names.get(row.host);
    let mut samples = samples(cell, host, record.session, record.connection).peekable();
    let first = samples
        .peek()
        .map_or(0, |sample| u64::from(sample.send_buffer_bytes));
    let ecn = samples.any(|sample| sample.ecn != Ecn::Off);
    let usual = BufferConfig::default();
    let [_, usual_send, _] = usual.wmem_bytes;
    // The initial send buffer is `sndbuf_expand` windows of a whole number of packets, ten or more, headers included:
    // its size shows the kernel's MAX_TCP_HEADER.
    let mut headers = BufferConfig::HEADERS_BYTES.into_iter().rev();
    let header_bytes = headers.find(|&header_bytes| {
        let kernel = BufferConfig {
            header_bytes,
            ..usual
        };
        let packet = u64::from(law.sndbuf_expand()) * kernel.per_packet_bytes(record.mss_bytes);
        first.is_multiple_of(packet) && first / packet >= u64::from(INITIAL_WINDOW)
    });
    let [_, usual_receive, _] = ReceiveConfig::default().rmem_bytes;
    let told = first_window_bytes(cell, host, record);
    let first_receive = told.map(|bytes| (2 * bytes).next_multiple_of(RECEIVE_STEP_BYTES));
    Ok(End {
        congestion_control,
        mss_bytes: record.mss_bytes,
        nagle: record.nagle,
        quick_ack: record.quick_ack,
        ecn,
        send_buffer_bytes: [
            if first > 0 { first } else { usual_send },
            record.send_buffer_max_bytes,
        ],
        header_bytes: header_bytes.unwrap_or(usual.header_bytes),
        gso_max_bytes: match paths::are_of_lab(cell) {
            true => u64::from(SUPER_FRAME_MAX_BYTES),
            false => usual.gso_max_bytes,
        },
        receive_buffer_bytes: [
            first_receive.unwrap_or(usual_receive),
            record.receive_buffer_max_bytes,
        ],
    })
}

/// The first window that an end announced to its peer, in bytes: half of the receive buffer
/// (`tcp_select_initial_window`), less any data received and not yet read.
fn first_window_bytes(cell: &Cell, host: &str, of: &event::Connection) -> Option<u64> {
    let table = cell.tcp.as_ref()?;
    let own = table.names.find(host);
    let mut of_peer = table.rows.iter().filter(|row| {
        let is_of = (row.record.session, row.record.connection) == (of.session, of.connection);
        is_of && Some(row.host) != own
    });
    let first = of_peer.next()?;
    Some(u64::from(first.record.rwnd_bytes)).filter(|bytes| *bytes > 0)
}
