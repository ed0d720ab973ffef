//! Whether other initiators may write to the disk, as far as its persistent reservations tell.

use std::time::Duration;

use wansan_cache::Range;
use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::scsi::{Keys, cdb};
use wansan_trace::Instant;

use super::piece::Piece;

/// How often the disk is asked. Unit attentions say more, but not to a session that was not there.
const INTERVAL: Duration = Duration::from_secs(2);

/// When it is asked again though it has not answered: who takes the disk over may have aborted the question.
const ASKS_AGAIN: Duration = Duration::from_secs(10);

/// What is known of others. Whoever has registered a key that is not this host's shares the disk.
#[derive(Debug)]
pub(super) struct Others {
    /// This host's key, if it has registered one.
    own: Option<u64>,
    next: Instant,
    is_asked: bool,
    generation: Option<u32>,
    are_there: bool,
}

/// What an answer says that was not known before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// Others have come, or the last one has gone.
    AreThere(bool),
    /// Registrations have changed.
    Changed,
    /// This host's key has been removed; those that are there.
    Preempted(Vec<u64>),
}

/// How the disk answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// With what is registered.
    Keys(&'a [u8]),
    /// Another initiator has reserved it in the older way (RESERVE of SPC-2).
    Reserved,
    /// It has no persistent reservations.
    Unsupported,
    /// Not at all, this time.
    Failed,
}

impl Others {
    /// On a disk that this host has registered `own` with, if it has.
    pub(super) fn new(own: Option<u64>) -> Others {
        Others {
            own,
            next: Instant::FAR_FUTURE,
            is_asked: false,
            generation: None,
            are_there: false,
        }
    }

    /// When the disk is to be asked.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The command that asks.
    pub(super) fn ask(&mut self, now: Instant) -> Piece {
        self.is_asked = true;
        self.next = now + ASKS_AGAIN;
        Piece {
            range: Range::new(0, 0),
            cdb: cdb::persistent_reserve_in_keys(Keys::ANSWER_BYTES),
            transfer: Transfer::Read(vec![0; usize::from(Keys::ANSWER_BYTES)]),
        }
    }

    /// The disk has answered.
    pub(super) fn answered(&mut self, reply: Reply<'_>, now: Instant) -> Option<News> {
        self.is_asked = false;
        self.next = now + INTERVAL;
        let mut has_changed = false;
        let are_there = match reply {
            Reply::Keys(data) => {
                let keys = Keys::parse(data).ok()?;
                let others = keys.others(self.own);
                if self.own.is_some_and(|own| !keys.has(own)) {
                    return Some(News::Preempted(others));
                }
                let before = self.generation.replace(keys.generation);
                has_changed = before.is_some_and(|before| before != keys.generation);
                !others.is_empty()
            }
            Reply::Reserved => true,
            Reply::Unsupported => {
                self.next = Instant::FAR_FUTURE;
                false
            }
            Reply::Failed => return None,
        };
        match std::mem::replace(&mut self.are_there, are_there) == are_there {
            true => has_changed.then_some(News::Changed),
            false => Some(News::AreThere(are_there)),
        }
    }

    /// From now on the disk is asked.
    pub(super) fn begin(&mut self) {
        self.next = Instant::ZERO;
    }

    /// Something may have become of this host's key: if there is one, the disk is asked at once, unless it is being asked.
    pub(super) fn doubt(&mut self) {
        if self.own.is_some() && self.next != Instant::FAR_FUTURE && !self.is_asked {
            self.next = Instant::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_once() {
        let now = Instant::ZERO;
        let mut others = Others::new(None);
        let mut told = |generation, keys: &[u64]| {
            others.answered(Reply::Keys(&registered(generation, keys)), now)
        };
        assert_eq!(told(3, &[]), None);
        assert_eq!(told(3, &[]), None);
        assert_eq!(told(4, &[7]), Some(News::AreThere(true)));
        assert_eq!(told(5, &[7, 8]), Some(News::Changed));
        assert_eq!(told(5, &[7, 8]), None);
        assert_eq!(told(6, &[]), Some(News::AreThere(false)));
    }

    fn registered(generation: u32, keys: &[u64]) -> Vec<u8> {
        let mut answer = generation.to_be_bytes().to_vec();
        answer.extend((8 * keys.len() as u32).to_be_bytes());
        answer.extend(keys.iter().flat_map(|key| key.to_be_bytes()));
        answer
    }

    #[test]
    fn an_own_key_is_no_other_and_is_missed() {
        let mut others = Others::new(Some(7));
        let mut told =
            |keys: &[u64]| others.answered(Reply::Keys(&registered(1, keys)), Instant::ZERO);
        assert_eq!(told(&[7, 7]), None);
        assert_eq!(told(&[7, 8]), Some(News::AreThere(true)));
        assert_eq!(told(&[7]), Some(News::AreThere(false)));
        assert_eq!(told(&[8]), Some(News::Preempted(vec![8])));
        assert_eq!(told(&[]), Some(News::Preempted(vec![])));
    }

    #[test]
    fn doubts_have_it_asked_once() {
        let mut others = Others::new(Some(7));
        others.doubt();
        assert_eq!(others.next(), Instant::FAR_FUTURE, "it has not begun");
        assert_eq!(others.answered(Reply::Failed, Instant::ZERO), None);
        others.doubt();
        assert_eq!(others.next(), Instant::ZERO);
        others.ask(Instant::ZERO);
        others.doubt();
        let again = Instant::ZERO + ASKS_AGAIN;
        assert_eq!(others.next(), again, "it is being asked");
    }

    #[test]
    fn only_a_disk_without_reservations_is_not_asked_again() {
        let mut others = Others::new(None);
        let mut told = |reply| {
            let news = others.answered(reply, Instant::ZERO);
            (news, others.next() == Instant::ZERO + INTERVAL)
        };
        assert_eq!(told(Reply::Failed), (None, true));
        assert_eq!(told(Reply::Keys(&[0; 3])), (None, true));
        assert_eq!(told(Reply::Reserved), (Some(News::AreThere(true)), true));
        assert_eq!(told(Reply::Failed), (None, true));
        assert_eq!(
            told(Reply::Unsupported),
            (Some(News::AreThere(false)), false)
        );
    }
}
