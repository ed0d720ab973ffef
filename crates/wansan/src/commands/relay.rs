//! `wansan relay`: splits TCP connections.

pub(super) mod metrics;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use wansan_relay::{
    Fallback, Law, ListenerConfig, ProcessSettings, Relay, RelayError, RelayFile, RelaySettings,
    Rules, Standing,
};
use wansan_schema::RelayEnd;
use wansan_trace::Recorder;

use super::options::{Elsewhere, FileOr, Options};
use super::settings_file::{self, Origin};
use super::{one_line, print_json, print_text, record, remark, service};

/// Arguments of `wansan relay`.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    #[command(flatten)]
    file: FileOr<ListenerConfig>,
    #[command(flatten)]
    process: Options<ProcessSettings>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

/// A relay's settings and their origin.
struct Program {
    settings: RelaySettings,
    origin: Origin,
}

impl RelayArgs {
    fn program(&self) -> Result<Program> {
        if let Some(settings) = self.elsewhere.settings()? {
            let origin = Origin::StandardInput;
            return Ok(Program { settings, origin });
        }
        let origin = self.file.origin();
        let settings = RelaySettings {
            file: match origin.file() {
                Some(path) => settings_file::read(path)?,
                None => RelayFile {
                    listener: vec![self.file.settings()?],
                },
            },
            process: self.process.settings()?,
        };
        Ok(Program { settings, origin })
    }
}

impl Program {
    /// Adds the place of a mistake in the listeners.
    fn locate(&self, listeners: &[ListenerConfig], error: RelayError) -> anyhow::Error {
        let place = error.place(listeners);
        self.origin.locate(place.as_deref(), error)
    }

    /// Installs the rules that are needed now, and removes others; without `--setup`, prints the commands.
    fn set_up(&self, relay: &Relay, needed: &[Rules], standing: &mut Standing) -> Result<()> {
        if self.settings.process.setup {
            return Ok(standing.change(relay, needed)?);
        }
        for rules in needed.iter().filter(|_| !self.settings.process.json) {
            print_text(|out| write!(out, "{}", rules.script()))?;
        }
        Ok(())
    }

    /// Rereads the file, applies it to `relay`, and reports the result. Listeners that are active when their rules fail
    /// stay active: they carry flows that arrive by other means.
    fn reload(&self, relay: &mut Relay, standing: &mut Standing) -> Result<()> {
        let path = self.origin.file().expect("only a file is read again");
        let reloaded = settings_file::read(path).and_then(|RelayFile { listener }| {
            let listeners = listener;
            let changes = relay.reload(&listeners);
            let changes = changes.map_err(|error| self.locate(&listeners, error))?;
            let rules = rules(relay, &listeners)?;
            Ok((changes, listeners, rules))
        });
        let (changes, listeners, rules) = match reloaded {
            Ok(reloaded) => reloaded,
            Err(error) => {
                remark(&format!("wansan relay: not reloaded: {}", one_line(&error)));
                return Ok(());
            }
        };
        if let Err(error) = self.set_up(relay, &rules, standing) {
            remark(&format!(
                "wansan relay: reloaded, but not all rules were installed; where one failed, the \
                 previous one stays: {}",
                one_line(&error)
            ));
        }
        if self.settings.process.json {
            let mut event = serde_json::json!({
                "event": "reloaded", "added": changes.added, "removed": changes.removed,
                "changed": changes.changed,
            });
            add_places(&mut event, relay, &rules);
            return print_json(&event.to_string());
        }
        print_text(|out| {
            writeln!(out, "reloaded: {changes}")?;
            write_places(out, relay, &listeners)
        })
    }

    /// Reports where it listens.
    fn report_start(
        &self,
        relay: &Relay,
        configs: &[ListenerConfig],
        rules: &[Rules],
        metrics: Option<SocketAddr>,
    ) -> Result<()> {
        if self.settings.process.json {
            let mut listening = serde_json::json!({ "event": "listening" });
            if let Some(metrics) = metrics {
                listening["metrics"] = metrics.to_string().into();
            }
            add_places(&mut listening, relay, rules);
            return print_json(&listening.to_string());
        }
        print_text(|out| {
            write_places(out, relay, configs)?;
            match metrics {
                Some(metrics) => writeln!(out, "metrics at http://{metrics}/metrics"),
                None => Ok(()),
            }
        })
    }

