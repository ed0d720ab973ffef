//! Our initiator on the client, as the questions use it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use wansan_iscsi::initiator::Schedule;
use wansan_iscsi::keys::Wanted;
use wansan_lab::world::Node;
use wansan_san::load;
use wansan_san::url::IscsiUrl;
use wansan_san::{DelayedAck, InitiatorConfig, Route, Sessions};
use wansan_schema::BenchReport;
use wansan_trace::Kinds;
use wansan_workload::sequence::{Operation, Pattern};
use wansan_workload::{Limit, LoadConfig};

/// A load on a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) operation: Operation,
    pub(crate) pattern: Pattern,
    pub(crate) block_bytes: u32,
    pub(crate) parallel: usize,
    pub(crate) warmup: Duration,
    pub(crate) limit: Limit,
}

/// How long connecting and logging in to `url` takes from `host`.
pub(crate) fn login_time(host: &Node, url: &str) -> Result<Duration> {
    let url = parsed(url)?;
    host.namespace().run(move || {
        let began = Instant::now();
        let sessions = connect(&url, vec![Route::to(&url)], 1)?;
        let took = began.elapsed();
        let _ = sessions.logout();
        Ok(took)
    })
}

/// Runs `loads` one after the other on one session with `url` from `host`; gives the report of the
/// last.
pub(crate) fn run(host: &Node, url: &str, loads: &[Load]) -> Result<BenchReport> {
    let url = parsed(url)?;
    let routes = vec![Route::to(&url)];
    run_over(host, url, routes, loads)
}

/// The same on a session over each of these routes.
pub(crate) fn run_over(
    host: &Node,
    url: IscsiUrl,
    routes: Vec<Route>,
    loads: &[Load],
) -> Result<BenchReport> {
    let loads = loads.to_vec();
    host.namespace().run(move || {
        let tasks = loads.iter().map(|load| load.parallel).max().unwrap_or(1);
        let mut sessions = connect(&url, routes, tasks)?;
        let mut last = None;
        for load in &loads {
            let config = LoadConfig {
                operation: load.operation,
                pattern: load.pattern,
                block_bytes: load.block_bytes,
                listed: Default::default(),
                parallel: load.parallel,
                batch: false,
                limit: load.limit,
                warmup: load.warmup,
                drain: None,
                rate_per_s: None,
                seed: 1,
                verify: false,
            };
            let report = load::Load::ready(&mut sessions, url.lun, &config)?.run(|_| {})?;
            if let Some(error) = &report.first_error {
                anyhow::bail!("an I/O failed: {error}");
            }
            last = Some(report);
        }
        let _ = sessions.logout();
        last.context("no load was asked for")
    })
}

pub(crate) fn parsed(url: &str) -> Result<IscsiUrl> {
    url.parse().with_context(|| format!("{url} is no URL"))
}

/// With the settings that a user gets who gives none.
fn connect(url: &IscsiUrl, routes: Vec<Route>, tasks: usize) -> Result<Sessions> {
    let config = InitiatorConfig {
        name: "iqn.2026-01.net.wansan:bench".to_owned(),
        isid: [0x80, 0, 0, 0, 0, 1],
        wanted: Wanted::default(),
        tasks,
        multipath: routes.len() > 1,
        routes,
        reservation: None,
        schedule: Schedule::default(),
        congestion_control: None,
        delayed_ack: DelayedAck::On,
        chap: None,
        replacement_timeout: Duration::ZERO,
        patience: Duration::from_secs(30),
        tcp_interval: Duration::from_secs(1),
    };
    Ok(Sessions::connect(url, &config, Kinds::NONE, 0)?)
}
