//! Unit attentions: each nexus must report each of its conditions once, and no other nexus may (SAM-5 5.14).

/// A unit attention condition, by additional sense code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Attention {
    /// 29h: POWER ON, RESET, OR BUS DEVICE RESET OCCURRED, and its variants.
    Reset,
    /// 29h/07h: I_T NEXUS LOSS.
    NexusLost,
    /// 2Fh/00h: COMMANDS CLEARED BY ANOTHER INITIATOR.
    CommandsCleared,
    /// 2Ah/01h: MODE PARAMETERS CHANGED.
    ModeParameters,
    /// 2Ah/03h.
    ReservationsPreempted,
    /// 2Ah/04h.
    ReservationsReleased,
    /// 2Ah/05h.
    RegistrationsPreempted,
}

impl Attention {
    pub(crate) fn of_sense(code: u8, qualifier: u8) -> Option<Attention> {
        Some(match (code, qualifier) {
            (0x29, 0x07) => Attention::NexusLost,
            (0x29, _) => Attention::Reset,
            (0x2f, 0x00) => Attention::CommandsCleared,
            (0x2a, 0x01) => Attention::ModeParameters,
            (0x2a, 0x03) => Attention::ReservationsPreempted,
            (0x2a, 0x04) => Attention::ReservationsReleased,
            (0x2a, 0x05) => Attention::RegistrationsPreempted,
            _ => return None,
        })
    }
}

/// One occasion on which a condition was, or may have been, established for a nexus.
#[derive(Debug, Clone, Copy)]
struct Occasion {
    attention: Attention,
    /// It was not established before.
    from: u64,
    /// It was established by then, if certain; otherwise it may never have been.
    by: Option<u64>,
    /// An unanswered command may have reported it.
    blurred: bool,
}

/// A condition that was reported.
#[derive(Debug, Clone, Copy)]
struct Reported {
    attention: Attention,
    /// CmdSN of the command that reported it.
    cmd_sn: u32,
    /// Commands up to that CmdSN had to report it earlier.
    up_to: u32,
    /// From this time until the report, it was certainly pending.
    pending: u64,
}

/// The conditions of one nexus at one unit.
#[derive(Debug, Default)]
pub(crate) struct Attentions {
    occasions: Vec<Occasion>,
    reported: Vec<Reported>,
    /// Occasions that were certainly reported, by their `from`, and the CmdSN of the reporting command.
    traced: Vec<(u64, u32)>,
}

/// Reports remembered per nexus; fewer only weaken the check.
const REMEMBERED: usize = 8;

impl Attentions {
    /// A command or function outstanding since `from` may establish `attention`.
    pub(crate) fn may(&mut self, attention: Attention, from: u64) {
        self.occasions.push(Occasion {
            attention,
            from,
            by: None,
            blurred: false,
        });
    }

    /// The one outstanding since `from` has established `attention` by `by`.
    pub(crate) fn must(&mut self, attention: Attention, from: u64, by: u64) {
        let mut same = self.occasions.iter_mut();
        if let Some(found) = same.find(|one| (one.attention, one.from) == (attention, from)) {
            found.by = Some(by);
        }
    }

    /// The one outstanding since `from` has established nothing.
    pub(crate) fn never(&mut self, from: u64) {
        self.occasions
            .retain(|one| one.from != from || one.by.is_some());
    }

    /// An unanswered command may have reported the pending conditions.
    pub(crate) fn blur(&mut self) {
        for occasion in &mut self.occasions {
            occasion.blurred = true;
        }
    }

    /// The nexus is new: pending conditions may be gone.
    pub(crate) fn clear(&mut self) {
        self.occasions.clear();
        self.reported.clear();
        self.traced.clear();
    }

