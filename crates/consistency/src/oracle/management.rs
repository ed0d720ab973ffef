//! Task management functions, restarts, and the end of a run.

use super::*;

impl Oracle {
    /// A task management function is sent. Returns its number. `task` is the attempt that ABORT TASK
    /// names.
    pub(crate) fn managed_sent(
        &mut self,
        session: u32,
        function: Function,
        unit: u8,
        (task, cmd_sn): (Option<u32>, u32),
        now: u64,
    ) -> u32 {
        let nexus = self.sessions[session as usize].nexus;
        let units: Vec<u8> = match function {
            Function::TargetReset => (0..self.units.len() as u8).collect(),
            _ => vec![unit],
        };
        let mut ends = Vec::new();
        for (number, attempt) in (0..).zip(&self.commands.attempts) {
            if attempt.ended != NEVER || !units.contains(&attempt.unit) {
                continue;
            }
            let own = attempt.nexus.session == session;
            // RFC 7143 §11.5.1: commands sent after it are not affected.
            let before = own && (attempt.cmd_sn.wrapping_sub(cmd_sn) as i32) < 0;
            let hit = match function {
                Function::AbortTask => Some(number) == task,
                Function::AbortTaskSet => before,
                // Tasks of other sessions that the target had received before the function was sent.
                _ => before || !own && attempt.arrived < now,
            };
            if hit {
                ends.push(number);
            }
        }
        let mut changes = Vec::new();
        let resets = matches!(function, Function::UnitReset | Function::TargetReset);
        for &unit in &units {
            let Some(attention) = establishes(function) else {
                break;
            };
            if resets {
                let write_cache = self.units[usize::from(unit)].write_cache;
                let what = Change::Reset { write_cache };
                let change = self.next_change;
                self.next_change += 1;
                self.units[usize::from(unit)]
                    .possible
                    .begin(change, what, nexus, now);
                changes.push((unit, change));
            }
            for (number, attentions) in (0..).zip(&mut self.units[usize::from(unit)].attentions) {
                if resets || number != session {
                    attentions.may(attention, now);
                }
            }
        }
        self.managed.push(Managed {
            nexus,
            function,
            units,
            sent: now,
            cmd_sn,
            task,
            changes,
            ends,
            over: NEVER,
            answered: false,
            refused: false,
        });
        self.managed.len() as u32 - 1
    }

    /// A function was answered; `complete` if it was executed.
    pub(crate) fn managed_answered(&mut self, number: u32, complete: bool, link: usize, now: u64) {
        let managed = &mut self.managed[number as usize];
        if managed.answered {
            let function = managed.function;
            self.violate(Rule::Answer, || format!("{function:?} was answered twice"));
            return;
        }
        // The session may have ended at the target while the answer was in transit.
        managed.over = managed.over.min(now);
        managed.answered = true;
        managed.refused = !complete;
        let (nexus, sent, function) = (managed.nexus, managed.sent, managed.function);
        let ends = std::mem::take(&mut managed.ends);
        let changes = std::mem::take(&mut managed.changes);
        let session = nexus.session;
        if !complete {
            for (unit, change) in changes {
                self.units[usize::from(unit)].possible.abandon(change, now);
            }
            // The task was answered, or something else ended it.
            if let (Function::AbortTask, [task]) = (function, &ends[..]) {
                let attempt = self.commands.attempts[*task as usize];
                if !attempt.over && !self.may_be_ended(&attempt) {
                    self.violate_command(Rule::Answer, attempt.command, || {
                        "has no answer, and is said not to exist".to_owned()
                    });
                }
            }
            return;
        }
        for (unit, change) in changes {
            let possible = &mut self.units[usize::from(unit)].possible;
            if possible.done(change, now).is_none() {
                self.violate(Rule::Conflict, || {
                    format!("nothing explains how {function:?} ended")
                });
            }
            for attentions in &mut self.units[usize::from(unit)].attentions {
                attentions.must(Attention::Reset, sent, now);
            }
        }
        for attempt in ends {
            let found = self.commands.attempts[attempt as usize];
            if found.nexus.session == session && !found.over {
                self.commands.attempts[attempt as usize].silenced_on = Some(link);
                self.close_attempt(attempt, now);
                // An answer in transit may have reported a unit attention.
                let unit = &mut self.units[usize::from(found.unit)];
                unit.attentions[session as usize].blur();
            } else {
                self.commands.end_attempt(attempt, now);
            }
        }
    }

