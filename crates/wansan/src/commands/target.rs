//! `wansan target`: serves disks.

mod metrics;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use wansan_mistake::Mistake;
use wansan_san::Target;
use wansan_san::settings::{
    DiscoverySettings, ProcessSettings, TargetFile, TargetSettings, UnitsSettings,
};
use wansan_san::target::{Changes, Offer, TargetError};
use wansan_trace::Recorder;

use super::options::{Elsewhere, FileOr, Options};
use super::settings_file::{self, Origin};
use super::{one_line, print_json, print_text, record, remark, service};

/// Arguments of `wansan target`.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// Listen address; port 0 picks a free port
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:3260",
        conflicts_with = "config"
    )]
    listen: String,
    #[command(flatten)]
    file: FileOr<UnitsSettings>,
    #[command(flatten)]
    process: Options<ProcessSettings>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

/// A target's settings and their origin.
struct Program {
    settings: TargetSettings,
    origin: Origin,
}

impl TargetArgs {
    fn program(&self) -> Result<Program> {
        if let Some(settings) = self.elsewhere.settings()? {
            let origin = Origin::StandardInput;
            return Ok(Program { settings, origin });
        }
        let origin = self.file.origin();
        let settings = TargetSettings {
            file: match origin.file() {
                Some(path) => settings_file::read(path)?,
                None => self.one_target()?,
            },
            process: self.process.settings()?,
        };
        Ok(Program { settings, origin })
    }

    /// The single target described by the options. Discovery uses the same parameters and credentials.
    fn one_target(&self) -> Result<TargetFile> {
        let target = self.file.settings()?;
        Ok(TargetFile {
            listen: vec![self.listen.clone()],
            discovery: DiscoverySettings {
                negotiation: target.negotiation.clone(),
                chap: target.chap.clone(),
            },
            target: vec![target],
        })
    }
}

impl Program {
    /// Rereads the file and applies it to `target`.
    fn reload(&self, target: &mut Target) -> Result<Changes> {
        let path = self.origin.file().expect("only a file is read again");
        let file: TargetFile = settings_file::read(path)?;
        if file.listen != self.settings.file.listen {
            let mistake = Mistake::new("cannot change while the target runs: restart it");
            return Err(self.origin.locate(Some("listen"), mistake));
        }
        let offer = self.offer(&file)?;
        let changes = target.reload(&offer);
        changes.map_err(|error| self.locate(&file, error))
    }

    /// The configuration described by `file`.
    fn offer(&self, file: &TargetFile) -> Result<Offer> {
        file.offer().map_err(|error| {
            let place = error.place.clone();
            self.origin.locate(Some(&place), error)
        })
    }

    /// Adds a mistake's place in `file`.
    fn locate(&self, file: &TargetFile, error: TargetError) -> anyhow::Error {
        let place = file.place_of(&error);
        self.origin.locate(place.as_deref(), error)
    }

    /// See [`Program::reload`]; reports the result.
    fn reload_and_report(&self, target: &mut Target) -> Result<()> {
        match self.reload(target) {
            Ok(changes) if self.settings.process.json => {
                let event = serde_json::json!({
                    "event": "reloaded", "added": changes.added, "removed": changes.removed,
                    "changed": changes.changed,
                });
                print_json(&event.to_string())
            }
            Ok(changes) => print_text(|out| writeln!(out, "reloaded: {changes}")),
            Err(error) => {
                remark(&format!(
                    "wansan target: not reloaded, nothing has changed: {}",
                    one_line(&error)
                ));
                Ok(())
            }
        }
    }
}

/// Runs `wansan target`: serves until SIGINT or SIGTERM, and rereads its file on SIGHUP. Without a file, SIGHUP ends it
/// as well.
///
/// # Errors
/// The error that prevents serving.
pub(crate) fn run(args: &TargetArgs) -> Result<ExitCode> {
    let program = args.program()?;
    let TargetSettings { file, process } = &program.settings;
    let recording = record::prepare(&process.record.place, "target")?;
    let mut orders = service::Orders::new()?;
    let offer = program.offer(file)?;
    let report = |line: &str| remark(&format!("wansan target: {line}"));
    let config = process.config(&file.listen, offer, report);
    let started = Target::start(&config);
    let mut target = started.map_err(|error| program.locate(file, error))?;
    let metrics = match process.metrics {
        Some(listen) => Some(metrics::serve(listen.0.0, target.observer())?),
        None => None,
    };
    let addresses: Vec<String> = target.addresses().iter().map(ToString::to_string).collect();
    if process.json {
        let mut listening = serde_json::json!({
            "event": "listening", "address": addresses[0], "addresses": addresses,
        });
        if let Some(metrics) = metrics {
            listening["metrics"] = metrics.to_string().into();
        }
        print_json(&listening.to_string())?;
    } else {
        print_text(|out| {
            for spec in &config.offer.targets {
                let (portals, luns) = (addresses.join(", "), spec.luns.len());
                writeln!(out, "{} at {portals}, {luns} LUN(s)", spec.name)?;
            }
            match metrics {
                Some(metrics) => writeln!(out, "metrics at http://{metrics}/metrics"),
                None => Ok(()),
            }
        })?;
    }
    let status = format!("serves at {}", addresses.join(", "));
    orders.obey(program.origin.file().is_some(), |reloads| {
        if reloads {
            program.reload_and_report(&mut target)?;
        }
        Ok(status.clone())
    })?;
    if let Some(drain) = process.drain.some() {
        let left = target.drain(drain, || orders.hurries());
        if !left {
            remark(
                "wansan target: some initiators have not logged out: their sessions are dropped",
            );
        }
    }
    let recorders = target.stop();
    recording.write(&recorders)?;
    let dropped: u64 = recorders.iter().map(Recorder::dropped).sum();
    if dropped > 0 {
        remark(&format!(
            "wansan target: {dropped} records dropped: raise --record-memory"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
