//! Passes the events of a port's connections to the oracle.

use wansan_iscsi::wire::{ScsiStatus, TaskManagementResult};

use super::ports::State;
use super::{TargetSide, World};
use crate::command::Effect;
use crate::history::Scsi;
use crate::observer::{Answered, Event};
use crate::oracle::Rule;

impl<T: TargetSide> World<'_, T> {
    /// An event on a connection of the port.
    pub(super) fn observed(&mut self, port: usize, link: usize, event: Event, now: u64) {
        self.progress += 1;
        match event {
            Event::Command { tag, cmd_sn } => self.command_seen(port, link, tag, cmd_sn, now),
            Event::Manage {
                tag,
                referenced,
                cmd_sn,
            } => {
                let this = &mut self.ports[port];
                let of = this.functions.iter().position(|(one, ..)| *one == tag);
                let Some(place) = of else { return };
                let (_, function, unit) = this.functions.swap_remove(place);
                let mut sent = this.sent.iter();
                let task = sent.find(|(one, ..)| *one == referenced).map(|sent| sent.2);
                let session = this.oracle_session;
                let number = self
                    .oracle
                    .managed_sent(session, function, unit, (task, cmd_sn), now);
                self.ports[port].managing.push((tag, number, link));
                self.say(|| {
                    format!(
                        "session {session} sends {function:?} for unit {unit} on {link}, {task:?}"
                    )
                });
            }
            Event::Answer { tag, answered } => self.answer_seen(port, link, tag, answered, now),
            Event::Managed { tag, result } => {
                let this = &mut self.ports[port];
                let of = this.managing.iter().position(|(one, ..)| *one == tag);
                let Some(place) = of else { return };
                let (_, number, _) = this.managing.swap_remove(place);
                let complete = result == TaskManagementResult::Complete.to_wire();
                self.say(|| format!("port {port} receives the response {result} to its function"));
                self.oracle.managed_answered(number, complete, link, now);
            }
            Event::Remove { cid } => {
                self.say(|| format!("port {port} asks for the logout of connection {cid}"));
                self.ports[port].removed.push(cid);
            }
            Event::LoggedOut { tag, result } => {
                // Not the logout of a lost connection for recovery.
                if result == 0 && self.ports[port].state == State::LoggingOut(tag) {
                    let session = self.ports[port].oracle_session;
                    self.say(|| format!("session {session} is logged out"));
                    self.oracle.logged_out(session, now);
                }
            }
            Event::Reject { reason } => {
                self.oracle.violate(Rule::Protocol, || {
                    format!("port {port} was sent a Reject with reason {reason:#x}")
                });
            }
            Event::Wrong(_) => {}
        }
    }

    fn command_seen(&mut self, port: usize, link: usize, tag: u32, cmd_sn: u32, now: u64) {
        let this = &mut self.ports[port];
        let known = this.sent.iter().position(|(one, ..)| *one == tag);
        if let Some(place) = known {
            if this.sent[place].1 == cmd_sn {
                return; // Retransmitted on another connection: the same task.
            }
            let (_, _, attempt) = this.sent.remove(place);
            self.oracle.superseded(attempt);
        }
        let this = &mut self.ports[port];
        let Some((_, command)) = this.submitted.iter().find(|(one, _)| *one == tag) else {
            return;
        };
        let (command, session) = (*command, this.oracle_session);
        let attempt = self.oracle.sent(command, session, cmd_sn, now);
        self.ports[port].sent.push((tag, cmd_sn, attempt));
        if self.log.is_some() {
            let known = self.oracle.commands.get(command);
            let (unit, scsi) = (known.unit, known.scsi.clone());
            self.say(|| {
                format!("session {session} sends #{command} to unit {unit} on {link}: {scsi:?}")
            });
        }
    }

    fn answer_seen(&mut self, port: usize, link: usize, tag: u32, answered: Answered, now: u64) {
        let this = &mut self.ports[port];
        let Some(place) = this.sent.iter().position(|(one, ..)| *one == tag) else {
            let session = this.oracle_session;
            self.oracle.violate(Rule::Answer, || {
                format!("session {session} was sent an answer for task {tag:#x}, which is unknown")
            });
            return;
        };
        let (_, _, attempt) = this.sent.remove(place);
        let command = self.oracle.commands.attempts[attempt as usize].command;
        if self.log.is_some() {
            let (status, sense) = (answered.status, answered.sense);
            let sense = sense.map(|sense| (sense.key, sense.additional));
            self.say(|| format!("#{command} was answered with {status:?} {sense:?}"));
        }
        let known = self.oracle.commands.get(command);
        let asks = matches!(
            known.scsi,
            Scsi::RequestSense | Scsi::ReserveIn { .. } | Scsi::ModeSense
        );
        let needs_data = matches!(known.effect, Effect::Read(_) | Effect::Status { .. }) || asks;
        if needs_data && answered.status == ScsiStatus::Good {
            self.ports[port]
                .with_data
                .push((tag, attempt, link, answered));
        } else {
            self.oracle.answered(attempt, &answered, None, link, now);
        }
    }
}
