//! Numbered responses that the initiator has not acknowledged (RFC 7143 §4.2.2.2).

use std::collections::VecDeque;

use wansan_trace::TaskTag;

use crate::sequence::Sn;
use crate::wire::Bhs;

/// Most responses kept by one connection, by count and by bytes. An initiator that acknowledges nothing loses the
/// oldest, so a SNACK for them is rejected.
const MAX_ANSWERS: usize = 4096;
const MAX_BYTES: usize = 1 << 20;

/// One response.
#[derive(Debug)]
pub(super) struct Answer {
    /// The PDU as sent; `None` if it was the last Data-In of its task (§11.7.3).
    pub(super) pdu: Option<(Bhs, Box<[u8]>)>,
    /// The SCSI task that it completed.
    pub(super) task: Option<TaskTag>,
    /// Bytes of Data-In kept with that task.
    pub(super) task_bytes: usize,
}

impl Answer {
    fn bytes(&self) -> usize {
        let data_bytes = self.pdu.as_ref().map_or(0, |(_, data)| data.len());
        size_of::<Answer>() + data_bytes + self.task_bytes
    }
}

/// The responses of one connection, from the oldest that ExpStatSN does not cover to the latest.
#[derive(Debug)]
pub(super) struct Kept {
    /// StatSN of the first one.
    first: Sn,
    answers: VecDeque<Answer>,
    bytes: usize,
}

impl Kept {
    /// Keeps responses from StatSN `next` on.
    pub(super) fn new(next: Sn) -> Kept {
        Kept {
            first: next,
            answers: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Keeps the next response; returns the one dropped for it, if any, with its StatSN.
    pub(super) fn push(&mut self, answer: Answer) -> Option<(Sn, Answer)> {
        self.bytes += answer.bytes();
        self.answers.push_back(answer);
        let full = self.answers.len() > MAX_ANSWERS || self.bytes > MAX_BYTES;
        full.then(|| self.pop()).flatten()
    }

    /// The number of oldest responses acknowledged by `exp_stat_sn`. A number that was never assigned acknowledges
    /// nothing.
    pub(super) fn acknowledged(&self, exp_stat_sn: Sn) -> usize {
        let count = exp_stat_sn.distance(self.first) as usize;
        if count > self.answers.len() { 0 } else { count }
    }

    /// Whether the response `stat_sn` is kept.
    pub(super) fn has(&self, stat_sn: Sn) -> bool {
        (stat_sn.distance(self.first) as usize) < self.answers.len()
    }

    /// Drops the oldest, and returns it with its StatSN.
    pub(super) fn pop(&mut self) -> Option<(Sn, Answer)> {
        let answer = self.answers.pop_front()?;
        let stat_sn = self.first;
        self.first = stat_sn.next();
        self.bytes -= answer.bytes();
        Some((stat_sn, answer))
    }

    /// The responses of a run with their StatSNs: `length` of them from `from` on, or all when that is 0. `None` when one
    /// of them is missing.
    pub(super) fn run(&self, from: Sn, length: u32) -> Option<impl Iterator<Item = (Sn, &Answer)>> {
        let begin = from.distance(self.first) as usize;
        let end = match length {
            0 => self.answers.len(),
            length => begin.checked_add(length as usize)?,
        };
        let inside = begin < end && end <= self.answers.len();
        inside.then(|| {
            (0..)
                .map(move |n| from.add(n))
                .zip(self.answers.range(begin..end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(task: u32) -> Answer {
        Answer {
            pdu: None,
            task: Some(TaskTag(task)),
            task_bytes: 0,
        }
    }

    /// The StatSNs and the tasks' tags of a run.
    fn tags(run: Option<impl Iterator<Item = (Sn, &'static Answer)>>) -> Option<Vec<(u32, u32)>> {
        let tag = |answer: &Answer| answer.task.unwrap().0;
        run.map(|answers| {
            answers
                .map(|(stat_sn, answer)| (stat_sn.0, tag(answer)))
                .collect()
        })
    }

    #[test]
    fn what_is_acknowledged_goes_and_the_rest_is_found_by_its_number() {
        let kept = Box::leak(Box::new(Kept::new(Sn(u32::MAX))));
        for task in 0..5 {
            assert!(kept.push(answer(task)).is_none());
        }
        assert_eq!(kept.acknowledged(Sn(u32::MAX)), 0);
        assert_eq!(kept.acknowledged(Sn(u32::MAX - 1)), 0);
        assert_eq!(kept.acknowledged(Sn(5)), 0, "not given out yet");
        assert_eq!(kept.acknowledged(Sn(1)), 2);
        let acknowledged = [kept.pop(), kept.pop()].map(|answer| answer.map(|(sn, _)| sn.0));
        assert_eq!(acknowledged, [Some(u32::MAX), Some(0)]);
        assert_eq!(kept.acknowledged(Sn(1)), 0);
        let kept: &'static Kept = kept;
        assert_eq!(tags(kept.run(Sn(1), 0)), Some(vec![(1, 2), (2, 3), (3, 4)]));
        assert_eq!(tags(kept.run(Sn(2), 1)), Some(vec![(2, 3)]));
        assert_eq!(tags(kept.run(Sn(0), 1)), None);
        assert_eq!(tags(kept.run(Sn(3), 2)), None);
        assert_eq!(tags(kept.run(Sn(4), 0)), None);
    }

    #[test]
    fn they_are_bounded() {
        let mut kept = Kept::new(Sn(0));
        let let_go = (0..2 * MAX_ANSWERS as u32).filter_map(|task| kept.push(answer(task)));
        assert_eq!(let_go.count(), MAX_ANSWERS);
        assert!(kept.run(Sn(0), 1).is_none());
        assert!(kept.run(Sn(MAX_ANSWERS as u32), 0).is_some());
        let pdu = Some(([0; 48], vec![0; MAX_BYTES].into_boxed_slice()));
        kept.push(Answer { pdu, ..answer(0) });
        assert!(kept.bytes <= 2 * MAX_BYTES);
    }
}
