//! What is done to the connections.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_peers::wansan::Target;
use wansan_san::url::IscsiUrl;

use crate::model::{Model, Random, config};
use crate::proxy::Proxy;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

/// Faults per test.
fn rounds() -> u64 {
    let rounds = std::env::var("WANSAN_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(10)
}

/// A target with a file, behind a proxy.
struct Stage {
    proxy: Proxy,
    target: Option<Target>,
    folder: TempDir,
    url: IscsiUrl,
}

impl Stage {
    fn new() -> Stage {
        let folder = TempDir::with_prefix("wansan-recovery-").unwrap();
        let disk = std::fs::File::create(folder.path().join("disk")).unwrap();
        disk.set_len(16 << 20).unwrap();
        let target = start(folder.path());
        let proxy = Proxy::start(address(&target));
        let url = target
            .url(0)
            .replace(target.address(), &proxy.address().to_string());
        Stage {
            proxy,
            target: Some(target),
            folder,
            url: url.parse().unwrap(),
        }
    }

    /// Ends the target as a crash does, and starts it again.
    fn crash(&mut self) {
        self.target = None;
        let target = start(self.folder.path());
        self.proxy.turn_to(address(&target));
        self.target = Some(target);
    }
}

fn start(folder: &Path) -> Target {
    let unit = format!("file:{}", folder.join("disk").display());
    Target::start(Path::new(WANSAN), &["--lun", &unit]).unwrap()
}

fn address(target: &Target) -> SocketAddr {
    target.address().parse().unwrap()
}

fn level(error_recovery_level: u8) -> Wanted {
    Wanted {
        error_recovery_level,
        ..Wanted::default()
    }
}

fn digests() -> Wanted {
    Wanted {
        header_digest: vec![DigestKind::Crc32c],
        data_digest: vec![DigestKind::Crc32c],
        ..Wanted::default()
    }
}

/// Brings `rounds` faults to a session of `connections`, with some load before each.
fn endure(
    test: &str,
    connections: usize,
    wanted: Wanted,
    rounds: u64,
    mut fault: impl FnMut(&mut Stage, &mut Model),
) {
    let wanted = Wanted {
        data_sequence_in_order: wanted.error_recovery_level == 0,
        ..wanted
    };
    let random = Random::seeded(test);
    let mut stage = Stage::new();
    let config = config(&stage.url, connections, wanted);
    let mut model = Model::new(&stage.url, &config, random);
    for _ in 0..rounds {
        let commands = 64 + model.random().below(512);
        model.complete(commands);
        fault(&mut stage, &mut model);
    }
    model.complete(512);
    let recoveries = model.initiator().recoveries();
    println!("{test}: {} commands, {recoveries:?}", model.completed);
    model.verify();
}

#[test]
fn a_connection_that_is_cut_comes_back() {
    endure("cut", 1, Wanted::default(), rounds(), |stage, _| {
        stage.proxy.cut_all();
    });
}

#[test]
fn each_of_several_connections_that_is_cut_comes_back() {
    endure(
        "cut one of 4",
        4,
        Wanted::default(),
        rounds(),
        |stage, model| {
            stage.proxy.cut_one(model.random().next());
        },
    );
}

#[test]
fn bytes_that_are_changed_on_the_way_are_found_and_sent_again() {
    endure("corrupt", 1, digests(), rounds(), |stage, _| {
        stage.proxy.corrupt();
    });
    endure("corrupt 3", 3, digests(), rounds(), |stage, _| {
        stage.proxy.corrupt();
    });
}

#[test]
fn a_target_that_crashes_is_found_again() {
    endure(
        "crash",
        2,
        Wanted::default(),
        rounds().div_ceil(3),
        |stage, _| stage.crash(),
    );
}

#[test]
fn a_short_black_hole_is_waited_out() {
    endure(
        "hold 1 s",
        1,
        Wanted::default(),
        rounds().div_ceil(5),
        |stage, model| {
            stage.proxy.hold(true);
            model.run(Duration::from_secs(1));
            stage.proxy.hold(false);
        },
    );
}

/// Error recovery level 2: the tasks of the lost connection move, and no session is lost.
#[test]
fn a_connection_of_level_2_is_recovered_alone() {
    for connections in [1, 3] {
        endure(
            "level 2",
            connections,
            level(2),
            rounds(),
            |stage, model| {
                stage.proxy.cut_one(model.random().next());
            },
        );
    }
}

/// Error recovery level 1: what data digests find broken is sent again, and no connection is lost;
/// at level 2 header digests cost a connection at most.
#[test]
fn what_is_broken_is_sent_again_at_levels_1_and_2() {
    for level in [1, 2] {
        let wanted = Wanted {
            error_recovery_level: level,
            ..digests()
        };
        endure("broken", 2, wanted, rounds(), |stage, _| {
            stage.proxy.corrupt();
        });
    }
}

/// Longer than silence is taken for life: the session comes back soon after the path does.
#[test]
fn a_long_black_hole_ends_with_another_session() {
    endure(
        "hold 10 s",
        2,
        Wanted::default(),
        rounds().div_ceil(10),
        |stage, model| {
            stage.proxy.hold(true);
            model.run(Duration::from_secs(10));
            stage.proxy.hold(false);
            let since = Instant::now();
            model.complete(1);
            println!("back after {:?}", since.elapsed());
            assert!(model.initiator().recoveries().sessions > 0);
        },
    );
}

/// When the path does not come back in time, the caller is told so.
#[test]
fn an_outage_that_lasts_too_long_is_told() {
    let stage = Stage::new();
    let mut config = config(&stage.url, 1, Wanted::default());
    config.replacement_timeout = Duration::from_secs(1);
    let connected =
        wansan_san::Initiator::connect(&stage.url, &config, wansan_trace::Recorder::off());
    let mut initiator = connected.unwrap();
    drop(stage);
    let since = Instant::now();
    let error = loop {
        let until = wansan_trace::clock::now() + Duration::from_millis(100);
        if let Err(error) = initiator.turn(until) {
            break error;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "nobody is told");
    };
    assert!(error.to_string().contains("closed"), "{error}");
}
