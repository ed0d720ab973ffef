//! Benchmark: reads, joins and summarises 10 million `io` events on one core.
//!
//! Prints one line of JSON. The bound is 5 s of CPU time for 10 million events. `cpu_s` is the CPU time, `total_s` the
//! elapsed time, which is longer on a busy machine.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the benchmark writes what it reads back, and takes the time"
)]

use std::process::ExitCode;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use wansan_insight::{Cell, summarise};
use wansan_peers::machine::Machine;
use wansan_peers::verdict::Verdict;
use wansan_trace::{
    ConnectionId, Direction, Instant as Time, Kinds, Layer, Recorder, SessionId, TaskTag, file,
};

/// Crossings per I/O: nine layers, in and out.
const LAYERS: [Layer; 9] = [
    Layer::App,
    Layer::Scsi,
    Layer::Queue,
    Layer::Window,
    Layer::Socket,
    Layer::TcpTarget,
    Layer::Target,
    Layer::Device,
    Layer::Store,
];
const SESSIONS: u64 = 4;
const EVENTS: u64 = 10_000_000;
const BOUND_S: f64 = 5.0;
const IN_FLIGHT: u64 = 100;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("read_io: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let began = Instant::now();
    for session in 0..SESSIONS {
        let recorder = record(session);
        file::write_part(folder.path(), &format!("host-{session}"), &[recorder])?;
    }
    let written_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    file::merge_parts(folder.path())?;
    let merged_s = began.elapsed().as_secs_f64();

    let machine = Machine::watch();
    let began = Instant::now();
    let cpu_before_s = cpu_s();
    let cell = Cell::read(folder.path())?;
    let read_s = began.elapsed().as_secs_f64();
    let summary = summarise(&cell, None);
    let total_s = began.elapsed().as_secs_f64();
    let cpu_s = cpu_s() - cpu_before_s;
    let verdict = Verdict::of(cpu_s < BOUND_S, machine.disturbance().as_deref());
    let figure = format!("{cpu_s:.2} s, bound < {BOUND_S} s");
    verdict.record(
        "processor time of reading and joining 10 million events",
        &figure,
    );
    let events = cell.joined.tasks.len() as u64 * 2 * LAYERS.len() as u64;
    println!(
        "{{\"events\":{events},\"written_s\":{written_s:.2},\"merged_s\":{merged_s:.2},\
         \"read_and_joined_s\":{read_s:.2},\"summarised_s\":{:.2},\"total_s\":{total_s:.2},\
         \"cpu_s\":{cpu_s:.2},\"events_per_cpu_s\":{:.0},\"ios\":{},\"verdict\":\"{}\"}}",
        total_s - read_s,
        events as f64 / cpu_s,
        summary.total.ios,
        verdict.word(),
    );
    Ok(())
}

/// CPU time used by this process.
fn cpu_s() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// A session with about [`IN_FLIGHT`] I/Os in flight, with irregular times.
fn record(session: u64) -> Recorder {
    let mut recorder = Recorder::new(
        Kinds {
            io: true,
            ..Kinds::NONE
        },
        1 << 30,
    );
    let ios = EVENTS / SESSIONS / (2 * LAYERS.len() as u64);
    let mut events = Vec::new();
    let mut state = session + 1;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    for io in 0..ios {
        let mut time = io * 2_500 + session * 7;
        for (layer, direction) in LAYERS
            .into_iter()
            .map(|layer| (layer, Direction::Enter))
            .chain(
                LAYERS
                    .into_iter()
                    .rev()
                    .map(|layer| (layer, Direction::Leave)),
            )
        {
            events.push((time, io as u32, layer, direction));
            time += random() % (2 * 2_500 * IN_FLIGHT / (2 * LAYERS.len() as u64));
        }
    }
    events.sort_by_key(|event| event.0);
    for (time, tag, layer, direction) in events {
        recorder.crossing(
            Time::from_ns(time),
            SessionId(session << 16 | 1),
            ConnectionId(1),
            TaskTag(tag),
            layer,
            direction,
        );
    }
    recorder
}
