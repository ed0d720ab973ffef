//! Mail to a server's threads. What goes through it is rare (new connections, questions), never the data of a
//! connection.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use wansan_trace::clock;

/// One thread's mail, with a descriptor to wait on.
#[derive(Debug)]
pub(crate) struct Mailbox<M> {
    queue: Mutex<Queue<M>>,
    event: OwnedFd,
}

#[derive(Debug)]
struct Queue<M> {
    mail: VecDeque<M>,
    is_closed: bool,
}

impl<M> Mailbox<M> {
    fn new() -> io::Result<Mailbox<M>> {
        let queue = Queue {
            mail: VecDeque::new(),
            is_closed: false,
        };
        Ok(Mailbox {
            queue: Mutex::new(queue),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue<M>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Adding 1 to an eventfd fails only at 2^64 − 1.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    fn put_unless(&self, mail: M, is_known: impl FnMut(&M) -> bool) {
        let mut queue = self.lock();
        if queue.mail.iter().any(is_known) {
            return;
        }
        let was_empty = queue.mail.is_empty();
        queue.mail.push_back(mail);
        drop(queue);
        if was_empty {
            self.wake();
        }
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.wake();
    }

    /// Takes all mail out; says, too, whether the owner is to end once it has read it.
    pub(crate) fn take(&self) -> (VecDeque<M>, bool) {
        // Cleared first: mail that comes from here on sets it again. EAGAIN: it was clear.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        let mut queue = self.lock();
        (std::mem::take(&mut queue.mail), queue.is_closed)
    }
}

impl<M> AsFd for Mailbox<M> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// The mailboxes of all threads of a server. Senders bound what lies in them: connections by their seats, and the
/// rest by who asks.
#[derive(Debug)]
pub struct Mailboxes<M>(Vec<Mailbox<M>>);

impl<M> Mailboxes<M> {
    /// One for each of `threads`, at least 1.
    ///
    /// # Errors
    /// Those of eventfd(2): the process or the system has no descriptor left.
    pub fn new(threads: usize) -> io::Result<Mailboxes<M>> {
        let all = (0..threads.max(1)).map(|_| Mailbox::new());
        all.collect::<io::Result<_>>().map(Mailboxes)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn of(&self, thread: usize) -> &Mailbox<M> {
        &self.0[thread]
    }

    /// Sends mail to one thread, and wakes it.
    ///
    /// # Panics
    /// When there is no such thread.
    pub fn send(&self, thread: usize, mail: M) {
        self.of(thread).put_unless(mail, |_| false);
    }

    /// Sends mail to every thread in whose mailbox nothing lies that `is_known` takes for the same.
    pub fn send_all_unless(&self, mail: impl Fn() -> M, is_known: impl Fn(&M) -> bool) {
        for mailbox in &self.0 {
            mailbox.put_unless(mail(), &is_known);
        }
    }

    /// Sends mail to every thread.
    pub fn send_all(&self, mail: impl Fn() -> M) {
        self.send_all_unless(mail, |_| false);
    }

    /// Puts a question to all threads; the answers that come within `patience`. A thread that has ended gives none.
    pub fn ask<T>(&self, patience: Duration, question: impl Fn(SyncSender<T>) -> M) -> Vec<T> {
        let (give, take) = sync_channel(self.count());
        self.send_all(|| question(give.clone()));
        drop(give);
        let deadline = clock::now() + patience;
        let answer = |_| take.recv_timeout(deadline.since(clock::now())).ok();
        (0..self.count()).map_while(answer).collect()
    }

    /// Has all threads end once they have read the mail that lies there.
    pub(crate) fn close(&self) {
        self.0.iter().for_each(Mailbox::close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_kept_in_order_and_known_mail_once() {
        let mailboxes = Mailboxes::new(2).unwrap();
        mailboxes.send(1, 'a');
        for _ in 0..100 {
            mailboxes.send_all_unless(|| 'b', |mail| *mail == 'b');
        }
        assert_eq!(mailboxes.of(0).take(), (VecDeque::from(['b']), false));
        mailboxes.close();
        assert_eq!(mailboxes.of(1).take(), (VecDeque::from(['a', 'b']), true));
    }

    #[test]
    fn a_thread_that_says_nothing_is_not_waited_for() {
        let mailboxes: Mailboxes<SyncSender<u8>> = Mailboxes::new(2).unwrap();
        let answers = std::thread::scope(|scope| {
            let asked = scope.spawn(|| mailboxes.ask(Duration::from_millis(50), |asker| asker));
            let asker = loop {
                if let Some(asker) = mailboxes.of(0).take().0.pop_front() {
                    break asker;
                }
            };
            asker.send(7).unwrap();
            asked.join().unwrap()
        });
        assert_eq!(answers, [7]);
    }
}
