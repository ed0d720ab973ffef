//! A continuous diagnosis: in the terminal, as a page in browsers, and as metrics.

use std::io::IsTerminal;

use anyhow::{Result, bail};
use serde::Serialize;
use wansan_diagnose::Diagnosis;
use wansan_trace::terminal::Escaping;
use wansan_watch::{Audience, LivePage, TextScreen, message};

use super::DiagnoseArgs;
use super::metrics::Metrics;
use super::text;
use crate::commands::remark;

/// Key of the newest slice, which browsers receive first.
const NEWEST: u64 = 0;

/// The outputs for slices.
pub(super) struct Live {
    screen: Option<TextScreen>,
    page: Option<Audience>,
    metrics: Option<Metrics>,
}

/// A message to the page.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Message<'d> {
    Slice { at_s: f64, diagnosis: &'d Diagnosis },
    Over,
}

impl Live {
    /// Opens the requested outputs.
    ///
    /// # Errors
    /// An address cannot be listened at, or standard output is not a terminal.
    pub(super) fn open(args: &DiagnoseArgs) -> Result<Live> {
        let page = args
            .web
            .map(|listen| Audience::serve(listen, LivePage::Diagnosis));
        let page = page.transpose()?;
        let metrics = args.prometheus.map(Metrics::serve).transpose()?;
        if let Some(page) = &page {
            let address = page.address();
            remark(&format!("live page at http://{address}/"));
            if !address.ip().is_loopback() {
                remark("wansan diagnose: anyone who can reach that address sees the page");
            }
        }
        if let Some(metrics) = &metrics {
            remark(&format!("metrics at http://{}/metrics", metrics.address()));
        }
        if args.live && !std::io::stdout().is_terminal() {
            bail!(
                "standard output is not a terminal: choose --web PORT or --prometheus PORT instead of --live"
            );
        }
        let screen = args.live.then(TextScreen::open).transpose()?;
        Ok(Live {
            screen,
            page,
            metrics,
        })
    }

    /// Shows a slice that ended `at_s` seconds after the start.
    ///
    /// # Errors
    /// The terminal cannot be drawn on.
    pub(super) fn take(&mut self, slice: &Diagnosis, at_s: f64) -> Result<()> {
        if let Some(page) = &self.page {
            let text = message(&Message::Slice {
                at_s,
                diagnosis: slice,
            })?;
            page.keep(NEWEST, text.clone());
            page.send(text);
        }
        if let Some(metrics) = &self.metrics {
            metrics.take(slice);
        }
        if let Some(screen) = &mut self.screen {
            let mut bytes = Vec::new();
            text::print(&mut Escaping(&mut bytes), slice)?;
            screen.show(String::from_utf8_lossy(&bytes).into_owned())?;
        }
        Ok(())
    }

    /// Whether to continue: `false` once the user has quit the terminal.
    ///
    /// # Errors
    /// No keys can be read from the terminal.
    pub(super) fn goes_on(&mut self) -> Result<bool> {
        match &mut self.screen {
            Some(screen) => Ok(screen.answer()?),
            None => Ok(true),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(page) = &self.page
            && let Ok(text) = message(&Message::Over)
        {
            page.send(text);
        }
    }
}
