//! Commands that arrive while other initiators reset units, remove access and change modes.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::wire::{BHS_BYTES, Opcode, ScsiStatus, TaskManagementFunction};

use super::management::{log_out_for_recovery, manage, pair, reserve_out};
use super::pair::Pair;

/// MODE SELECT (6) of the caching page, with that WCE.
fn select_write_cache(pair: &mut Pair, wce: bool, user: u64) {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x15, 0x10, 0, 0, 24, 0]);
    let mut list = vec![0; 24];
    list[4..7].copy_from_slice(&[0x08, 0x12, if wce { 4 } else { 0 }]);
    pair.submit(cdb, Transfer::Write(list), user);
}

fn statuses(pair: &mut Pair) -> Vec<ScsiStatus> {
    let done = pair.settle().into_iter();
    done.map(|one| one.outcome.unwrap().status).collect()
}

/// Commands after the one that has reported the reset are later than the reset (SAM-5 5.14): they are answered.
#[test]
fn a_reset_ends_no_task_that_comes_after_its_unit_attention() {
    const READS: u64 = 60;
    const ROUNDS: u64 = 400;
    // On a busy machine the two threads seldom run at once.
    const MOST_ROUNDS: u64 = 40_000;
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 64, 11);
    let first = pair.beside("other", 12);
    let (go, reset) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (go, reset) = (&go, &reset);
        scope.spawn(move || {
            let mut round = 0;
            loop {
                while go.load(SeqCst) == round {
                    std::hint::spin_loop();
                }
                round = go.load(SeqCst);
                if round == u64::MAX {
                    return;
                }
                for _ in 0..round * 7919 % 400 {
                    std::hint::spin_loop();
                }
                manage(&mut pair, TaskManagementFunction::LogicalUnitReset, 0);
                loop {
                    pair.settle();
                    let now = pair.now();
                    pair.target.review(now, &mut pair.trace);
                    if pair.initiator.poll_event().is_some() {
                        break;
                    }
                    std::thread::yield_now();
                }
                reset.store(round, SeqCst);
            }
        });
        // Threads that share one processor take turns, so that no reset intervenes.
        let race =
            std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        let mut attentions = 0;
        for round in 1..=MOST_ROUNDS {
            let mut other = first.beside("another", 13);
            (0..READS).for_each(|n| other.read(n, 1, n));
            go.store(round, SeqCst);
            other.bring();
            let mut done = other.settle();
            while reset.load(SeqCst) != round {
                let now = other.now();
                other.target.review(now, &mut other.trace);
                done.extend(other.settle());
                std::thread::yield_now();
            }
            done.extend(other.settle());
            let status = |n| {
                let found = done.iter().find(|one| one.user == n)?;
                Some(found.outcome.as_ref().ok()?.status)
            };
            let mut reads = 0..READS;
            if let Some(told) = reads.find(|&n| status(n) == Some(ScsiStatus::CheckCondition)) {
                attentions += 1;
                let missing: Vec<u64> = (told..READS).filter(|&n| status(n).is_none()).collect();
                if !missing.is_empty() {
                    go.store(u64::MAX, SeqCst);
                    panic!("round {round}: {told} reported the reset, no answer to {missing:?}");
                }
            }
            if attentions == 20 || round >= ROUNDS && (attentions > 0 || !race) {
                break;
            }
        }
        go.store(u64::MAX, SeqCst);
        assert!(attentions > 0 || !race, "no reset came between the reads");
    });
}

#[test]
fn a_reservation_applies_to_mode_selects_whose_data_is_still_to_come() {
    let wanted = Wanted {
        immediate_data: false,
        initial_r2t: true,
        ..Wanted::default()
    };
    let mut pair = Pair::new(wanted.clone(), wanted, 16, 11);
    let mut other = pair.beside("other", 12);
    select_write_cache(&mut pair, false, 1);
    pair.settle_good();
    other.submit([0; 16], Transfer::None, 1);
    other.settle(); // The unit attention.
    select_write_cache(&mut other, true, 2);
    other.bring();
    reserve_out(&mut pair, 0, 0, 0xa, 2);
    reserve_out(&mut pair, 1, 0xa, 0, 3);
    pair.settle_good();
    assert_eq!(statuses(&mut other), [ScsiStatus::ReservationConflict]);
}

/// Until the change's cache flush completes, the unit answers all other changes with BUSY.
#[test]
fn an_initiator_that_does_not_read_holds_up_no_change_of_others() {
    let mut pair = pair();
    let mut other = pair.beside("other", 12);
    (0..8).for_each(|n| other.read(0, 1024, n));
    let bring_commands = |other: &mut Pair| {
        for _ in 0..3 {
            other.towards_target().unwrap();
        }
    };
    bring_commands(&mut other);
    select_write_cache(&mut other, false, 9);
    bring_commands(&mut other);
    let pending = other.target.connection(0).unwrap().pending().len();
    assert!(pending > 1 << 20, "{pending} bytes wait for the socket");
    pair.submit([0; 16], Transfer::None, 1);
    pair.settle(); // The unit attention.
    select_write_cache(&mut pair, true, 2);
    assert_eq!(statuses(&mut pair), [ScsiStatus::Good]);
}

/// RFC 7143 §11.14: tasks not at a store when the logout is answered wait for TASK REASSIGN.
#[test]
fn a_logout_for_recovery_suspends_what_the_stores_were_not_asked() {
    let wanted = Wanted {
        error_recovery_level: 2,
        max_connections: 2,
        ..Wanted::default()
    };
    for at_store in [false, true] {
        let mut pair = Pair::new(wanted.clone(), wanted.clone(), 16, 11);
        pair.hold_store = true;
        if at_store {
            pair.write(0, vec![7; 512], 1);
            pair.settle();
            assert_eq!(pair.held.len(), 1);
        }
        pair.write(1, vec![8; 512], 2);
        pair.bring();
        let now = pair.now();
        log_out_for_recovery(&mut pair);
        pair.target.receive(0, now, &mut pair.trace);
        assert!(pair.target.poll_work(0, now, &mut pair.trace).is_none());
        if at_store {
            let held = pair.held.remove(0);
            pair.answer(held);
            assert!(pair.target.poll_work(0, now, &mut pair.trace).is_none());
        }
        let pending = pair.target.connection(0).unwrap().pending().to_vec();
        let last = pending[pending.len() - BHS_BYTES];
        assert_eq!(last, Opcode::LogoutResponse.to_wire());
    }
}
