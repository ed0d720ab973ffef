//! Samples the processor use of the programs of a cell on one computer.
//!
//! Linux counts for each thread how long it ran and how long it was runnable but not running (proc_pid_schedstat(5)).
//! This distinguishes waiting for a processor from waiting for the path, even if unrelated work on the computer takes
//! the processors.

use std::fs;
use std::path::Path;

use wansan_trace::event::{Role, Thread};
use wansan_trace::{Kinds, NameId, Recorder, clock};

use crate::plan::RecordKind;

/// The programs of a cell, and their threads' counters so far.
pub(crate) struct Processors {
    recorder: Recorder,
    programs: Vec<Program>,
}

struct Program {
    name: NameId,
    role: Role,
    process: u32,
}

impl Processors {
    /// Keeps samples in at most `memory_bytes`, if `kinds` includes them.
    pub(crate) fn new(kinds: &[RecordKind], memory_bytes: u64) -> Processors {
        let kinds = Kinds {
            thread: kinds.contains(&RecordKind::Thread),
            ..Kinds::NONE
        };
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        Processors {
            recorder: Recorder::new(kinds, memory_bytes),
            programs: Vec::new(),
        }
    }

    /// Starts watching the program `what` on `node`.
    pub(crate) fn watch(&mut self, node: &str, what: &str, role: Role, process: u32) {
        if self.recorder.thread.is_kept() {
            let name = self.recorder.name(&format!("{node} {what}"));
            self.programs.push(Program {
                name,
                role,
                process,
            });
        }
    }

    /// Samples every thread. Exited programs are no longer watched; a kernel without these counters yields no samples.
    pub(crate) fn sample(&mut self) {
        let recorder = &mut self.recorder;
        self.programs.retain(|program| {
            let folder = format!("/proc/{}/task", program.process);
            let Ok(threads) = fs::read_dir(folder) else {
                return false;
            };
            for thread in threads.flatten() {
                let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
                // A thread that has just exited has no counters any more.
                if let (Some(id), Some((ran_ns, waited_ns))) = (id, counted(&thread.path())) {
                    recorder.thread(Thread {
                        time: clock::now(),
                        program: program.name,
                        role: program.role,
                        thread: id,
                        ran_ns,
                        waited_ns,
                    });
                }
            }
            true
        });
    }

    /// Returns the samples.
    pub(crate) fn end(self) -> Recorder {
        self.recorder
    }
}

/// A thread's run time and run-queue wait, in ns.
fn counted(thread: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(ran_ns)), Some(Ok(waited_ns))) => Some((ran_ns, waited_ns)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn a_thread_that_works_has_run() {
        let mut processors = Processors::new(&[RecordKind::Thread], 64 << 20);
        processors.watch("here", "test", Role::Target, std::process::id());
        processors.watch("here", "nobody", Role::Target, u32::MAX);
        processors.sample();
        let begin = clock::now();
        while clock::now() - begin < std::time::Duration::from_millis(5) {
            black_box(());
        }
        processors.sample();
        assert_eq!(processors.programs.len(), 1, "one has never been there");
        let recorder = processors.end();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let samples: Vec<Thread> = recorder.thread.iter().filter(|s| s.thread == own).collect();
        let [first, last] = samples[..] else {
            panic!("{samples:?}");
        };
        assert!(last.ran_ns > first.ran_ns, "{samples:?}");
        assert_eq!(recorder.name_of(last.program), "here test");
    }
}
