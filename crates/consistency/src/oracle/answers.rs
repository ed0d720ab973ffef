//! Checks answers.

use super::*;
use crate::block::word_of;

impl Oracle {
    /// An attempt was answered; `data` is the data returned.
    pub(crate) fn answered(
        &mut self,
        number: u32,
        answered: &Answered,
        data: Option<&[u8]>,
        link: usize,
        now: u64,
    ) {
        let attempt = self.commands.attempts[number as usize];
        let command = attempt.command;
        if attempt.over {
            let why = match attempt.silenced_on {
                // At error recovery level 2, a status that was lost with its connection is resent once the task has
                // been reassigned (RFC 7143 §7.2.2), even after the function.
                Some(on) if on != link || self.recovers(&attempt) => {
                    // Its unit attention counts as reported.
                    if let Verdict::Attention(attention) = Verdict::of(answered) {
                        let session = attempt.nexus.session as usize;
                        self.units[usize::from(attempt.unit)].attentions[session].reported(
                            attention,
                            (attempt.sent, attempt.cmd_sn),
                            Some(attempt.cmd_sn.wrapping_sub(1 << 30)),
                            now,
                        );
                    }
                    return;
                }
                Some(_) => "was answered after the function that had ended it",
                None => "was answered twice",
            };
            self.violate_command(Rule::Answer, command, || why.to_owned());
            return;
        }
        let verdict = Verdict::of(answered);
        // A command that needs no medium may be answered before an older session's operations have left the stores.
        let asks_nothing = matches!(
            self.commands.get(command).effect,
            Effect::None | Effect::Status { .. }
        );
        if verdict == Verdict::Good && !asks_nothing {
            self.first_answer(attempt.nexus.session, now);
        }
        self.judge_attentions(&attempt, verdict, data, now);
        self.judge_passing(&attempt, verdict);
        let preempts = &mut self.units[usize::from(attempt.unit)].preempts;
        preempts.retain(|one| one.attempt != number);
        if self
            .changes
            .iter()
            .any(|(_, _, made_by)| *made_by == number)
        {
            self.judge_change(number, &attempt, verdict, now);
        } else {
            self.judge_outcome(&attempt, verdict, now);
        }
        self.judge_effect(&attempt, verdict, data, now);
        self.close_attempt(number, now);
    }

    fn recovers(&self, attempt: &Attempt) -> bool {
        self.sessions[attempt.nexus.session as usize].recovery == 2
    }

    /// A session has used the medium: the tasks of its predecessors have ended.
    fn first_answer(&mut self, session: u32, now: u64) {
        let view = &mut self.sessions[session as usize];
        for old in std::mem::take(&mut view.predecessors) {
            self.session_fenced(old, now);
        }
    }

    /// BUSY must end, and a medium failure needs a cause.
    fn judge_passing(&mut self, attempt: &Attempt, verdict: Verdict) {
        let known = self.commands.get_mut(attempt.command);
        match verdict {
            Verdict::Busy => known.busy += 1,
            _ => known.busy = 0,
        }
        if self.view.rests_when_busy && known.busy >= BUSY_TRIES {
            self.violate_command(Rule::Outcome, attempt.command, || {
                format!("was answered with BUSY {BUSY_TRIES} times, at last by an idle target")
            });
        } else if verdict == Verdict::Medium && !self.may_have_failed(attempt) {
            self.violate_command(Rule::Outcome, attempt.command, || {
                "reports a failed medium, though no operation of it has failed".to_owned()
            });
        }
    }

    /// Whether an operation of the medium failed since an attempt was sent, or data were lost before.
    fn may_have_failed(&self, attempt: &Attempt) -> bool {
        let written = match self.commands.get(attempt.command).effect {
            Effect::Write { unit, .. } => unit,
            _ => attempt.unit,
        };
        [attempt.unit, written].into_iter().any(|unit| {
            let unit = &self.units[usize::from(unit)];
            unit.has_lost || unit.failed > attempt.sent
        })
    }

