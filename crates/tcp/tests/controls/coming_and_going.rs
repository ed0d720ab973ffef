//! How controls are loaded, used, kept and unloaded.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtest_mimic::Trial;
use wansan_peers::trial::{Stop, require, trial};
use wansan_tcp::control::{
    self, Algorithm, ControlError, Counting, Growth, HighSpeed, Options, OptionsError, State, Users,
};
use wansan_tcp::{congestion, ebpf};

/// The argument that makes this program hold a control until it is killed.
const HOLD: &str = "hold-a-control";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "each is chosen by a socket, moves data, and goes with its process",
            each_moves_data,
        ),
        trial(
            "one that is kept shows its options and stays until it is unloaded",
            kept,
        ),
        trial(
            "a connection keeps its control when that is unloaded",
            connection_outlives,
        ),
        trial("several programs hold one control", shared),
        trial("a killed process leaves none behind", killed),
        trial(
            "options that do not fit are refused before the kernel sees them",
            bad_options,
        ),
        trial(
            "a program that the kernel refuses leaves the verifier's log",
            refused,
        ),
    ]
}

/// Names are machine-wide: one test at a time.
fn alone() -> Result<MutexGuard<'static, ()>, Stop> {
    static ALONE: Mutex<()> = Mutex::new(());
    ebpf::available().map_err(|reason| Stop::NotRun(reason.to_string()))?;
    Ok(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[allow(clippy::needless_pass_by_value, reason = "so it goes into map_err")]
fn failed(error: impl ToString) -> Stop {
    Stop::Failed(error.to_string())
}

fn available(algorithm: Algorithm) -> bool {
    let names = congestion::available().unwrap_or_default();
    names
        .split_whitespace()
        .any(|name| name == algorithm.name())
}

/// A connection over loopback whose client sends with `algorithm`.
fn connection(algorithm: Algorithm) -> Result<(TcpStream, TcpStream), Stop> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    congestion::choose(&client, algorithm.name()).map_err(failed)?;
    Ok((client, listener.accept()?.0))
}

/// Sends 8 MiB, and checks that they arrive intact.
fn move_data(client: &mut TcpStream, server: &mut TcpStream) -> Result<(), Stop> {
    let sent: Vec<u8> = (0..8_u32 << 20).map(|at| (at % 251) as u8).collect();
    let mut got = vec![0; sent.len()];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| client.write_all(&sent));
        server.read_exact(&mut got)?;
        writer.join().expect("the writer does not panic")
    })?;
    require(got == sent, || "the data changed on its way".to_owned())
}

fn each_moves_data() -> Result<(), Stop> {
    let _alone = alone()?;
    for algorithm in Algorithm::ALL {
        let loaded = control::load(algorithm, &Options::default()).map_err(failed)?;
        require(loaded.verifier_log().contains("processed"), || {
            format!("no verifier's statistics: {}", loaded.verifier_log())
        })?;
        let (mut client, mut server) = connection(algorithm)?;
        move_data(&mut client, &mut server)?;
        require(congestion::of(&client)? == algorithm.name(), || {
            "another control".to_owned()
        })?;
        drop(loaded);
        require(!available(algorithm), || {
            format!("{} is still there", algorithm.name())
        })?;
    }
    Ok(())
}

fn kept() -> Result<(), Stop> {
    let _alone = alone()?;
    let algorithm = Algorithm::HighSpeed;
    let options = Options {
        growth: Growth {
            max_ssthresh: Some(100),
            counting: Counting::PerAck,
        },
        highspeed: HighSpeed {
            high_window: 40_000.0,
            ..HighSpeed::default()
        },
    };
    let loaded = control::load(algorithm, &options).map_err(failed)?;
    let held = control::show(algorithm).map_err(failed)?;
    require(held.state == State::Held, || format!("{held:?}"))?;
    let unload = control::unload(algorithm);
    require(
        matches!(unload, Err(ControlError::HeldByProcess { .. })),
        || format!("{unload:?}"),
    )?;
    loaded.keep().map_err(failed)?;
    let shown = control::show(algorithm).map_err(failed)?;
    require(
        shown.state == State::Kept && shown.options == Some(options),
        || format!("{shown:?}"),
    )?;
    let again = control::load(algorithm, &options);
    require(
        matches!(again, Err(ControlError::AlreadyThere { .. })),
        || format!("{again:?}"),
    )?;
    control::unload(algorithm).map_err(failed)?;
    let unload = control::unload(algorithm);
    require(
        matches!(unload, Err(ControlError::NotLoaded { .. })),
        || format!("{unload:?}"),
    )?;
    require(!available(algorithm), || "it is still there".to_owned())
}

