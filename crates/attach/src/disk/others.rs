//! Detects other initiators that may write to the disk, from its persistent reservations.

use std::time::Duration;

use wansan_cache::Range;
use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::scsi::{HostKey, Keys, cdb};
use wansan_trace::Instant;

use super::piece::Piece;
use crate::status::Sharing;

/// Query interval. A unit attention also triggers a query, but none reports that another initiator has registered.
const INTERVAL: Duration = Duration::from_secs(2);

/// Time after which an unanswered query is repeated: a host that takes the disk over may have aborted it.
const ASKS_AGAIN: Duration = Duration::from_secs(10);

/// What is known of other initiators. One that has registered a key other than this host's shares the disk.
#[derive(Debug)]
pub(super) struct Others {
    /// This host's key, if it has registered one.
    own: Option<HostKey>,
    next: Instant,
    /// Unanswered queries.
    asked: u32,
    /// This host's key may have been removed, and no query sent since has been answered.
    is_doubtful: bool,
    /// Queries sent before that, whose answers do not settle it.
    stale: u32,
    generation: Option<u32>,
    sharing: Option<Sharing>,
}

/// What an answer reveals that was not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// Others appeared, or the last one is gone.
    Sharing(Option<Sharing>),
    /// Registrations have changed.
    Changed,
    /// This host's key was removed; the keys registered now.
    Preempted(Vec<u64>),
}

/// The disk's answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// The registered keys.
    Keys(&'a [u8]),
    /// Another initiator holds a legacy reservation (RESERVE of SPC-2).
    Reserved,
    /// Persistent reservations are not supported.
    Unsupported,
    /// The query failed this time.
    Failed,
}

impl Others {
    /// For a disk on which this host registered `own`, if any.
    pub(super) fn new(own: Option<HostKey>) -> Others {
        Others {
            own,
            next: Instant::FAR_FUTURE,
            asked: 0,
            is_doubtful: false,
            stale: 0,
            generation: None,
            sharing: None,
        }
    }

    /// When to send the next query.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Returns the query command.
    pub(super) fn ask(&mut self, now: Instant) -> Piece {
        self.asked += 1;
        self.next = now + ASKS_AGAIN;
        Piece {
            range: Range::new(0, 0),
            cdb: cdb::persistent_reserve_in_keys(Keys::ANSWER_BYTES),
            transfer: Transfer::Read(vec![0; usize::from(Keys::ANSWER_BYTES)]),
        }
    }

    /// Processes the disk's answer.
    pub(super) fn answered(&mut self, reply: Reply<'_>, now: Instant) -> Option<News> {
        self.asked = self.asked.saturating_sub(1);
        self.next = now + INTERVAL;
        match self.stale {
            0 if reply != Reply::Failed => self.is_doubtful = false,
            stale => self.stale = stale.saturating_sub(1),
        }
        if self.is_doubtful && reply != Reply::Failed {
            self.next = now;
        }
        let mut has_changed = false;
        let sharing = match reply {
            Reply::Keys(data) => {
                let keys = Keys::parse(data).ok()?;
                let others = keys.others(self.own);
                if self.own.is_some_and(|own| !keys.has(own)) {
                    return Some(News::Preempted(others));
                }
                let before = self.generation.replace(keys.generation);
                has_changed = before.is_some_and(|before| before != keys.generation);
                (!others.is_empty()).then_some(Sharing::Registered)
            }
            Reply::Reserved => Some(Sharing::Reserved),
            // A disk that accepted this host's key supports them.
            Reply::Unsupported if self.own.is_none() => {
                self.next = Instant::FAR_FUTURE;
                None
            }
            Reply::Unsupported | Reply::Failed => return None,
        };
        match std::mem::replace(&mut self.sharing, sharing) == sharing {
            true => has_changed.then_some(News::Changed),
            false => Some(News::Sharing(sharing)),
        }
    }

    /// A unit attention arrived: queries soon, if queries are enabled and none is outstanding. With a key of this host,
    /// queries in any case: the outstanding query may have been aborted with the key.
    pub(super) fn hurry(&mut self) {
        let is_new = self.own.is_some() && !self.is_doubtful;
        if self.next != Instant::FAR_FUTURE && (is_new || self.asked == 0) {
            self.next = Instant::ZERO;
            self.is_doubtful = self.own.is_some();
            self.stale = self.asked;
        }
    }

    /// Whether this host's key may have been removed: nothing else is sent until that is known.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Starts sending queries.
    pub(super) fn begin(&mut self) {
        self.next = Instant::ZERO;
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
        assert_eq!(told(4, &[7]), REGISTERED);
        assert_eq!(told(5, &[7, 8]), Some(News::Changed));
        assert_eq!(told(5, &[7, 8]), None);
        assert_eq!(told(6, &[]), Some(News::Sharing(None)));
    }

    const REGISTERED: Option<News> = Some(News::Sharing(Some(Sharing::Registered)));

    fn registered(generation: u32, keys: &[u64]) -> Vec<u8> {
        let mut answer = generation.to_be_bytes().to_vec();
        answer.extend((8 * keys.len() as u32).to_be_bytes());
        answer.extend(keys.iter().flat_map(|key| key.to_be_bytes()));
        answer
    }

    #[test]
    fn an_own_key_is_no_other_and_is_missed() {
        let mut others = Others::new(HostKey::new(7));
        let mut told =
            |keys: &[u64]| others.answered(Reply::Keys(&registered(1, keys)), Instant::ZERO);
        assert_eq!(told(&[7, 7 | 1 << 56]), None);
        assert_eq!(told(&[7, 8]), REGISTERED);
        assert_eq!(told(&[7]), Some(News::Sharing(None)));
        assert_eq!(told(&[8]), Some(News::Preempted(vec![8])));
        assert_eq!(told(&[]), Some(News::Preempted(vec![])));
    }

    #[test]
    fn news_have_it_asked_once() {
        let mut others = Others::new(HostKey::new(7));
        others.hurry();
        assert_eq!(others.next(), Instant::FAR_FUTURE, "it has not begun");
        assert_eq!(others.answered(Reply::Failed, Instant::ZERO), None);
        others.hurry();
        assert_eq!(others.next(), Instant::ZERO);
        others.ask(Instant::ZERO);
        others.hurry();
        let again = Instant::ZERO + ASKS_AGAIN;
        assert_eq!(others.next(), again, "it is being asked");
        let mut others = Others::new(None);
        others.begin();
        others.ask(Instant::ZERO);
        others.hurry();
        assert_eq!(others.next(), again, "it is being asked");
        assert!(!others.is_doubtful(), "there is no key");
    }

    #[test]
    fn an_answer_to_an_earlier_question_ends_no_doubt() {
        let mut others = Others::new(HostKey::new(7));
        let there = registered(1, &[7]);
        others.begin();
        others.ask(Instant::ZERO);
        others.hurry();
        assert_eq!(others.next(), Instant::ZERO);
        others.ask(Instant::ZERO);
        assert_eq!(others.answered(Reply::Keys(&there), Instant::ZERO), None);
        assert!(others.is_doubtful());
        assert_eq!(others.answered(Reply::Keys(&there), Instant::ZERO), None);
        assert!(!others.is_doubtful());
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
        let reserved = Some(News::Sharing(Some(Sharing::Reserved)));
        assert_eq!(told(Reply::Reserved), (reserved, true));
        assert_eq!(told(Reply::Failed), (None, true));
        assert_eq!(told(Reply::Unsupported), (Some(News::Sharing(None)), false));
    }
}
