//! Commands distributed over connections (RFC 7143 §4.2.2.1).

use wansan_iscsi::keys::Wanted;

use super::initiator::Initiator;

fn wanted(level: u8, seed: u64) -> Wanted {
    Wanted {
        max_connections: 8,
        error_recovery_level: level,
        data_sequence_in_order: seed.is_multiple_of(2),
        initial_r2t: seed.is_multiple_of(3),
        immediate_data: !seed.is_multiple_of(5),
        max_recv_data_bytes: 1024,
        max_burst_bytes: 3000,
        first_burst_bytes: 2048,
        max_outstanding_r2t: 3,
        ..Wanted::default()
    }
}

/// Commands over many connections whose bytes arrive in any order relative to each other.
#[test]
fn commands_are_carried_out_whatever_connection_they_come_on() {
    for seed in 0..6 {
        for level in 0..3 {
            let wanted = wanted(level, seed);
            let mut initiator = Initiator::new(wanted, 16, 1 + (seed % 8) as u16, seed);
            for _ in 0..2000 {
                initiator.submit();
                initiator.step();
            }
            initiator.finish_all();
            assert!(initiator.completed > 20, "{} done", initiator.completed);
        }
    }
}

/// Connections are lost and added at random; the initiator resends lost commands.
#[test]
fn connections_that_die_take_no_data_with_them() {
    for seed in 100..110 {
        for level in 0..3 {
            let wanted = wanted(level, seed);
            let mut initiator = Initiator::new(wanted, 16, 3, seed);
            let mut died = 0;
            for _ in 0..3000 {
                initiator.submit();
                initiator.step();
                if initiator.below(150) == 0 && (initiator.lines.len() > 1 || level == 2) {
                    let number = initiator.below(initiator.lines.len());
                    let same_cid = level == 2 && initiator.below(2) == 0;
                    initiator.lose_line(number, same_cid);
                    died += 1;
                }
                if initiator.lines.len() < 3 && initiator.below(100) == 0 {
                    initiator.add_line();
                }
            }
            initiator.finish_all();
            assert!(died > 5 && initiator.completed > 50);
        }
    }
}
