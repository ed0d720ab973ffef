//! `wansan`: block storage over long distances. This crate is arguments and output, nothing else.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit status for bad input or an environment that lacks something.
const BAD_INPUT: u8 = 2;

/// Block storage over long distances: build it, watch it, explain it
#[derive(Debug, Parser)]
#[command(name = "wansan", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve disks over iSCSI
    Target(commands::target::TargetArgs),
    /// Load a disk over iSCSI and measure it
    Bench(commands::bench::BenchArgs),
    /// Log in to a disk, and say what was negotiated and what of it hurts on a long path
    InitiatorCheck(commands::initiator_check::InitiatorCheckArgs),
    /// Split TCP connections, each side with a TCP of its own
    Relay(commands::relay::RelayArgs),
    /// Measure TCP streams: throughput, latency by marks in them, fairness
    Stream(commands::stream::StreamArgs),
    /// Watch TCP connections: windows, round trips, what limits them, congestion events
    Watch(commands::watch::WatchArgs),
    /// Run experiments in networks of this one computer
    Lab(commands::lab::LabArgs),
    /// Give the kernel congestion controls of our own
    Cc(commands::cc::CcArgs),
    /// Look at the paths of a lab that runs, and change them
    Path(commands::path::PathArgs),
    /// Say again what held a run back, from its files
    Explain(commands::explain::ExplainArgs),
    /// Fit closed forms of throughput to a run, and say which is nearer to it
    Model(commands::model::ModelArgs),
    /// Serve one router's ends of WireGuard tunnels, told on standard input; the lab starts it
    #[command(hide = true)]
    Wireguard,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return commands::usage(&error),
    };
    let done = match arguments.command {
        Command::Target(args) => commands::target::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::InitiatorCheck(args) => commands::initiator_check::run(&args),
        Command::Relay(args) => commands::relay::run(&args),
        Command::Stream(args) => commands::stream::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Lab(args) => commands::lab::run(args),
        Command::Cc(args) => commands::cc::run(&args),
        Command::Path(args) => commands::path::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Model(args) => commands::model::run(&args),
        Command::Wireguard => commands::wireguard::run(),
    };
    done.unwrap_or_else(|error| {
        // Causes are in the text already, one line in all.
        commands::remark(&format!("wansan: {}", commands::one_line(&error)));
        ExitCode::from(BAD_INPUT)
    })
}
