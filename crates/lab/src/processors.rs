//! What the programs of a cell have of the processors of one computer, sampled.
//!
//! Linux counts for each thread how long it ran and how long it was ready to run while others had
//! the processors (proc_pid_schedstat(5)). Both tell what waits for a processor from what waits for
//! the path, also when it is other work on the computer that takes them.

use std::fs;
use std::path::Path;

use wansan_trace::event::{Role, Thread};
use wansan_trace::{Kinds, NameId, Recorder, clock};

use crate::plan::RecordKind;

/// The programs of a cell, and what their threads have had so far.
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
    /// Keeps samples in at most `memory_bytes`, if `kinds` has them.
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

    /// Watches the program `what` on `node` from now on.
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

    /// Notes what every thread has had. A program that has ended is watched no longer; a kernel that
    /// does not count leaves no samples.
    pub(crate) fn sample(&mut self) {
        let recorder = &mut self.recorder;
        self.programs.retain(|program| {
            let folder = format!("/proc/{}/task", program.process);
            let Ok(threads) = fs::read_dir(folder) else {
                return false;
            };
            for thread in threads.flatten() {
                let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
                // One that has just ended is not counted any more.
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

    /// The samples.
    pub(crate) fn end(self) -> Recorder {
        self.recorder
    }
}

/// How long a thread ran, and how long it waited for a processor, in ns.
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