    fn judge_attentions(
        &mut self,
        attempt: &Attempt,
        verdict: Verdict,
        data: Option<&[u8]>,
        now: u64,
    ) {
        let Attempt {
            command,
            nexus,
            unit,
            sent,
            cmd_sn,
            ..
        } = *attempt;
        let scsi = &self.commands.get(command).scsi;
        let mut reported = match verdict {
            Verdict::Attention(attention) => Some(attention),
            _ => None,
        };
        let mut goes_before = matches!(scsi, Scsi::Inquiry | Scsi::ReportLuns);
        if *scsi == Scsi::RequestSense && verdict == Verdict::Good {
            let sense = data.and_then(|data| Sense::parse(data).ok());
            reported = sense
                .filter(|sense| sense.key == SenseKey::UnitAttention)
                .and_then(|sense| {
                    Attention::of_sense(sense.additional.code, sense.additional.qualifier)
                });
        }
        // BUSY may precede all checks.
        goes_before |= verdict == Verdict::Busy;
        // Of the outstanding commands, only those with a lower CmdSN can have reported the unit attention: they are
        // delivered in that order (RFC 7143 §4.2.2.1).
        let others = self.sessions[nexus.session as usize].open.iter();
        let first = others
            .map(|open| &self.commands.attempts[*open as usize])
            .filter(|open| open.command != command && open.unit == unit)
            .map(|open| open.cmd_sn)
            .min_by_key(|open| open.wrapping_sub(cmd_sn) as i32)
            .filter(|first| (first.wrapping_sub(cmd_sn) as i32) < 0);
        let is_first = first.is_none();
        let attentions = &mut self.units[usize::from(unit)].attentions[nexus.session as usize];
        if let Some(attention) = reported {
            let owes_reset =
                is_first && attention != Attention::Reset && attentions.owes_reset(sent);
            if !attentions.reported(attention, (sent, cmd_sn), first, now) {
                self.violate_command(Rule::Attention, command, || {
                    format!("was answered with {attention:?}, which nothing has established")
                });
            } else if owes_reset {
                self.violate_command(Rule::Attention, command, || {
                    format!("was answered with {attention:?} before the reset that goes before it")
                });
            }
        } else if !goes_before
            && is_first
            && let Some(owed) = attentions.owed(sent)
        {
            self.violate_command(Rule::Attention, command, || {
                format!("was answered with {verdict:?}, though {owed:?} was to be reported")
            });
        } else if !goes_before && let Some(owed) = attentions.overtaken(sent, cmd_sn) {
            self.violate_command(Rule::Order, command, || {
                format!(
                    "was answered with {verdict:?}, though {owed:?} was to be reported, which a \
                     later command of its session has done"
                )
            });
        }
    }

    fn judge_change(&mut self, number: u32, attempt: &Attempt, verdict: Verdict, now: u64) {
        let mut changes = self.changes.iter();
        let Some(place) = changes.position(|(_, _, made_by)| *made_by == number) else {
            return;
        };
        let (change, unit, _) = self.changes.swap_remove(place);
        let oldest = self.oldest_open();
        let possible = &mut self.units[usize::from(unit)].possible;
        possible.forget(oldest);
        let outcome = match verdict {
            Verdict::Good => {
                match possible.done(change, now) {
                    Some(done) => self.change_done(unit, number, &done, now),
                    None => self.violate_command(Rule::Conflict, attempt.command, || {
                        "was answered with GOOD, which no order of the commands in flight explains"
                            .to_owned()
                    }),
                }
                return;
            }
            Verdict::Conflict => Some(Outcome::Conflict),
            Verdict::Illegal => Some(Outcome::Illegal),
            Verdict::Busy
            | Verdict::Attention(_)
            | Verdict::NotReady
            | Verdict::Protected
            | Verdict::Medium => None,
            Verdict::Miscompare | Verdict::Unreachable | Verdict::Other => {
                self.violate_command(Rule::Outcome, attempt.command, || {
                    format!("was answered with {verdict:?}")
                });
                return;
            }
        };
        // A command that failed has changed nothing and establishes nothing.
        for attentions in &mut self.units[usize::from(unit)].attentions {
            attentions.never(attempt.sent);
        }
        let possible = &mut self.units[usize::from(unit)].possible;
        if !possible.refused(change, outcome, attempt.sent, now) {
            self.violate_command(Rule::Conflict, attempt.command, || {
                format!(
                    "was answered with {verdict:?}, which no order of the commands in flight explains"
                )
            });
        }
    }

