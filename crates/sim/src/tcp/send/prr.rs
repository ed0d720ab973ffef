//! Proportional rate reduction (RFC 6937bis, `tcp_cwnd_reduction`): how many packets a sender may send per
//! acknowledgement while its window shrinks to the threshold.

/// A reduction in progress. Counts are in packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reduction {
    /// The window before it.
    pub(super) from: u32,
    /// Delivered since it began.
    pub(super) delivered: u32,
    /// Sent since it began.
    pub(super) sent: u32,
}

impl Reduction {
    /// The window after an acknowledgement that delivered `acked` packets and showed `lost` to be lost, with
    /// `in_flight` in flight. `advances` says whether it cumulatively acknowledged new data.
    pub(super) fn window(
        &mut self,
        acked: u32,
        lost: u32,
        in_flight: u32,
        threshold: u32,
        advances: bool,
    ) -> Option<u32> {
        if acked == 0 || self.from == 0 {
            return None;
        }
        self.delivered += acked;
        let budget = i64::from(threshold) - i64::from(in_flight);
        let to_send = if budget < 0 {
            // RFC 6937 §3: RecoverFS-proportional part.
            let due =
                (u64::from(threshold) * u64::from(self.delivered)).div_ceil(u64::from(self.from));
            due as i64 - i64::from(self.sent)
        } else {
            // The slow-start part, conservative unless the acknowledgement advances (PRR-SSRB, PRR-CRB).
            let mut due = (i64::from(self.delivered) - i64::from(self.sent)).max(i64::from(acked));
            if advances && lost == 0 {
                due += 1;
            }
            budget.min(due)
        };
        // The first retransmission is sent at once.
        let least = i64::from(self.sent == 0);
        Some(in_flight + to_send.max(least) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first packet of a window of 100 is lost: the 99 acknowledgements release half as many packets in all (RFC
    /// 6937 §4, beta 1/2).
    #[test]
    fn one_loss_of_a_hundred_sends_half() {
        let mut reduction = Reduction {
            from: 100,
            ..Reduction::default()
        };
        let mut in_flight = 99;
        for turn in 0..99 {
            in_flight -= 1;
            let window = reduction.window(1, u32::from(turn == 0), in_flight, 50, false);
            let sent = window.expect("a window").saturating_sub(in_flight);
            reduction.sent += sent;
            in_flight += sent;
        }
        assert!((49..=51).contains(&in_flight), "{in_flight}");
        assert!((49..=51).contains(&reduction.sent), "{}", reduction.sent);
    }

    #[test]
    fn many_losses_rebuild_the_flight_by_what_was_delivered() {
        let mut reduction = Reduction {
            from: 100,
            ..Reduction::default()
        };
        // 80 of 100 are lost, which leaves the flight below the threshold.
        let mut in_flight: u32 = 20;
        for _ in 0..20 {
            in_flight -= 1;
            let window = reduction
                .window(1, 0, in_flight, 50, true)
                .expect("a window");
            let sent = window - in_flight;
            reduction.sent += sent;
            in_flight += sent;
        }
        assert!(in_flight > 20 && in_flight <= 41, "{in_flight}");
    }
}
