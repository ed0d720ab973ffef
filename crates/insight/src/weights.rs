//! How many I/Os each recorded one stands for, in a sample.

use std::collections::BTreeMap;

use wansan_trace::{ConnectionId, NameId, Sample, SessionId};

use crate::command_window::at_or_after;
use crate::opcode::SCSI_COMMAND;
use crate::pdus::Pdus;

/// The I/Os that there were for each recorded one, by session.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    by_session: BTreeMap<SessionId, f64>,
    mean: f64,
}

/// One end's view of a session: the latest CmdSN, also by connection, how far CmdSNs have advanced, and in how many commands.
#[derive(Default)]
struct View {
    cmd_sn: Option<u32>,
    by_connection: BTreeMap<ConnectionId, u32>,
    advanced: u64,
    commands: u64,
}

impl View {
    fn see(&mut self, connection: ConnectionId, cmd_sn: u32) {
        let before = self.by_connection.insert(connection, cmd_sn);
        if before.is_some_and(|before| !at_or_after(cmd_sn, before)) {
            // On one connection, only a session that begins anew counts from the start again.
            self.cmd_sn = None;
            self.by_connection.clear();
        }
        let Some(latest) = self.cmd_sn else {
            self.cmd_sn = Some(cmd_sn);
            return;
        };
        self.commands += 1;
        // Over several connections, commands arrive out of order.
        if at_or_after(cmd_sn, latest) {
            self.advanced += u64::from(cmd_sn.wrapping_sub(latest));
            self.cmd_sn = Some(cmd_sn);
        }
    }
}

impl Weights {
    /// Of complete records.
    #[must_use]
    pub fn complete() -> Weights {
        Weights {
            by_session: BTreeMap::new(),
            mean: 1.0,
        }
    }

    /// Of a sample: CmdSNs count all commands (RFC 7143 §4.2.2.1). An initiator that uses few tags again and again may have
    /// more or fewer of them in the sample than one in its number.
    pub(crate) fn of(sample: Sample, pdus: Option<&Pdus>) -> Weights {
        let mut views: BTreeMap<SessionId, BTreeMap<NameId, View>> = BTreeMap::new();
        pdus.into_iter().for_each(|pdus| {
            pdus.for_each(|host, pdu| {
                if pdu.opcode == SCSI_COMMAND {
                    let ends = views.entry(pdu.session).or_default();
                    let view = ends.entry(host).or_default();
                    view.see(pdu.connection, pdu.cmd_sn);
                }
            });
        });
        let mut weights = Weights {
            by_session: BTreeMap::new(),
            mean: f64::from(sample.number()),
        };
        let (mut advanced, mut commands) = (0, 0);
        for (session, ends) in views {
            let fullest = ends.into_values().max_by_key(|view| view.advanced);
            let counted =
                fullest.filter(|view| view.commands > 0 && view.advanced >= view.commands);
            if let Some(view) = counted {
                let weight = view.advanced as f64 / view.commands as f64;
                weights.by_session.insert(session, weight);
                advanced += view.advanced;
                commands += view.commands;
            }
        }
        if commands > 0 {
            weights.mean = advanced as f64 / commands as f64;
        }
        weights
    }

    /// Of the I/Os of a session.
    #[must_use]
    pub fn of_session(&self, session: SessionId) -> f64 {
        let known = self.by_session.get(&session);
        known.copied().unwrap_or(self.mean)
    }

    /// Of all I/Os together.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }
}
