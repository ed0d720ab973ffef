//! Reads over one connection, one at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wansan_insight::stall::{Conversation, Queued, Sampled, Segment, Times};
use wansan_insight::traffic::FlowDirection;
use wansan_trace::{ConnectionId, SessionId, TaskTag};

use super::end::{End, Manner};
use super::path::{Lane, Outgoing};
use super::truth::Wait;

/// Sampling interval of TCP's windows.
const SAMPLE_NS: u64 = 10_000_000;
/// Length of a Basic Header Segment (RFC 7143 §11.2).
const BHS_BYTES: u64 = wansan_iscsi::wire::BHS_BYTES as u64;
/// Opcodes (RFC 7143 §11.2.1.2).
const SCSI_COMMAND: u8 = 0x01;
const SCSI_RESPONSE: u8 = 0x21;
const DATA_IN: u8 = 0x25;

/// The parameters of a world.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) initiator: Manner,
    pub(crate) target: Manner,
    pub(crate) delay_ns: u64,
    pub(crate) ns_per_byte: f64,
    pub(crate) ios: u32,
    pub(crate) block_bytes: u64,
    /// The store's service time.
    pub(crate) service_ns: u64,
    /// The status is sent in a PDU of its own.
    pub(crate) separate_status: bool,
    /// Both PDUs are written at once.
    pub(crate) join_sends: bool,
    /// The initiator pauses after this many I/Os, for this many ns.
    pub(crate) think: Option<(u32, u64)>,
    /// How long the initiator reads nothing once the answer to an I/O begins to arrive.
    pub(crate) pause_ns: Option<u64>,
    /// Which segment with data is lost, and how often.
    pub(crate) lost: Option<(FlowDirection, usize, u32)>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) conversation: Conversation,
    pub(crate) waits: Vec<Wait>,
}

/// The next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    Issue(u32),
    Answer(u32),
    Take,
}

struct World {
    script: Script,
    now_ns: u64,
    /// By time, then by order of creation.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    initiator: End,
    target: End,
    lanes: [Lane; 2],
    flying: Vec<(Outgoing, u64)>,
    data_segments: [usize; 2],
    /// Offset of the segment that is lost, and how often it is still to be lost.
    losing: Option<(FlowDirection, u64, u32)>,
    segments: Vec<Segment>,
    windows: Vec<Sampled>,
    requests: Vec<Queued>,
    answers: Vec<Queued>,
    asked: u32,
    answered: u32,
    is_paused: bool,
    has_paused_for: u32,
}

/// Runs the script.
pub(crate) fn run(script: &Script) -> Outcome {
    let lane = Lane::new(script.delay_ns, script.ns_per_byte);
    let mut world = World {
        now_ns: 0,
        events: BinaryHeap::new(),
        made: 0,
        initiator: End::new(
            FlowDirection::ToTarget,
            script.initiator,
            script.target.buffer_bytes,
        ),
        target: End::new(
            FlowDirection::ToInitiator,
            script.target,
            script.initiator.buffer_bytes,
        ),
        lanes: [lane, lane],
        flying: Vec::new(),
        data_segments: [0; 2],
        losing: None,
        segments: Vec::new(),
        windows: Vec::new(),
        requests: Vec::new(),
        answers: Vec::new(),
        asked: 0,
        answered: 0,
        is_paused: false,
        has_paused_for: 0,
        script: script.clone(),
    };
    world.after(1_000_000, Event::Issue(0));
    world.go_on();
    let mut waits = world.initiator.waits;
    waits.extend(world.target.waits);
    Outcome {
        conversation: Conversation {
            session: SessionId(7),
            connection: ConnectionId(1),
            segments: world.segments,
            requests: world.requests,
            answers: world.answers,
            windows: world.windows,
            request_mss_bytes: script.initiator.mss,
            answer_mss_bytes: script.target.mss,
            times: Times::Seen,
        },
        waits,
    }
}

impl World {
    fn after(&mut self, ns: u64, event: Event) {
        self.made += 1;
        self.events
            .push(Reverse((self.now_ns + ns, self.made, event)));
    }

    fn go_on(&mut self) {
        loop {
            let timers = [self.initiator.wakes_ns(), self.target.wakes_ns()];
            let timer_ns = timers.into_iter().flatten().min();
            let event_ns = self.events.peek().map(|Reverse((at_ns, _, _))| *at_ns);
            match (event_ns, timer_ns) {
                (None, None) => return,
                (Some(at_ns), timer_ns) if timer_ns.is_none_or(|timer_ns| at_ns <= timer_ns) => {
                    if let Some(Reverse((at_ns, _, event))) = self.events.pop() {
                        self.sample(at_ns);
                        self.now_ns = at_ns;
                        self.happen(event);
                    }
                }
                (_, Some(timer_ns)) => {
                    self.sample(timer_ns);
                    self.now_ns = timer_ns;
                    self.initiator.wake(timer_ns);
                    self.target.wake(timer_ns);
                }
                (Some(_), None) => unreachable!("an event without a timer is due"),
            }
            self.fly();
            self.applications();
            self.fly();
        }
    }