    /// A change was made: establishes unit attentions, and ends the tasks that it aborts.
    fn change_done(&mut self, unit: u8, made_by: u32, done: &possible::Done, now: u64) {
        let Attempt { nexus, sent, .. } = self.commands.attempts[made_by as usize];
        // A reset between a change of mode parameters and its answer reverts it, and establishes a unit
        // attention of its own (SAM-5 6.3.3).
        let mut managed = self.managed.iter();
        let is_reset = managed.any(|managed| managed.resets(unit, sent, now));
        for &one in &done.may_establish {
            let may_be_taken_back = is_reset && one.1 == Attention::ModeParameters;
            if done.must_establish.contains(&one) && !may_be_taken_back {
                self.note_established(unit, one, nexus, |attentions, attention| {
                    attentions.must(attention, sent, now);
                });
            }
        }
        if done.may_abort.is_empty() {
            return;
        }
        self.units[usize::from(unit)].preempts.push(Preempt {
            attempt: made_by,
            ports: Some(done.may_abort.clone()),
        });
        for number in 0..self.commands.attempts.len() {
            let attempt = self.commands.attempts[number];
            let hit = attempt.unit == unit
                && done.may_abort.contains(&attempt.nexus.port)
                && attempt.ended == NEVER;
            if hit {
                let session = attempt.nexus.session as usize;
                // SPC-4 5.13.11.5: with TAS 0 their nexus reports COMMANDS CLEARED.
                self.units[usize::from(unit)].attentions[session]
                    .may(Attention::CommandsCleared, sent);
                if attempt.arrived < sent && done.aborted.contains(&attempt.nexus.port) {
                    self.commands.end_attempt(number as u32, now);
                }
            }
        }
    }

    /// Whether the state of its unit explains how a command ended.
    fn judge_outcome(&mut self, attempt: &Attempt, verdict: Verdict, now: u64) {
        let Attempt {
            command,
            nexus,
            unit,
            sent,
            ..
        } = *attempt;
        let scsi = &self.commands.get(command).scsi;
        let class = class_of(scsi);
        let needs_medium = needs_medium(scsi);
        let writes = !matches!(
            self.commands.get(command).effect,
            Effect::None
                | Effect::Read(_)
                | Effect::Verify(..)
                | Effect::Flush { .. }
                | Effect::Status { .. }
        );
        let is_copy = matches!(scsi, Scsi::Copy { .. });
        let possible = &self.units[usize::from(unit)].possible;
        let explained = match verdict {
            Verdict::Good | Verdict::Miscompare | Verdict::Medium => {
                possible.ever(sent, |rights| {
                    rights.conflicts(class, nexus) != Some(true)
                        && (is_copy || !(needs_medium && rights.stopped))
                        && (is_copy || !(writes && rights.protected))
                })
            }
            Verdict::Conflict => {
                possible.ever(sent, |rights| rights.conflicts(class, nexus) != Some(false))
            }
            Verdict::NotReady => needs_medium && possible.ever(sent, |rights| rights.stopped),
            Verdict::Protected => writes && possible.ever(sent, |rights| rights.protected),
            Verdict::Busy | Verdict::Attention(_) => true,
            Verdict::Unreachable => is_copy,
            Verdict::Illegal | Verdict::Other => false,
        };
        let fits = match verdict {
            Verdict::Miscompare => {
                matches!(
                    self.commands.get(command).effect,
                    Effect::Verify(..) | Effect::CompareAndWrite { .. }
                ) || matches!(scsi, Scsi::WriteAndVerify { compare: true, .. })
            }
            _ => true,
        };
        if !explained || !fits {
            let rule = match verdict {
                Verdict::Good | Verdict::Conflict => Rule::Conflict,
                _ => Rule::Outcome,
            };
            self.violate_command(rule, command, || {
                format!(
                    "was answered with {verdict:?} at {now}, which its unit's state never explained"
                )
            });
        }
    }

