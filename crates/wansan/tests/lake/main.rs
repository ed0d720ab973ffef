//! Recordings laid out as a lake, and the queries of `queries/` on both engines.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, UNIX_EPOCH};

use libtest_mimic::Arguments;
use serde_json::{Value, json};
use tempfile::TempDir;
use wansan_peers::program::find;
use wansan_peers::python::programs_with;
use wansan_peers::trial::{Stop, require, run_with, trial};
use wansan_trace::{
    ConnectionId, Direction, Instant, Kinds, Layer, Recorder, SessionId, TaskTag, file,
};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

type Test = fn(&Lake) -> Result<(), Stop>;

const TESTS: [(&str, Test); 5] = [
    ("a lake has all that its recordings have", whole),
    ("a recording may be added again", again),
    ("columns are described in every file", described),
    ("an I/O counts once whatever tag it has", tags),
    (
        "queries say the same on one machine's engine and on many's",
        queries,
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Spark takes both processors for itself.
    arguments.test_threads = Some(1);
    let trials = TESTS.map(|(name, test)| trial(name, move || test(&Lake::build()?)));
    run_with(&arguments, trials.into())
}

/// Two runs of two cells, with different limits, and a lake with both.
struct Lake {
    python: PathBuf,
    scratch: TempDir,
    runs: Vec<PathBuf>,
}

impl Lake {
    fn build() -> Result<Lake, Stop> {
        let python = programs_with("duckdb", env!("CARGO_TARGET_TMPDIR"))?;
        let scratch = tempfile::tempdir()?;
        let lake = Lake {
            runs: vec![
                run(
                    &scratch,
                    "narrow",
                    "north",
                    "command_window = 4\n",
                    "parallel = 32\n",
                )?,
                run(&scratch, "few", "south", "", "parallel = 2\n")?,
            ],
            python,
            scratch,
        };
        for run in &lake.runs {
            lake.add(run)?;
        }
        Ok(lake)
    }

    fn path(&self) -> PathBuf {
        self.scratch.path().join("lake")
    }

    /// Adds a recording; what is said of it.
    fn add(&self, recording: &Path) -> Result<Value, Stop> {
        let said = wansan(
            Command::new(WANSAN)
                .args(["lab", "export", "lake", "--json"])
                .arg(recording)
                .arg("--out")
                .arg(self.path()),
        )?;
        serde_json::from_str(&said).map_err(failed)
    }

    /// What a statement of DuckDB gives, as the first column of its rows.
    fn ask(&self, statement: &str) -> Result<Vec<Value>, Stop> {
        let file = self.scratch.path().join("question.sql");
        fs::write(&file, statement)?;
        let answer = self.query("duckdb", &[file])?;
        let rows = answer["question.sql"]["rows"].as_array().cloned();
        Ok(rows
            .unwrap_or_default()
            .into_iter()
            .map(|row| row[0].clone())
            .collect())
    }

    /// What queries give on an engine.
    fn query(&self, engine: &str, files: &[PathBuf]) -> Result<Value, Stop> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup/query-lake");
        let mut command = Command::new(self.python.join("python3"));
        let said = wansan(command.arg(script).arg(engine).arg(self.path()).args(files))?;
        serde_json::from_str(&said).map_err(failed)
    }
}