    /// Samples the windows at the usual interval, up to the time of an event.
    fn sample(&mut self, until_ns: u64) {
        let first = self.now_ns / SAMPLE_NS + 1;
        let ends = [
            (FlowDirection::ToTarget, &self.initiator),
            (FlowDirection::ToInitiator, &self.target),
        ];
        for at_ns in (first..)
            .map(|n| n * SAMPLE_NS)
            .take_while(|at_ns| *at_ns < until_ns)
        {
            self.windows.extend(ends.map(|(way, end)| Sampled {
                at_ns,
                way,
                window_bytes: end.window(),
                // The ends accept all data they are given.
                is_all_sent: false,
            }));
        }
    }

    fn happen(&mut self, event: Event) {
        let now_ns = self.now_ns;
        match event {
            Event::Arrives(place) => {
                let (segment, sent_ns) = self.flying[place];
                match segment.way {
                    FlowDirection::ToTarget => self.target.arrive(now_ns, sent_ns, &segment, true),
                    FlowDirection::ToInitiator => {
                        let begins = segment.payload_bytes > 0 && self.has_paused_for < self.asked;
                        if begins && let Some(pause_ns) = self.script.pause_ns {
                            self.has_paused_for = self.asked;
                            self.is_paused = true;
                            self.after(pause_ns, Event::Take);
                        }
                        let reads = !self.is_paused;
                        self.initiator.arrive(now_ns, sent_ns, &segment, reads);
                    }
                }
            }
            Event::Issue(number) => {
                self.requests.push(Queued {
                    at_ns: now_ns,
                    offset: self.initiator.written_end(),
                    task: TaskTag(number),
                    opcode: SCSI_COMMAND,
                });
                self.asked = number + 1;
                self.initiator.write(now_ns, BHS_BYTES, TaskTag(number));
            }
            Event::Answer(number) => self.answer(TaskTag(number)),
            Event::Take => {
                self.is_paused = false;
                self.initiator.take();
            }
        }
    }

    fn answer(&mut self, task: TaskTag) {
        let at_ns = self.now_ns;
        let data_bytes = BHS_BYTES + self.script.block_bytes;
        let mut pdus = vec![(DATA_IN, data_bytes)];
        if self.script.separate_status {
            pdus.push((SCSI_RESPONSE, BHS_BYTES));
        }
        let mut offset = self.target.written_end();
        for (opcode, bytes) in &pdus {
            self.answers.push(Queued {
                at_ns,
                offset,
                task,
                opcode: *opcode,
            });
            offset += bytes;
        }
        if self.script.join_sends {
            let all = pdus.iter().map(|(_, bytes)| bytes).sum();
            self.target.write(at_ns, all, task);
        } else {
            for (_, bytes) in pdus {
                self.target.write(at_ns, bytes, task);
            }
        }
    }

    /// The applications react to the data that has arrived.
    fn applications(&mut self) {
        while self.answered < self.asked
            && self.target.taken() >= u64::from(self.answered + 1) * BHS_BYTES
        {
            self.answered += 1;
            self.after(self.script.service_ns, Event::Answer(self.answered - 1));
        }
        let response_bytes = if self.script.separate_status {
            BHS_BYTES
        } else {
            0
        };
        let answer_bytes = BHS_BYTES + self.script.block_bytes + response_bytes;
        let is_done = self.initiator.taken() >= u64::from(self.asked) * answer_bytes;
        if is_done && self.asked > 0 && self.asked == self.requests.len() as u32 {
            let next = self.asked;
            if next < self.script.ios {
                let think_ns = match self.script.think {
                    Some((every, ns)) if next.is_multiple_of(every) => ns,
                    _ => 5_000,
                };
                self.asked = next + 1;
                self.after(think_ns, Event::Issue(next));
            }
        }
    }

    /// Puts the ends' outgoing segments on the path.
    fn fly(&mut self) {
        let mut outgoing = std::mem::take(&mut self.initiator.outgoing);
        outgoing.append(&mut self.target.outgoing);
        for segment in outgoing {
            let lane = usize::from(segment.way == FlowDirection::ToInitiator);
            let arrives_ns = self.lanes[lane].carry(self.now_ns, segment.payload_bytes);
            let is_lost = segment.payload_bytes > 0 && self.loses(&segment);
            let arrived_ns = (!is_lost).then_some(arrives_ns);
            let packet = self.segments.len();
            self.segments
                .push(segment.seen(packet, self.now_ns, arrived_ns));
            if !is_lost {
                self.flying.push((segment, self.now_ns));
                let delay_ns = arrives_ns - self.now_ns;
                self.after(delay_ns, Event::Arrives(self.flying.len() - 1));
            }
        }
    }

    fn loses(&mut self, segment: &Outgoing) -> bool {
        let lane = usize::from(segment.way == FlowDirection::ToInitiator);
        self.data_segments[lane] += 1;
        if let Some((way, nth, times)) = self.script.lost
            && way == segment.way
            && nth == self.data_segments[lane]
        {
            self.losing = Some((way, segment.place, times));
        }
        match &mut self.losing {
            Some((way, place, times))
                if *way == segment.way && *place == segment.place && *times > 0 =>
            {
                *times -= 1;
                true
            }
            _ => false,
        }
    }
}
