//! A test initiator that distributes commands over connections at random, loses bytes and connections, recovers as in
//! RFC 7143, and checks every block against a model.

use std::collections::BTreeMap;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::cdb;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    BHS_BYTES, Bhs, DataIn, DataOut, FrameError, Lun, Opcode, R2t, RESERVED_TAG, RESERVED_TASK_TAG,
    Reject, RejectReason, ScsiCommand, ScsiResponse, ScsiStatus, Snack, SnackKind, TaskAttribute,
    TaskManagementFunction, TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
};
use wansan_trace::TaskTag;

use super::rig::{BLOCK_BYTES, BLOCKS, Line, Rig};

/// Most blocks of one command.
const MAX_BLOCKS: usize = 24;

/// Data in one PDU: MaxRecvDataSegmentLength of both ends.
pub(crate) const PDU_BYTES: usize = 1024;

/// An outstanding command.
pub(crate) struct Command {
    cmd_sn: Sn,
    lba: usize,
    blocks: usize,
    /// Data to write; `None` for a read.
    data: Option<Vec<u8>>,
    cid: u16,
    /// Data received for a read, by DataSN.
    pieces: BTreeMap<u32, (u32, Vec<u8>)>,
    /// R2Ts received.
    r2ts: u32,
    /// The StatSN of the response, if received, and the number of Data-In PDUs before it.
    answered: Option<(Sn, u32)>,
}

impl Command {
    fn bytes(&self) -> usize {
        self.blocks * BLOCK_BYTES
    }

    /// DataSNs, or R2Ts, received without a gap.
    fn exp_data_sn(&self) -> u32 {
        if self.data.is_some() {
            return self.r2ts;
        }
        (0..).find(|sn| !self.pieces.contains_key(sn)).unwrap_or(0)
    }

    fn is_done(&self) -> bool {
        self.answered
            .is_some_and(|(_, pdus)| self.data.is_some() || self.exp_data_sn() >= pdus)
    }
}

pub(crate) struct Initiator {
    pub(crate) rig: Rig,
    pub(crate) lines: Vec<Line>,
    pub(crate) random: Pcg64Mcg,
    pub(crate) model: Vec<u8>,
    pub(crate) commands: BTreeMap<u32, Command>,
    /// Commands that must restart and wait for the window.
    waiting: Vec<Command>,
    /// Connections that the target has reported as lost.
    pub(crate) told_lost: Vec<u16>,
    /// One in this many PDUs is corrupted in transit; 0 for none.
    pub(crate) hit_one_in: usize,
    next_tag: u32,
    cmd_sn: Sn,
    max_cmd_sn: Sn,
    next_cid: u16,
    /// Tasks being reassigned, by the tag of the request.
    reassigning: BTreeMap<u32, u32>,
    pub(crate) completed: usize,
}

