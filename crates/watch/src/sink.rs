//! Sinks for the watch's batches, and the loop that feeds them.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wansan_tcp::watch::{Batch, Ending, Method, Next, Watch};

/// Displays or stores the watch's output. Called in this order: [`began`](Sink::began) once, each batch,
/// [`ended`](Sink::ended) once.
pub trait Sink {
    /// The watch has begun.
    ///
    /// # Errors
    /// The output cannot be displayed or stored; the same holds for the other methods.
    fn began(&mut self, _method: &Method, _interval: Duration) -> Result<(), SinkError> {
        Ok(())
    }
    /// A batch arrived; returns `false` to stop.
    ///
    /// # Errors
    /// See [`began`](Sink::began).
    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError>;
    /// Called after at most a twentieth of a second without a batch; returns `false` to stop.
    ///
    /// # Errors
    /// See [`began`](Sink::began).
    fn idle(&mut self) -> Result<bool, SinkError> {
        Ok(true)
    }
    /// The watch has ended; by itself if there is an `ending`.
    ///
    /// # Errors
    /// See [`began`](Sink::began).
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
    /// No keys can be read from the terminal.
    #[error("cannot read keys")]
    Keys(#[source] io::Error),
    /// A value cannot be expressed in JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A sink of the caller failed.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

/// Passes each batch of `watch` to all `sinks` until `stop` is set, a sink stops, or the watch ends by itself; returns
/// why it ended.
///
/// # Errors
/// A sink's first error.
pub fn run(
    watch: &Watch,
    stop: &AtomicBool,
    sinks: &mut [Box<dyn Sink>],
) -> Result<Option<Ending>, SinkError> {
    /// Longest delay in reacting to `stop`.
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
    // A slow sink may not have received everything yet.
    for batch in watch.rest() {
        for sink in &mut *sinks {
            sink.batch(&batch)?;
        }
    }
    Ok(None)
}
