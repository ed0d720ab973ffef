//! PDUs lost to digest errors are resent (RFC 7143 §7.2, §7.8, §11.16).

use wansan_iscsi::keys::{DigestKind, Wanted};

use super::initiator::Initiator;

#[test]
fn what_is_lost_comes_again() {
    for seed in 200_u64..212 {
        for level in 1..3 {
            let wanted = Wanted {
                max_connections: 8,
                error_recovery_level: level,
                data_digest: vec![DigestKind::Crc32c],
                data_sequence_in_order: seed.is_multiple_of(2),
                initial_r2t: seed.is_multiple_of(3),
                max_recv_data_bytes: 1024,
                max_burst_bytes: 3000,
                first_burst_bytes: 2048,
                max_outstanding_r2t: 3,
                ..Wanted::default()
            };
            let mut initiator = Initiator::new(wanted, 16, 2, seed);
            initiator.hit_one_in = 10;
            for _ in 0..3000 {
                initiator.submit();
                initiator.step();
                if level == 2 && initiator.below(300) == 0 {
                    let number = initiator.below(initiator.lines.len());
                    initiator.lose_line(number, true);
                }
            }
            initiator.finish_all();
            assert!(initiator.completed > 50);
        }
    }
}
