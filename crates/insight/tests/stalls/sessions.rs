//! Waits above TCP: PDUs and crossings of a session whose every wait can be computed by a few sums.

use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use wansan_insight::join::join;
use wansan_insight::stall::{Cause, session};
use wansan_trace::event::{Crossing, Pdu, PduDirection};
use wansan_trace::file::Row;
use wansan_trace::{ConnectionId, Direction, Instant, Layer, NameId, SessionId, TaskTag};

use super::cell::Dice;
use super::truth::{Score, Wait};

const SCSI_COMMAND: u8 = 0x01;
const DATA_OUT: u8 = 0x05;
const SCSI_RESPONSE: u8 = 0x21;
const LOGIN_RESPONSE: u8 = 0x23;
const R2T: u8 = 0x31;
const FINAL: u8 = 0x80;
const MS: u64 = 1_000_000;
/// Hosts.
const INITIATOR: NameId = NameId(0);
const TARGET: NameId = NameId(1);
/// The finder's documented resolution.
const LEAST_NS: u64 = 500_000;

/// What both ends record.
#[derive(Default)]
struct Records {
    pdus: Vec<Row<Pdu>>,
    crossings: Vec<Row<Crossing>>,
    waits: Vec<Wait>,
}

impl Records {
    fn pdu(&mut self, host: NameId, at_ns: u64, direction: PduDirection, of: Pdu) {
        let time = Instant::from_ns(at_ns);
        let record = Pdu {
            time,
            direction,
            ..of
        };
        self.pdus.push(Row { host, record });
    }

    fn enters(&mut self, host: NameId, at_ns: u64, task: u32, layer: Layer) {
        let record = Crossing {
            time: Instant::from_ns(at_ns),
            session: SessionId(7),
            task: TaskTag(task),
            connection: ConnectionId(1),
            layer,
            direction: Direction::Enter,
        };
        self.crossings.push(Row { host, record });
    }

    fn wait(&mut self, cause: Cause, task: u32, from_ns: u64, to_ns: u64) {
        self.waits.push(Wait {
            task: TaskTag(task),
            causes: vec![cause],
            from_ns,
            to_ns,
            is_owed: true,
        });
    }

    fn score(mut self) -> Score {
        self.pdus.sort_by_key(|row| row.record.time);
        self.crossings.sort_by_key(|row| row.record.time);
        let tasks = join(&self.crossings).tasks;
        let mut found = session::r2t_waits(&self.pdus, &[]);
        found.extend(session::command_window_waits(&self.pdus, &tasks));
        found.extend(session::lockstep_waits(&self.pdus, &tasks, &[]));
        self.waits.retain(|wait| wait.cost_ns() >= LEAST_NS);
        Score::of(&self.waits, &found, LEAST_NS, 0)
    }
}

fn pdu(opcode: u8, task: u32) -> Pdu {
    Pdu {
        time: Instant::from_ns(0),
        session: SessionId(7),
        connection: ConnectionId(1),
        direction: PduDirection::Sent,
        opcode,
        flags: 0,
        task: TaskTag(task),
        transfer_tag: u32::MAX,
        cmd_sn: 0,
        stat_sn: 0,
        exp_cmd_sn: 0,
        max_cmd_sn: 0,
        data_sn: 0,
        buffer_offset: 0,
        data_bytes: 0,
        stream_offset: 0,
    }
}

/// A random cell and its score.
pub(crate) fn cell(seed: u64) -> (Score, String) {
    let mut dice = Dice(Pcg64Mcg::seed_from_u64(seed));
    let delay_ns = dice.within(0, 60) * MS + dice.within(10, 999) * 1000;
    match seed % 3 {
        0 => writes(&mut dice, delay_ns),
        1 => window(&mut dice, delay_ns),
        _ => routes(&mut dice, delay_ns),
    }
}

