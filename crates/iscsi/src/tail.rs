//! Whether the end of a burst waits for more data.
//!
//! TCP defers a tail that its window has room for until the next acknowledgement, so that data written meanwhile can go
//! along with it (`tcp_tso_should_defer` of Linux). With few commands in flight nothing is written before one of them
//! completes, so the last one is delayed for nothing. The end of a record (MSG_EOR of send(2)) is not deferred.

use std::time::Duration;

/// With a shorter round trip deferring costs less than querying unsent data.
const LEAST_ROUND_TRIP: Duration = Duration::from_micros(500);

/// Whether to end a record after all pending data, over a connection with that minimum round-trip time. `unsent_bytes`:
/// data written before and not sent. If there is any, the window holds it back, and later data goes along in full
/// segments.
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
