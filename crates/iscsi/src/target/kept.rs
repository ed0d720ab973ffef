//! Numbered responses that the initiator has not acknowledged (RFC 7143 §4.2.2.2).

use std::collections::VecDeque;

use wansan_trace::TaskTag;

use crate::sequence::Sn;
use crate::wire::Bhs;

/// Most responses kept by one connection, by count and by bytes. An initiator that acknowledges nothing loses the
/// oldest, so a SNACK for them is rejected.
const MAX_ANSWERS: usize = 4096;
const MAX_BYTES: usize = 1 << 20;

/// One response, as sent.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) bhs: Bhs,
    pub(super) data: Box<[u8]>,
    /// The SCSI task that it completed.
    pub(super) task: Option<TaskTag>,
    /// Bytes of Data-In kept with that task.
    pub(super) task_bytes: usize,
}

impl Answer {
    /// Its StatSN, at the same offset in all responses.
    pub(super) fn stat_sn(&self) -> Sn {
        let [.., a, b, c, d] = *self.bhs.first_chunk::<28>().expect("a header has 48 bytes");
        Sn(u32::from_be_bytes([a, b, c, d]))
    }

    fn bytes(&self) -> usize {
        size_of::<Answer>() + self.data.len() + self.task_bytes
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

    /// Keeps the next response; returns the one dropped for it, if any.
    pub(super) fn push(&mut self, answer: Answer) -> Option<Answer> {
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

    /// Drops the oldest.
    pub(super) fn pop(&mut self) -> Option<Answer> {
        let answer = self.answers.pop_front()?;
        self.first = self.first.next();
        self.bytes -= answer.bytes();
        Some(answer)
    }

    /// The responses of a run: `length` of them from `from` on, or all when that is 0. `None` when one of them is
    /// missing.
    pub(super) fn run(&self, from: Sn, length: u32) -> Option<impl Iterator<Item = &Answer>> {
        let begin = from.distance(self.first) as usize;
        let end = match length {
            0 => self.answers.len(),
            length => begin.checked_add(length as usize)?,
        };
        let inside = begin < end && end <= self.answers.len();
        inside.then(|| self.answers.range(begin..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(task: u32) -> Answer {
        Answer {
            bhs: [0; 48],
            data: Box::default(),
            task: Some(TaskTag(task)),
            task_bytes: 0,
        }
    }

    fn tags(run: Option<impl Iterator<Item = &'static Answer>>) -> Option<Vec<u32>> {
        run.map(|answers| answers.map(|answer| answer.task.unwrap().0).collect())
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
        assert!(kept.pop().is_some() && kept.pop().is_some());
        assert_eq!(kept.acknowledged(Sn(1)), 0);
        let kept: &'static Kept = kept;
        assert_eq!(tags(kept.run(Sn(1), 0)), Some(vec![2, 3, 4]));
        assert_eq!(tags(kept.run(Sn(2), 1)), Some(vec![3]));
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
        let data = vec![0; MAX_BYTES].into_boxed_slice();
        kept.push(Answer { data, ..answer(0) });
        assert!(kept.bytes <= 2 * MAX_BYTES);
    }
}
