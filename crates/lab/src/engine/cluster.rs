//! The lab's end of a cluster: a process of Python that speaks to Dask's scheduler.

use std::io::{BufReader, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::order::{Hello, MAX_ORDER_BYTES, Order};
use super::{Engine, EngineError};
use crate::hosts::sha256_of;
use crate::lines;
use crate::world::Tail;

/// What Python runs.
const DRIVER: &str = include_str!("dask.py");
/// How many messages wait to be read.
const MAX_MESSAGES: usize = 1024;
/// How often somebody who waits looks whether the run is to stop.
const POLL: Duration = Duration::from_millis(50);
/// How long it may take to have the workers end what they run, and to take leave: the program, too, which may still be on its
/// way to them.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);

/// The cluster. Dropping it ends what its workers still run.
pub(crate) struct Cluster {
    engine: Engine,
    /// Whether the workers have the program, and it was not handed to them.
    is_installed: bool,
    /// The SHA-256 of the program that the workers run, in hexadecimal.
    sha256: String,
    python: Child,
    /// None once it is to end.
    input: Option<ChildStdin>,
    stderr: Tail,
    messages: Receiver<Message>,
    /// How many workers take such cells, and how many cells these run at a time, once that is known.
    room: Option<Room>,
}

/// How many workers take cells, and how many of these at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) workers: u64,
    pub(crate) cells: usize,
}

/// What the driver says.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Message {
    Lacking {
        said: String,
    },
    Silent {
        said: String,
    },
    Waiting,
    Unfit {
        worker: String,
        hello: Option<Box<Hello>>,
        said: String,
    },
    Ready,
    Room {
        workers: u64,
        cells: u64,
    },
    Ended {
        cell: u64,
        worker: String,
        hello: Box<Hello>,
    },
    Failed {
        cell: u64,
        said: String,
    },
    Lost {
        said: String,
    },
}

/// What the workers are wanted for.
pub(crate) struct Wish<'a> {
    /// What they are to run.
    pub(crate) program: &'a Path,
    /// Whether they have it, and it need not be handed to them.
    pub(crate) is_installed: bool,
    /// The resource that a cell takes, if any.
    pub(crate) needs: Option<&'static str>,
}

/// What happens on the cluster while cells run.
#[derive(Debug)]
pub(crate) enum Said {
    /// Workers have come, or gone.
    Room(Room),
    /// A cell has been run by a worker; all that it gave is in its folder.
    Ended {
        cell: u64,
        worker: String,
        hello: Box<Hello>,
    },
    /// It cannot be run.
    Failed { cell: u64, said: String },
}

