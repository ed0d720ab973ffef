//! `wansan attach`: serves remote disks to programs on this host.

mod disks;
mod list;
mod metrics;
mod together;
mod waiting;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use wansan_attach::control::Control;
use wansan_attach::settings::{AttachFile, AttachSettings, DiskSettings, ProcessSettings};
use wansan_attach::{AttachConfig, AttachError, Attached, Device};
use wansan_mistake::Mistake;
use wansan_trace::Recorder;

use self::disks::{Disk, Disks};
use self::together::attach_all;
use self::waiting::{Waiting, attach_later};
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
    /// Detach a disk, after all acknowledged data is on its medium
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

/// Why a disk could not be attached.
struct Refused {
    error: anyhow::Error,
    /// See [`AttachError::may_pass`].
    may_pass: bool,
}

struct Program {
    process: ProcessSettings,
    origin: Origin,
    disks: Disks,
}

/// How long a reload waits for disks removed from the file, before others take their places.
const RELOAD_TIME: Duration = Duration::from_secs(30);

/// Runs `wansan attach`: serves until SIGINT or SIGTERM, then writes acknowledged data back to the disks. A second
/// signal aborts that. SIGHUP rereads the file.
///
/// # Errors
/// The error that prevents serving.
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
    let program = Arc::new(Program {
        process: settings.process,
        origin,
        disks: Disks::default(),
    });
    let mut control = None;
    let started = program.start(&settings.file, || orders.hurries());
    let obeyed = started.and_then(|goes_on| {
        if !goes_on {
            return Ok(());
        }
        control = program.control();
        program.announce_all()?;
        orders.obey(program.origin.file().is_some(), |again| {
            if again {
                program.reload()?;
            }
            Ok(program.summary())
        })
    });
    // Acknowledged data are written back in any case.
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
    drop(control);
    Ok(match is_safe {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Program {
    /// Attaches the disks of a file. If there are several, those with unreachable targets are retried later. Returns
    /// whether to continue: `false` if `gives_up` returned true before all have been tried.
    fn start(self: &Arc<Self>, file: &AttachFile, gives_up: impl FnMut() -> bool) -> Result<bool> {
        self.check(file)?;
        let disks = file.disk.iter().cloned().enumerate().collect();
        let (tried, goes_on) = attach_all(self, disks, gives_up);
        let mut away = Vec::new();
        let mut refusal = None;
        for (place, settings, attempt) in tried {
            match attempt {
                Ok(attached) => self.disks.served().push(Disk { settings, attached }),
                Err(refused) if refused.may_pass => away.push((place, settings, refused.error)),
                Err(refused) => refusal = refusal.or(Some(refused.error)),
            }
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if !goes_on {
            return Ok(false);
        }
        if self.disks.served().is_empty() {
            // A service manager restarts it.
            away.into_iter().try_for_each(|(.., error)| Err(error))?;
            return Ok(true);
        }
        for (place, settings, error) in away {
            attach_later(self, &settings, place, &error);
        }
        Ok(true)
    }

    /// Checks a file before anything is attached or detached.
    fn check(&self, file: &AttachFile) -> Result<()> {
        if file.disk.is_empty() {
            let mistake = Mistake::new("at least one disk must be given");
            return Err(self.origin.locate(Some("disk"), mistake));
        }
        file.check()
            .map_err(|(place, error)| self.mistake(place, &error))?;
        for (place, settings) in file.disk.iter().enumerate() {
            // An attached disk no longer needs its secrets.
            if !self.has(settings) {
                let config = settings.config(&self.process, |_| {});
                config.map_err(|error| self.mistake(place, &error))?;
            }
        }
        Ok(())
    }

    /// The error for the disk at index `place` of the file.
    fn mistake(&self, place: usize, error: &impl std::error::Error) -> anyhow::Error {
        let place = self.origin.file().map(|_| format!("disk[{place}]"));
        self.origin
            .locate(place.as_deref(), Mistake::new(error.to_string()))
    }

    /// Whether a disk is served or waits for its target.
    fn has(&self, settings: &DiskSettings) -> bool {
        let waits = |disk: &Waiting| disk.settings == *settings;
        let is_served = |disk: &Disk| disk.settings == *settings;
        // Checked in this order, as a waiting disk may become served in between.
        self.disks.waiting().iter().any(waits) || self.disks.served().iter().any(is_served)
    }

    /// Starts the control socket, for listing and detaching disks.
    fn control(&self) -> Option<Control> {
        let disks = self.disks.clone();
        let control = Control::serve(move |request| list::answer(&disks, &request), list::end);
        if let Err(error) = &control {
            remark(&format!(
                "wansan attach: `wansan attach list` will not see it: {error}"
            ));
        }
        control.ok()
    }

    /// Prints what is served where, once it can be listed and detached.
    fn announce_all(&self) -> Result<()> {
        let metrics = match self.process.metrics {
            Some(listen) => Some(metrics::serve(listen.0.0, self.disks.clone())?),
            None => None,
        };
        for disk in &*self.disks.served() {
            self.print(&self.announcement(disk))?;
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

    fn attach(&self, settings: &DiskSettings, place: usize) -> Result<Attached, Refused> {
        let attached = self.log_in(settings, place)?;
        self.set_up_device(attached, place)
    }

    /// Attaches a disk, without its block device.
    fn log_in(&self, settings: &DiskSettings, place: usize) -> Result<Attached, Refused> {
        let config = settings.config(&self.process, |line| {
            remark(&format!("wansan attach: {line}"));
        });
        let config: AttachConfig = config.map_err(|error| Refused {
            error: self.mistake(place, &error),
            may_pass: false,
        })?;
        Attached::start(&config).map_err(|error| self.refused(place, &error))
    }

    fn set_up_device(&self, mut attached: Attached, place: usize) -> Result<Attached, Refused> {
        match attached.set_up_device() {
            Ok(()) => Ok(attached),
            Err(error) => Err(self.refused(place, &error)),
        }
    }

    fn refused(&self, place: usize, error: &AttachError) -> Refused {
        Refused {
            error: self.mistake(place, error),
            may_pass: error.may_pass(),
        }
    }

    /// The line that tells what is served where.
    fn announcement(&self, disk: &Disk) -> String {
        let Disk { settings, attached } = disk;
        let (facts, place) = (attached.facts(), attached.place());
        let (url, bytes) = (&settings.initiator.url, facts.capacity.bytes());
        let device = attached.device().map(|device| device.name().to_string());
        if self.process.json {
            let event = serde_json::json!({
                "event": "attached", "url": url.to_string(), "nbd": place.to_string(), "device": device,
                "size_bytes": bytes, "block_bytes": facts.block_bytes(), "model": facts.model,
            });
            return event.to_string();
        }
        let gib = bytes as f64 / f64::from(1 << 30);
        let device = device.map_or(String::new(), |device| format!(" and {device}"));
        format!("{url}, {gib:.2} GiB, at {place}{device}")
    }

    fn print(&self, line: &str) -> Result<()> {
        match self.process.json {
            true => print_json(line),
            false => print_text(|out| writeln!(out, "{line}")),
        }
    }

    /// A status line for `systemctl status`.
    fn summary(&self) -> String {
        // Lock one at a time: a disk that becomes served locks both in the opposite order.
        let waiting = self.disks.waiting().len();
        let disks = self.disks.served();
        let places = disks.iter().map(|disk| disk.attached.place().to_string());
        let serves = format!("serves {}", places.collect::<Vec<_>>().join(", "));
        match waiting {
            0 => serves,
            1 => format!("{serves}; 1 disk waits for its target"),
            waiting => format!("{serves}; {waiting} disks wait for their targets"),
        }
    }

    /// Rereads the file: attaches new disks, detaches removed ones, and keeps the others.
    fn reload(self: &Arc<Self>) -> Result<()> {
        let path = self.origin.file().context("only a file is read again")?;
        let read = settings_file::read(path).and_then(|file| {
            self.check(&file)?;
            Ok(file)
        });
        let file: AttachFile = match read {
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
        self.disks
            .waiting()
            .retain(|disk| file.disk.contains(&disk.settings));
        let gone = self
            .disks
            .take(|disk| !file.disk.contains(&disk.settings) && !is_used(disk));
        let removed = gone.len();
        // A slower one continues in the background.
        self.disks.detach_within(gone, RELOAD_TIME);
        let stays = self.disks.served().len();
        let mut added = 0;
        let disks = file.disk.into_iter().enumerate();
        let new = disks.filter(|(_, settings)| !self.has(settings)).collect();
        let (tried, _) = attach_all(self, new, || false);
        for (place, settings, attempt) in tried {
            match attempt {
                Ok(attached) => {
                    let disk = Disk { settings, attached };
                    self.print(&self.announcement(&disk))?;
                    self.disks.served().push(disk);
                    added += 1;
                }
                Err(refused) if refused.may_pass => {
                    attach_later(self, &settings, place, &refused.error);
                }
                Err(refused) => remark(&format!("wansan attach: {}", one_line(&refused.error))),
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
