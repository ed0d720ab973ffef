//! Where goes what is seen.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use wansan_tcp::watch::{Batch, Ending, Way};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::{Kinds, NameId, Recorder};

use super::device_gone_in_words;
use crate::commands::record::Recording;
use crate::commands::remark;

/// Something that shows or keeps what is seen. It is called in this order: once
/// [`began`](Sink::began), each batch, once [`ended`](Sink::ended).
pub(super) trait Sink {
    /// The watch has begun.
    fn began(&mut self, _way: &Way, _interval: Duration) -> Result<()> {
        Ok(())
    }
    /// Something was seen; `false` when nobody wants to see more.
    fn batch(&mut self, batch: &Batch) -> Result<bool>;
    /// Some time has passed, at most a twentieth of a second; `false` as above.
    fn idle(&mut self) -> Result<bool> {
        Ok(true)
    }
    /// The watch has ended, by itself when there is a reason.
    fn ended(&mut self, _over: Option<&Ending>) -> Result<()> {
        Ok(())
    }
}

/// Tells on standard error what has nothing to do with a single connection.
pub(super) struct Remarks;

impl Sink for Remarks {
    fn batch(&mut self, batch: &Batch) -> Result<bool> {
        for device in &batch.devices_gone {
            remark(&format!("wansan watch: {}", device_gone_in_words(device)));
        }
        Ok(true)
    }
}

/// Connections whose ends are kept by name; later ones are kept without.
const MOST_NAMES: usize = 60_000;

/// A run folder of `tcp` records.
pub(super) struct Recorded {
    recording: Recording,
    recorder: Recorder,
    /// The names of those that are there now, by cookie.
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
    fn batch(&mut self, batch: &Batch) -> Result<bool> {
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

    fn ended(&mut self, _over: Option<&Ending>) -> Result<()> {
        let recorder = std::mem::replace(&mut self.recorder, Recorder::off());
        let dropped = recorder.dropped();
        self.recording.write(&[recorder])?;
        if dropped > 0 {
            remark(&format!(
                "wansan watch: {dropped} records dropped: raise --record-memory"
            ));
        }
        Ok(())
    }
}
