//! Hosts' CPUs, and their use by programs.

use std::collections::HashMap;

use wansan_trace::event::{self, Role};
use wansan_trace::{Instant, NameId, Recorder};

use super::socket::{Owner, Work};

/// CPU time of a program, including TCP processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramCost {
    /// Per call that reads or writes something, whatever its length, in nanoseconds.
    pub call_ns: u64,
    /// Per PDU read or written, in nanoseconds.
    pub pdu_ns: u64,
    /// Per byte read or written, in picoseconds.
    pub byte_ps: u64,
}

impl Default for ProgramCost {
    /// The cost of `wansan target` for reads of 4 KiB (docs/internals/performance.md): one at a time, where a call
    /// brings one PDU, and 32 at a time, where it brings many.
    fn default() -> Self {
        ProgramCost {
            call_ns: 8_000,
            pdu_ns: 250,
            byte_ps: 220,
        }
    }
}

impl ProgramCost {
    /// All costs multiplied by `factor`.
    #[must_use]
    pub fn times(self, factor: f64) -> ProgramCost {
        let scaled = |cost: u64| (cost as f64 * factor).round() as u64;
        ProgramCost {
            call_ns: scaled(self.call_ns),
            pdu_ns: scaled(self.pdu_ns),
            byte_ps: scaled(self.byte_ps),
        }
    }

    fn of(self, work: Work) -> u64 {
        work.calls * self.call_ns + work.pdus * self.pdu_ns + work.bytes * self.byte_ps / 1_000
    }
}

/// A program that takes CPU time of its host.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub owner: Owner,
    /// Its name in records, such as `storage target`.
    pub name: String,
    /// The number of its host.
    pub host: usize,
    /// Its CPU time.
    pub cost: ProgramCost,
}

/// The CPUs of all hosts.
#[derive(Debug, Clone)]
pub struct ProcessorsConfig {
    /// Number of CPUs per host, 1 or more.
    pub cores: usize,
    /// The programs that take CPU time; others take none.
    pub programs: Vec<Program>,
}

/// A thread of a program. A program has one thread, but the target has one for each program that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) owner: Owner,
    pub(super) serves: Option<Owner>,
}

#[derive(Debug)]
struct Running {
    program: usize,
    name: NameId,
    number: u32,
    /// Until when it is busy.
    busy_ns: u64,
    /// Since when it is runnable without a CPU.
    ready_ns: Option<u64>,
    ran_ns: u64,
    waited_ns: u64,
}

/// The CPUs of a simulation, and the threads on them.
#[derive(Debug)]
pub(super) struct Processors {
    programs: Vec<Program>,
    /// Until when each CPU of each host is busy.
    hosts: Vec<Vec<u64>>,
    threads: HashMap<Thread, Running>,
}

impl Processors {
    pub(super) fn new(config: ProcessorsConfig) -> Processors {
        let hosts = config.programs.iter().map(|program| program.host + 1);
        let hosts = hosts.max().unwrap_or(0);
        Processors {
            hosts: vec![vec![0; config.cores.max(1)]; hosts],
            programs: config.programs,
            threads: HashMap::new(),
        }
    }

    /// When a thread can run next.
    pub(super) fn free(&self, thread: Thread) -> Instant {
        let Some(running) = self.threads.get(&thread) else {
            return Instant::ZERO;
        };
        Instant::from_ns(running.busy_ns.max(self.free_ns(running.program)))
    }

    /// When a CPU of a program's host is free.
    fn free_ns(&self, program: usize) -> u64 {
        let host = &self.hosts[self.programs[program].host];
        host.iter().min().copied().unwrap_or(0)
    }

    fn program(&self, thread: Thread) -> Option<usize> {
        let mut programs = self.programs.iter();
        programs.position(|it| it.owner == thread.owner)
    }

    fn running(&mut self, thread: Thread, program: usize, trace: &mut Recorder) -> &mut Running {
        let number = self.threads.len() as u32 + 1;
        self.threads.entry(thread).or_insert_with(|| Running {
            program,
            name: trace.name(&self.programs[program].name),
            number,
            busy_ns: 0,
            ready_ns: None,
            ran_ns: 0,
            waited_ns: 0,
        })
    }

    /// When a runnable thread can begin: now, or once its earlier work is done and a CPU of its host is free.
    pub(super) fn begins(&mut self, thread: Thread, now: Instant, trace: &mut Recorder) -> Instant {
        let Some(program) = self.program(thread) else {
            return now;
        };
        let now_ns = now.ns();
        let free_ns = self.free_ns(program);
        let running = self.running(thread, program, trace);
        if running.busy_ns <= now_ns && free_ns > now_ns {
            running.ready_ns.get_or_insert(now_ns);
        }
        Instant::from_ns(now_ns.max(running.busy_ns).max(free_ns))
    }

    /// A thread begins `work` now: charges its CPU time.
    pub(super) fn works(&mut self, thread: Thread, work: Work, now: Instant, trace: &mut Recorder) {
        let Some(program) = self.program(thread) else {
            return;
        };
        let Program { host, cost, .. } = self.programs[program];
        let (now_ns, cost_ns) = (now.ns(), cost.of(work));
        let running = self.running(thread, program, trace);
        if let Some(ready_ns) = running.ready_ns.take() {
            running.waited_ns += now_ns - ready_ns;
        }
        running.ran_ns += cost_ns;
        running.busy_ns = running.busy_ns.max(now_ns) + cost_ns;
        let busy_ns = running.busy_ns;
        if let Some(first_free) = self.hosts[host].iter_mut().min() {
            *first_free = busy_ns.max(*first_free);
        }
    }

    /// Records the CPU and waiting time of each thread so far.
    pub(super) fn record(&self, now: Instant, trace: &mut Recorder) {
        let mut threads: Vec<&Running> = self.threads.values().collect();
        threads.sort_by_key(|running| running.number);
        for running in threads {
            trace.thread(event::Thread {
                time: now,
                program: running.name,
                role: role(self.programs[running.program].owner),
                thread: running.number,
                ran_ns: running.ran_ns,
                waited_ns: running.waited_ns,
            });
        }
    }
}

fn role(owner: Owner) -> Role {
    match owner {
        Owner::Target => Role::Target,
        Owner::Initiator(_) => Role::Initiator,
        Owner::Sender(_) | Owner::Receiver(_) => Role::Stream,
        Owner::Relay(_) => Role::Relay,
    }
}