    /// The session of a function is lost: the function will not be answered.
    pub(crate) fn managed_lost(&mut self, number: u32, now: u64) {
        let changes = std::mem::take(&mut self.managed[number as usize].changes);
        for (unit, change) in changes {
            self.units[usize::from(unit)].possible.abandon(change, now);
        }
    }

    /// A session has ended at the target: its functions can end no more tasks.
    pub(super) fn functions_over(&mut self, session: u32, now: u64) {
        let own = |managed: &&mut Managed| managed.nexus.session == session;
        for managed in self.managed.iter_mut().filter(own) {
            managed.over = managed.over.min(now);
        }
    }

    /// The target was restarted.
    pub(crate) fn restarted(&mut self, power_lost: bool, now: u64) {
        for number in 0..self.commands.attempts.len() {
            self.commands.end_attempt(number as u32, now);
            self.commands.attempts[number].over = true;
        }
        for view in &mut self.sessions {
            view.open.clear();
            view.is_lost = true;
            view.is_gone = true;
        }
        for managed in &mut self.managed {
            managed.over = managed.over.min(now);
        }
        self.changes.clear();
        for unit in &mut self.units {
            unit.possible.restart(unit.write_cache, now);
            unit.preempts.clear();
            for attentions in &mut unit.attentions {
                attentions.clear();
            }
        }
        for unit in 0..self.units.len() {
            self.units[unit].restarted();
            if power_lost {
                self.units[unit].power_lost(now);
                self.commands.forget_acknowledgements(unit as u8);
            }
        }
    }

    /// An operation on the medium of a unit has failed.
    pub(crate) fn medium_failed(&mut self, unit: u8, now: u64) {
        self.units[usize::from(unit)].failed = now;
    }

    /// Whether the medium of a unit has lost data since the target started: if so, all writes fail.
    pub(crate) fn medium_has_lost(&mut self, unit: u8, has_lost: bool) {
        self.units[usize::from(unit)].has_lost = has_lost;
    }

    /// The medium of a unit has lost written data that was not durable.
    pub(crate) fn data_lost(&mut self, unit: u8, now: u64) {
        self.units[usize::from(unit)].write_back_failed(&self.commands, now);
        self.commands.forget_acknowledgements(unit);
        self.copies_read_again(unit, now);
    }

    /// A task of a session that must still be answered.
    fn owed(&self, session: u32) -> Option<&Attempt> {
        let open = self.sessions[session as usize].open.iter();
        open.map(|open| &self.commands.attempts[*open as usize])
            .find(|attempt| !self.may_be_ended(attempt))
    }

    /// Whether an attempt may have been ended without an answer.
    fn may_be_ended(&self, attempt: &Attempt) -> bool {
        self.may_be_aborted(attempt) || self.may_be_preempted(attempt)
    }

    /// Whether a function may have ended an attempt without an answer.
    ///
    /// A function of its own session ends tasks with a lower CmdSN, and ABORT TASK one task (RFC 7143
    /// §11.5.1). CLEAR TASK SET and resets of other sessions end the tasks that the unit has received
    /// when they execute (SAM-5 7.5, 7.7), which is before their answer and before their session ends.
    fn may_be_aborted(&self, attempt: &Attempt) -> bool {
        self.managed.iter().any(|managed| {
            if managed.refused || managed.over <= attempt.sent {
                return false;
            }
            if let Function::AbortTask = managed.function {
                let of = |task: u32| self.commands.attempts[task as usize].command;
                return managed.task.map(of) == Some(attempt.command);
            }
            if !managed.units.contains(&attempt.unit) {
                return false;
            }
            if managed.nexus.session == attempt.nexus.session {
                return (attempt.cmd_sn.wrapping_sub(managed.cmd_sn) as i32) < 0;
            }
            managed.affects_others() && !self.came_after(attempt, managed.sent)
        })
    }