/// Writes whose data is requested in rounds of several R2Ts.
fn writes(dice: &mut Dice, delay_ns: u64) -> (Score, String) {
    let mut records = Records::default();
    let (ios, rounds, at_once) = (dice.within(1, 8), dice.within(0, 4), dice.within(1, 4));
    let mut now_ns = MS;
    let mut transfer_tag = 0;
    for task in 0..ios as u32 {
        records.pdu(
            INITIATOR,
            now_ns,
            PduDirection::Sent,
            pdu(SCSI_COMMAND, task),
        );
        let mut sent_ns = now_ns;
        if dice.chance(50) {
            // Unsolicited data.
            sent_ns += dice.within(0, 2 * MS);
            let unasked = Pdu {
                flags: FINAL,
                ..pdu(DATA_OUT, task)
            };
            records.pdu(INITIATOR, sent_ns, PduDirection::Sent, unasked);
        }
        for _ in 0..rounds {
            let asked_ns = sent_ns + 2 * delay_ns + dice.within(0, MS);
            records.wait(Cause::R2tWait, task, sent_ns, asked_ns);
            let tags = transfer_tag..transfer_tag + at_once as u32;
            transfer_tag = tags.end;
            for tag in tags.clone() {
                let r2t = Pdu {
                    transfer_tag: tag,
                    ..pdu(R2T, task)
                };
                records.pdu(
                    INITIATOR,
                    asked_ns + u64::from(tag),
                    PduDirection::Received,
                    r2t,
                );
            }
            sent_ns = asked_ns + MS;
            for tag in tags {
                let data = Pdu {
                    flags: FINAL,
                    transfer_tag: tag,
                    ..pdu(DATA_OUT, task)
                };
                sent_ns += 10;
                records.pdu(INITIATOR, sent_ns, PduDirection::Sent, data);
            }
        }
        // The wait was for the first R2T of a round.
        now_ns = sent_ns + 2 * delay_ns + MS;
        records.pdu(
            INITIATOR,
            now_ns,
            PduDirection::Received,
            pdu(SCSI_RESPONSE, task),
        );
    }
    // Its record is that many ns behind, as its tag says.
    let asked = records.pdus.iter().filter(|row| row.record.opcode == R2T);
    let asked: Vec<u64> = asked.map(|row| row.record.time.ns()).collect();
    for wait in &mut records.waits {
        let first = asked
            .iter()
            .copied()
            .filter(|at_ns| *at_ns >= wait.to_ns)
            .min();
        wait.to_ns = first.unwrap_or(wait.to_ns);
    }
    (
        records.score(),
        format!("{ios} writes, {rounds} rounds of {at_once}, {delay_ns} ns"),
    )
}

/// More commands than the command window allows, each answered after a round trip.
fn window(dice: &mut Dice, delay_ns: u64) -> (Score, String) {
    let mut records = Records::default();
    let (slots, ios) = (dice.within(1, 16), dice.within(4, 64));
    let login = Pdu {
        max_cmd_sn: slots as u32 - 1,
        ..pdu(LOGIN_RESPONSE, u32::MAX)
    };
    records.pdu(INITIATOR, 1000, PduDirection::Received, login);
    let mut answered: Vec<u64> = Vec::new();
    let mut asked_ns = MS;
    for task in 0..ios {
        asked_ns += dice.within(0, MS / 2);
        let number = task as u32;
        records.enters(INITIATOR, asked_ns, number, Layer::Queue);
        // The response to the command `slots` places earlier opens its slot.
        let opened_ns = task
            .checked_sub(slots)
            .map_or(0, |before| answered[before as usize]);
        let goes_ns = asked_ns.max(opened_ns);
        if opened_ns > asked_ns {
            records.wait(Cause::CommandWindow, number, asked_ns, goes_ns);
        }
        records.enters(INITIATOR, goes_ns, number, Layer::Window);
        let command = Pdu {
            cmd_sn: number,
            ..pdu(SCSI_COMMAND, number)
        };
        records.pdu(INITIATOR, goes_ns, PduDirection::Sent, command);
        let last_ns = answered.last().copied().unwrap_or(0);
        let answer_ns = (goes_ns + 2 * delay_ns + dice.within(0, MS)).max(last_ns + 1);
        answered.push(answer_ns);
        let response = Pdu {
            max_cmd_sn: number + slots as u32,
            ..pdu(SCSI_RESPONSE, number)
        };
        records.pdu(INITIATOR, answer_ns, PduDirection::Received, response);
    }
    (
        records.score(),
        format!("{ios} commands, {slots} slots, {delay_ns} ns"),
    )
}

/// Commands alternating over two routes, which the target takes in CmdSN order.
fn routes(dice: &mut Dice, delay_ns: u64) -> (Score, String) {
    let mut records = Records::default();
    let ios = dice.within(2, 40) as u32;
    let other_ns = delay_ns + dice.within(0, 30) * MS;
    let delays_ns = [delay_ns, other_ns];
    let mut issued_ns = MS;
    let mut before_ns = 0;
    for task in 0..ios {
        issued_ns += dice.within(0, 3 * MS);
        let route = usize::from(task % 2 == 1);
        let command = Pdu {
            connection: ConnectionId(route as u16 + 1),
            cmd_sn: task,
            ..pdu(SCSI_COMMAND, task)
        };
        let came_ns = issued_ns + delays_ns[route];
        records.pdu(INITIATOR, issued_ns, PduDirection::Sent, command);
        records.pdu(TARGET, came_ns, PduDirection::Received, command);
        let enters_ns = came_ns.max(before_ns);
        if enters_ns > came_ns {
            records.wait(Cause::RouteLockstep, task, came_ns, enters_ns);
        }
        before_ns = enters_ns;
        records.enters(TARGET, enters_ns, task, Layer::Target);
    }
    (
        records.score(),
        format!("{ios} commands over routes of {delays_ns:?} ns"),
    )
}
