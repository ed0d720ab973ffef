//! `wansan`: block storage over long distances. This crate only parses arguments and prints output.

mod commands;
#[cfg(test)]
mod reference;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Exit status for bad input or a missing prerequisite.
const BAD_INPUT: u8 = 2;

/// The output of `--version`: tells if the build lacks the programs that run in the kernel.
const VERSION: &str = if cfg!(feature = "ebpf") {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (without eBPF)")
};

/// Block storage over long distances: build it, watch it, explain it
#[derive(Debug, Parser)]
#[command(name = "wansan", version = VERSION, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve disks over iSCSI
    Target(commands::target::TargetArgs),
    /// Attach an iSCSI LUN: export it over NBD or as a block device, with read-ahead and write-back caching
    Attach(commands::attach::AttachArgs),
    /// Copy a disk: files, iSCSI LUNs, NBD exports, standard input and output
    Copy(commands::copy::CopyArgs),
    /// Generate load on a disk over iSCSI and measure it
    Bench(commands::bench::BenchArgs),
    /// Log in to a disk and report which negotiated values limit it on a long path
    InitiatorCheck(commands::initiator_check::InitiatorCheckArgs),
    /// Relay TCP: split each connection in two, with separate TCP settings per side
    Relay(commands::relay::RelayArgs),
    /// Measure TCP streams: throughput, latency (by in-band marks), fairness
    Stream(commands::stream::StreamArgs),
    /// Watch TCP connections: windows, RTTs, what limits them, congestion events
    Watch(commands::watch::WatchArgs),
    /// Find out why this host's iSCSI disks are slow: what their I/Os wait for, and what to change
    Diagnose(commands::diagnose::DiagnoseArgs),
    /// Run experiments on networks emulated on this computer
    Lab(commands::lab::LabArgs),
    /// Load wansan's TCP congestion control algorithms into the kernel
    Cc(commands::cc::CcArgs),
    /// Show or change the paths of a running lab
    Path(commands::path::PathArgs),
    /// Explain what limited a run, from its records
    Explain(commands::explain::ExplainArgs),
    /// Find the best settings of a plan's target, session and TCP by simulation, and confirm them
    Tune(commands::tune::TuneArgs),
    /// Fit closed-form throughput models to a run and compare their errors
    Model(commands::model::ModelArgs),
    /// Print a script with which a shell completes wansan's commands and options
    Completions(commands::completions::CompletionsArgs),
    /// Write the man pages of all commands to a folder
    Man(commands::man::ManArgs),
    /// Run one router's WireGuard endpoints, configured on standard input; started by the lab
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
        Command::Attach(args) => commands::attach::run(&args),
        Command::Copy(args) => commands::copy::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::InitiatorCheck(args) => commands::initiator_check::run(&args),
        Command::Relay(args) => commands::relay::run(&args),
        Command::Stream(args) => commands::stream::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Diagnose(args) => commands::diagnose::run(&args),
        Command::Lab(args) => commands::lab::run(args),
        Command::Cc(args) => commands::cc::run(&args),
        Command::Path(args) => commands::path::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Tune(args) => commands::tune::run(&args),
        Command::Model(args) => commands::model::run(&args),
        Command::Completions(args) => commands::completions::run(&args, Arguments::command()),
        Command::Man(args) => commands::man::run(&args, Arguments::command()),
        Command::Wireguard => commands::wireguard::run(),
    };
    done.unwrap_or_else(|error| {
        // The text already includes the causes, in one line.
        commands::remark(&format!("wansan: {}", commands::one_line(&error)));
        ExitCode::from(BAD_INPUT)
    })
}
