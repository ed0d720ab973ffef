//! The relay compared with HAProxy, and with the minimal ways to forward bytes between sockets: read and write, splice,
//! and sockmap. Both sides of each comparison alternate in one run; prints their ratio and its bound.
//!
//! `cargo bench -p wansan-relay --bench relay -- [--json] [QUESTION...]`
//!
//! A missed bound, or one that cannot be measured on a busy machine, is reported and does not fail the run.

mod forwarding;
mod load;
mod many;
mod memory;
mod questions;
mod sockmap;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use wansan_peers::question::ask;
use wansan_relay::{ListenerConfig, ProcessSettings, Relay, RelayFile, RelaySettings};
use wansan_settings::usual;

use memory::Memory;
use questions::QUESTIONS;

fn main() -> ExitCode {
    // Cargo adds --bench.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let played = match words[..] {
        [questions::ROLE, way, to] => serve(way, to),
        [many::ROLE] => many::ends().map_err(Into::into),
        _ => return ask(&arguments, &QUESTIONS),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Forwards flows to `to` in one of the ways until standard input ends. Prints the address first. The relay prints its
/// memory use for each line of standard input.
fn serve(way: &str, to: &str) -> Result<(), Box<dyn std::error::Error>> {
    let to: SocketAddr = to.parse()?;
    let told = |address: SocketAddr| {
        println!("{address}");
        std::io::stdout().flush()
    };
    if way != "relay" {
        return Ok(forwarding::serve(way, to, told)?);
    }
    let listener = ListenerConfig::new("127.0.0.1:0", &to.to_string());
    let settings = RelaySettings {
        file: RelayFile {
            listener: vec![listener],
        },
        process: ProcessSettings {
            flows: 100_000,
            ..usual()
        },
    };
    let relay = Relay::start(&settings, |line| eprintln!("relay: {line}"))?;
    told(relay.addresses()[0])?;
    for _ in std::io::stdin().lines() {
        println!("{}", Memory::of_this_process()?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