    /// Checks an answer against the medium, and records its effect.
    fn judge_effect(&mut self, attempt: &Attempt, verdict: Verdict, data: Option<&[u8]>, now: u64) {
        let Attempt {
            command,
            unit,
            sent,
            ..
        } = *attempt;
        let effect = self.commands.get(command).effect.clone();
        let at = usize::from(unit);
        match (verdict, effect) {
            (Verdict::Good, Effect::None) => {
                self.judge_contents(attempt, data.unwrap_or_default());
            }
            (Verdict::Good, Effect::Read(blocks)) => {
                let data = data.unwrap_or_default();
                for (lba, block) in blocks.lbas().zip(data.chunks(BLOCK_BYTES)) {
                    self.judge_block(attempt, unit, lba, block, now);
                }
            }
            (Verdict::Good, Effect::Verify(blocks, words)) => {
                for (lba, found) in blocks.lbas().zip(words) {
                    self.judge_word(attempt, unit, lba, found, now);
                }
            }
            (Verdict::Good, Effect::Status { lba }) => {
                self.judge_status(attempt, lba, data.unwrap_or_default(), now);
            }
            (
                Verdict::Good,
                Effect::Write {
                    unit,
                    blocks,
                    content,
                    durable,
                },
            ) => {
                self.commands.note_acknowledged(command, now);
                let through = !matches!(content, Content::Copied { .. });
                self.acknowledge(command, unit, blocks, durable, through, sent, now);
            }
            (
                Verdict::Good,
                Effect::CompareAndWrite {
                    blocks,
                    expected,
                    durable,
                },
            ) => {
                self.commands.note_acknowledged(command, now);
                for (lba, found) in blocks.lbas().zip(expected) {
                    self.judge_word(attempt, unit, lba, found, now);
                    self.judge_replaced(attempt, lba, found);
                }
                self.acknowledge(command, unit, blocks, durable, true, sent, now);
            }
            (Verdict::Good, Effect::Or { lba, durable, .. }) => {
                self.commands.note_acknowledged(command, now);
                let durable = durable || self.writes_through(unit, sent);
                self.units[at]
                    .bits_at(lba)
                    .acknowledged(command, durable, now);
            }
            (Verdict::Good, Effect::Flush { blocks, immediate }) => {
                if !immediate {
                    let Oracle {
                        commands, units, ..
                    } = self;
                    for lba in blocks.lbas() {
                        units[at].blocks[lba as usize].flushed(sent, commands);
                    }
                    let first = units[at].blocks.len() as u32 - u32::from(BIT_BLOCKS);
                    for lba in blocks.lbas().filter(|lba| *lba >= first) {
                        units[at].bits_at(lba).flushed(sent, commands);
                    }
                }
            }
            (Verdict::Medium | Verdict::Unreachable, _) => {}
            (Verdict::Miscompare, Effect::Write { .. }) => {}
            (Verdict::Miscompare, Effect::Verify(blocks, words)) => {
                self.judge_miscompare(attempt, blocks, &words, now);
            }
            (
                Verdict::Miscompare,
                Effect::CompareAndWrite {
                    blocks, expected, ..
                },
            ) => {
                self.judge_miscompare(attempt, blocks, &expected, now);
                self.withdraw(command);
            }
            _ => self.withdraw(command),
        }
    }

