//! Recording and explaining by hand, without a lab: a target and a load that are told to record
//! into one folder, and the finding from what they leave.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::process::{Finished, Running, run};
use wansan_peers::wansan::Target;
use wansan_trace::event::{Crossing, Pdu};
use wansan_trace::file::Row;
use wansan_trace::{Direction, Layer, Sample, TaskTag, file};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);

fn wansan(arguments: &[&str]) -> Finished {
    run(Command::new(WANSAN).args(arguments), LIMIT).unwrap()
}

/// A target of one unit with a slow store, recording into `folder`.
fn slow_target(folder: &str) -> Target {
    let unit = "memory:16MiB,service-time=5ms,servers=1";
    let arguments = ["--lun", unit, "--record", folder];
    Target::start(Path::new(WANSAN), &arguments).unwrap()
}

fn load(target: &Target, folder: &str) -> Finished {
    let url = target.url(0);
    let load = ["bench", &url, "--parallel", "8", "--count", "100"];
    wansan(&[&load[..], &["--record", folder]].concat())
}

/// The files of a folder and when each was last written.
fn files(folder: &Path) -> BTreeMap<String, SystemTime> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let written = entry.metadata().unwrap().modified().unwrap();
            (entry.file_name().into_string().unwrap(), written)
        })
        .collect()
}

#[track_caller]
fn refused(finished: &Finished, words: &[&str]) {
    let said = finished.stderr.trim_end();
    assert_eq!(finished.status.code(), Some(2), "{}", finished.output());
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "no '{word}' in: {said}");
    }
}

#[test]
fn what_target_and_bench_have_recorded_is_explained_as_it_stands() {
    let scratch = TempDir::with_prefix("wansan-recording-").unwrap();
    let place = scratch.path().join("x");
    let folder = place.to_str().unwrap();
    let target = slow_target(folder);
    let loaded = load(&target, folder);
    assert!(loaded.status.success(), "{}", loaded.output());

    // The target has not written yet: that is said, and harms nothing.
    let early = wansan(&["explain", folder]);
    assert!(early.status.success(), "{}", early.output());
    assert!(early.stdout.contains("there are no records of the target"));

    assert!(target.stop().unwrap().success());
    let before = files(&place);
    assert!(before.contains_key("io.target.part.parquet"), "{before:?}");
    assert!(before.contains_key("io.initiator.part.parquet"));
    let explained = wansan(&["explain", folder, "--json"]);
    assert!(explained.status.success(), "{}", explained.output());
    let explanation: Value = serde_json::from_str(&explained.stdout).unwrap();
    assert_eq!(explanation["finding"]["limit"], "store", "{explanation:#}");
    assert_eq!(files(&place), before, "explaining has changed the records");
}

#[test]
fn a_batch_is_asked_for_when_all_of_the_last_is_done() {
    let scratch = TempDir::with_prefix("wansan-recording-").unwrap();
    let folder = scratch.path().to_str().unwrap();
    let unit = "memory:16MiB,service-time=1ms,servers=1";
    let target = Target::start(Path::new(WANSAN), &["--lun", unit]).unwrap();
    let url = target.url(0);
    let load = ["bench", &url, "--parallel", "4", "--count", "40", "--batch"];
    let loaded = wansan(&[&load[..], &["--record", folder]].concat());
    assert!(loaded.status.success(), "{}", loaded.output());
    let io = file::read_folder::<Crossing>(scratch.path())
        .unwrap()
        .unwrap();
    let (mut asked, mut in_flight, mut most, mut some_are_done) = (0, 0, 0, false);
    for crossing in io.rows.iter().map(|row| &row.record) {
        match (crossing.layer, crossing.direction) {
            (Layer::App, Direction::Enter) => {
                let early = some_are_done && in_flight > 0;
                assert!(
                    !early,
                    "I/O {asked} is asked for with {in_flight} in flight"
                );
                some_are_done = false;
                asked += 1;
                in_flight += 1;
                most = in_flight.max(most);
            }
            (Layer::App, Direction::Leave) => {
                some_are_done = true;
                in_flight -= 1;
            }
            _ => {}
        }
    }
    assert!(
        asked >= 40 && in_flight == 0 && most == 4,
        "{asked}, {in_flight}, {most}"
    );
}

