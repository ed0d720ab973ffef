//! `wansan attach`: serves remote disks to programs of this host.

mod disks;
mod list;
mod metrics;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use wansan_attach::control::Control;
use wansan_attach::settings::{AttachFile, AttachSettings, DiskSettings, ProcessSettings};
use wansan_attach::{AttachConfig, Attached, Device};
use wansan_mistake::Mistake;
use wansan_trace::Recorder;

use self::disks::{Disk, Disks};
use super::options::{Elsewhere, FileOr, Options};
use super::settings_file::{self, Origin};
use super::{one_line, print_json, print_text, record, remark, service};

/// Arguments of `wansan attach`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AttachArgs {
    #[command(subcommand)]
    command: Option<AttachCommand>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum AttachCommand {
    /// List the disks that this user has attached
    List(list::ListArgs),
    /// Detach a disk, once what was acknowledged is on its medium
    Detach(list::DetachArgs),
}

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    file: FileOr<DiskSettings>,
    #[command(flatten)]
    process: Options<ProcessSettings>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

struct Program {
    process: ProcessSettings,
    origin: Origin,
    disks: Disks,
}

/// How long a reload waits for disks that are gone from the file, before others take their places.
const RELOAD_TIME: Duration = Duration::from_secs(30);

/// Carries out `wansan attach`: serves until SIGINT or SIGTERM, then writes what was acknowledged to the disks. A
/// second signal gives that up. SIGHUP reads the file again.
///
/// # Errors
/// What makes it impossible to serve.
pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode> {
    match &args.command {
        Some(AttachCommand::List(args)) => list::list(args),
        Some(AttachCommand::Detach(args)) => list::detach(args),
        None => serve(&args.serve),
    }
}

