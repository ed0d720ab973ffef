//! The command window (RFC 7143 §4.2.2.1).

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::target::{Period, Taken};

use super::pair::{BLOCK_BYTES, Pair};

#[test]
fn no_more_commands_than_the_window_are_ever_at_the_target() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 5, 3);
    pair.hold_store = true;
    for n in 0..40 {
        pair.read(n, 1, n);
    }
    let mut done = 0;
    while done < 40 {
        done += pair.settle().len();
        let wanted = (40 - done).min(5);
        assert_eq!(pair.held.len(), wanted, "as many as the window lets in");
        // One response frees one slot, and one command follows.
        let work = pair.held.remove(0);
        pair.answer(work);
        if 40 - done <= 5 {
            while let Some(work) = pair.held.pop() {
                pair.answer(work);
            }
            done += pair.settle().len();
            break;
        }
    }
    assert_eq!(done, 40);
}

#[test]
fn the_window_is_cut_so_that_unsolicited_data_stays_bounded() {
    let wanted = Wanted {
        first_burst_bytes: 1 << 24,
        max_burst_bytes: (1 << 24) - 1,
        ..Wanted::default()
    };
    let wanted = Wanted {
        first_burst_bytes: (1 << 24) - 1,
        ..wanted
    };
    let mut pair = Pair::new(wanted.clone(), wanted, 1024, 4);
    pair.hold_store = true;
    for n in 0..20 {
        pair.write(n, vec![9; BLOCK_BYTES], n);
    }
    pair.settle();
    assert_eq!(pair.held.len(), 16);
}

#[test]
fn a_session_that_takes_more_than_others_has_half_of_its_window_left_until_they_want_less() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 8, 5);
    pair.hold_store = true;
    for n in 0..40 {
        pair.read(n, 1, n);
    }
    pair.settle();
    assert_eq!(pair.held.len(), 8);
    let other = Taken {
        turns: 10,
        bytes: 10,
    };
    let taken = pair.target.take_stock(10);
    assert!(taken.bytes >= 8 * 48);
    let busy = Period::of([taken, other, other, other].into_iter(), true);
    pair.target.adapt_window(busy, taken);
    for left in (4..8).rev() {
        let work = pair.held.remove(0);
        pair.answer(work);
        pair.settle();
        assert_eq!(pair.held.len(), left, "no command follows");
    }
    let work = pair.held.remove(0);
    pair.answer(work);
    pair.settle();
    assert_eq!(pair.held.len(), 4, "one follows each that ends");
    for _ in 0..10 {
        let taken = pair.target.take_stock(1);
        pair.target.adapt_window(Period::default(), taken);
    }
    let work = pair.held.remove(0);
    pair.answer(work);
    pair.settle();
    assert_eq!(pair.held.len(), 8);
}
