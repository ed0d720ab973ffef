//! A network namespace and its thread.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rustix::thread::UnshareFlags;

use super::WorldError;
use super::rights::unshare;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, kept alive by a thread inside it.
///
/// Work that must happen inside (opening sockets, writing sysctls, starting processes) is passed to that thread by
/// [`Namespace::run`]. Processes started there have the thread as parent, so they are signalled when it ends. Dropping
/// the value ends the thread; the namespace disappears with its last process and socket.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    handle: OwnedFd,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Creates a namespace; `name` is only for messages.
    ///
    /// # Errors
    /// [`WorldError::Refused`] if the kernel refuses. [`super::isolate`] has to have been called before.
    pub fn new(name: &str) -> Result<Self, WorldError> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (ready, made) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(format!("ns {name}"))
            .spawn(move || {
                let handle = unshare(UnshareFlags::NEWNET)
                    .map_err(std::io::Error::from)
                    .and_then(|()| File::open("/proc/thread-self/ns/net"));
                let entered = handle.is_ok();
                if ready.send(handle).is_ok() && entered {
                    for job in inbox {
                        job();
                    }
                }
            });
        let refused = |source| WorldError::Refused {
            action: "make the network namespace".to_owned(),
            node: name.to_owned(),
            source,
        };
        let thread = thread.map_err(refused)?;
        let handle = made
            .recv()
            .expect("the thread answers before it ends")
            .map_err(refused)?;
        Ok(Namespace {
            name: name.to_owned(),
            handle: handle.into(),
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// The name given to [`Namespace::new`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A descriptor of the namespace, for setns(2) and RTM_NEWLINK's IFLA_NET_NS_FD.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Runs `job` in the namespace's thread and returns its result. Threads that the job starts are in the namespace
    /// too.
    ///
    /// # Panics
    /// The job panics.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (give, take) = mpsc::channel();
        let boxed: Job = Box::new(move || {
            // The caller waits below, so the receiver exists.
            let _ = give.send(job());
        });
        let jobs = self.jobs.as_ref().expect("taken in drop only");
        jobs.send(boxed)
            .expect("the thread lives as long as the value");
        take.recv().expect("a job in a namespace must not panic")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // `run` has reported a job's panic.
            let _ = thread.join();
        }
    }
}
