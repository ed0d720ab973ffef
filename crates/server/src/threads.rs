//! A server's threads, each with its event loop.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use wansan_trace::{Instant, clock};

use crate::mailbox::Mailboxes;
use crate::poller::{Poller, Ready};

/// The source of an [`Acceptor`](crate::Acceptor)'s listeners.
pub const LISTENER: u64 = u64::MAX;

/// The source of a thread's mail. What a worker numbers itself is less.
pub const MAILBOX: u64 = u64::MAX - 1;

/// One thread of a server: what it does between two waits of its loop.
pub trait Worker {
    /// What other threads send it.
    type Mail;
    /// What is left of it at its end.
    type Output;

    /// Where it waits.
    fn poller(&self) -> &Poller;
    /// Does what is due; when it has to be called again at the latest, if ever: `now` while work is left.
    fn before_wait(&mut self, now: Instant) -> Option<Instant>;
    /// Connections wait at its listeners.
    fn accept(&mut self, now: Instant);
    /// Reads mail.
    fn mail(&mut self, mail: Self::Mail, now: Instant);
    /// A source of its own is ready.
    fn ready(&mut self, event: Ready, now: Instant);
    /// All that was ready has been looked at.
    fn after_events(&mut self, _now: Instant) {}
    /// The loop ends: it was stopped, or its poller has failed.
    fn finish(self, failure: Option<io::Error>) -> Self::Output;
}

/// Running threads, which end when this is dropped.
#[derive(Debug)]
pub struct Threads<M, T> {
    mailboxes: Arc<Mailboxes<M>>,
    threads: Vec<JoinHandle<T>>,
}

impl<M: Send + 'static, T: Send + 'static> Threads<M, T> {
    /// None yet, for these mailboxes.
    #[must_use]
    pub fn new(mailboxes: Arc<Mailboxes<M>>) -> Threads<M, T> {
        Threads {
            mailboxes,
            threads: Vec::new(),
        }
    }

    /// Starts the next thread, called `name`, with the mailbox of its number.
    ///
    /// # Errors
    /// When the poller does not take the mailbox, or there is no thread.
    pub fn spawn<W>(&mut self, name: String, worker: W) -> io::Result<()>
    where
        W: Worker<Mail = M, Output = T> + Send + 'static,
    {
        let number = self.threads.len();
        let mailboxes = Arc::clone(&self.mailboxes);
        worker.poller().add(mailboxes.of(number), MAILBOX)?;
        let thread = thread::Builder::new().name(name);
        let run = move || run(worker, &mailboxes, number);
        self.threads.push(thread.spawn(run)?);
        Ok(())
    }
}

impl<M, T> Threads<M, T> {
    /// Has all threads end once they have read their mail; what is left of them. A thread that panicked has said so
    /// already, and leaves nothing.
    pub fn stop(&mut self) -> Vec<T> {
        self.mailboxes.close();
        let threads = self.threads.drain(..);
        threads.filter_map(|thread| thread.join().ok()).collect()
    }
}

impl<M, T> Drop for Threads<M, T> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run<W: Worker>(mut worker: W, mailboxes: &Mailboxes<W::Mail>, number: usize) -> W::Output {
    let mut ready: Vec<Ready> = Vec::new();
    loop {
        let now = clock::now();
        let deadline = worker.before_wait(now);
        if let Err(error) = worker.poller().wait(now, deadline, &mut ready) {
            return worker.finish(Some(error));
        }
        let now = clock::now();
        for event in &ready {
            match event.source {
                LISTENER => worker.accept(now),
                MAILBOX => {
                    let (mail, is_over) = mailboxes.of(number).take();
                    for mail in mail {
                        worker.mail(mail, now);
                    }
                    if is_over {
                        return worker.finish(None);
                    }
                }
                _ => worker.ready(*event, now),
            }
        }
        worker.after_events(now);
    }
}