/// What is recorded of one I/O in 8 leads to the same finding, with its uncertainty.
#[test]
fn a_sample_of_the_ios_is_recorded_at_both_ends_and_explained() {
    const IOS: usize = 4000;
    let scratch = TempDir::with_prefix("wansan-recording-").unwrap();
    let folder = scratch.path().to_str().unwrap();
    let sampled = ["--record", folder, "--record-sample", "8"];
    let unit = ["--lun", "memory:16MiB,service-time=1ms,servers=4"];
    let target = Target::start(Path::new(WANSAN), &[&unit[..], &sampled].concat()).unwrap();
    let (url, count) = (target.url(0), IOS.to_string());
    let load = ["bench", &url, "--parallel", "32", "--count", &count];
    let loaded = wansan(&[&load[..], &sampled].concat());
    assert!(loaded.status.success(), "{}", loaded.output());
    assert!(target.stop().unwrap().success());

    // Whole I/Os, the same ones at both ends.
    let io = file::read_folder::<Crossing>(scratch.path()).unwrap();
    let mut layers: BTreeMap<u32, Vec<(Layer, Direction)>> = BTreeMap::new();
    for row in io.unwrap().rows {
        let crossed = (row.record.layer, row.record.direction);
        layers.entry(row.record.task.0).or_default().push(crossed);
    }
    // Commands that read no data precede the load.
    layers.retain(|_, crossed| crossed.contains(&(Layer::Store, Direction::Enter)));
    assert!(
        layers.len().abs_diff(IOS / 8) <= IOS / 100,
        "{}",
        layers.len()
    );
    for (task, crossed) in &layers {
        assert!(Sample::one_in(8).has(TaskTag(*task)));
        for layer in [Layer::App, Layer::Window, Layer::Target, Layer::Store] {
            let both = [Direction::Enter, Direction::Leave].map(|way| (layer, way));
            assert!(
                both.iter().all(|it| crossed.contains(it)),
                "{task}: {crossed:?}"
            );
        }
    }
    let pdus = file::read_folder::<Pdu>(scratch.path()).unwrap().unwrap();
    let of_commands = pdus.rows.iter().filter(|row| row.record.opcode == 0x01);
    assert!(of_commands.count() >= 2 * layers.len());
    let pdu = |row: &Row<Pdu>| Sample::one_in(8).has_pdu(row.record.task, row.record.opcode);
    assert!(pdus.rows.iter().all(pdu));

    let explained = wansan(&["explain", folder, "--json"]);
    assert!(explained.status.success(), "{}", explained.output());
    let explanation: Value = serde_json::from_str(&explained.stdout).unwrap();
    let finding = &explanation["finding"];
    assert_eq!(finding["limit"], "store", "{explanation:#}");
    let share = finding["waiting_share"].as_f64().unwrap();
    let half = finding["waiting_share_uncertain"].as_f64().unwrap();
    assert!(share > 0.5 && half > 0.0 && half < 0.2, "{share} ± {half}");
    let said = explained.stdout;
    assert!(said.contains("one I/O in 8 was recorded"), "{said}");
    assert!(!said.contains("crossings are missing"), "{said}");

    let what_if = wansan(&["explain", folder, "--what-if"]);
    refused(&what_if, &["one I/O in 8", "--record-sample 1"]);
}

#[test]
fn records_without_those_of_ios_are_not_taken_for_something_else() {
    let scratch = TempDir::with_prefix("wansan-recording-").unwrap();
    let folder = scratch.path().to_str().unwrap();
    let target = Target::start(Path::new(WANSAN), &["--lun", "memory:16MiB"]).unwrap();
    let url = target.url(0);
    let load = ["bench", &url, "--count", "1", "--record", folder];
    let loaded = wansan(&[&load[..], &["--record-kinds", "pdu"]].concat());
    assert!(loaded.status.success(), "{}", loaded.output());
    let explained = wansan(&["explain", folder]);
    refused(&explained, &["no io records", "--record-kinds io"]);
    assert!(target.stop().unwrap().success());
}

#[test]
fn an_earlier_recording_is_not_overwritten() {
    let scratch = TempDir::with_prefix("wansan-recording-").unwrap();
    let place = scratch.path().join("x");
    let folder = place.to_str().unwrap();
    let target = slow_target(folder);
    assert!(load(&target, folder).status.success());
    let before = files(&place);
    refused(
        &load(&target, folder),
        &[".initiator.part.parquet", "--record", "--host"],
    );
    assert_eq!(files(&place), before);

    // Another host is another part of the same recording.
    let url = target.url(0);
    let second = ["bench", &url, "--count", "1", "--record", folder];
    let second = wansan(&[&second[..], &["--host", "second"]].concat());
    assert!(second.status.success(), "{}", second.output());
    assert!(target.stop().unwrap().success());

    let again = ["target", "--listen", "127.0.0.1:0", "--lun", "memory:1MiB"];
    let named = ["--name", "iqn.2026-11.net.example:x", "--record", folder];
    refused(
        &wansan(&[&again[..], &named[..]].concat()),
        &[".target.part.parquet", "--record"],
    );
}

#[test]
fn a_load_that_is_interrupted_leaves_no_folder() {
    let scratch = TempDir::with_prefix("wansan-recording-").unwrap();
    let place = scratch.path().join("x");
    let target = Target::start(Path::new(WANSAN), &["--lun", "memory:16MiB"]).unwrap();
    let url = target.url(0);
    let load = ["bench", &url, "--time", "60s", "--rate", "100", "--record"];
    let mut command = Command::new(WANSAN);
    let mut load = Running::start(command.args(load).arg(&place)).unwrap();
    let deadline = Instant::now() + LIMIT;
    while !place.exists() {
        assert!(Instant::now() < deadline, "no folder was made");
        std::thread::sleep(Duration::from_millis(5));
    }
    // What has been up for a while has gone on to the load itself.
    assert!(load.wait(Duration::from_millis(200)).unwrap().is_none());
    assert_eq!(load.stop().unwrap().code(), Some(130));
    assert!(!place.exists());
}

#[test]
fn records_that_were_merged_are_not_mixed_with_others() {
    let scratch = TempDir::with_prefix("wansan-recording-").unwrap();
    fs::write(scratch.path().join("io.parquet"), "an earlier one").unwrap();
    let folder = scratch.path().to_str().unwrap();
    let url = "iscsi://127.0.0.1:1/iqn.2026-11.net.example:x/0";
    refused(
        &wansan(&["bench", url, "--record", folder]),
        &["io.parquet", "earlier recording", "--record"],
    );
}

#[test]
fn a_host_that_cannot_name_a_file_is_refused_before_the_load() {
    let url = "iscsi://127.0.0.1:1/iqn.2026-11.net.example:x/0";
    refused(
        &wansan(&["bench", url, "--record", "x", "--host", "my/host"]),
        &["my/host", "letters"],
    );
}
