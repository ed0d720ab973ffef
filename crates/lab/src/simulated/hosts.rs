//! A plan's target and initiators in the simulator.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;

use wansan_iscsi::initiator::LoginSettings;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};
use wansan_iscsi::target::{Memory, SessionConfig, UNSOLICITED_BYTES};
use wansan_iscsi::text::send_targets::ISCSI_PORT;
use wansan_iscsi::wire::Lun;
use wansan_san::settings::InitiatorSettings;
use wansan_san::store::Backing;
use wansan_san::url::IscsiUrl;
use wansan_sim::storage::{ConnectionConfig, InitiatorConfig, Patience, TargetConfig};
use wansan_trace::Recorder;
use wansan_workload::sequence::Operation;
use wansan_workload::service::Service;
use wansan_workload::{Limit, LoadConfig};

use super::SimulationError;
use super::ends::Socket;
use super::network::Directions;
use super::ports::Ports;
use crate::patience;
use crate::plan::{Cell, Connection, Document, Scenario, TargetTable};

/// Memory for a target's sessions.
const TARGET_MEMORY_BYTES: usize = 1 << 30;

/// The target of a plan.
pub(super) fn target(
    document: &Document,
    table: &TargetTable,
    trace: Recorder,
) -> Result<TargetConfig, SimulationError> {
    let session = &document.session;
    let wanted = Wanted {
        max_connections: u16::MAX,
        ..session.negotiation.wanted(session.recovery)
    };
    let units = table.luns.iter().zip(0..).map(|(lun, number)| {
        let Backing::Memory { size_bytes, .. } = lun.backing else {
            return Err(SimulationError::Unit("it is a file".to_owned()));
        };
        let geometry = Geometry::new(size_bytes, lun.block_bytes, wanted.max_burst_bytes);
        Ok(LogicalUnit {
            identity: Identity {
                target_name: table.name.clone(),
                portal_group_tag: 1,
                number,
            },
            geometry: geometry.map_err(|error| SimulationError::Unit(error.to_string()))?,
            write_cache: lun.service.is_some(),
            read_only: lun.read_only,
            thin: lun.thin,
            keeps_reservations: false,
        })
    });
    let device = TargetDevice::new(units.collect::<Result<_, _>>()?)
        .map_err(|error| SimulationError::Unit(error.to_string()))?;
    let sending = table.sending.sending();
    let luns = table.luns.iter();
    Ok(TargetConfig {
        session: SessionConfig {
            device: Arc::new(device),
            command_window: table.window.command_window,
            unsolicited_bytes: UNSOLICITED_BYTES,
            memory: Memory::new(TARGET_MEMORY_BYTES),
            separate_status: sending.separate_status,
            join_sends: sending.join_sends,
        },
        services: luns.map(|lun| lun.service.map(Service::from)).collect(),
        wanted,
        trace,
    })
}

/// The timeouts of `wansan bench`, at their defaults in plans.
fn patience(table: &TargetTable) -> Patience {
    let usual = InitiatorSettings::new(IscsiUrl {
        host: table.host.clone(),
        port: ISCSI_PORT,
        target: table.name.clone(),
        lun: 0,
    });
    Patience {
        login: usual.patience.0,
        replacement: usual.connections.replacement_timeout.0,
    }
}

/// Initial contents of each unit of a target: the seed of its content, or zeros. Reads are compared with the content of
/// `seed`, the loads' own.
pub(super) fn contents(
    document: &Document,
    table: &TargetTable,
    seed: u64,
) -> Vec<(usize, Option<u64>)> {
    let is_compared = document.workload.load.op == Operation::Read;
    let units = table.luns.iter().enumerate();
    let contents = units.map(|(unit, lun)| {
        let own = match lun.backing {
            Backing::Memory { content_seed, .. } => content_seed,
            _ => None,
        };
        // The loads use the first unit.
        let loaded = (unit == 0 && is_compared).then_some(seed);
        (unit, own.or(loaded))
    });
    contents.collect()
}

/// MTU of a connection's path: hosts know a tunnel's MTU.
fn mtu_bytes(scenario: &Scenario, connection: &Connection) -> u32 {
    let route = connection.route_place.map(|place| &scenario.routes[place]);
    let tunnel = route.and_then(|route| route.tunnel.as_ref());
    tunnel.map_or(scenario.topology.mtu_bytes, |tunnel| tunnel.mtu_bytes)
}

/// The initiator with index `place` among the cell's.
pub(super) fn initiator(
    cell: &Cell,
    place: usize,
    directions: &Directions,
    ports: &mut Ports,
    seed: u64,
    trace: Recorder,
) -> InitiatorConfig {
    let (document, scenario) = (&cell.document, &cell.scenario);
    let initiator = &scenario.initiators[place];
    let table = document
        .target
        .as_ref()
        .expect("there is one for initiators");
    let host = scenario.node(&initiator.host);
    let connections = initiator.connections.iter();
    let connections: Vec<ConnectionConfig> = connections
        .map(|connection| {
            let source = match connection.source.port() {
                0 => SocketAddrV4::new(*connection.source.ip(), ports.next(host)),
                _ => connection.source,
            };
            let to = SocketAddr::from((connection.target, connection.port));
            let mtu_bytes = mtu_bytes(scenario, connection);
            let sockets = [
                Socket::iscsi(true, initiator.acks),
                Socket::accepted(cell, to),
            ];
            ConnectionConfig {
                ends: sockets.map(|socket| socket.end_over(mtu_bytes, document, seed)),
                routes: directions.routes(scenario, host, connection),
                addresses: [SocketAddr::V4(source), to],
            }
        })
        .collect();
    let load = &document.workload.load;
    let asked = u16::try_from(connections.len()).unwrap_or(u16::MAX);
    let negotiated = &document.session.negotiation;
    let wanted = negotiated.wanted(document.session.recovery);
    InitiatorConfig {
        login: LoginSettings {
            initiator: format!("iqn.2026-01.net.wansan:{}", initiator.host),
            isid: [0x80, 0, 0, 0, (place >> 8) as u8, place as u8],
            target: Some(table.name.clone()),
            chap: None,
            wanted: Wanted {
                data_sequence_in_order: document.session.recovery.error_recovery_level == 0,
                max_connections: wanted.max_connections.max(asked),
                ..wanted
            },
        },
        connections,
        multipath: initiator.schedule.multipath,
        schedule: initiator.schedule.schedule,
        lun: Lun::default(),
        patience: patience(table),
        load: LoadConfig {
            operation: load.op,
            pattern: load.pattern,
            block_bytes: u32::try_from(load.block.0).unwrap_or(u32::MAX),
            listed: Default::default(),
            parallel: load.parallel as usize,
            batch: load.batch,
            limit: Limit::Time(document.workload.time.0),
            warmup: document.workload.warmup.0,
            drain: Some(patience::DRAIN),
            rate_per_s: load.rate.map(|rate| rate.0),
            seed: seed + place as u64,
            verify: load.verify,
        },
        trace,
    }
}