fn connection_outlives() -> Result<(), Stop> {
    let _alone = alone()?;
    let algorithm = Algorithm::Scalable;
    control::load(algorithm, &Options::default())
        .and_then(control::Control::keep)
        .map_err(failed)?;
    let (mut client, mut server) = connection(algorithm)?;
    let users = control::users().map_err(failed)?;
    let one = Users {
        connections: 1,
        namespaces: 0,
    };
    require(users.get(algorithm.name()) == Some(&one), || {
        format!("{users:?}")
    })?;
    control::unload(algorithm).map_err(failed)?;
    require(!available(algorithm), || {
        "it can still be chosen".to_owned()
    })?;
    move_data(&mut client, &mut server)?;
    require(congestion::of(&client)? == algorithm.name(), || {
        "another control".to_owned()
    })
}

fn shared() -> Result<(), Stop> {
    let _alone = alone()?;
    let algorithm = Algorithm::Scalable;
    let first = control::hold(algorithm, None).map_err(failed)?;
    let second = control::hold(algorithm, None).map_err(failed)?;
    drop(first);
    require(available(algorithm), || {
        "it went with the first that held it".to_owned()
    })?;
    drop(second);
    require(!available(algorithm), || "it is still there".to_owned())
}

fn killed() -> Result<(), Stop> {
    let _alone = alone()?;
    let algorithm = Algorithm::Reno;
    let mut child = Command::new(std::env::current_exe()?)
        .arg(HOLD)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let told = child.stdout.take().expect("it is piped");
    BufReader::new(told).read_line(&mut line)?;
    let was_there = line.trim() == "held" && available(algorithm);
    child.kill()?;
    child.wait()?;
    require(was_there, || format!("the child says '{line}'"))?;
    require(!available(algorithm), || "it is still there".to_owned())
}

/// This program as the child of [`killed`].
pub(crate) fn role() -> Option<ExitCode> {
    if std::env::args().nth(1)? != HOLD {
        return None;
    }
    match control::load(Algorithm::Reno, &Options::default()) {
        Ok(_held) => {
            println!("held");
            loop {
                std::thread::park();
            }
        }
        Err(error) => println!("{error}"),
    }
    Some(ExitCode::FAILURE)
}

fn bad_options() -> Result<(), Stop> {
    let _alone = alone()?;
    let mut options = Options::default();
    options.growth.max_ssthresh = Some(1);
    let refused = control::load(Algorithm::Reno, &options);
    require(
        matches!(
            refused,
            Err(ControlError::Options(OptionsError::MaxSsthresh(1)))
        ),
        || format!("{refused:?}"),
    )?;
    let mut options = Options::default();
    options.highspeed.high_decrease = 2.0;
    let refused = control::load(Algorithm::HighSpeed, &options);
    require(
        matches!(
            refused,
            Err(ControlError::Options(OptionsError::HighSpeed(_)))
        ),
        || format!("{refused:?}"),
    )
}

fn refused() -> Result<(), Stop> {
    let _alone = alone()?;
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/reno.bpf.o"));
    // The kernel accepts such programs under GPL-compatible licences only.
    let (licence, other) = (b"Dual MIT/GPL", b"Dual MIT/BSD");
    let at = object
        .windows(licence.len())
        .position(|bytes| bytes == licence);
    let mut object = object.to_vec();
    object[at.expect("it has a licence")..][..other.len()].copy_from_slice(other);
    let refused = ebpf::load("reno", &object, |_| Ok(()));
    let Err(ebpf::EbpfError::Refused { log, .. }) = &refused else {
        return Err(Stop::Failed(format!("{refused:?}")));
    };
    let said = std::fs::read_to_string(log)?;
    std::fs::remove_file(log)?;
    require(said.contains("GPL compatible"), || said)
}
