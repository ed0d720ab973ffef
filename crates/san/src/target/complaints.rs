//! What a thread says of connections that are not logged in.
//!
//! Everybody may connect, and whoever opens thousands of connections must not fill the log as well:
//! a few lines are said at once, and the others are counted and told together at the next tick.

/// Lines of one thread that are said between two ticks.
const LINES_PER_TICK: usize = 4;

/// What is counted until the next tick.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// Logins that failed.
    failed: usize,
    /// Connections that found no room.
    turned_away: usize,
    /// Connections that had to make room.
    pushed_out: usize,
}

impl Complaints {
    /// Notes a login that failed; says whether its own line may be said.
    pub(super) fn login_failed(&mut self) -> bool {
        self.failed += 1;
        self.failed <= LINES_PER_TICK
    }

    /// Notes a connection that was turned away, as too many are open.
    pub(super) fn turned_away(&mut self) {
        self.turned_away += 1;
    }

    /// Notes a connection that has not logged in and has made room for another one.
    pub(super) fn pushed_out(&mut self) {
        self.pushed_out += 1;
    }

    /// What is left to be said at a tick, a line each; counting begins anew.
    pub(super) fn take(&mut self) -> Vec<String> {
        let Complaints {
            failed,
            turned_away,
            pushed_out,
        } = std::mem::take(self);
        let untold = failed.saturating_sub(LINES_PER_TICK);
        let all = [
            (untold, "more connections failed before they had logged in"),
            (
                turned_away,
                "connections were turned away, as too many are open",
            ),
            (
                pushed_out,
                "connections that had not logged in made room for others",
            ),
        ];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines() {
        let mut complaints = Complaints::default();
        assert_eq!(complaints.take(), Vec::<String>::new());
        let said = (0..1000).filter(|_| complaints.login_failed()).count();
        assert_eq!(said, LINES_PER_TICK);
        complaints.turned_away();
        complaints.turned_away();
        complaints.pushed_out();
        let counts = complaints.take().join("\n");
        for part in [
            "996 more",
            "2 connections were turned",
            "1 connections that",
        ] {
            assert!(counts.contains(part), "{counts}");
        }
        assert!(complaints.login_failed());
        assert_eq!(complaints.take(), Vec::<String>::new());
    }
}
