//! iSCSI over simulated TCP, compared with what round trip, rate and windows allow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wansan_iscsi::initiator::{LoginSettings, Schedule};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};
use wansan_iscsi::target::{Memory, SessionConfig, UNSOLICITED_BYTES};
use wansan_iscsi::wire::Lun;
use wansan_path::{Change, Effects, Limit, Rate};
use wansan_schema::BenchReport;
use wansan_sim::network::{Network, Pauses};
use wansan_sim::storage::{
    ConnectionConfig, EndConfig, Ended, InitiatorConfig, Patience, ProcessorsConfig, Storage,
    StorageError, TargetConfig,
};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::{BufferConfig, SendConfig};
use wansan_trace::{Kinds, Recorder};
use wansan_workload::sequence::{Operation, Pattern};
use wansan_workload::service::{Service, ServiceTime};
use wansan_workload::{Limit as LoadLimit, LoadConfig};

pub(super) const TARGET: &str = "iqn.2026-01.net.example:target";

/// A target device with one unit of 64 MiB.
pub(super) fn device() -> Arc<TargetDevice> {
    let unit = LogicalUnit {
        identity: Identity {
            target_name: TARGET.to_owned(),
            portal_group_tag: 1,
            number: 0,
        },
        geometry: Geometry::new(64 << 20, 512, 0).expect("whole blocks"),
        write_cache: false,
        read_only: false,
        thin: false,
        keeps_reservations: false,
    };
    Arc::new(TargetDevice::new(vec![unit]).expect("one unit"))
}

/// One initiator and a target over a path.
pub(crate) struct Case {
    pub(crate) one_way: Duration,
    pub(crate) mbit_per_s: u64,
    pub(crate) operation: Operation,
    pub(crate) block_bytes: u32,
    pub(crate) parallel: usize,
    pub(crate) connections: usize,
    pub(crate) command_window: u32,
    pub(crate) service: Option<ServiceTime>,
    pub(crate) wanted: Wanted,
    /// The one-way delay from the middle of the measurement on.
    pub(crate) later: Option<Duration>,
    /// When the first connection's path goes down and up again, relative to the beginning of the loads.
    pub(crate) outage: Option<[Duration; 2]>,
    /// CPU cost of programs, if any.
    pub(crate) processors: Option<ProcessorsConfig>,
    /// Pauses of the initiator and of the target.
    pub(crate) pauses: Option<[Pauses; 2]>,
    /// Duration of the measurement.
    pub(crate) time: Duration,
    /// Whether data read is verified.
    pub(crate) verify: bool,
    /// How long the last I/Os may take without a connection.
    pub(crate) drain: Option<Duration>,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            one_way: Duration::from_millis(8),
            mbit_per_s: 1_000,
            operation: Operation::Read,
            block_bytes: 4096,
            parallel: 32,
            connections: 1,
            command_window: 1024,
            service: None,
            wanted: Wanted::default(),
            later: None,
            outage: None,
            processors: None,
            pauses: None,
            time: Duration::from_secs(4),
            verify: false,
            drain: None,
        }
    }
}

impl Case {
    fn end(&self) -> EndConfig {
        EndConfig {
            send: SendConfig {
                buffer: BufferConfig {
                    wmem_bytes: [4096, 16_384, 64 << 20],
                    ..BufferConfig::default()
                },
                nodelay: true,
                ..SendConfig::default()
            },
            receive: ReceiveConfig {
                rmem_bytes: [4096, 131_072, 64 << 20],
                ..ReceiveConfig::default()
            },
            law: Law::named("cubic", wansan_sim::tcp::jiffies::Hz::default(), 1)
                .expect("it is known"),
            law_name: "cubic".to_owned(),
            quick_acks: false,
        }
    }

    pub(crate) fn run(&self, trace: impl Fn() -> Recorder) -> Result<Ended, StorageError> {
        let mut network = Network::recording(trace());
        let effects = Effects {
            delay: self.one_way,
            capacity: Rate::from_bits_per_s(self.mbit_per_s * 1_000_000)
                .expect("a rate")
                .into(),
            queue_limit: Limit::bytes(16 << 20),
            ..Effects::default()
        };
        let mut path = |names: [&str; 2]| {
            names.map(|name| {
                let link = network.link(&effects, 1).expect("plain effects");
                network.name_link(link, name);
                link
            })
        };
        let links = path(["wan:forward", "wan:back"]);
        // The first connection has its own path, if only that one goes down.
        let own = match self.outage.is_some() && self.connections > 1 {
            true => path(["own:forward", "own:back"]),
            false => links,
        };
        let target = TargetConfig {
            wanted: Wanted {
                max_connections: 8,
                ..self.wanted.clone()
            },
            session: SessionConfig {
                device: device(),
                command_window: self.command_window,
                unsolicited_bytes: UNSOLICITED_BYTES,
                memory: Memory::new(1 << 30),
                separate_status: false,
                join_sends: true,
            },
            services: vec![self.service.map(Service::from)],
            trace: trace(),
        };
        let mut storage = Storage::new(network, Duration::from_millis(100));
        storage.serve(target);
        if let Some(processors) = &self.processors {
            storage.set_processors(processors.clone());
        }
        if let Some(pauses) = &self.pauses {
            storage.pause(0, pauses.clone());
        }
        if self.verify {
            storage.keep(0, None);
        }
        let address = |last: u8, port: u16| SocketAddr::from(([10, 0, 0, last], port));
        let connections = (0..self.connections as u16).map(|number| ConnectionConfig {
            ends: [self.end(), self.end()],
            routes: match number {
                0 => own.map(|link| vec![link.into()]),
                _ => links.map(|link| vec![link.into()]),
            },
            addresses: [address(1, 40_000 + number), address(2, 3260)],
        });
        storage.add(InitiatorConfig {
            login: LoginSettings {
                initiator: "iqn.2026-01.net.example:initiator".to_owned(),
                isid: [0x80, 0, 0, 0, 0, 1],
                target: Some(TARGET.to_owned()),
                chap: None,
                wanted: Wanted {
                    max_connections: self.connections as u16,
                    ..self.wanted.clone()
                },
            },
            connections: connections.collect(),
            multipath: false,
            schedule: Schedule::default(),
            lun: Lun::default(),
            patience: Patience {
                login: Duration::from_secs(30),
                replacement: Duration::from_secs(120),
            },
            load: LoadConfig {
                operation: self.operation,
                pattern: Pattern::Random,
                block_bytes: self.block_bytes,
                listed: Default::default(),
                parallel: self.parallel,
                batch: false,
                limit: LoadLimit::Time(self.time),
                warmup: Duration::from_secs(2),
                drain: self.drain,
                rate_per_s: None,
                seed: 1,
                verify: self.verify,
            },
            trace: trace(),
        })?;
        for link in self.later.iter().flat_map(|_| links) {
            let later = self.later.unwrap_or_default();
            storage.schedule(Duration::from_secs(4), link, Change::Delay(later));
        }
        if let Some([down, up]) = self.outage {
            for (at, change) in [(down, Change::Down), (up, Change::Up)] {
                for link in own {
                    storage.schedule(at, link, change.clone());
                }
            }
        }
        let ended = storage.run(Duration::from_secs(300), &mut |_| true)?;
        Ok(ended.expect("nobody ends it"))
    }

