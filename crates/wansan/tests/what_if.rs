//! What is said of a change of a recorded run, and with which exit status.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wansan_peers::process::{Finished, run};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);

const PLAN: &str = "title = \"t\"\nworld.kind = \"sim\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
    [[path]]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\nrate = \"100Mbit/s\"\n\
    [target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n[[initiator]]\nhost = \"b\"\n\
    [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"500ms\"\n";

fn wansan(folder: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new(WANSAN);
    run(command.current_dir(folder).args(arguments), LIMIT).unwrap()
}

#[test]
fn a_change_that_cannot_be_simulated_predicts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let ran = wansan(folder.path(), &["lab", "run", "plan.toml"]);
    assert!(ran.status.success(), "{}", ran.output());
    let asked = |changes: &[&str], status: i32, said: &[&str]| {
        let sets = changes.iter().flat_map(|change| ["--set", *change]);
        let all: Vec<&str> = ["explain", "--what-if", "plan"]
            .into_iter()
            .chain(sets)
            .collect();
        let told = wansan(folder.path(), &all);
        assert_eq!(told.status.code(), Some(status), "{}", told.output());
        for words in said {
            assert!(
                told.output().contains(words),
                "no '{words}' in: {}",
                told.output()
            );
        }
    };
    asked(&["workload.parallel=2"], 0, &["+100.0 %"]);
    let lossy = "path.wan.loss=100%";
    asked(&[lossy], 1, &["Not simulated", "Nothing is predicted"]);
    let twice = ["workload.parallel=2", "workload.parallel=4"];
    asked(&twice, 2, &["`workload.parallel` is given twice"]);
}