    /// Reports its totals.
    fn report_end(&self, relay: &Relay, left: usize) -> Result<()> {
        let meter = relay.observer().meter();
        if self.settings.process.json {
            let reasons = Fallback::ALL.map(|reason| reason.name().to_owned());
            let mut event = serde_json::to_value(RelayEnd {
                accepted: meter.accepted,
                turned_away: meter.turned_away,
                looped: meter.looped,
                finished: meter.finished,
                lost: meter.lost,
                refused: meter.refused,
                unreachable: meter.unreachable,
                timed_out: meter.timed_out,
                failed: meter.failed,
                cut_off: left as u64,
                onward_bytes: meter.onward_bytes,
                back_bytes: meter.back_bytes,
                ece_signals: meter.ece_signals,
                fallbacks: reasons.into_iter().zip(meter.fallbacks).collect(),
            })?;
            event["event"] = "ended".into();
            return print_json(&event.to_string());
        }
        print_text(|out| {
            writeln!(
                out,
                "{} flows: {} finished, {} lost, {} not connected, {left} cut off; {} B onward, {} B back",
                meter.accepted - meter.turned_away - meter.looped,
                meter.finished,
                meter.lost,
                meter.refused + meter.unreachable + meter.timed_out + meter.failed,
                meter.onward_bytes,
                meter.back_bytes,
            )
        })
    }
}

fn addresses(relay: &Relay) -> Vec<String> {
    relay.addresses().iter().map(ToString::to_string).collect()
}

/// The rules that divert packets to `relay`'s transparent listeners.
fn rules(relay: &Relay, configs: &[ListenerConfig]) -> Result<Vec<Rules>> {
    let listeners = relay.addresses().into_iter().zip(configs);
    let transparent = listeners.filter(|(_, config)| config.transparent);
    let rules = transparent.map(|(address, config)| Rules::new(address, &config.to));
    Ok(rules.collect::<Result<_, _>>()?)
}

/// Adds to an event where `relay` listens, its backlog laws, and the rules that divert packets there.
fn add_places(event: &mut serde_json::Value, relay: &Relay, rules: &[Rules]) {
    let addresses = addresses(relay);
    event["address"] = addresses[0].as_str().into();
    event["addresses"] = addresses.into();
    let laws: Vec<&str> = relay.laws().into_iter().map(Law::name).collect();
    event["laws"] = laws.into();
    if !rules.is_empty() {
        let scripts: Vec<String> = rules.iter().map(Rules::script).collect();
        event["rules"] = scripts.into();
    }
}

/// Prints where `relay` listens and where it connects to, a line each.
fn write_places(out: &mut dyn Write, relay: &Relay, configs: &[ListenerConfig]) -> io::Result<()> {
    for (config, address) in configs.iter().zip(relay.addresses()) {
        let takes = if config.transparent {
            "intercepts"
        } else {
            "forwards to"
        };
        writeln!(out, "{address} {takes} {}", config.to)?;
    }
    Ok(())
}

/// Runs `wansan relay`: carries flows until SIGINT or SIGTERM, and rereads its file on SIGHUP. Without a file, SIGHUP
/// ends it as well.
///
/// # Errors
/// The error that prevents listening.
pub(crate) fn run(args: &RelayArgs) -> Result<ExitCode> {
    let program = args.program()?;
    let RelaySettings { file, process } = &program.settings;
    let recording = record::prepare(&process.record, "relay")?;
    let mut orders = service::Orders::new()?;
    let report = |line: &str| remark(&format!("wansan relay: {line}"));
    let started = Relay::start(&program.settings, report);
    let mut relay = started.map_err(|error| program.locate(&file.listener, error))?;
    let metrics = match process.metrics {
        Some(listen) => Some(metrics::serve(listen.0.0, relay.observer())?),
        None => None,
    };
    let mut standing = Standing::default();
    let rules = rules(&relay, &file.listener)?;
    program.set_up(&relay, &rules, &mut standing)?;
    program.report_start(&relay, &file.listener, &rules, metrics)?;
    let status = |relay: &Relay| format!("relays at {}", addresses(relay).join(", "));
    orders.obey(program.origin.file().is_some(), |reloads| {
        if reloads {
            program.reload(&mut relay, &mut standing)?;
        }
        Ok(status(&relay))
    })?;
    relay.drain(process.drain.0, || orders.hurries());
    let left = relay.observer().flows_now();
    if left > 0 {
        remark(&format!(
            "wansan relay: {left} flows are still open: they are reset"
        ));
    }
    program.report_end(&relay, left)?;
    let recorders = relay.stop();
    recording.write(&recorders)?;
    let dropped: u64 = recorders.iter().map(Recorder::dropped).sum();
    if dropped > 0 {
        remark(&format!(
            "wansan relay: {dropped} records dropped: raise --record-memory"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