    pub(crate) fn report(&self) -> BenchReport {
        let mut ended = self.run(Recorder::off).expect("it runs");
        let (report, _) = ended.initiators.pop().expect("there is one");
        assert_eq!(report.errors, 0, "{:?}", report.first_error);
        report
    }
}

/// Asserts that `found` is within a relative `share` of `expected`.
pub(crate) fn is_about(found: f64, expected: f64, share: f64) {
    assert!(
        (found / expected - 1.0).abs() <= share,
        "{found} of {expected}"
    );
}

#[test]
fn short_reads_take_a_round_trip_each() {
    let report = Case::default().report();
    is_about(report.iops, 32.0 / 0.016, 0.02);
}

#[test]
fn the_command_window_bounds_what_is_in_flight() {
    let report = Case {
        parallel: 64,
        command_window: 16,
        ..Case::default()
    }
    .report();
    is_about(report.iops, 16.0 / 0.016, 0.02);
    let latency = report.latency_ns.expect("some were measured");
    is_about(latency.mean, 64e6, 0.02);
}

#[test]
fn a_store_serves_as_many_as_it_has_servers() {
    let report = Case {
        parallel: 128,
        service: Some(ServiceTime {
            time: Duration::from_millis(4),
            servers: 4,
        }),
        ..Case::default()
    }
    .report();
    is_about(report.iops, 1_000.0, 0.01);
}

#[test]
fn large_reads_fill_the_link() {
    let report = Case {
        mbit_per_s: 100,
        block_bytes: 1 << 20,
        parallel: 8,
        ..Case::default()
    }
    .report();
    // A packet of 1514 bytes carries 1448 bytes of data, of which PDU headers take little. The I/Os complete one by
    // one: 45 of them in that time.
    is_about(report.bytes_per_s, 12.5e6 * 1448.0 / 1514.0, 1.0 / 45.0);
}

#[test]
fn writes_within_the_first_burst_take_one_round_trip_and_others_two() {
    let mut case = Case {
        operation: Operation::Write,
        block_bytes: 64 << 10,
        parallel: 4,
        ..Case::default()
    };
    case.wanted.initial_r2t = false;
    // Each also takes its serialization time.
    let transmission_s = f64::from(64 << 10) * 8.0 / 1e9 * 1514.0 / 1448.0;
    is_about(case.report().iops, 4.0 / (0.016 + transmission_s), 0.02);
    case.wanted.initial_r2t = true;
    case.wanted.immediate_data = false;
    is_about(case.report().iops, 4.0 / (0.032 + transmission_s), 0.02);
}

#[test]
fn a_path_that_changes_halfway_shows_in_half_of_the_time() {
    let report = Case {
        later: Some(Duration::from_millis(24)),
        ..Case::default()
    }
    .report();
    is_about(report.iops, (32.0 / 0.016 + 32.0 / 0.048) / 2.0, 0.02);
}

#[test]
fn two_connections_share_the_commands() {
    let report = Case {
        connections: 2,
        ..Case::default()
    }
    .report();
    is_about(report.iops, 32.0 / 0.016, 0.02);
    let shares: Vec<u64> = report.connections.iter().map(|it| it.commands).collect();
    assert_eq!(shares.len(), 2);
    is_about(shares[0] as f64, shares[1] as f64, 0.01);
}

#[test]
fn the_same_world_gives_the_same_records() {
    let every = || {
        Recorder::new(
            Kinds {
                io: true,
                pdu: true,
                tcp: true,
                packet: true,
                path: true,
                connection: true,
                ..Kinds::NONE
            },
            64 << 20,
        )
    };
    let runs = [0, 1].map(|_| Case::default().run(every).expect("it runs"));
    let [one, other] = runs.map(|ended| {
        let (report, trace) = &ended.initiators[0];
        assert!(trace.iter().all(|trace| trace.dropped() == 0));
        format!(
            "{report:?} {trace:?} {:?} {:?}",
            ended.target, ended.network
        )
    });
    assert!(one == other, "two runs differ");
    assert!(one.len() > 1_000_000, "little was recorded");
}
