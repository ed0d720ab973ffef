//! Simulation of a twin in virtual time.

mod relay;
mod rival;
mod tunnel;

use std::sync::Arc;
use std::time::Duration;

use wansan_insight::{Cell, CellSummary, Window, summarise};
use wansan_iscsi::initiator::LoginSettings;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};
use wansan_iscsi::target::{Memory, SessionConfig, UNSOLICITED_BYTES};
use wansan_iscsi::wire::Lun;
use wansan_path::{Effects, EffectsError};
use wansan_sim::caught;
use wansan_sim::network::{Hop, Latency, Network};
use wansan_sim::storage::{
    ConnectionConfig, EndConfig, Ended, InitiatorConfig, Owner, Patience, ProcessorsConfig,
    Program, Storage, StorageError, TargetConfig,
};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::{BufferConfig, SendConfig};
use wansan_trace::{Budget, Kinds, Recorder};
use wansan_workload::{Limit, LoadConfig};

use self::tunnel::Tunnels;
use crate::setup::{End, Initiator, Setup, capacity};

/// The target's iSCSI name; the initiators' names derive from it.
const TARGET_NAME: &str = "iqn.2026-01.net.wansan:twin";
/// Memory for the sessions of the target.
const TARGET_MEMORY_BYTES: usize = 1 << 30;
/// Memory for the records of all hosts together.
const RECORDS_BYTES: usize = 512 << 20;
/// Block size of the unit. Its capacity has no effect, since it keeps no data.
const UNIT_BLOCK_BYTES: u32 = 512;
/// Number of the largest I/Os that fit on the unit.
const UNIT_PIECES: u64 = 65_536;
/// Sampling interval of TCP and of paths.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Time limit for logins and for the last I/Os.
const END_LIMIT: Duration = Duration::from_secs(120);

/// Why a twin did not run to its end, as one line of text.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The simulation ended before its loads did.
    #[error("the simulation failed: {0}")]
    Storage(#[from] StorageError),
    /// The effects of a path contradict each other.
    #[error("path `{path}`: {source}")]
    Effects {
        /// Name of the path.
        path: String,
        /// The contradiction.
        source: EffectsError,
    },
    /// The logical unit cannot be created.
    #[error("a unit for I/Os of {block_bytes} bytes cannot be made: {reason}")]
    Unit {
        /// Length of its I/Os.
        block_bytes: u32,
        /// The reason.
        reason: String,
    },
    /// No I/O completed within the measurement.
    #[error(
        "no simulated I/O ended within the {:.3} s that are measured, as an I/O takes longer: record, or capture, for several \
         times as long as an I/O takes",
        .0.as_secs_f64()
    )]
    NoIos(Duration),
    /// I/Os failed.
    #[error("the simulated I/Os failed: {0}")]
    Load(String),
    /// The simulator lacks this congestion control.
    #[error("the simulator has no congestion control `{0}`")]
    Law(String),
    /// The records exceed their memory.
    #[error("the records of the simulation take more than {} MiB", RECORDS_BYTES >> 20)]
    Memory,
    /// The simulator panicked.
    #[error("the simulator failed, which is a defect: {0}; please report it with the recording")]
    Panicked(String),
    /// The run was stopped on request.
    #[error("the simulation was interrupted")]
    Interrupted,
}

/// Result of a twin's run.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Summary of its records, in which the parts of a split write count as I/Os.
    pub summary: CellSummary,
    /// Measurements of its loads.
    pub measured: Measured,
}

/// Measurements of a twin's loads.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Bytes of data per second, over all loads.
    pub bytes_per_s: f64,
    /// Median latency, of the load with the largest one.
    pub latency_p50_ns: u64,
    /// 99th percentile of latency, of the load with the largest one.
    pub latency_p99_ns: u64,
    /// Bytes per second of the competing flow, if there was one and it got through.
    pub rival_bytes_per_s: Option<f64>,
}

