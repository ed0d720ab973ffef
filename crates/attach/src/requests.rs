//! Records what program requests wait for.

use std::collections::BTreeMap;

use wansan_cache::{Action, Mark, Range};
use wansan_trace::event::{Request, RequestKind, RequestWait};
use wansan_trace::{Instant, NameId, Recorder, SessionId, TaskTag};

/// Most wait intervals recorded per request; the last one covers all that follow. A request retried over lost sessions
/// could have more.
const MOST_STRETCHES: usize = 16;

/// The open requests, and the recorder for answered ones.
#[derive(Debug)]
pub(crate) struct Requests {
    recorder: Recorder,
    disk: NameId,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    kind: RequestKind,
    range: Range,
    /// What it waits for and since when; the first entry is its arrival.
    stretches: Vec<(Instant, RequestWait)>,
}

impl Requests {
    /// Records under the disk's URL.
    pub(crate) fn new(mut recorder: Recorder, url: &str) -> Requests {
        let disk = recorder.name(url);
        Requests {
            recorder,
            disk,
            open: BTreeMap::new(),
        }
    }

    /// Notes a request's arrival.
    pub(crate) fn begin(&mut self, request: u64, action: &Action, now: Instant) {
        let kind = match action {
            Action::Read { .. } => RequestKind::Read,
            Action::Write { .. } => RequestKind::Write,
            Action::Flush => RequestKind::Flush,
            Action::Trim { .. } => RequestKind::Trim,
            Action::Zero { .. } => RequestKind::Zero,
            Action::Status { .. } => RequestKind::Status,
            Action::Prefetch { .. } => RequestKind::Prefetch,
        };
        let open = Open {
            kind,
            range: action.range(),
            stretches: vec![(now, RequestWait::Nothing)],
        };
        self.open.insert(request, open);
    }

    /// Notes that a request waits for something else.
    pub(crate) fn mark(&mut self, mark: Mark) {
        let Some(open) = self.open.get_mut(&mark.request) else {
            return;
        };
        let Some((since, waits_for)) = open.stretches.last_mut() else {
            return;
        };
        if mark.since <= *since {
            *waits_for = mark.waits_for;
        } else if *waits_for != mark.waits_for && open.stretches.len() < MOST_STRETCHES {
            open.stretches.push((mark.since, mark.waits_for));
        }
    }

    /// Notes that a request was answered, and by which command, if any.
    pub(crate) fn done(
        &mut self,
        request: u64,
        command: Option<(SessionId, TaskTag)>,
        now: Instant,
    ) {
        let Some(mut open) = self.open.remove(&request) else {
            return;
        };
        if let [(since, waits_for)] = &mut open.stretches[..]
            && *since >= now
        {
            *waits_for = RequestWait::Nothing;
        }
        let ends = open.stretches.iter().skip(1).map(|(since, _)| *since);
        for ((since, waits_for), end) in open.stretches.iter().zip(ends.chain([now])) {
            let is_last = end == now && *waits_for != RequestWait::Nothing;
            let command = command.filter(|_| is_last);
            let (session, task) = command.unwrap_or((SessionId(0), TaskTag(0)));
            self.recorder.request(Request {
                time: now,
                disk: self.disk,
                request,
                kind: open.kind,
                offset_bytes: open.range.start,
                length_bytes: open.range.bytes(),
                waits_for: *waits_for,
                before_ns: (now - *since).as_nanos() as u64,
                length_ns: (end - *since).as_nanos() as u64,
                session,
                task,
            });
        }
    }

    pub(crate) fn into_recorder(self) -> Recorder {
        self.recorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn requests() -> Requests {
        let kinds = wansan_trace::Kinds {
            request: true,
            ..wansan_trace::Kinds::NONE
        };
        Requests::new(Recorder::new(kinds, Recorder::MIN_BYTES), "iscsi://disk")
    }

    fn stretches(requests: Requests) -> Vec<(RequestWait, u64, u64, TaskTag)> {
        let recorder = requests.into_recorder();
        let rows = recorder.request.iter();
        rows.map(|row| (row.waits_for, row.before_ns, row.length_ns, row.task))
            .collect()
    }

    fn mark(waits_for: RequestWait, ns: u64) -> Mark {
        Mark {
            request: 3,
            waits_for,
            since: at(ns),
        }
    }

    #[test]
    fn stretches_follow_each_other_and_the_last_has_its_command() {
        let mut requests = requests();
        requests.begin(3, &Action::Flush, at(100));
        requests.mark(mark(RequestWait::Backlog, 100));
        requests.mark(mark(RequestWait::Disk, 300));
        requests.mark(mark(RequestWait::Disk, 400));
        requests.done(3, Some((SessionId(1), TaskTag(9))), at(1000));
        let expected = [
            (RequestWait::Backlog, 900, 200, TaskTag(0)),
            (RequestWait::Disk, 700, 700, TaskTag(9)),
        ];
        assert_eq!(stretches(requests), expected);
    }

    #[test]
    fn what_is_answered_at_once_waits_for_nothing() {
        let mut requests = requests();
        requests.begin(3, &Action::Flush, at(100));
        requests.mark(mark(RequestWait::Journal, 100));
        requests.done(3, None, at(100));
        assert_eq!(
            stretches(requests),
            [(RequestWait::Nothing, 0, 0, TaskTag(0))]
        );
    }

    #[test]
    fn a_request_has_so_many_stretches() {
        let mut requests = requests();
        requests.begin(3, &Action::Flush, at(0));
        for ns in 1..100 {
            let waits_for = match ns % 2 {
                0 => RequestWait::Backlog,
                _ => RequestWait::Disk,
            };
            requests.mark(mark(waits_for, ns));
        }
        requests.done(3, None, at(1000));
        let stretches = stretches(requests);
        assert_eq!(stretches.len(), MOST_STRETCHES);
        let all_ns: u64 = stretches.iter().map(|(_, _, length_ns, _)| length_ns).sum();
        assert_eq!(all_ns, 1000);
    }
}
