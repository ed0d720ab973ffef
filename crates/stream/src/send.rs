//! The sending end, which measures.

use std::time::Duration;

use wansan_schema::StreamReport;
use wansan_server::poller::Poller;
use wansan_tcp::connection;
use wansan_trace::event::{Connection, Role};
use wansan_trace::{Instant, Recorder, clock};
use wansan_workload::stream::{self, END_PATIENCE, filling};

use crate::error::StreamError;
use crate::flow::Flow;
use crate::settings::{Limit, SendSettings};
use crate::socket;

/// How often progress is reported.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Progress of a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Fraction completed, 0 to 1.
    pub fraction: f64,
    /// Recent write rate in bytes per second, over all streams.
    pub bytes_per_s: f64,
}

/// Connected streams that wait to start.
#[derive(Debug)]
pub struct Sender {
    settings: SendSettings,
    flows: Vec<Flow>,
    poller: Poller,
    trace: Recorder,
}

impl Sender {
    /// Opens the streams, and waits for each receiver's welcome message. TCP_INFO samples go to `trace`.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn connect(settings: &SendSettings, trace: Recorder) -> Result<Sender, StreamError> {
        let addresses = socket::resolve(&settings.to)?;
        let here = socket::clock()?;
        let poller = Poller::new()?;
        let flows = (0..settings.load.flows as usize).map(|number| {
            let flow = Flow::connect(number, settings, &addresses, here)?;
            poller.add(&flow, number as u64)?;
            Ok(flow)
        });
        Ok(Sender {
            settings: settings.clone(),
            flows: flows.collect::<Result<_, StreamError>>()?,
            poller,
            trace,
        })
    }

    /// Sends and measures; `report` gets the progress at intervals.
    ///
    /// # Errors
    /// [`StreamError`] when a stream breaks, the receiver violates the protocol, or no mark came back.
    pub fn run(&mut self, mut report: impl FnMut(Progress)) -> Result<StreamReport, StreamError> {
        if self.trace.tcp.is_kept() {
            for flow in &mut self.flows {
                flow.ends = self.trace.name(&flow.ends_name());
            }
        }
        let begin = clock::now();
        let (to, most_bytes) = match self.settings.load.limit() {
            Limit::Time(time) => (begin + self.settings.load.warmup.0 + time, u64::MAX),
            Limit::Bytes(bytes) => (Instant::FAR_FUTURE, bytes),
        };
        let window = (begin + self.settings.load.warmup.0, to);
        let rate = self.settings.load.stream.rate_bytes_per_s();
        for flow in &mut self.flows {
            flow.sending.release(window, rate, most_bytes, begin);
        }
        let filling = filling();
        let mut ready = Vec::new();
        let mut next_sample = begin;
        let mut reported = (begin, 0);
        // Whether each stream is registered for writing.
        let mut waits_to_write = vec![false; self.flows.len()];
        loop {
            let now = clock::now();
            if now >= to || self.flows.iter().all(|flow| flow.has_ended) {
                break;
            }
            if now >= next_sample {
                next_sample = now + self.settings.load.tcp.tcp_interval.0;
                self.sample(now);
            }
            if now >= reported.0 + REPORT_EVERY {
                reported = self.report_progress(&mut report, begin, reported, now);
            }
            let mut deadline = to.min(next_sample);
            for (number, flow) in self.flows.iter_mut().enumerate() {
                if let Some(due) = flow.sending.due().filter(|_| !flow.has_finished) {
                    flow.wants_to_write = due <= now;
                    if due > now {
                        deadline = deadline.min(due);
                    }
                }
                if waits_to_write[number] != flow.wants_to_write {
                    waits_to_write[number] = flow.wants_to_write;
                    let source = number as u64;
                    self.poller
                        .interest(&*flow, source, true, flow.wants_to_write)?;
                }
            }
            self.poller.wait(now, Some(deadline), &mut ready)?;
            for event in &ready {
                let flow = &mut self.flows[event.source as usize];
                if event.read {
                    flow.read()?;
                }
                if event.write && flow.wants_to_write {
                    flow.write(&filling)?;
                }
                if flow.has_ended {
                    self.poller.remove(&*flow)?;
                }
            }
        }
        let ended = clock::now();
        self.sample(ended);
        let report = self.report(ended.min(to))?;
        self.end()?;
        Ok(report)
    }

    /// The recorded events.
    #[must_use]
    pub fn into_records(self) -> Recorder {
        self.trace
    }

    fn sample(&mut self, now: Instant) {
        for flow in &mut self.flows {
            let Some(mut record) = flow.sample(now) else {
                continue;
            };
            if !std::mem::replace(&mut flow.is_recorded, true) {
                let known = Connection {
                    time: now,
                    session: record.session,
                    connection: record.connection,
                    role: Role::Stream,
                    ..Connection::BLANK
                };
                connection::record(&*flow, known, &mut self.trace);
            }
            if self.trace.tcp.is_kept() {
                record.ends = flow.ends;
                self.trace.tcp(record);
            }
        }
    }

    fn report_progress(
        &self,
        report: &mut impl FnMut(Progress),
        begin: Instant,
        reported: (Instant, u64),
        now: Instant,
    ) -> (Instant, u64) {
        let written = self.flows.iter().map(|flow| flow.sending.written_bytes());
        let written: u64 = written.sum();
        let fraction = match self.settings.load.limit() {
            Limit::Time(time) => {
                now.since(begin).as_secs_f64() / (self.settings.load.warmup.0 + time).as_secs_f64()
            }
            Limit::Bytes(bytes) => written as f64 / (bytes as f64 * self.flows.len() as f64),
        };
        report(Progress {
            fraction: fraction.min(1.0),
            bytes_per_s: (written - reported.1) as f64 / now.since(reported.0).as_secs_f64(),
        });
        (now, written)
    }

    fn report(&self, to: Instant) -> Result<StreamReport, StreamError> {
        let streams = self.flows.iter().map(|flow| &flow.sending);
        let flows = self.flows.iter().map(Flow::report).collect();
        let report = stream::report(streams, flows, to);
        let report = report.ok_or_else(|| StreamError::NoMark {
            remedy: self.settings.load.remedy(),
        })?;
        Ok(StreamReport {
            records_dropped: self.trace.dropped(),
            ..report
        })
    }

    /// Ends the streams, and gives the receiver some time to read data in flight.
    fn end(&mut self) -> Result<(), StreamError> {
        for (number, flow) in self.flows.iter_mut().enumerate() {
            if !flow.has_finished {
                flow.finish();
                self.poller.interest(&*flow, number as u64, true, false)?;
            }
        }
        let deadline = clock::now() + END_PATIENCE;
        let mut ready = Vec::new();
        while self.flows.iter().any(|flow| !flow.has_ended) {
            let now = clock::now();
            if now >= deadline {
                break;
            }
            self.poller.wait(now, Some(deadline), &mut ready)?;
            for event in &ready {
                let flow = &mut self.flows[event.source as usize];
                // The measurement is complete: a stream that breaks now has ended as well.
                flow.has_ended |= flow.read().is_err();
                if flow.has_ended {
                    self.poller.remove(&*flow)?;
                }
            }
        }
        Ok(())
    }
}
