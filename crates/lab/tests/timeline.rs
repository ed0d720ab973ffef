//! Timelines of plans: their contents and their mistakes.

use std::path::Path;
use std::time::Duration;

use wansan_lab::plan::{Amendment, Phase, Plan, PlanError, Statement};
use wansan_path::Change;

/// A plan with two paths and a wire; its timeline starts on the third line.
fn plan(entries: &[&str]) -> Result<Plan, PlanError> {
    let entries: Vec<String> = entries.iter().map(|entry| format!("'{entry}'")).collect();
    let text = format!(
        "title = \"Trial\"\ntimeline = [\n{}\n]\n\
         [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n\
         [[path]]\nname = \"upper\"\nbetween = [\"client\", \"storage\"]\ndelay = \"8ms\"\n\
         queue = {{ kind = \"codel\" }}\noverhead = \"24B\"\n[path.back]\nloss = \"1%\"\n\
         [[path]]\nname = \"lower\"\nbetween = [\"client\", \"storage\"]\nloss = \"2%\"\n\
         [[path]]\nname = \"cable\"\nbetween = [\"client\", \"storage\"]\n\
         [target]\nhost = \"storage\"\nluns = [\"memory:1MiB\"]\n\
         [[initiator]]\nhost = \"client\"\nroutes = [\"upper\", \"lower\"]\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\nwarmup = \"1s\"\ntime = \"9s\"\n\
         [sweep]\nworkload.parallel = [1, 4]\n",
        entries.join(",\n")
    );
    Plan::parse(Path::new("trial.toml"), &text)
}

#[test]
fn every_cell_has_the_timeline() {
    let entries = [
        "at 5s upper.delay = 32ms",
        "at 8s upper down",
        "at 10s upper up",
    ];
    let plan = plan(&entries).unwrap();
    let cells = plan.cells(Phase::Planned, &[]).unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let told: Vec<String> = cell
            .timeline
            .iter()
            .map(|moment| format!("at {}s {}", moment.at.as_secs(), moment.statement))
            .collect();
        assert_eq!(told, entries);
    }
    let written = toml::to_string(plan.document()).unwrap();
    let again = Plan::parse(Path::new("trial.toml"), &written).unwrap();
    assert_eq!(again.document(), plan.document());
}

#[test]
fn mistakes_stand_on_their_line_with_what_is_right() {
    for (entry, part) in [
        ("upper down", "says no time"),
        ("at 5s", "says no change"),
        ("at 5 upper down", "`at`"),
        ("at -1s upper down", "in the past"),
        (
            "at 11s upper down",
            "after the end of the load, which lasts 10s",
        ),
        ("at 1s upper.delay = 32ms", "`at 1s` stands after `at 2s`"),
        ("at 5s uper down", "no path `uper`; did you mean `upper`?"),
        (
            "at 5s upper.dely = 32ms",
            "no key `dely`; did you mean `delay`?",
        ),
        ("at 5s upper.sideways.delay = 32ms", "no key `sideways`"),
        ("at 5s upper sideways", "PATH.KEY = VALUE"),
        ("at 5s upper.delay = 32", "unit"),
        ("at 5s upper.delay = 61s", "more than 60s"),
        ("at 5s upper.back.delay = 61s", "upper` back"),
        ("at 5s upper.rate = 0bit/s", "carries nothing"),
        ("at 5s upper.loss = 101%", "0% to 100%"),
        ("at 5s upper.jitter = 9ms", "jitter"),
        ("at 5s upper.queue = 64KiB", "kind of its queue"),
        (
            "at 5s upper.overhead = 4B",
            "cannot be changed while it runs",
        ),
        (
            "at 5s upper.between = [\"a\", \"b\"]",
            "cannot be changed while it runs",
        ),
        ("at 5s cable down", "is a wire"),
    ] {
        let error = plan(&["at 2s upper.delay = 8ms", entry]).unwrap_err();
        assert_eq!(error.line, Some(4), "{entry}: {error}");
        assert!(error.mistake.contains(part), "{entry}: {error}");
        assert!(!error.mistake.contains('\n'), "{entry}: {error}");
    }
}

#[test]
fn a_statement_changes_what_it_says_and_no_more() {
    let plan = plan(&[]).unwrap();
    let mut conditions = plan.cells(Phase::Planned, &[]).unwrap()[0]
        .conditions
        .clone();
    let mut change = |text: &str| -> Vec<Amendment> {
        conditions.change(&Statement::parse(text).unwrap()).unwrap()
    };
    let directions = |amendments: &[Amendment]| -> Vec<String> {
        amendments.iter().map(|a| a.direction.clone()).collect()
    };
    let both = ["upper:forward", "upper:back"];
    let longer = change("upper.delay = 32ms");
    assert_eq!(directions(&longer), both);
    assert_eq!(
        longer[0].changes,
        [Change::Delay(Duration::from_millis(32))]
    );
    assert_eq!(change("upper.delay = 32ms"), [], "it is so already");
    let queue = change("upper.queue.limit = 10packets");
    assert!(matches!(queue[0].changes[..], [Change::QueueLimit(_)]));
    assert_eq!(
        directions(&change("upper.back.delay = 1ms")),
        ["upper:back"]
    );
    // A statement about both directions overrides one about a single direction, in the plan or later.
    assert_eq!(directions(&change("upper.delay = 2ms")), both);
    assert_eq!(directions(&change("upper.loss = 3%")), both);
    assert_eq!(directions(&change("upper.loss = 4%")), both);
    // A path stays emulated when its last effect is removed.
    assert_eq!(directions(&change("lower.loss = 0%")).len(), 2);
    assert_eq!(directions(&change("lower.delay = 1ms")).len(), 2);
    assert_eq!(change("lower down")[1].changes, [Change::Down]);
    // A refused statement changes nothing.
    let refused = Statement::parse("upper.jitter = 3ms").unwrap();
    let mut after = conditions.clone();
    after.change(&refused).unwrap_err();
    assert_eq!(after, conditions);
}
