//! The programs of a plan's hosts as simulated ones.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;

use wansan_iscsi::initiator::LoginSettings;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};
use wansan_iscsi::target::{Memory, SessionConfig, UNSOLICITED_BYTES};
use wansan_iscsi::wire::Lun;
use wansan_san::DelayedAck;
use wansan_san::settings::AckSettings;
use wansan_san::store::Backing;
use wansan_sim::storage::{ConnectionConfig, EndConfig, InitiatorConfig, TargetConfig};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::{BufferConfig, SendConfig};
use wansan_trace::Recorder;
use wansan_workload::service::Service;
use wansan_workload::{Limit, LoadConfig};

use super::SimulationError;
use super::network::Directions;
use crate::patience;
use crate::plan::{Cell, Document};

/// Where ports that no plan chose begin.
const FIRST_PORT: u16 = 40_000;
/// Bytes of the headers of IPv4 and TCP with timestamps.
const HEADER_BYTES: u64 = 20 + 20 + 12;
/// Memory for the sessions of a target.
const TARGET_MEMORY_BYTES: usize = 1 << 30;

/// The target of a plan.
pub(super) fn target(
    document: &Document,
    trace: Recorder,
) -> Result<TargetConfig, SimulationError> {
    let table = document
        .target
        .as_ref()
        .expect("a simulated plan has initiators");
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

/// The initiator at a place among the cell's.
pub(super) fn initiator(
    cell: &Cell,
    place: usize,
    directions: &Directions,
    seed: u64,
    trace: Recorder,
) -> InitiatorConfig {
    let (document, scenario) = (&cell.document, &cell.scenario);
    let initiator = &scenario.initiators[place];
    let table = document
        .target
        .as_ref()
        .expect("there is one for initiators");
    let nodes = &scenario.topology.nodes;
    let host = nodes.iter().position(|node| node.name == initiator.host);
    let host = host.expect("the scenario has all its hosts");
    let sending = table.sending.sending();
    let connections = initiator.connections.iter().zip(0..);
    let connections: Vec<ConnectionConfig> = connections
        .map(|(connection, number)| {
            let source = match connection.source.port() {
                0 => SocketAddrV4::new(*connection.source.ip(), FIRST_PORT + number),
                _ => connection.source,
            };
            ConnectionConfig {
                ends: [
                    end(document, true, initiator.acks, seed),
                    end(document, !sending.nagle, table.sending.acks, seed),
                ],
                routes: directions.routes(scenario, host, connection),
                addresses: [
                    SocketAddr::V4(source),
                    SocketAddr::from((connection.target, connection.port)),
                ],
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
        schedule: initiator.schedule.schedule,
        lun: Lun::default(),
        load: LoadConfig {
            operation: load.op,
            pattern: load.pattern,
            block_bytes: u32::try_from(load.block.0).unwrap_or(u32::MAX),
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

/// One end of a connection.
fn end(document: &Document, nodelay: bool, acks: AckSettings, seed: u64) -> EndConfig {
    let tcp = &document.tcp;
    let mss = u32::try_from(document.world.mtu.0.saturating_sub(HEADER_BYTES)).unwrap_or(u32::MAX);
    let bytes = |sizes: [crate::plan::Size; 3]| sizes.map(|size| size.0);
    let name = &tcp.congestion_control;
    EndConfig {
        send: SendConfig {
            mss,
            buffer: BufferConfig {
                wmem_bytes: bytes(tcp.wmem.0),
                ..BufferConfig::default()
            },
            nodelay,
            ecn: tcp.ecn,
            ..SendConfig::default()
        },
        receive: ReceiveConfig {
            rmem_bytes: bytes(tcp.rmem.0),
            mss,
            ecn: tcp.ecn,
            ..ReceiveConfig::default()
        },
        law: Law::named(name, Hz::default(), seed).expect("plans are checked for it"),
        law_name: name.clone(),
        quick_acks: acks.delayed_ack == DelayedAck::Quick,
    }
}