    /// A command sent at `sent` with that CmdSN reports `attention` at `now`. Returns whether anything explains it.
    ///
    /// Occasions before the report are one condition (SAM-5 5.14.2). Those that may precede or follow it may be
    /// reported again, but need not be.
    pub(crate) fn reported(
        &mut self,
        attention: Attention,
        (sent, cmd_sn): (u64, u32),
        first: Option<u32>,
        now: u64,
    ) -> bool {
        let same = |one: &Occasion| one.attention == attention && one.from < now;
        let surely = |one: &Occasion| same(one) && one.by.is_some_and(|by| by < sent);
        // Unless all are certain, the report may concern a condition established after an earlier, still unanswered
        // command reported the others. No command before `first` can have done so.
        let is_sure = self.occasions.iter().all(|one| !same(one) || surely(one));
        let up_to = match first {
            Some(first) if !is_sure => first,
            _ => cmd_sn,
        };
        let pending = self
            .occasions
            .iter()
            .filter(|one| surely(one) && !one.blurred);
        // A command whose answer is still to come may have reported an earlier one.
        if let Some(pending) = pending.filter_map(|one| one.by).max() {
            if self.reported.len() == REMEMBERED {
                self.reported.remove(0);
            }
            self.reported.push(Reported {
                attention,
                cmd_sn,
                up_to,
                pending,
            });
        }
        self.trace(attention, (sent, cmd_sn), now);
        if self.occasions.iter().any(surely) {
            self.occasions.retain(|one| !surely(one));
        } else if let Some(place) = self.occasions.iter().rposition(same) {
            self.occasions.remove(place);
        } else {
            return false;
        }
        for one in self.occasions.iter_mut().filter(|one| same(one)) {
            one.blurred = true;
        }
        true
    }

    /// Records which occasions a report certainly covers: all that were pending when its command was sent, as they are
    /// one condition, or otherwise the only one.
    fn trace(&mut self, attention: Attention, (sent, cmd_sn): (u64, u32), now: u64) {
        let same = |one: &&Occasion| one.attention == attention && one.from < now;
        let surely = |one: &&Occasion| same(one) && one.by.is_some_and(|by| by < sent);
        let mut traced: Vec<u64> = self
            .occasions
            .iter()
            .filter(surely)
            .map(|one| one.from)
            .collect();
        if traced.is_empty() {
            let mut all = self.occasions.iter().filter(same);
            let first = all.next().filter(|one| !one.blurred);
            traced.extend(first.map(|one| one.from));
            if all.any(|one| Some(one.from) != first.map(|first| first.from)) {
                return;
            }
        }
        for from in traced {
            if self.traced.len() == REMEMBERED {
                self.traced.remove(0);
            }
            self.traced.push((from, cmd_sn));
        }
    }

    /// Whether a command with a lower CmdSN has reported the occasion since `from`. Then the command with
    /// this CmdSN reached the unit after it: they are delivered in CmdSN order (RFC 7143 §4.2.2.1).
    pub(crate) fn came_after(&self, from: u64, cmd_sn: u32) -> bool {
        let before = |reported: u32| (reported.wrapping_sub(cmd_sn) as i32) < 0;
        let mut traced = self.traced.iter();
        traced.any(|(began, reported)| *began == from && before(*reported))
    }

    /// A condition that a command sent at `sent` had to report, as no other command can have.
    pub(crate) fn owed(&self, sent: u64) -> Option<Attention> {
        let due = |one: &&Occasion| one.by.is_some_and(|by| by < sent) && !one.blurred;
        self.occasions.iter().find(due).map(|one| one.attention)
    }

    /// A condition that a command sent at `sent` with that CmdSN had to report, but a later one has reported: commands
    /// are delivered in CmdSN order (RFC 7143 §4.2.2.1).
    pub(crate) fn overtaken(&self, sent: u64, cmd_sn: u32) -> Option<Attention> {
        let later = |one: &&Reported| {
            let before = (cmd_sn.wrapping_sub(one.cmd_sn) as i32) < 0;
            one.pending < sent && before && (cmd_sn.wrapping_sub(one.up_to) as i32) <= 0
        };
        self.reported.iter().find(later).map(|one| one.attention)
    }

    /// Whether a command sent at `sent` had to report a reset: it precedes all other conditions.
    pub(crate) fn owes_reset(&self, sent: u64) -> bool {
        let due = |one: &Occasion| one.by.is_some_and(|by| by < sent) && !one.blurred;
        let mut resets = self.occasions.iter();
        resets.any(|one| one.attention == Attention::Reset && due(one))
    }
}
