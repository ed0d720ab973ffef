//! Where batches of the watch go, and the loop that brings them there.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wansan_tcp::watch::{Batch, Ending, Method, Next, Watch};

/// Shows or keeps what the watch gives. It is called in this order: once [`began`](Sink::began), each
/// batch, once [`ended`](Sink::ended).
pub trait Sink {
    /// The watch has begun.
    ///
    /// # Errors
    /// When it cannot be shown or kept; so it is with the others.
    fn began(&mut self, _method: &Method, _interval: Duration) -> Result<(), SinkError> {
        Ok(())
    }
    /// A batch has come; `false` when nobody wants more.
    ///
    /// # Errors
    /// As [`began`](Sink::began).
    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError>;
    /// Some time has passed, at most a twentieth of a second; `false` when nobody wants more.
    ///
    /// # Errors
    /// As [`began`](Sink::began).
    fn idle(&mut self) -> Result<bool, SinkError> {
        Ok(true)
    }
    /// The watch has ended; by itself when there is an `ending`.
    ///
    /// # Errors
    /// As [`began`](Sink::began).
    fn ended(&mut self, _ending: Option<&Ending>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A sink failed.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The terminal cannot be drawn on.
    #[error("cannot draw on this terminal")]
    Draw(#[source] io::Error),
    /// The terminal gives no keys.
    #[error("cannot read keys")]
    Keys(#[source] io::Error),
    /// A value has no form in JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A sink of the caller's own failed.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

/// Hands each batch of `watch` to all `sinks`, until `stop` is set, a sink wants no more, or the watch ends by
/// itself; returns why it did.
///
/// # Errors
/// The first of a sink.
pub fn run(
    watch: &Watch,
    stop: &AtomicBool,
    sinks: &mut [Box<dyn Sink>],
) -> Result<Option<Ending>, SinkError> {
    /// Nobody who ends the program waits longer.
    const PATIENCE: Duration = Duration::from_millis(50);
    while !stop.load(Ordering::Relaxed) {
        let batch = match watch.next(PATIENCE) {
            Next::Batch(batch) => Some(batch),
            Next::Nothing => None,
            Next::Over(ending) => return Ok(Some(ending)),
        };
        let mut wanted = true;
        for sink in &mut *sinks {
            if let Some(batch) = &batch {
                wanted &= sink.batch(batch)?;
            }
            wanted &= sink.idle()?;
        }
        if !wanted {
            return Ok(None);
        }
    }
    // A sink that was slow has not had all yet.
    for batch in watch.rest() {
        for sink in &mut *sinks {
            sink.batch(&batch)?;
        }
    }
    Ok(None)
}