impl Initiator {
    pub(crate) fn new(wanted: Wanted, window: u32, connections: u16, seed: u64) -> Initiator {
        println!("seed {seed}");
        let (rig, first) = Rig::new(wanted, window);
        let announced = rig.session.window();
        let mut initiator = Initiator {
            rig,
            lines: vec![first],
            random: Pcg64Mcg::seed_from_u64(seed),
            model: vec![0; BLOCKS * BLOCK_BYTES],
            commands: BTreeMap::new(),
            waiting: Vec::new(),
            told_lost: Vec::new(),
            hit_one_in: 0,
            next_tag: 1,
            cmd_sn: announced.exp_cmd_sn,
            max_cmd_sn: announced.max_cmd_sn,
            next_cid: 1,
            reassigning: BTreeMap::new(),
            completed: 0,
        };
        for _ in 1..connections {
            initiator.add_line();
        }
        initiator
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    /// Another connection, with a CID of its own.
    pub(crate) fn add_line(&mut self) {
        let line = self.rig.join(self.next_cid, Sn(0));
        self.next_cid += 1;
        self.lines.push(line);
    }

    fn line_of(&mut self, cid: u16) -> &mut Line {
        let found = self.lines.iter_mut().find(|line| line.cid == cid);
        found.expect("the command's connection is there")
    }

    /// Queues a PDU, whose data may be corrupted in transit.
    fn push(&mut self, cid: u16, bhs: &Bhs, data: &[u8]) {
        let hit = self.hits() && !data.is_empty();
        let line = self.line_of(cid);
        line.transmitter.push(bhs, data);
        let bytes = line.transmitter.pending().len();
        line.out.extend_from_slice(line.transmitter.pending());
        line.transmitter.sent(bytes);
        if hit && line.parameters.data_digest {
            *line.out.last_mut().unwrap() ^= 1;
        }
    }

    /// ExpStatSN of a connection: covers no response to a command with missing data.
    fn exp_stat_sn(&self, cid: u16) -> Sn {
        let line = self.lines.iter().find(|line| line.cid == cid).unwrap();
        let lacking = self.commands.values().filter(|command| command.cid == cid);
        let answers = lacking.filter_map(|command| Some(command.answered?.0));
        answers.fold(line.exp_stat_sn, |first, answer| {
            if answer.lt(first) { answer } else { first }
        })
    }

    /// Sends a new command over any connection, if the window and free blocks allow.
    pub(crate) fn submit(&mut self) {
        if self.max_cmd_sn.lt(self.cmd_sn) || !self.waiting.is_empty() {
            return;
        }
        let (lba, blocks) = (self.below(BLOCKS - MAX_BLOCKS), 1 + self.below(MAX_BLOCKS));
        let overlaps =
            |command: &Command| command.lba < lba + blocks && lba < command.lba + command.blocks;
        if self.commands.values().chain(&self.waiting).any(overlaps) {
            return;
        }
        let data = (self.below(2) == 0).then(|| {
            let mut data = vec![0; blocks * BLOCK_BYTES];
            self.random.fill_bytes(&mut data);
            data
        });
        let cid = self.any_cid();
        self.begin(Command {
            cmd_sn: self.cmd_sn,
            lba,
            blocks,
            data,
            cid,
            pieces: BTreeMap::new(),
            r2ts: 0,
            answered: None,
        });
    }

    /// Sends a command, which gets its CmdSN here.
    fn begin(&mut self, mut command: Command) {
        let tag = self.next_tag;
        self.next_tag += 1;
        command.cmd_sn = self.cmd_sn;
        self.cmd_sn = self.cmd_sn.next();
        self.commands.insert(tag, command);
        self.send_command(tag);
    }

    fn any_cid(&mut self) -> u16 {
        let line = self.below(self.lines.len());
        self.lines[line].cid
    }

    fn send_command(&mut self, tag: u32) {
        let parameters = self.rig.parameters;
        let command = &self.commands[&tag];
        let (cid, blocks) = (command.cid, command.blocks as u32);
        let first_burst = parameters.first_burst_bytes as usize;
        let immediate = match &command.data {
            Some(data) if parameters.immediate_data => {
                &data[..data.len().min(first_burst).min(PDU_BYTES)]
            }
            _ => &[],
        };
        let unsolicited_to = match &command.data {
            Some(data) if !parameters.initial_r2t => data.len().min(first_burst),
            _ => 0,
        };
        let cdb = match &command.data {
            Some(_) => cdb::write(command.lba as u64, blocks, false),
            None => cdb::read(command.lba as u64, blocks, false),
        };
        let request = ScsiCommand {
            immediate: false,
            final_: unsolicited_to <= immediate.len(),
            read: command.data.is_none(),
            write: command.data.is_some(),
            attribute: TaskAttribute::Simple,
            lun: Lun::single_level(0).unwrap(),
            task_tag: TaskTag(tag),
            expected_data_transfer_length: command.bytes() as u32,
            cmd_sn: command.cmd_sn,
            exp_stat_sn: self.exp_stat_sn(cid),
            cdb,
        };
        let mut bhs = [0; BHS_BYTES];
        request.emit(&mut bhs);
        let immediate = immediate.to_vec();
        self.push(cid, &bhs, &immediate);
        if unsolicited_to > immediate.len() {
            self.send_data(tag, RESERVED_TAG, immediate.len()..unsolicited_to);
        }
    }

    fn send_data(&mut self, tag: u32, transfer_tag: u32, range: core::ops::Range<usize>) {
        let command = &self.commands[&tag];
        let data = command
            .data
            .clone()
            .expect("only writes are asked for data");
        let cid = command.cid;
        let exp_stat_sn = self.exp_stat_sn(cid);
        for (data_sn, at) in (0..).zip(range.clone().step_by(PDU_BYTES)) {
            let end = (at + PDU_BYTES).min(range.end);
            let data_out = DataOut {
                final_: end == range.end,
                lun: Lun::single_level(0).unwrap(),
                task_tag: TaskTag(tag),
                transfer_tag,
                exp_stat_sn,
                data_sn,
                buffer_offset: at as u32,
            };
            let mut bhs = [0; BHS_BYTES];
            data_out.emit(&mut bhs);
            self.push(cid, &bhs, &data[at..end]);
        }
    }

    /// Takes a random step: bytes move, or a store operation completes.
    pub(crate) fn step(&mut self) {
        while self.cmd_sn.le(self.max_cmd_sn)
            && let Some(mut command) = self.waiting.pop()
        {
            command.cid = self.any_cid();
            self.begin(command);
        }
        let number = self.below(self.lines.len());
        let bytes = 1 + self.below(4096);
        match self.below(3) {
            0 => {
                let mut line = self.lines.remove(number);
                self.rig.forth(&mut line, bytes);
                self.lines.insert(number, line);
            }
            1 => {
                let mut line = self.lines.remove(number);
                self.rig.back(&mut line, bytes);
                self.lines.insert(number, line);
                self.hear(number);
            }
            _ => {
                for line in &self.lines {
                    self.rig.ask_store(line);
                }
                if !self.rig.at_store.is_empty() {
                    let piece = self.below(self.rig.at_store.len());
                    self.rig.store_works(piece);
                }
            }
        }
        assert_eq!(self.rig.end(), None, "the target closes a connection");
    }

    fn hits(&mut self) -> bool {
        self.hit_one_in > 0 && self.below(self.hit_one_in) == 0
    }

    /// Handles input of a connection.
    fn hear(&mut self, number: usize) {
        let cid = self.lines[number].cid;
        loop {
            let hit = self.hits();
            let line = &mut self.lines[number];
            let (bhs, data) = match line.receiver.next() {
                Ok(None) => return,
                Ok(Some(pdu)) => (*pdu.bhs, pdu.data.to_vec()),
                Err(FrameError::DataDigest { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let opcode = Opcode::from_wire(bhs[0] & 0x3f);
            let word = |at: usize| u32::from_be_bytes(bhs[at..at + 4].try_into().unwrap());
            let (stat_sn, max_cmd_sn) = (Sn(word(24)), Sn(word(32)));
            if self.max_cmd_sn.lt(max_cmd_sn) {
                self.max_cmd_sn = max_cmd_sn;
            }
            let numbered = match opcode {
                Opcode::DataIn => bhs[1] & 1 != 0,
                Opcode::R2t => false,
                Opcode::NopIn => word(16) != RESERVED_TASK_TAG.0,
                _ => true,
            };
            // A PDU with data may be corrupted; only its header is known then. Either SNACK brings a Data-In with a
            // status again.
            if hit && opcode == Opcode::DataIn && (!numbered || self.below(2) == 0) {
                let data_in = DataIn::parse(&bhs).unwrap();
                let kind = SnackKind::DataOrR2t;
                self.snack(cid, kind, data_in.task_tag, data_in.data_sn, 1);
                continue;
            }
            if numbered && hit && self.rig.parameters.error_recovery_level > 0 {
                self.snack(cid, SnackKind::Status, RESERVED_TASK_TAG, stat_sn.0, 1);
                continue;
            }
            if numbered && !self.lines[number].take_status(stat_sn) {
                continue; // A duplicate.
            }
            self.handle(cid, opcode, &bhs, &data);
        }
    }

    fn snack(&mut self, cid: u16, kind: SnackKind, task_tag: TaskTag, beg_run: u32, run: u32) {
        let snack = Snack {
            kind,
            lun: Lun::single_level(0).unwrap(),
            task_tag,
            transfer_tag: RESERVED_TAG,
            exp_stat_sn: self.exp_stat_sn(cid),
            beg_run,
            run_length: run,
        };
        let mut bhs = [0; BHS_BYTES];
        snack.emit(&mut bhs);
        self.push(cid, &bhs, &[]);
    }

    fn handle(&mut self, cid: u16, opcode: Opcode, bhs: &Bhs, data: &[u8]) {
        match opcode {
            Opcode::DataIn => {
                let pdu = DataIn::parse(bhs).unwrap();
                let tag = pdu.task_tag.0;
                let Some(command) = self.commands.get_mut(&tag) else {
                    return; // An unnecessary retransmission.
                };
                assert_eq!(command.cid, cid, "data comes on the command's connection");
                let piece = (pdu.buffer_offset, data.to_vec());
                command.pieces.insert(pdu.data_sn, piece);
                if pdu.status.is_some() {
                    command.answered = Some((pdu.stat_sn, pdu.data_sn + 1));
                }
                self.finish(tag);
            }
            Opcode::R2t => {
                let pdu = R2t::parse(bhs).unwrap();
                let tag = pdu.task_tag.0;
                let command = self.commands.get_mut(&tag).unwrap();
                assert_eq!(command.cid, cid, "R2Ts come on the command's connection");
                assert_eq!(pdu.r2t_sn, command.r2ts);
                command.r2ts += 1;
                let from = pdu.buffer_offset as usize;
                let to = from + pdu.desired_data_transfer_length as usize;
                self.send_data(tag, pdu.transfer_tag, from..to);
            }
            Opcode::ScsiResponse => {
                let pdu = ScsiResponse::parse(bhs).unwrap();
                assert_eq!(pdu.status, ScsiStatus::Good, "{data:02x?}");
                let tag = pdu.task_tag.0;
                let command = self
                    .commands
                    .get_mut(&tag)
                    .expect("one answer to a command");
                assert_eq!(command.cid, cid, "status comes on the command's connection");
                assert!(command.answered.is_none(), "one answer to a command");
                command.answered = Some((pdu.stat_sn, pdu.exp_data_sn));
                self.finish(tag);
            }
            Opcode::Reject => {
                let reject = Reject::parse(bhs).unwrap();
                assert_eq!(reject.reason, RejectReason::DataDigestError);
                // A request must be resent; data will be requested (§7.8).
                let rejected: Bhs = data[..BHS_BYTES].try_into().unwrap();
                if Opcode::from_wire(rejected[0] & 0x3f) == Opcode::ScsiCommand {
                    self.send_command(u32::from_be_bytes(rejected[16..20].try_into().unwrap()));
                }
            }
            Opcode::AsyncMessage => {
                let lost = u16::from_be_bytes(bhs[38..40].try_into().unwrap());
                self.told_lost.push(lost);
            }
            Opcode::TaskManagementResponse => {
                let pdu = TaskManagementResponse::parse(bhs).unwrap();
                assert_eq!(pdu.response, TaskManagementResult::Complete);
                self.reassigning.remove(&pdu.task_tag.0).unwrap();
            }
            Opcode::NopIn => {}
            other => panic!("{other:?}"),
        }
    }

    /// Checks a command that may be complete now.
    fn finish(&mut self, tag: u32) {
        if !self.commands[&tag].is_done() {
            return;
        }
        let command = self.commands.remove(&tag).unwrap();
        let range = command.lba * BLOCK_BYTES..(command.lba + command.blocks) * BLOCK_BYTES;
        match command.data {
            Some(data) => self.model[range].copy_from_slice(&data),
            None => {
                let mut read = vec![0xee; range.len()];
                for (offset, piece) in command.pieces.values() {
                    read[*offset as usize..][..piece.len()].copy_from_slice(piece);
                }
                assert!(
                    read == self.model[range],
                    "command {tag} reads something else"
                );
            }
        }
        self.completed += 1;
    }

    /// Runs until all commands have completed.
    pub(crate) fn finish_all(&mut self) {
        for _ in 0..200_000 {
            if self.commands.is_empty() && self.waiting.is_empty() {
                assert!(
                    self.rig.store == self.model,
                    "the store holds something else"
                );
                return;
            }
            self.step();
        }
        let left: Vec<_> = self.commands.keys().collect();
        panic!("commands {left:?} never end");
    }

    /// A connection is lost. Without connection recovery its commands are resent, else they are reassigned to others,
    /// possibly to a new one.
    pub(crate) fn lose_line(&mut self, number: usize, same_cid: bool) {
        let exp_stat_sn = self.exp_stat_sn(self.lines[number].cid);
        let dead = self.lines.remove(number);
        if same_cid {
            // The target learns of it by the login that takes over the CID.
            let line = self.rig.join(dead.cid, exp_stat_sn);
            self.lines.push(line);
        } else {
            self.rig.cut(dead.place);
        }
        if self.lines.is_empty() {
            self.add_line();
        }
        let recovers = self.rig.parameters.error_recovery_level == 2;
        let exp_cmd_sn = self.rig.session.window().exp_cmd_sn;
        let of_dead = |(_, command): &(&u32, &Command)| command.cid == dead.cid;
        let lost = self.commands.iter().filter(of_dead);
        let lost: Vec<u32> = lost.map(|(tag, _)| *tag).collect();
        for tag in lost {
            let cid = self.any_cid();
            let command = self.commands.get_mut(&tag).unwrap();
            command.cid = cid;
            if exp_cmd_sn.le(command.cmd_sn) {
                self.send_command(tag);
            } else if recovers {
                command.answered = None;
                self.reassign(tag, cid);
            } else {
                let mut command = self.commands.remove(&tag).unwrap();
                command.pieces.clear();
                command.r2ts = 0;
                command.answered = None;
                self.waiting.push(command);
            }
        }
    }

    fn reassign(&mut self, tag: u32, cid: u16) {
        let request_tag = self.next_tag | 1 << 31;
        self.next_tag += 1;
        self.reassigning.insert(request_tag, tag);
        let command = self.commands.get_mut(&tag).unwrap();
        let exp_data_sn = command.exp_data_sn();
        // PDUs after a gap are resent, possibly in another layout.
        command.pieces.retain(|sn, _| *sn < exp_data_sn);
        let request = TaskManagementRequest {
            immediate: true,
            function: TaskManagementFunction::TaskReassign,
            lun: Lun::single_level(0).unwrap(),
            task_tag: TaskTag(request_tag),
            referenced_task_tag: TaskTag(tag),
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn(cid),
            ref_cmd_sn: Sn(0),
            exp_data_sn,
        };
        let mut bhs = [0; BHS_BYTES];
        request.emit(&mut bhs);
        self.push(cid, &bhs, &[]);
    }
}