    /// Whether a PREEMPT AND ABORT may have ended an attempt without an answer (SPC-4 5.13.11.5).
    fn may_be_preempted(&self, attempt: &Attempt) -> bool {
        let mut preempts = self.units[usize::from(attempt.unit)].preempts.iter();
        preempts.any(|preempt| {
            let by = &self.commands.attempts[preempt.attempt as usize];
            let port = attempt.nexus.port;
            let is_hit = match &preempt.ports {
                Some(ports) => ports.contains(&port),
                None => by.nexus.port != port,
            };
            is_hit && attempt.sent < by.ended && !self.came_after(attempt, by.sent)
        })
    }

    /// Whether an attempt reached its unit after the event of another session that was sent at `began`.
    fn came_after(&self, attempt: &Attempt, began: u64) -> bool {
        let attentions = &self.units[usize::from(attempt.unit)].attentions;
        attentions[attempt.nexus.session as usize].came_after(began, attempt.cmd_sn)
    }

    /// Whether a session is owed an answer.
    pub(crate) fn is_owed(&self, session: u32) -> bool {
        self.owed(session).is_some()
    }

    /// At rest: a function on an open connection is unanswered.
    pub(crate) fn function_at_rest(&mut self, number: u32) {
        let Managed {
            function,
            nexus,
            sent,
            ..
        } = self.managed[number as usize];
        self.violate(Rule::Answer, || {
            let session = nexus.session;
            format!("{function:?} of session {session}, sent at {sent}, was never answered")
        });
    }

    /// At rest: every task of an open session must be answered.
    pub(crate) fn at_rest(&mut self, session: u32) {
        if let Some(&Attempt { command, sent, .. }) = self.owed(session) {
            self.violate_command(Rule::Answer, command, || {
                format!("sent at {sent} was never answered")
            });
        }
    }
}

impl Unit {
    /// Acknowledged data may be lost unless it is durable.
    fn power_lost(&mut self, now: u64) {
        for block in &mut self.blocks {
            block.power_lost(now);
        }
        for bits in &mut self.bits {
            bits.power_lost(now);
        }
        self.replaced.clear();
        self.survives = true;
    }

    /// The same, unless a later flush succeeds.
    fn write_back_failed(&mut self, commands: &Commands, now: u64) {
        for block in &mut self.blocks {
            block.write_back_failed(commands, now);
        }
        for bits in &mut self.bits {
            bits.write_back_failed(commands, now);
        }
        self.replaced.clear();
        self.survives = false;
    }

    fn restarted(&mut self) {
        for block in &mut self.blocks {
            block.restarted();
        }
        for bits in &mut self.bits {
            bits.restarted();
        }
    }
}

impl Oracle {
    /// Checks a block of the medium as if a read had returned it.
    pub(crate) fn audited(&mut self, unit: u8, lba: u32, block: &[u8], sent: u64, now: u64) {
        let attempt = Attempt {
            command: blocks::NOBODY,
            nexus: Nexus {
                port: 0,
                session: 0,
            },
            unit,
            cmd_sn: 0,
            sent,
            arrived: sent,
            ended: NEVER,
            over: false,
            silenced_on: None,
        };
        self.judge_block(&attempt, unit, lba, block, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;

    #[test]
    fn a_reset_under_way_when_a_session_begins_may_come_after_its_first_report() {
        let setup = History::of_seed(1).setup;
        let view = View {
            tears_blocks: false,
            rests_when_busy: false,
        };
        let mut oracle = Oracle::new(&setup, view);
        let first = oracle.session_began(0, 0, 0, Vec::new(), 1);
        let reset = oracle.managed_sent(first, Function::UnitReset, 0, (None, 1), 2);
        let second = oracle.session_began(1, 1, 0, Vec::new(), 3);
        let is_explained = |oracle: &mut Oracle, cmd_sn: u32, now: u64| {
            let attentions = &mut oracle.units[0].attentions[second as usize];
            attentions.reported(Attention::Reset, (now - 1, cmd_sn), None, now)
        };
        assert!(is_explained(&mut oracle, 1, 5), "POWER ON");
        oracle.managed_answered(reset, true, 0, 6);
        assert!(is_explained(&mut oracle, 2, 8), "the reset");
        assert!(!is_explained(&mut oracle, 3, 10), "nothing");
    }
}