fn serve(args: &ServeArgs) -> Result<ExitCode> {
    let (settings, origin) = match args.elsewhere.settings()? {
        Some(settings) => (settings, Origin::StandardInput),
        None => {
            let origin = args.file.origin();
            let file = match origin.file() {
                Some(path) => settings_file::read(path)?,
                None => AttachFile {
                    disk: vec![args.file.settings()?],
                },
            };
            let process = args.process.settings()?;
            (AttachSettings { file, process }, origin)
        }
    };
    let recording = record::prepare(&settings.process.record.place, "initiator")?;
    let mut orders = service::Orders::new()?;
    let program = Program {
        process: settings.process,
        origin,
        disks: Disks::default(),
    };
    program.start(&settings.file)?;
    let disks = program.disks.clone();
    let control = Control::serve(move |request| list::answer(&disks, &request), list::end);
    if let Err(error) = &control {
        remark(&format!(
            "wansan attach: `wansan attach list` will not see it: {error}"
        ));
    }
    let reloads = program.origin.file().is_some();
    let obeyed = program.announce_all().and_then(|()| {
        orders.obey(reloads, |again| {
            if again {
                program.reload()?;
            }
            Ok(program.summary())
        })
    });
    // Whatever went wrong, what was acknowledged is written.
    let is_safe = program.disks.end(|| orders.hurries());
    obeyed?;
    let recorders = program.disks.take_records();
    recording.write(&recorders)?;
    let dropped: u64 = recorders.iter().map(Recorder::dropped).sum();
    if dropped > 0 {
        remark(&format!(
            "wansan attach: {dropped} records dropped: raise --record-memory"
        ));
    }
    Ok(match is_safe {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Program {
    fn start(&self, file: &AttachFile) -> Result<()> {
        if file.disk.is_empty() {
            let mistake = Mistake::new("at least one disk must be given");
            return Err(self.origin.locate(Some("disk"), mistake));
        }
        for (place, settings) in file.disk.iter().enumerate() {
            let attached = self.attach(settings, place)?;
            self.disks.served().push(Disk {
                settings: settings.clone(),
                attached,
            });
        }
        Ok(())
    }

    /// Says what is served where, once it can be listed and detached.
    fn announce_all(&self) -> Result<()> {
        let metrics = match self.process.metrics {
            Some(listen) => Some(metrics::serve(listen.0.0, self.disks.clone())?),
            None => None,
        };
        for disk in &*self.disks.served() {
            self.announce(disk)?;
        }
        match metrics {
            Some(metrics) if self.process.json => {
                let event =
                    serde_json::json!({ "event": "metrics", "metrics": metrics.to_string() });
                print_json(&event.to_string())
            }
            Some(metrics) => print_text(|out| writeln!(out, "metrics at http://{metrics}/metrics")),
            None => Ok(()),
        }
    }

    fn attach(&self, settings: &DiskSettings, place: usize) -> Result<Attached> {
        let locate = |error: String| {
            let place = self.origin.file().map(|_| format!("disk[{place}]"));
            self.origin.locate(place.as_deref(), Mistake::new(error))
        };
        let config: AttachConfig = settings
            .config(&self.process, |line| {
                remark(&format!("wansan attach: {line}"));
            })
            .map_err(|error| locate(error.to_string()))?;
        Attached::start(&config).map_err(|error| locate(error.to_string()))
    }

    fn announce(&self, disk: &Disk) -> Result<()> {
        let Disk { settings, attached } = disk;
        let (facts, place) = (attached.facts(), attached.place());
        let (url, bytes) = (&settings.initiator.url, facts.capacity.bytes());
        if self.process.json {
            let device = attached.device().map(|device| device.name().to_string());
            let event = serde_json::json!({
                "event": "attached", "url": url.to_string(), "nbd": place.to_string(), "device": device,
                "size_bytes": bytes, "block_bytes": facts.block_bytes(), "model": facts.model,
            });
            return print_json(&event.to_string());
        }
        print_text(|out| {
            let gib = bytes as f64 / f64::from(1 << 30);
            write!(out, "{url}, {gib:.2} GiB, at {place}")?;
            match attached.device() {
                Some(device) => writeln!(out, " and {}", device.name()),
                None => writeln!(out),
            }
        })
    }

    /// One line for `systemctl status`.
    fn summary(&self) -> String {
        let disks = self.disks.served();
        let places = disks.iter().map(|disk| disk.attached.place().to_string());
        format!("serves {}", places.collect::<Vec<_>>().join(", "))
    }

    /// Reads the file again: disks that are new in it are attached, those that are gone are detached, others stay.
    fn reload(&self) -> Result<()> {
        let path = self.origin.file().context("only a file is read again")?;
        let file: AttachFile = match settings_file::read(path) {
            Ok(file) => file,
            Err(error) => {
                remark(&format!(
                    "wansan attach: not reloaded: {}",
                    one_line(&error)
                ));
                return Ok(());
            }
        };
        let is_used = |disk: &Disk| disk.attached.device().is_some_and(Device::is_used);
        for disk in &*self.disks.served() {
            if !file.disk.contains(&disk.settings) && is_used(disk) {
                let url = &disk.settings.initiator.url;
                remark(&format!(
                    "wansan attach: {url} stays as it is: its device is in use"
                ));
            }
        }
        let gone = self
            .disks
            .take(|disk| !file.disk.contains(&disk.settings) && !is_used(disk));
        let removed = gone.len();
        // One that takes longer goes on in the background.
        self.disks.detach_within(gone, RELOAD_TIME);
        let stays = self.disks.served().len();
        let mut added = 0;
        for (place, settings) in file.disk.iter().enumerate() {
            let is_known = |disk: &Disk| disk.settings == *settings;
            if self.disks.served().iter().any(is_known) {
                continue;
            }
            match self.attach(settings, place) {
                Ok(attached) => {
                    let settings = settings.clone();
                    let disk = Disk { settings, attached };
                    self.announce(&disk)?;
                    self.disks.served().push(disk);
                    added += 1;
                }
                Err(error) => remark(&format!("wansan attach: {}", one_line(&error))),
            }
        }
        if self.process.json {
            let event = serde_json::json!({ "event": "reloaded", "added": added, "removed": removed, "unchanged": stays });
            return print_json(&event.to_string());
        }
        print_text(|out| {
            writeln!(
                out,
                "reloaded: {added} added, {removed} removed, {stays} unchanged"
            )
        })
    }
}