impl Cluster {
    /// Reaches the cluster and hands the program to its workers. `waits` is called if there are none yet, and they are
    /// waited for then.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(crate) fn reach(
        engine: &Engine,
        wish: &Wish<'_>,
        stop: &AtomicBool,
        waits: &mut dyn FnMut(),
    ) -> Result<Cluster, EngineError> {
        let Wish {
            program,
            is_installed,
            needs,
        } = *wish;
        let sha256 = sha256_of(program).map_err(|source| EngineError::OwnProgram {
            path: program.to_owned(),
            source,
        })?;
        let mut cluster = Cluster::start(engine, is_installed, sha256)?;
        let begin = json!({
            "scheduler": engine.scheduler(),
            "program": (!is_installed).then_some(program),
            "sha256": cluster.sha256,
            "needs": needs,
        });
        cluster.tell(&begin)?;
        loop {
            match cluster.hear(stop)? {
                Message::Waiting => waits(),
                Message::Ready => return Ok(cluster),
                Message::Lacking { said } => {
                    let engine = engine.clone();
                    return Err(EngineError::Lacking { engine, said });
                }
                Message::Silent { said } => {
                    let engine = engine.clone();
                    return Err(EngineError::Silent { engine, said });
                }
                other => return Err(cluster.broken(other)),
            }
        }
    }

    fn start(engine: &Engine, is_installed: bool, sha256: String) -> Result<Cluster, EngineError> {
        let mut python = Command::new("python3");
        // A Ctrl-C at the terminal is for the lab, which then ends the cells in order.
        python.args(["-c", DRIVER]).process_group(0);
        python
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut python = python.spawn().map_err(|source| EngineError::NoPython {
            engine: engine.clone(),
            source,
        })?;
        let output = python.stdout.take().expect("piped above");
        let (give, messages) = mpsc::sync_channel(MAX_MESSAGES);
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            // What is no message is its end: the last words on standard error say why.
            while let Ok(Some(message)) = lines::read(&mut output, MAX_ORDER_BYTES) {
                if give.send(message).is_err() {
                    break;
                }
            }
        });
        Ok(Cluster {
            engine: engine.clone(),
            is_installed,
            sha256,
            input: python.stdin.take(),
            stderr: Tail::of(python.stderr.take().expect("piped above")),
            python,
            messages,
            room: None,
        })
    }

    /// The SHA-256 of the program that its workers run, in hexadecimal.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Who takes cells, once that is known.
    pub(crate) fn room(&self) -> Option<Room> {
        self.room
    }

    /// That no worker takes such cells.
    pub(crate) fn no_room(&self) -> EngineError {
        EngineError::NoNamespaces {
            engine: self.engine.clone(),
        }
    }

    /// Has a cell run; what it gives goes to `folder`.
    ///
    /// # Errors
    /// [`EngineError::Lost`].
    pub(crate) fn run(&mut self, order: &Order, folder: &Path) -> Result<(), EngineError> {
        let order_text = serde_json::to_string(order).expect("an order is plain data");
        self.tell(&json!({"cell": order.known.cell, "order": order_text, "folder": folder}))
    }

    /// What happens next; `None` when nothing does for a while.
    ///
    /// # Errors
    /// [`EngineError`], of a worker that cannot run this program as well.
    pub(crate) fn next(&mut self) -> Result<Option<Said>, EngineError> {
        let message = match self.messages.recv_timeout(POLL) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
        };
        Ok(Some(match message {
            Message::Room { workers, cells } => {
                let cells = usize::try_from(cells).unwrap_or(usize::MAX);
                let room = Room { workers, cells };
                self.room = Some(room);
                Said::Room(room)
            }
            Message::Ended {
                cell,
                worker,
                hello,
            } => Said::Ended {
                cell,
                worker,
                hello,
            },
            Message::Failed { cell, said } => Said::Failed { cell, said },
            other => return Err(self.broken(other)),
        }))
    }

    fn hear(&mut self, stop: &AtomicBool) -> Result<Message, EngineError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
            match self.messages.recv_timeout(POLL) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    fn tell(&mut self, message: &serde_json::Value) -> Result<(), EngineError> {
        let input = self.input.as_mut().expect("it is open until the end");
        match lines::write(input, message) {
            Ok(()) => Ok(()),
            // What it has said before tells more.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(self.lost(error.to_string())),
        }
    }

    /// What a message means that ends all.
    fn broken(&self, message: Message) -> EngineError {
        match message {
            Message::Unfit {
                worker,
                hello: Some(there),
                said,
            } if self.is_installed => {
                let (there, here) = (there.build(), Hello::here().build());
                // Both may say the same of themselves.
                let there = if there == here {
                    format!("{there}, {said},")
                } else {
                    there
                };
                EngineError::Version {
                    worker,
                    there,
                    here,
                }
            }
            Message::Unfit { worker, said, .. } => EngineError::Unfit { worker, said },
            Message::Lost { said } => self.lost(said),
            other => self.lost(format!("its driver said {other:?}")),
        }
    }

    fn gone(&self) -> EngineError {
        let words = self.stderr.last_words();
        let last = words.lines().rev().find(|line| !line.trim().is_empty());
        self.lost(format!(
            "python3 ended: {}",
            last.unwrap_or("it did not say why").trim()
        ))
    }

    fn lost(&self, said: String) -> EngineError {
        EngineError::Lost {
            engine: self.engine.clone(),
            said,
        }
    }
}

impl Cluster {
    /// Ends what its workers still run, and takes leave. Nothing is written to a folder from then on.
    pub(crate) fn leave(&mut self) {
        // It then takes leave of the scheduler, which ends the cells.
        self.input = None;
        let deadline = Instant::now() + LEAVE_LIMIT;
        while matches!(self.python.try_wait(), Ok(None)) && Instant::now() < deadline {
            // Its messages would stop it when nobody reads them.
            self.messages.try_iter().for_each(drop);
            thread::sleep(POLL / 5);
        }
        // Both fail only when it is gone already.
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.leave();
    }
}
