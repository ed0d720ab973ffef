//! Whether what is sent last waits for more.
//!
//! TCP holds a tail that its window has room for back until the next acknowledgement, as what is written meanwhile could go
//! along with it (`tcp_tso_should_defer` of Linux). With few commands in flight nothing is written before one of them is
//! done, so the last one takes longer for nothing. What ends a record (MSG_EOR of send(2)) does not wait.

use std::time::Duration;

/// Over shorter round trips waiting takes less than asking what was not sent.
const LEAST_ROUND_TRIP: Duration = Duration::from_micros(500);

/// Whether all that an end has to send is to end a record, over a connection with such a least round trip.
/// `unsent_bytes`: what was written before and is not sent. Where there is any, the window holds it, and what follows goes
/// along in full segments.
#[must_use]
pub fn ends_record(least_round_trip: Duration, unsent_bytes: impl FnOnce() -> u64) -> bool {
    least_round_trip >= LEAST_ROUND_TRIP && unsent_bytes() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_over_a_long_path_and_where_nothing_waits() {
        let far = Duration::from_millis(2);
        assert!(ends_record(far, || 0));
        assert!(!ends_record(far, || 1));
        let near = Duration::from_micros(50);
        assert!(!ends_record(near, || unreachable!("nobody has to know")));
    }
}