/// Standard output of a program that succeeds.
fn wansan(command: &mut Command) -> Result<String, Stop> {
    let output = command.output()?;
    require(output.status.success(), || {
        format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A run of a simulated plan, in which two initiators read.
fn run(
    scratch: &TempDir,
    name: &str,
    host: &str,
    target: &str,
    load: &str,
) -> Result<PathBuf, Stop> {
    let plan = scratch.path().join(format!("{name}.toml"));
    fs::write(
        &plan,
        format!(
            "title = \"Trial\"\n[world]\nkind = \"sim\"\n[[host]]\nname = \"array\"\n\
             [[host]]\nname = \"{host}\"\ncount = 2\n\
             [[path]]\nname = \"wan\"\nbetween = [\"{host}\", \"array\"]\ndelay = \"4ms\"\nrate = \"200Mbit/s\"\n\
             [target]\nhost = \"array\"\nluns = [\"memory:1MiB\"]\n{target}[[initiator]]\nhost = \"{host}\"\n\
             [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"300ms\"\n{load}\
             [sweep]\npath.wan.delay = [\"4ms\", \"8ms\"]\n"
        ),
    )?;
    let out = scratch.path().join("runs");
    wansan(
        Command::new(WANSAN)
            .args(["lab", "run"])
            .arg(plan)
            .arg("--out")
            .arg(&out),
    )?;
    let runs = fs::read_dir(out.join(name))?
        .flatten()
        .map(|run| run.path());
    runs.last().ok_or_else(|| Stop::Failed("no run".to_owned()))
}

fn whole(lake: &Lake) -> Result<(), Stop> {
    let runs = lake.scratch.path().join("runs").display().to_string();
    for kind in ["io", "pdu", "tcp", "packet", "path", "connection"] {
        let recorded = lake.ask(&format!(
            "select count(*) from read_parquet('{runs}/*/*/*/{kind}.parquet')"
        ))?;
        let laid_out = lake.ask(&format!(
            "select count(*) from read_parquet('{kind}/**/*.parquet')"
        ))?;
        require(
            recorded == laid_out && recorded[0].as_u64() > Some(0),
            || format!("{kind}: {recorded:?}, {laid_out:?} in the lake"),
        )?;
    }
    // A session is of 64 bits, which a column shows as a signed number.
    let sums = "sum(time_ns::hugeint * (1 + (session::hugeint + 18446744073709551616) \
                % 18446744073709551616 % 1000))::varchar";
    let recorded = lake.ask(&format!(
        "select {sums} from read_parquet('{runs}/*/*/*/io.parquet')"
    ))?;
    // The session is the folder's: ISID and TSIH.
    let laid_out = lake.ask(&format!(
        "select {sums} from (select time_ns, (('0x' || split_part(session, '-', 1))::hugeint * 65536 + \
         split_part(session, '-', 2)::bigint) as session from io)"
    ))?;
    require(recorded == laid_out, || {
        format!("{recorded:?}, {laid_out:?} in the lake")
    })?;
    let files = lake.ask("select count(distinct (host, date, session)) from io")?;
    require(files[0].as_u64() > Some(4), || {
        format!("{files:?} partitions")
    })?;

    // What the sessions are said to have done is what the runs' results say, and their waits are their latency.
    let mut results = 0.0;
    for run in &lake.runs {
        let text = fs::read_to_string(run.join("results.json"))?;
        let run: Value = serde_json::from_str(&text).map_err(failed)?;
        let ios = run["cells"].as_array().into_iter().flatten();
        results += ios
            .map(|cell| cell["waits"]["ios"].as_f64().unwrap_or(0.0))
            .sum::<f64>();
    }
    let ios = lake.ask("select sum(ios)::double from sessions")?;
    require(ios[0].as_f64() == Some(results) && results > 0.0, || {
        format!("{ios:?}, {results}")
    })?;
    let apart = lake.ask(
        "select max(abs(1 - waited / latency_mean_ns)) from sessions join \
         (select run, session, sum(wait_ns) as waited from waits group by all) using (run, session)",
    )?;
    require(apart[0].as_f64() < Some(1e-9), || format!("{apart:?}"))
}

fn again(lake: &Lake) -> Result<(), Stop> {
    let rows = "select count(*) from io union all select count(*) from waits order by 1";
    let before = lake.ask(rows)?;
    let said = lake.add(&lake.runs[0])?;
    require(said["written"]["sessions"] == 4, || said.to_string())?;
    let after = lake.ask(rows)?;
    require(before == after, || format!("{before:?}, then {after:?}"))?;
    // As is what another version has left of it, that divided it into more files, or by other hosts and days.
    let table = lake.path().join("io/host=north-1");
    let file = |folder: PathBuf| {
        fs::read_dir(folder)?
            .next()
            .ok_or(io::ErrorKind::NotFound)?
    };
    let day = file(table.clone())?.path();
    let session = file(day.clone())?;
    let first = file(session.path())?.path();
    let stem = first.file_stem().unwrap_or_default().to_string_lossy();
    fs::copy(&first, first.with_file_name(format!("{stem}-2.parquet")))?;
    let other_day = table.join("date=2001-01-01").join(session.file_name());
    fs::create_dir_all(&other_day)?;
    fs::copy(
        &first,
        other_day.join(first.file_name().unwrap_or_default()),
    )?;
    let more = lake.ask(rows)?;
    require(more != before, || "no rows more".to_owned())?;
    lake.add(&lake.runs[0])?;
    let after = lake.ask(rows)?;
    require(before == after, || format!("{before:?}, then {after:?}"))?;
    // A folder of records without a run is a recording, too.
    lake.add(&lake.runs[0].join("cell-000"))?;
    let more = lake.ask("select count(distinct run) from sessions")?;
    require(more[0] == 5, || format!("{more:?} recordings"))
}

fn described(lake: &Lake) -> Result<(), Stop> {
    for (table, column, words) in [
        ("io", "layer", "The layer."),
        ("pdu", "exp_cmd_sn", "ExpCmdSN of a response."),
        ("waits", "limited_by", "Its limit"),
    ] {
        let about = lake.ask(&format!(
            "select distinct decode(value) from parquet_kv_metadata('{table}/**/*.parquet') \
             where decode(key) = 'wansan.column.{column}'"
        ))?;
        let is_there = about.len() == 1
            && about[0]
                .as_str()
                .is_some_and(|about| about.starts_with(words));
        require(is_there, || format!("{table}.{column}: {about:?}"))?;
    }
    let spark = lake.scratch.path().join("comments.sql");
    fs::write(&spark, "describe sessions;\n")?;
    needs_spark()?;
    let said = lake.query("spark", &[spark])?.to_string();
    require(said.contains("99th percentile of the latency."), || {
        said.clone()
    })
}

/// The day of what [`add_reused_tags`] adds.
const FOREIGN_DAY: &str = "2001-01-01";

/// Adds what was recorded of an initiator that uses tags again: three I/Os of 1, 2 and 3 ms with the same tag, whose store takes
/// no time, among them one whose end is missing; and one of 4 ms with another.
fn add_reused_tags(lake: &Lake) -> Result<(), Stop> {
    let kinds = Kinds {
        io: true,
        ..Kinds::NONE
    };
    let mut recorder = Recorder::new(kinds, 1 << 20);
    let mut crossing = |tag: u32, time_us: u64, layer: Layer, direction: Direction| {
        let (time, session) = (Instant::from_ns(1000 * time_us), SessionId(7 << 16 | 1));
        let tag = TaskTag(tag);
        recorder.crossing(time, session, ConnectionId(0), tag, layer, direction);
    };
    let ios = [
        (1, 0, Some(1000)),
        (1, 1500, Some(2000)),
        (1, 4000, None),
        (1, 5000, Some(3000)),
        (2, 9000, Some(4000)),
    ];
    for (tag, began_us, took_us) in ios {
        crossing(tag, began_us, Layer::App, Direction::Enter);
        if let Some(took_us) = took_us {
            crossing(tag, began_us + 10, Layer::Store, Direction::Enter);
            crossing(tag, began_us + 10, Layer::Store, Direction::Leave);
            crossing(tag, began_us + took_us, Layer::App, Direction::Leave);
        }
    }
    let folder = lake.scratch.path().join("foreign");
    fs::create_dir(&folder)?;
    file::write_part(&folder, "foreign", &[recorder]).map_err(failed)?;
    // On a day of its own.
    for entry in fs::read_dir(&folder)? {
        let file = fs::File::options().write(true).open(entry?.path())?;
        file.set_modified(UNIX_EPOCH + Duration::from_secs(978_350_400))?;
    }
    lake.add(&folder)?;
    Ok(())
}

fn tags(lake: &Lake) -> Result<(), Stop> {
    add_reused_tags(lake)?;
    let files =
        ["latency-by-day.sql", "time-in-layers.sql"].map(|file| queries_folder().join(file));
    let told = lake.query("duckdb", &files)?;
    let of_its_day = |query: &str, date: usize| {
        let rows = told[query]["rows"].as_array().cloned();
        let mut rows = rows.unwrap_or_default();
        rows.retain(|row| row[date] == FOREIGN_DAY);
        rows
    };
    let latency = json!([["foreign", FOREIGN_DAY, 4, 2.5, 2.5, 3.97]]);
    let layers = json!([
        [FOREIGN_DAY, "app", 4, 2.5, 4.0],
        [FOREIGN_DAY, "store", 4, 0.0, 0.0]
    ]);
    let is_right = of_its_day("latency-by-day.sql", 1)
        == latency.as_array().cloned().unwrap_or_default()
        && of_its_day("time-in-layers.sql", 0) == layers.as_array().cloned().unwrap_or_default();
    require(is_right, || told.to_string())
}

fn queries_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../queries")
}

fn queries(lake: &Lake) -> Result<(), Stop> {
    needs_spark()?;
    add_reused_tags(lake)?;
    let files = fs::read_dir(queries_folder())?
        .flatten()
        .map(|file| file.path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| !file.to_string_lossy().contains("views."))
        .collect();
    files.sort();
    require(files.len() >= 5, || format!("{files:?}"))?;
    let (one, many) = (lake.query("duckdb", &files)?, lake.query("spark", &files)?);
    for file in &files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let rows = |results: &Value| {
            results[&name]["rows"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let (one, many) = (rows(&one), rows(&many));
        let is_same =
            one.len() == many.len() && one.iter().zip(&many).all(|(one, many)| is_same(one, many));
        require(is_same && !one.is_empty(), || {
            format!("{name}: {one:?}, and Spark: {many:?}")
        })?;
    }
    // They say what is so: reads in a narrow command window wait for it, and few for nothing but the path.
    let limits = one["limits.sql"]["rows"].to_string();
    for expected in [
        "[\"north-1\",\"command_window\",1,",
        "[\"south-1\",\"too_few_ios\",1,",
    ] {
        require(limits.contains(expected), || limits.clone())?;
    }
    Ok(())
}

fn failed(error: impl Display) -> Stop {
    Stop::Failed(error.to_string())
}

fn needs_spark() -> Result<(), Stop> {
    programs_with("pyspark", env!("CARGO_TARGET_TMPDIR"))?;
    find("java")?;
    Ok(())
}

/// Whether both are the same row: sums of many numbers may differ in the last digit that is shown.
fn is_same(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_array(), other.as_array()) else {
        return false;
    };
    let mut both = one.iter().zip(other);
    one.len() == other.len()
        && both.all(|(one, other)| match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-3_f64.max(1e-9 * one.abs()),
            _ => one == other,
        })
}
