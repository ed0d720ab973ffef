//! Sinks of the watch: standard output, standard error and a run folder.

use std::collections::HashMap;
use std::time::Duration;

use wansan_tcp::watch::{Batch, Ending, Method};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::{Kinds, NameId, Recorder};

use wansan_watch::{Lines, Sink, SinkError, describe_device_gone};

use crate::commands::record::Recording;
use crate::commands::{is_read, print_json, remark, try_print_json};

/// Prints lines of JSON on standard output.
#[derive(Default)]
pub(super) struct Printed {
    lines: Lines,
}

impl Sink for Printed {
    fn began(&mut self, method: &Method, interval: Duration) -> Result<(), SinkError> {
        print_json(&self.lines.begin(method, interval)?).map_err(other)
    }

    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError> {
        let text = self.lines.batch(batch)?;
        Ok(text.is_empty() || try_print_json(&text).map_err(other)?)
    }

    /// Without events nothing is written, so check here whether the reader has closed.
    fn idle(&mut self) -> Result<bool, SinkError> {
        Ok(is_read())
    }

    fn ended(&mut self, ending: Option<&Ending>) -> Result<(), SinkError> {
        print_json(&self.lines.end(ending)?).map_err(other)
    }
}

fn other(error: anyhow::Error) -> SinkError {
    SinkError::Other(error.into())
}

/// Prints messages that concern no single connection on standard error.
pub(super) struct Remarks;

impl Sink for Remarks {
    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError> {
        for device in &batch.devices_gone {
            remark(&format!("wansan watch: {}", describe_device_gone(device)));
        }
        Ok(true)
    }
}

/// Most connections whose addresses are recorded; later ones are recorded without.
const MOST_NAMES: usize = 60_000;

/// A run folder of `tcp` records.
pub(super) struct Recorded {
    recording: Recording,
    recorder: Recorder,
    /// Names of current connections, by cookie.
    names: HashMap<u64, NameId>,
    named: usize,
}

impl Recorded {
    pub(super) fn new(recording: Recording, memory_bytes: usize) -> Recorded {
        let tcp_only = Kinds {
            tcp: true,
            ..Kinds::NONE
        };
        Recorded {
            recording,
            recorder: Recorder::new(tcp_only, memory_bytes),
            names: HashMap::new(),
            named: 0,
        }
    }
}

impl Sink for Recorded {
    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError> {
        for begun in &batch.begun {
            let connection = &begun.connection;
            if self.named < MOST_NAMES {
                self.named += 1;
                let ends = Tcp::ends_name(connection.local, connection.remote);
                let name = self.recorder.name(&ends);
                self.names.insert(connection.cookie, name);
            }
        }
        for record in &batch.records {
            let cookie = record.session.0;
            let ends = self.names.get(&cookie).copied().unwrap_or(NameId::NONE);
            self.recorder.tcp(Tcp { ends, ..*record });
            if record.event == TcpEvent::End {
                self.names.remove(&cookie);
            }
        }
        Ok(true)
    }

    fn ended(&mut self, _ending: Option<&Ending>) -> Result<(), SinkError> {
        let recorder = std::mem::replace(&mut self.recorder, Recorder::off());
        let dropped = recorder.dropped();
        self.recording.write(&[recorder]).map_err(other)?;
        if dropped > 0 {
            remark(&format!(
                "wansan watch: {dropped} records dropped: raise --record-memory"
            ));
        }
        Ok(())
    }
}
