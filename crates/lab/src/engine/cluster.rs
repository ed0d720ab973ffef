//! The lab's side of a cluster: a Python process that talks to Dask's scheduler.

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

/// The Python program.
const DRIVER: &str = include_str!("dask.py");
/// Most queued messages.
const MAX_MESSAGES: usize = 1024;
/// How often a waiting caller checks whether the run should stop.
const POLL: Duration = Duration::from_millis(50);
/// Time for the workers to abort their cells and disconnect: includes the transfer of the program if it is still in
/// progress.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);

/// The cluster. Dropping it aborts the cells that run on its workers.
pub(crate) struct Cluster {
    engine: Engine,
    /// Whether the workers have the program installed, so that it was not sent.
    is_installed: bool,
    /// The SHA-256 of the program that the workers run, in hexadecimal.
    sha256: String,
    python: Child,
    /// `None` once it should end.
    input: Option<ChildStdin>,
    stderr: Tail,
    messages: Receiver<Message>,
    /// The capacity for such cells, once known.
    room: Option<Room>,
}

/// Number of workers that accept cells, and their total concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) workers: u64,
    pub(crate) cells: usize,
}

/// A message from the driver.
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

/// What the workers are needed for.
pub(crate) struct Wish<'a> {
    /// The program to run.
    pub(crate) program: &'a Path,
    /// Whether it is installed there and need not be sent.
    pub(crate) is_installed: bool,
    /// The Dask resource that a cell requires, if any.
    pub(crate) needs: Option<&'static str>,
}

/// Events on the cluster while cells run.
#[derive(Debug)]
pub(crate) enum Said {
    /// Workers joined or left.
    Room(Room),
    /// A worker has run a cell; its results are in its folder.
    Ended {
        cell: u64,
        worker: String,
        hello: Box<Hello>,
    },
    /// The cell cannot be run.
    Failed { cell: u64, said: String },
}

impl Cluster {
    /// Connects to the cluster and sends the program to its workers. If there are none yet, calls `waits` and waits for
    /// them.
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
        // Ctrl-C at the terminal must reach the lab only, which then ends the cells in order.
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
            // Anything but a message ends the session: the last lines of standard error give the reason.
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

    /// The SHA-256 of the workers' program, in hexadecimal.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The capacity, once known.
    pub(crate) fn room(&self) -> Option<Room> {
        self.room
    }

    /// The error if no worker accepts such cells.
    pub(crate) fn no_room(&self) -> EngineError {
        EngineError::NoNamespaces {
            engine: self.engine.clone(),
        }
    }

    /// Submits a cell; its results go to `folder`.
    ///
    /// # Errors
    /// [`EngineError::Lost`].
    pub(crate) fn run(&mut self, order: &Order, folder: &Path) -> Result<(), EngineError> {
        let order_text = serde_json::to_string(order).expect("an order is plain data");
        self.tell(&json!({"cell": order.known.cell, "order": order_text, "folder": folder}))
    }

    /// The next event; `None` after a while without one.
    ///
    /// # Errors
    /// [`EngineError`], also if a worker cannot run this program.
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
            // An earlier message explains it better.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(self.lost(error.to_string())),
        }
    }

    /// The error for a fatal message.
    fn broken(&self, message: Message) -> EngineError {
        match message {
            Message::Unfit {
                worker,
                hello: Some(there),
                said,
            } if self.is_installed => {
                let (there, here) = (there.build(), Hello::here().build());
                // Both may report the same version.
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
            other => self.lost(format!("its driver sent {other:?}")),
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
    /// Aborts the cells that run on its workers, and disconnects. Nothing is written to a folder afterwards.
    pub(crate) fn leave(&mut self) {
        // It then disconnects from the scheduler, which cancels the cells.
        self.input = None;
        let deadline = Instant::now() + LEAVE_LIMIT;
        while matches!(self.python.try_wait(), Ok(None)) && Instant::now() < deadline {
            // Drain the messages, on which it would otherwise block.
            self.messages.try_iter().for_each(drop);
            thread::sleep(POLL / 5);
        }
        // Both fail only if it has exited already.
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.leave();
    }
}
