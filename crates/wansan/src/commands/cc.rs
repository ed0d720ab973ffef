//! `wansan cc`: wansan's own congestion controls in the running kernel.

mod load;
mod status;

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use wansan_tcp::control::{self, Algorithm};

use super::{print_json, print_text};
use status::{Counted, Report};

/// Arguments of `wansan cc`.
#[derive(Debug, Args)]
pub(crate) struct CcArgs {
    #[command(subcommand)]
    command: CcCommand,
}

#[derive(Debug, Subcommand)]
enum CcCommand {
    /// List congestion controls, wansan's and the kernel's
    List(ListArgs),
    /// Load one of wansan's into the kernel, where it stays until unloaded
    Load(load::LoadArgs),
    /// Unload one of wansan's; connections that use it keep it until they close
    Unload(NameArgs),
    /// Show the parameters of one of wansan's, and how many connections use it
    Show(NameArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct NameArgs {
    /// Congestion control: wansan_reno, wansan_hstcp or wansan_scal
    #[arg(value_parser = law)]
    name: Algorithm,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses the name of one of our controls.
fn law(name: &str) -> Result<Algorithm> {
    Algorithm::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = Algorithm::ALL.into_iter().map(Algorithm::name).collect();
        anyhow!("not one of wansan's: give one of {}", names.join(", "))
    })
}

/// Runs `wansan cc`.
///
/// # Errors
/// A missing prerequisite, the kernel's refusal, or a name that is in use or does not exist; the exit status is then 2.
pub(crate) fn run(args: &CcArgs) -> Result<ExitCode> {
    match &args.command {
        CcCommand::List(args) => status::list(args.json)?,
        CcCommand::Load(args) => load::run(args)?,
        CcCommand::Unload(args) => unload(args)?,
        CcCommand::Show(args) => status::show(args.name, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn unload(args: &NameArgs) -> Result<()> {
    // Count users before the unload.
    let counted = Counted::now();
    control::unload(args.name)?;
    let name = args.name.name();
    let still = counted.of(name);
    if args.json {
        return print_json(&serde_json::to_string_pretty(&Report {
            name,
            done: "unloaded",
            connections: still.map(|users| users.connections),
            namespaces: still.map(|users| users.namespaces),
        })?);
    }
    let users = match still.map(|users| users.connections) {
        Some(0) => String::new(),
        Some(1) => "; 1 connection still uses it, and keeps it until it closes".to_owned(),
        Some(many) => format!("; {many} connections still use it, and keep it until they close"),
        None => "; connections that use it keep it until they close".to_owned(),
    };
    let defaults = match still.map_or(0, |users| users.namespaces) {
        0 => String::new(),
        many => format!(
            "; {many} network namespace{} still give{} it to new connections: choose another there \
             (sysctl net.ipv4.tcp_congestion_control)",
            if many == 1 { "" } else { "s" },
            if many == 1 { "s" } else { "" },
        ),
    };
    print_text(|out| writeln!(out, "{name} is unloaded{users}{defaults}"))
}