/// Runs a twin and summarises it. The result depends on nothing but setup and seed. `goes_on` is polled for whether to
/// continue.
///
/// # Errors
/// [`ReplayError`].
pub fn replay(setup: &Setup, seed: u64, goes_on: &dyn Fn() -> bool) -> Result<Replay, ReplayError> {
    let replay = || {
        let ended = simulate(setup, setup.kinds, seed, goes_on)?;
        Ok(Replay {
            measured: measured(&ended),
            summary: summary(setup, ended)?,
        })
    };
    caught(replay).unwrap_or_else(|panic| Err(ReplayError::Panicked(panic)))
}

/// As [`replay`], without recording.
///
/// # Errors
/// [`ReplayError`].
pub fn measure(
    setup: &Setup,
    seed: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Measured, ReplayError> {
    caught(|| simulate(setup, Kinds::NONE, seed, goes_on).map(|ended| measured(&ended)))
        .unwrap_or_else(|panic| Err(ReplayError::Panicked(panic)))
}

fn simulate(
    setup: &Setup,
    kinds: Kinds,
    seed: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Ended, ReplayError> {
    let memory = Budget::of(RECORDS_BYTES);
    let recorder = || Recorder::within(kinds, &memory);
    let mut network = Network::recording(recorder());
    network.set_latency(Latency::default(), seed);
    let links = links(&mut network, setup, seed)?;
    let near_link = relay::near_link(&mut network, seed)?;
    let tunnels = tunnel::build(&mut network, setup, seed)?;
    let mut storage = Storage::new(network, SAMPLE_INTERVAL);
    storage.serve(target(setup, recorder())?);
    if let Some(processors) = processors(setup) {
        storage.set_processors(processors);
    }
    if setup.has_rival {
        let config = rival::sender(setup, &links, seed)?;
        storage.receive(&rival::receiver(&config));
        storage.send(config)?;
    }
    let mut connections = 0..;
    for place in 0..setup.initiators.len() {
        let mut config = initiator(setup, place, (&links, &tunnels), seed, recorder())?;
        let own = setup.initiators[place].connections.iter();
        let each = config.connections.iter_mut().zip(own);
        for ((connection, recorded), number) in each.zip(&mut connections) {
            let mut client = connection.clone();
            if let Some(relay) = &recorded.relay {
                let (near, relay) = relay::recorded(client, relay, &tunnels, seed, recorder())?;
                storage.relay(relay);
                client = near;
            }
            let (client, relays) = relay::split(client, setup, number, near_link, seed)?;
            relays.into_iter().for_each(|relay| storage.relay(relay));
            *connection = client;
        }
        storage.add(config)?;
        storage.pause(place, setup.initiators[place].pauses.clone());
    }
    for (direction, &link) in setup.directions.iter().zip(&links) {
        for (flow, lost) in direction.lost() {
            storage.lose(flow, link, lost);
        }
    }
    let directions = setup.directions.iter().zip(&links);
    let changes = directions.flat_map(|(it, &link)| it.changes.iter().map(move |it| (link, it)));
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|(_, (after, _))| *after);
    for (link, (after, change)) in changes {
        storage.schedule(*after, link, change.clone());
    }
    let limit = setup.warmup + setup.time + END_LIMIT;
    let ended = storage.run(limit, &mut |_| goes_on())?;
    let ended = ended.ok_or(ReplayError::Interrupted)?;
    for (report, _) in &ended.initiators {
        if let Some(problem) = report.problem() {
            return Err(match report.errors + report.corrupt {
                0 => ReplayError::NoIos(setup.time),
                _ => ReplayError::Load(problem),
            });
        }
    }
    Ok(ended)
}

fn measured(ended: &Ended) -> Measured {
    let reports = || ended.initiators.iter().map(|(report, _)| report);
    let latencies = || reports().filter_map(|report| report.latency_ns.as_ref());
    Measured {
        bytes_per_s: reports().map(|report| report.bytes_per_s).sum(),
        latency_p50_ns: latencies().map(|it| it.p50).max().unwrap_or(0),
        latency_p99_ns: latencies().map(|it| it.p99).max().unwrap_or(0),
        rival_bytes_per_s: ended.streams.first().and_then(|(it, _)| it.bytes_per_s),
    }
}

fn summary(setup: &Setup, ended: Ended) -> Result<CellSummary, ReplayError> {
    let began = ended.began + setup.warmup;
    let window = Window {
        from_ns: began.ns(),
        to_ns: (began + setup.time).ns(),
    };
    let network = ended.network.into_records();
    let initiators = ended.initiators.iter().zip(0..);
    let hosts: Vec<String> = initiators
        .map(|(_, place)| format!("initiator-{place}"))
        .collect();
    let mut recorders = vec![("wan", &network)];
    recorders.extend(ended.target.iter().map(|records| ("target", records)));
    recorders.extend(
        ended
            .relays
            .iter()
            .map(|(_, _, records)| ("relay", records)),
    );
    for (host, (_, records)) in hosts.iter().zip(&ended.initiators) {
        recorders.extend(records.iter().map(|records| (host.as_str(), records)));
    }
    if recorders.iter().any(|(_, records)| records.dropped() > 0) {
        return Err(ReplayError::Memory);
    }
    let cell = Cell::gather(&recorders).expect("a twin's I/Os are recorded");
    Ok(summarise(&cell, Some(window)))
}

/// Processors of the hosts, with enough cores for each program: contention with other programs is in the recorded
/// pauses.
fn processors(setup: &Setup) -> Option<ProcessorsConfig> {
    let [initiator, target] = setup.costs;
    let program = |owner, host, what: &str, cost| Program {
        owner,
        name: format!("{host} {what}"),
        host,
        cost,
    };
    let mut programs = Vec::new();
    programs.extend(target.map(|cost| program(Owner::Target, 0, "target", cost)));
    for place in 0..setup.initiators.len() {
        let owner = Owner::Initiator(place);
        programs.extend(initiator.map(|cost| program(owner, place + 1, "initiator", cost)));
    }
    (!programs.is_empty()).then_some(ProcessorsConfig {
        cores: setup.initiators.len(),
        programs,
    })
}

/// Adds the links of all directions, in order.
fn links(network: &mut Network, setup: &Setup, seed: u64) -> Result<Vec<u32>, ReplayError> {
    let directions = setup.directions.iter().zip(seed..);
    let links = directions.map(|(direction, seed)| {
        let (loss, queue_limit) = direction.losses();
        let effects = Effects {
            delay: direction.delay,
            capacity: capacity(direction.rate_bits_per_s),
            queue_limit,
            loss,
            ..Effects::default()
        };
        let link = network.link(&effects, seed);
        let link = link.map_err(|source| ReplayError::Effects {
            path: direction.name.clone(),
            source,
        })?;
        network.name_link(link, &direction.name);
        network.set_overhead(link, direction.overhead_bytes);
        Ok(link)
    });
    links.collect()
}

fn target(setup: &Setup, trace: Recorder) -> Result<TargetConfig, ReplayError> {
    let first = &setup.initiators[0];
    let blocks = setup.initiators.iter().map(|it| it.load.block_bytes);
    let block_bytes = blocks.max().unwrap_or(UNIT_BLOCK_BYTES);
    let unit = |reason: &dyn std::fmt::Display| ReplayError::Unit {
        block_bytes,
        reason: reason.to_string(),
    };
    let geometry = Geometry::new(
        u64::from(block_bytes) * UNIT_PIECES,
        UNIT_BLOCK_BYTES,
        first.keys.max_burst_bytes,
    );
    let geometry = geometry.map_err(|error| unit(&error))?;
    let device = TargetDevice::new(vec![LogicalUnit {
        identity: Identity {
            target_name: TARGET_NAME.to_owned(),
            portal_group_tag: 1,
            number: 0,
        },
        geometry,
        write_cache: setup.store.is_some(),
        read_only: false,
        thin: false,
        keeps_reservations: false,
    }]);
    let device = device.map_err(|error| unit(&error))?;
    Ok(TargetConfig {
        wanted: Wanted {
            max_connections: u16::MAX,
            max_recv_data_bytes: first.target_max_recv_data_bytes,
            ..first.keys.clone()
        },
        session: SessionConfig {
            device: Arc::new(device),
            command_window: setup.command_window,
            unsolicited_bytes: UNSOLICITED_BYTES,
            memory: Memory::new(TARGET_MEMORY_BYTES),
            separate_status: setup.separate_status,
            join_sends: setup.join_sends,
        },
        services: vec![setup.store.clone()],
        trace,
    })
}

fn initiator(
    setup: &Setup,
    place: usize,
    (links, tunnels): (&[u32], &Tunnels),
    seed: u64,
    trace: Recorder,
) -> Result<InitiatorConfig, ReplayError> {
    let initiator: &Initiator = &setup.initiators[place];
    let connections = initiator.connections.iter().map(|connection| {
        let [near, far] = &connection.ends;
        Ok(ConnectionConfig {
            ends: [end(near, seed)?, end(far, seed)?],
            routes: [0, 1].map(|way| tunnels.hops(connection, way, links)),
            addresses: connection.addresses,
        })
    });
    let connections: Vec<_> = connections.collect::<Result<_, ReplayError>>()?;
    Ok(InitiatorConfig {
        login: LoginSettings {
            initiator: format!("{TARGET_NAME}:{place}"),
            isid: initiator.isid,
            target: Some(TARGET_NAME.to_owned()),
            chap: None,
            wanted: Wanted {
                max_connections: u16::try_from(connections.len()).unwrap_or(u16::MAX),
                ..initiator.keys.clone()
            },
        },
        connections,
        multipath: false,
        schedule: initiator.schedule,
        lun: Lun::default(),
        // No recorded connection was lost.
        patience: Patience {
            login: END_LIMIT,
            replacement: END_LIMIT,
        },
        load: LoadConfig {
            limit: Limit::Time(setup.time),
            warmup: setup.warmup,
            seed: seed + place as u64,
            ..initiator.load.clone()
        },
        trace,
    })
}

/// The hops over the directions with these indices; `links` has the link of each direction.
fn hops(places: &[usize], links: &[u32]) -> Vec<Hop> {
    let links = places.iter().map(|&place| links[place]);
    links.map(Hop::from).collect()
}

fn end(end: &End, seed: u64) -> Result<EndConfig, ReplayError> {
    let name = &end.congestion_control;
    let law = Law::named(name, Hz::default(), seed);
    let sized = |[first, most]: [u64; 2], least: u64| [least.min(most), first.min(most), most];
    let send = BufferConfig::default();
    let receive = ReceiveConfig::default();
    Ok(EndConfig {
        send: SendConfig {
            mss: end.mss_bytes,
            buffer: BufferConfig {
                wmem_bytes: sized(end.send_buffer_bytes, send.wmem_bytes[0]),
                header_bytes: end.header_bytes,
                gso_max_bytes: end.gso_max_bytes,
                ..send
            },
            nodelay: !end.nagle,
            ecn: end.ecn,
            ..SendConfig::default()
        },
        receive: ReceiveConfig {
            rmem_bytes: sized(end.receive_buffer_bytes, receive.rmem_bytes[0]),
            mss: end.mss_bytes,
            ecn: end.ecn,
            ..receive
        },
        law: law.ok_or_else(|| ReplayError::Law(name.clone()))?,
        law_name: name.clone(),
        quick_acks: end.quick_ack,
    })
}