    /// Whether writes to the unit have certainly gone through to the medium since `since`.
    fn writes_through(&self, unit: u8, since: u64) -> bool {
        let possible = &self.units[usize::from(unit)].possible;
        !possible.ever(since, |rights| rights.write_cache)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "these are the facts of an answer"
    )]
    fn acknowledge(
        &mut self,
        command: u32,
        unit: u8,
        blocks: Blocks,
        durable: bool,
        may_be_through: bool,
        sent: u64,
        now: u64,
    ) {
        let durable = durable || may_be_through && self.writes_through(unit, sent);
        for lba in blocks.lbas() {
            let block = &mut self.units[usize::from(unit)].blocks[lba as usize];
            block.acknowledged(command, durable, now);
        }
    }

    /// A command was rejected: its data must never be seen, unless it was also sent before.
    fn withdraw(&mut self, command: u32) {
        let known = self.commands.get_mut(command);
        if known.tries > 1 {
            return;
        }
        known.refused = true;
        known.sent = NEVER;
        known.tries = 0;
        let landed = known.landed;
        let unit = known.unit;
        let effect = known.effect.clone();
        let mut seen = false;
        match effect {
            Effect::Write { unit, blocks, .. } => {
                for lba in blocks.lbas() {
                    seen |= self.units[usize::from(unit)].blocks[lba as usize].refused(command);
                }
            }
            Effect::CompareAndWrite { blocks, .. } => {
                for lba in blocks.lbas() {
                    seen |= self.units[usize::from(unit)].blocks[lba as usize].refused(command);
                }
            }
            Effect::Or { lba, .. } => {
                self.units[usize::from(unit)].bits_at(lba).refused(command);
            }
            _ => {}
        }
        if seen || landed {
            self.violate_command(Rule::Refused, command, || {
                "was refused, but is on the medium".to_owned()
            });
        }
    }

    pub(super) fn judge_block(
        &mut self,
        attempt: &Attempt,
        unit: u8,
        lba: u32,
        block: &[u8],
        now: u64,
    ) {
        let first_bits = self.units[usize::from(unit)].blocks.len() as u32 - u32::from(BIT_BLOCKS);
        if lba >= first_bits {
            let bits = self.units[usize::from(unit)].bits_at(lba);
            if let Err(wrong) = bits.read(attempt.sent, now, block) {
                self.violate_command(Rule::Read, attempt.command, || {
                    format!("returned bits of block {lba} that cannot be: {wrong:?}")
                });
            }
            return;
        }
        let found = word_of(block);
        let words = block.as_chunks::<8>().0;
        if words.iter().any(|word| *word != found.to_be_bytes()) {
            let mut words = words.iter().map(|word| u64::from_be_bytes(*word));
            if self.view.tears_blocks
                && words.all(|word| self.may_hold(attempt, unit, lba, word, now))
            {
                return;
            }
            self.violate_command(Rule::Read, attempt.command, || {
                format!("returned a block {lba} that is torn inside")
            });
            return;
        }
        self.judge_word(attempt, unit, lba, found, now);
    }

    /// Whether a block may hold a word while writes to it are outstanding.
    fn may_hold(&self, attempt: &Attempt, unit: u8, lba: u32, word: u64, now: u64) -> bool {
        let (commands, copies) = (&self.commands, &self.copies);
        let block = &self.units[usize::from(unit)].blocks[lba as usize];
        block.may_hold(attempt.sent, now, commands, |command| {
            copies.may_leave(commands, command, lba, word)
        })
    }

    fn judge_word(&mut self, attempt: &Attempt, unit: u8, lba: u32, found: u64, now: u64) {
        let Oracle {
            commands,
            copies,
            units,
            ..
        } = self;
        let unit_view = &mut units[usize::from(unit)];
        let survives = unit_view.survives;
        let block = &mut unit_view.blocks[lba as usize];
        let is_candidate = |command| copies.may_leave(commands, command, lba, found);
        if let Err(wrong) = block.read(attempt.sent, now, commands, survives, is_candidate) {
            self.read_violates(attempt, lba, found, wrong, now);
        }
    }

    fn read_violates(&mut self, attempt: &Attempt, lba: u32, found: u64, wrong: Wrong, now: u64) {
        if self.violation.is_some() {
            return;
        }
        let left = match writer(found) {
            None => "zeros".to_owned(),
            Some(command) if (command as usize) < self.commands.commands.len() => {
                self.describe(command)
            }
            Some(_) => format!("{found:#x}"),
        };
        let why = match wrong {
            Wrong::FromNowhere => "which no command had written there".to_owned(),
            Wrong::Stale { by } => format!("which was written over by {}", self.describe(by)),
            Wrong::Returned { by } => format!(
                "which could not land any more when an earlier read saw {}",
                self.describe(by)
            ),
        };
        self.violate_command(Rule::Read, attempt.command, || {
            format!(
                "sent at {}, answered at {now}, found in block {lba} {left}, {why}",
                attempt.sent
            )
        });
    }

    /// Checks that each content is replaced by at most one COMPARE AND WRITE.
    fn judge_replaced(&mut self, attempt: &Attempt, lba: u32, found: u64) {
        let Some(origin) = writer(found) else { return };
        let unique = found == word(origin, lba)
            && self.commands.get(origin).total_tries == 1
            && self.commands.get(attempt.command).total_tries == 1;
        let unit = &mut self.units[usize::from(attempt.unit)];
        if !unique || unit.blocks[lba as usize].has_copies(&self.commands) {
            return;
        }
        if unit.replaced.contains(&(lba, found)) {
            self.violate_command(Rule::Atomic, attempt.command, || {
                format!("has replaced what another one had replaced in block {lba} already")
            });
            return;
        }
        unit.replaced.push((lba, found));
    }

    /// Checks that one of the blocks may have differed.
    fn judge_miscompare(&mut self, attempt: &Attempt, blocks: Blocks, words: &[u64], now: u64) {
        let Oracle {
            commands,
            copies,
            units,
            ..
        } = self;
        let unit = attempt.unit;
        let differs = blocks.lbas().zip(words).any(|(lba, expected)| {
            let block = &units[usize::from(unit)].blocks[lba as usize];
            block.may_hold(attempt.sent, now, commands, |command| {
                commands.copies(command) || !copies.may_leave(commands, command, lba, *expected)
            })
        });
        if !differs {
            self.violate_command(Rule::Outcome, attempt.command, || {
                "was answered with MISCOMPARE, though nothing else can have been there".to_owned()
            });
        }
    }

    /// Checks that deallocated blocks read as zeros (LBPRZ).
    fn judge_status(&mut self, attempt: &Attempt, from: u32, data: &[u8], now: u64) {
        if data.len() < 8 {
            return;
        }
        let length = word_of(data) >> 32;
        let end = (length as usize + 4).min(data.len());
        let mut next = u64::from(from);
        for run in data[8..end].chunks_exact(16) {
            let lba = word_of(run);
            let blocks = word_of(&run[8..]) >> 32;
            if lba != next || blocks == 0 {
                self.violate_command(Rule::Outcome, attempt.command, || {
                    format!("describes {blocks} blocks from {lba} on, where {next} was next")
                });
                return;
            }
            next = lba + blocks;
            if run[12] & 0x0f == 1 {
                let first = self.units[usize::from(attempt.unit)].blocks.len() as u64
                    - u64::from(BIT_BLOCKS);
                for lba in lba..next.min(first) {
                    self.judge_word(attempt, attempt.unit, lba as u32, 0, now);
                }
            }
        }
    }
}

/// Whether a stopped unit refuses the command (SBC-3 4.20).
fn needs_medium(scsi: &Scsi) -> bool {
    matches!(
        scsi,
        Scsi::TestUnitReady
            | Scsi::ReadCapacity
            | Scsi::Read { .. }
            | Scsi::Write { .. }
            | Scsi::WriteAndVerify { .. }
            | Scsi::Verify { .. }
            | Scsi::PreFetch { .. }
            | Scsi::Synchronize { .. }
            | Scsi::WriteSame { .. }
            | Scsi::Unmap { .. }
            | Scsi::CompareAndWrite { .. }
            | Scsi::OrWrite { .. }
            | Scsi::LbaStatus { .. }
    )
}
