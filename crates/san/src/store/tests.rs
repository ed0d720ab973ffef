//! All stores return the data written, for every access path; errors name their cause.

mod direct;
mod files;
mod mediums;
mod model;
mod pool;
mod specs;
mod syncing;

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};

use super::{Completion, QueuePair};

/// Waits until there are completions, and takes them.
fn wait(queue_pair: &mut QueuePair) -> Vec<Completion> {
    let mut fds = [PollFd::new(&*queue_pair, PollFlags::IN)];
    poll(&mut fds, None).expect("poll");
    queue_pair.completions().collect()
}

/// Waits for exactly `count` completions, and takes them.
fn wait_for(queue_pair: &mut QueuePair, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        completions.extend(wait(queue_pair));
    }
    assert_eq!(completions.len(), count);
    completions
}

/// `store` as sessions share it.
fn shared<S: super::Store + 'static>(store: S) -> Arc<dyn super::Store> {
    Arc::new(store)
}
