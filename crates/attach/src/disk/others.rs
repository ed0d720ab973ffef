//! Whether other initiators may write to the disk, as far as its persistent reservations tell.

use std::time::Duration;

use wansan_cache::Range;
use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::scsi::cdb;
use wansan_trace::Instant;

use super::piece::Piece;

/// How often the disk is asked. Unit attentions say more, but not to a session that was not there.
const INTERVAL: Duration = Duration::from_secs(2);

/// Room for the generation, and for the length of the keys that follow (SPC-4 §6.15.2).
const ANSWER_BYTES: u16 = 8;

/// What is known of others. Whoever has registered a key shares the disk: wansan registers none.
#[derive(Debug)]
pub(super) struct Others {
    next: Instant,
    generation: Option<u32>,
    are_there: bool,
}

/// What an answer says that was not known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Others have come, or the last one has gone.
    AreThere(bool),
    /// Registrations have changed.
    Changed,
}

/// How the disk answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// With the generation and the length of the keys.
    Keys(&'a [u8]),
    /// Another initiator has reserved it in the older way (RESERVE of SPC-2).
    Reserved,
    /// It has no persistent reservations.
    Unsupported,
    /// Not at all, this time.
    Failed,
}

impl Others {
    pub(super) fn new() -> Others {
        Others {
            next: Instant::FAR_FUTURE,
            generation: None,
            are_there: false,
        }
    }

    /// When the disk is to be asked.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The command that asks; another one only once it is answered.
    pub(super) fn ask(&mut self) -> Piece {
        self.next = Instant::FAR_FUTURE;
        Piece {
            range: Range::new(0, 0),
            cdb: cdb::persistent_reserve_in_keys(ANSWER_BYTES),
            transfer: Transfer::Read(vec![0; usize::from(ANSWER_BYTES)]),
        }
    }

    /// The disk has answered.
    pub(super) fn answered(&mut self, reply: Reply<'_>, now: Instant) -> Option<News> {
        self.next = now + INTERVAL;
        let mut has_changed = false;
        let are_there = match reply {
            Reply::Keys(&[a, b, c, d, e, f, g, h, ..]) => {
                let generation = u32::from_be_bytes([a, b, c, d]);
                let before = self.generation.replace(generation);
                has_changed = before.is_some_and(|before| before != generation);
                u32::from_be_bytes([e, f, g, h]) > 0
            }
            Reply::Reserved => true,
            Reply::Unsupported => {
                self.next = Instant::FAR_FUTURE;
                false
            }
            Reply::Keys(_) | Reply::Failed => return None,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_once() {
        let now = Instant::ZERO;
        let mut others = Others::new();
        let mut told = |generation: u8, keys: u8| {
            let answer = [0, 0, 0, generation, 0, 0, 0, 8 * keys];
            others.answered(Reply::Keys(&answer), now)
        };
        assert_eq!(told(3, 0), None);
        assert_eq!(told(3, 0), None);
        assert_eq!(told(4, 1), Some(News::AreThere(true)));
        assert_eq!(told(5, 2), Some(News::Changed));
        assert_eq!(told(5, 2), None);
        assert_eq!(told(6, 0), Some(News::AreThere(false)));
    }

    #[test]
    fn only_a_disk_without_reservations_is_not_asked_again() {
        let mut others = Others::new();
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
