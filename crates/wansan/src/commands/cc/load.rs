//! `wansan cc load`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use wansan_tcp::control::{self, Algorithm, Counting, Growth, HighSpeed, Options};

use super::law;
use super::status::{Counted, Report};
use crate::commands::{print_json, print_text};

#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// Congestion control: wansan_reno, wansan_hstcp or wansan_scal
    #[arg(value_parser = law)]
    name: Algorithm,
    /// What an ACK counts as in congestion avoidance: the packets it acknowledges, or one packet
    #[arg(long, value_enum, default_value = "packets")]
    count: Count,
    /// Limited slow start (RFC 3742): above this many segments, slow start adds at most half of
    /// that per round trip
    #[arg(long, value_name = "SEGMENTS")]
    max_ssthresh: Option<u32>,
    #[command(flatten)]
    highspeed: HighSpeedArgs,
    /// Write the kernel's BPF verifier log to this file; the log of a rejected program is kept in
    /// any case
    #[arg(long, value_name = "FILE")]
    verifier_log: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Count {
    Packets,
    Acks,
}

/// The parameters of RFC 3649 §5, of wansan_hstcp only.
#[derive(Debug, Args)]
struct HighSpeedArgs {
    /// HighSpeed TCP's Low_Window: up to this window it behaves as Reno [default: 38]
    #[arg(long, value_name = "SEGMENTS")]
    low_window: Option<f64>,
    /// HighSpeed TCP's High_Window: the window to reach at the loss rate --high-loss [default:
    /// 83000]
    #[arg(long, value_name = "SEGMENTS")]
    high_window: Option<f64>,
    /// HighSpeed TCP's Low_P: the loss rate at its low window [default: 1e-3]
    #[arg(long, value_name = "RATE")]
    low_loss: Option<f64>,
    /// HighSpeed TCP's High_P: the loss rate at its high window [default: 1e-7]
    #[arg(long, value_name = "RATE")]
    high_loss: Option<f64>,
    /// HighSpeed TCP's High_Decrease: the fraction by which a loss reduces the high window [default:
    /// 0.1]
    #[arg(long, value_name = "SHARE")]
    high_decrease: Option<f64>,
}

impl HighSpeedArgs {
    fn any(&self) -> bool {
        [
            self.low_window,
            self.high_window,
            self.low_loss,
            self.high_loss,
            self.high_decrease,
        ]
        .iter()
        .any(Option::is_some)
    }

    fn resolved(&self) -> HighSpeed {
        let standard = HighSpeed::default();
        HighSpeed {
            low_window: self.low_window.unwrap_or(standard.low_window),
            high_window: self.high_window.unwrap_or(standard.high_window),
            low_loss: self.low_loss.unwrap_or(standard.low_loss),
            high_loss: self.high_loss.unwrap_or(standard.high_loss),
            high_decrease: self.high_decrease.unwrap_or(standard.high_decrease),
        }
    }
}

pub(super) fn run(args: &LoadArgs) -> Result<()> {
    let name = args.name.name();
    if args.highspeed.any() && args.name != Algorithm::HighSpeed {
        anyhow::bail!(
            "{name} takes no window or loss-rate parameters; {} does",
            Algorithm::HighSpeed.name()
        );
    }
    let options = Options {
        growth: Growth {
            max_ssthresh: args.max_ssthresh,
            counting: match args.count {
                Count::Packets => Counting::PerPacket,
                Count::Acks => Counting::PerAck,
            },
        },
        highspeed: args.highspeed.resolved(),
    };
    let control = control::load(args.name, &options)?;
    if let Some(path) = &args.verifier_log {
        std::fs::write(path, control.verifier_log())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    control.keep()?;
    if args.json {
        let users = Counted::now().of(name);
        return print_json(&serde_json::to_string_pretty(&Report {
            name,
            done: "loaded",
            connections: users.map(|users| users.connections),
            namespaces: users.map(|users| users.namespaces),
        })?);
    }
    print_text(|out| {
        writeln!(
            out,
            "{name} is loaded until `wansan cc unload {name}` or a reboot"
        )
    })
}
