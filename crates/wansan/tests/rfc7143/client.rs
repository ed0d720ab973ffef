//! An initiator that does what a test says, and checks of its own only that StatSN goes up by one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering};

use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    DataIn, DataOut, Header, LoginRequest, LoginResponse, LoginStatus, LogoutReason, LogoutRequest,
    LogoutResponse, Lun, NopIn, NopOut, R2t, RESERVED_TAG, RESERVED_TASK_TAG, ScsiCommand,
    ScsiResponse, ScsiStatus, Stage, TaskAttribute, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResult,
};
use wansan_peers::trial::{Stop, require};
use wansan_trace::TaskTag;

use crate::peer::{BLOCK_BYTES, Peer, Portal};
use crate::wire::{Received, Wire, equal, expect_pdu};

/// Who logs in, unless the test says otherwise.
pub(crate) const INITIATOR_NAME: &str = "iqn.2026-11.net.example:suite";
/// What this end takes in one data segment, unless the test says otherwise (§13.12: the default).
pub(crate) const MAX_RECV_BYTES: usize = 8192;
/// The connection that a session begins with.
pub(crate) const LEAD: usize = 0;

/// `key=value`.
pub(crate) type Pairs<'a> = &'a [(&'a str, &'a str)];

/// An ISID that no other session of this process has: of the random kind (§11.12.5).
pub(crate) fn new_isid() -> [u8; 6] {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    [0x80, 0, 0, 0, high, low]
}

/// A login under way: the next request is `request` with what the test changes.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) wire: Wire,
    pub(crate) request: LoginRequest,
    portal: Portal,
    /// The keys that this end has sent, and those of the other.
    ours: Vec<(String, String)>,
    theirs: Vec<(String, String)>,
}

/// A Login Response and its text.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: LoginResponse,
    pub(crate) text: Vec<(String, String)>,
}

impl Answer {
    /// The value of the key, if it came.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        value_of(&self.text, key)
    }

    /// Fails unless the login goes on.
    pub(crate) fn accepted(self) -> Result<Self, Stop> {
        equal("login status", self.response.status, LoginStatus::Success)?;
        Ok(self)
    }

    /// Fails unless the login was refused with this status.
    pub(crate) fn refused(&self, status: LoginStatus) -> Result<(), Stop> {
        equal("login status", self.response.status, status)
    }
}

fn value_of<'a>(text: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let found = text.iter().rev().find(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}

/// A text's bytes.
pub(crate) fn text_of(pairs: Pairs<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in pairs {
        wansan_iscsi::text::push_pair(&mut text, key, value);
    }
    text
}

/// A text's pairs.
pub(crate) fn pairs_of(text: &[u8]) -> Result<Vec<(String, String)>, Stop> {
    let pairs = wansan_iscsi::text::pairs(text);
    let pairs = pairs.map_err(|error| Stop::Failed(error.to_string()))?;
    let owned = |pair: wansan_iscsi::text::Pair<'_>| (pair.name.into(), pair.value.into());
    Ok(pairs.into_iter().map(owned).collect())
}

impl Login {
    /// Connects. The first request is to be of a new session.
    pub(crate) fn connect(peer: &Peer) -> Result<Self, Stop> {
        Self::to(&peer.portal)
    }

    fn to(portal: &Portal) -> Result<Self, Stop> {
        Ok(Login {
            wire: Wire::connect(&portal.address, portal.patience)?,
            request: LoginRequest {
                continue_: false,
                csg: Stage::OperationalNegotiation,
                nsg: Some(Stage::FullFeaturePhase),
                version_max: 0,
                version_min: 0,
                isid: new_isid(),
                tsih: 0,
                task_tag: TaskTag(0x7143),
                cid: 1,
                cmd_sn: Sn(1),
                exp_stat_sn: Sn(0),
            },
            portal: portal.clone(),
            ours: Vec::new(),
            theirs: Vec::new(),
        })
    }

    /// The names that the first request of a normal session must bring (§6.3).
    pub(crate) fn names(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("InitiatorName", INITIATOR_NAME),
            ("TargetName", self.portal.target_name),
        ]
    }

    /// Sends the request with these pairs and gives its answer.
    pub(crate) fn ask(&mut self, pairs: Pairs<'_>) -> Result<Answer, Stop> {
        self.tell(pairs)?;
        self.hear()
    }

    /// Sends the request from one stage towards another, or to stay.
    pub(crate) fn ask_in(
        &mut self,
        csg: Stage,
        nsg: Option<Stage>,
        pairs: Pairs<'_>,
    ) -> Result<Answer, Stop> {
        (self.request.csg, self.request.nsg) = (csg, nsg);
        self.ask(pairs)
    }

    /// The first request of a normal session: the names, then these pairs.
    pub(crate) fn begin(&mut self, pairs: Pairs<'_>) -> Result<Answer, Stop> {
        let pairs = [&self.names()[..], pairs].concat();
        self.ask(&pairs)
    }

    /// Sends the request and awaits nothing.
    pub(crate) fn tell(&mut self, pairs: Pairs<'_>) -> Result<(), Stop> {
        let sent = pairs.iter().map(|&(key, value)| (key.into(), value.into()));
        self.ours.extend(sent);
        self.wire.send(self.request, &text_of(pairs))
    }

    /// The next Login Response.
    pub(crate) fn hear(&mut self) -> Result<Answer, Stop> {
        let (response, raw) = expect_pdu!(self.wire.receive()?, LoginResponse)?;
        let text = pairs_of(&raw.data)?;
        self.theirs.extend(text.iter().cloned());
        if response.status == LoginStatus::Success {
            self.request.exp_stat_sn = response.stat_sn.next();
        }
        Ok(Answer { response, text })
    }

    /// Logs in by both stages, with these pairs in the operational one: tgtd looks for sessions
    /// only at the end of the security stage. Gives the first answer that refuses, else the last.
    pub(crate) fn enter(&mut self, pairs: Pairs<'_>) -> Result<Answer, Stop> {
        let (security, operational) = (Stage::SecurityNegotiation, Stage::OperationalNegotiation);
        let names = [&self.names()[..], &[("AuthMethod", "None")]].concat();
        let known = self.ask_in(security, Some(operational), &names)?;
        if known.response.status != LoginStatus::Success {
            return Ok(known);
        }
        let settled = self.ask_in(operational, Some(Stage::FullFeaturePhase), pairs)?;
        if settled.response.status != LoginStatus::Success {
            return Ok(settled);
        }
        self.lead_on(settled)
    }

    /// Logs in by both stages, which must go well.
    pub(crate) fn finish(mut self, pairs: Pairs<'_>) -> Result<Client, Stop> {
        let last = self.enter(pairs)?.accepted()?;
        Ok(self.into_client(&last))
    }

    /// Goes on from `answer` to full feature phase, and gives the last answer. What the target
    /// asks is answered with what it wants.
    pub(crate) fn lead_on(&mut self, mut answer: Answer) -> Result<Answer, Stop> {
        for _ in 0..8 {
            if answer.response.nsg == Some(Stage::FullFeaturePhase) {
                return Ok(answer);
            }
            let asked = answer.text.iter().filter(|(key, _)| {
                value_of(&self.ours, key).is_none() && !key.starts_with("Target")
            });
            let asked: Vec<(&str, &str)> = asked
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            self.request.csg = Stage::OperationalNegotiation;
            self.request.nsg = Some(Stage::FullFeaturePhase);
            answer = self.ask(&asked)?.accepted()?;
        }
        Err(Stop::Failed("login does not end".to_owned()))
    }

    /// What is in force for the key: what the target answered, else what this end said.
    fn in_force(&self, key: &str) -> Option<String> {
        let value = value_of(&self.theirs, key).or_else(|| value_of(&self.ours, key));
        value.map(str::to_owned)
    }

    /// The session of a login whose last answer this is.
    pub(crate) fn into_client(mut self, last: &Answer) -> Client {
        let is_on = |key| self.in_force(key).as_deref() == Some("CRC32C");
        let (header, data) = (is_on("HeaderDigest"), is_on("DataDigest"));
        self.wire.set_digests(header, data);
        let own = value_of(&self.ours, "MaxRecvDataSegmentLength");
        let max_recv_bytes = own.and_then(|own| own.parse().ok());
        let max_recv_bytes = max_recv_bytes.unwrap_or(MAX_RECV_BYTES);
        self.wire.set_max_data_bytes(max_recv_bytes);
        let theirs = value_of(&self.theirs, "MaxRecvDataSegmentLength");
        let max_send_bytes = theirs.and_then(|theirs| theirs.parse().ok());
        let in_force = |key| self.in_force(key);
        let agreed = Agreed {
            initial_r2t: in_force("InitialR2T").is_none_or(|value| value == "Yes"),
            max_outstanding_r2t: in_force("MaxOutstandingR2T")
                .and_then(|value| value.parse().ok())
                .unwrap_or(1),
        };
        let response = last.response;
        Client {
            isid: self.request.isid,
            tsih: response.tsih,
            cmd_sn: self.request.cmd_sn,
            max_cmd_sn: response.max_cmd_sn,
            next_tag: 1,
            lun: self.portal.lun,
            portal: self.portal,
            agreed,
            connections: vec![Connection {
                wire: self.wire,
                cid: self.request.cid,
                exp_stat_sn: response.stat_sn.next(),
                max_send_bytes: max_send_bytes.unwrap_or(MAX_RECV_BYTES),
                early: VecDeque::new(),
            }],
            passes_over_messages: false,
        }
    }
}

/// What negotiation has settled for a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    pub(crate) initial_r2t: bool,
    pub(crate) max_outstanding_r2t: usize,
}

/// One connection in full feature phase.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) cid: u16,
    pub(crate) exp_stat_sn: Sn,
    pub(crate) max_send_bytes: usize,
    /// What came while something else was awaited.
    early: VecDeque<Received>,
}

/// A session in full feature phase.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) isid: [u8; 6],
    pub(crate) tsih: u16,
    /// CmdSN of the next command that takes one.
    pub(crate) cmd_sn: Sn,
    /// The greatest MaxCmdSN that came.
    pub(crate) max_cmd_sn: Sn,
    next_tag: u32,
    pub(crate) lun: Lun,
    portal: Portal,
    pub(crate) agreed: Agreed,
    pub(crate) connections: Vec<Connection>,
    /// Asynchronous messages are taken note of and not given to the test.
    pub(crate) passes_over_messages: bool,
}

impl Client {
    /// A normal session with these operational keys, ready for commands.
    pub(crate) fn log_in(peer: &Peer, pairs: Pairs<'_>) -> Result<Self, Stop> {
        let mut client = Login::connect(peer)?.finish(pairs)?;
        client.settle()?;
        Ok(client)
    }

    /// Sends commands until no unit attention is left, such as that of a new I_T nexus.
    pub(crate) fn settle(&mut self) -> Result<(), Stop> {
        for _ in 0..4 {
            let command = self.test_unit_ready();
            self.send(LEAD, command, &[])?;
            let response = self.response(LEAD, command.task_tag)?;
            if response.status == ScsiStatus::Good {
                return Ok(());
            }
        }
        Err(Stop::Failed("the unit does not become ready".to_owned()))
    }

    /// Adds a connection to the session (§6.3.1: the leading login's ISID and TSIH, a new CID).
    pub(crate) fn join(&mut self, cid: u16, pairs: Pairs<'_>) -> Result<usize, Stop> {
        let login = self.joining(cid)?;
        let joined = login.finish(pairs)?;
        equal("TSIH of the login that joins", joined.tsih, self.tsih)?;
        self.connections.extend(joined.connections);
        Ok(self.connections.len() - 1)
    }

    /// The login of a connection that wants to join, before its first request.
    pub(crate) fn joining(&self, cid: u16) -> Result<Login, Stop> {
        let mut login = Login::to(&self.portal)?;
        login.request.isid = self.isid;
        login.request.tsih = self.tsih;
        login.request.cid = cid;
        login.request.cmd_sn = self.cmd_sn;
        Ok(login)
    }

    /// A new Initiator Task Tag.
    pub(crate) fn tag(&mut self) -> TaskTag {
        self.next_tag += 1;
        TaskTag(self.next_tag)
    }

    /// The CmdSN of the next command, which takes it.
    pub(crate) fn take_cmd_sn(&mut self) -> Sn {
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = cmd_sn.next();
        cmd_sn
    }

    /// A command without data, with a CmdSN of its own.
    pub(crate) fn command(&mut self, cdb: [u8; 16]) -> ScsiCommand {
        ScsiCommand {
            immediate: false,
            final_: true,
            read: false,
            write: false,
            attribute: TaskAttribute::Simple,
            lun: self.lun,
            task_tag: self.tag(),
            expected_data_transfer_length: 0,
            cmd_sn: self.take_cmd_sn(),
            exp_stat_sn: Sn(0),
            cdb,
        }
    }

    pub(crate) fn test_unit_ready(&mut self) -> ScsiCommand {
        self.command([0; 16])
    }

    /// READ (10).
    pub(crate) fn read10(&mut self, lba: u32, blocks: u16) -> ScsiCommand {
        ScsiCommand {
            read: true,
            expected_data_transfer_length: u32::from(blocks) * BLOCK_BYTES as u32,
            ..self.command(ten(0x28, lba, blocks))
        }
    }

    /// WRITE (10) without unsolicited Data-Out.
    pub(crate) fn write10(&mut self, lba: u32, blocks: u16) -> ScsiCommand {
        ScsiCommand {
            write: true,
            expected_data_transfer_length: u32::from(blocks) * BLOCK_BYTES as u32,
            ..self.command(ten(0x2a, lba, blocks))
        }
    }

    /// A task management function for immediate delivery.
    pub(crate) fn function(
        &mut self,
        function: TaskManagementFunction,
        referenced: Option<&ScsiCommand>,
    ) -> TaskManagementRequest {
        TaskManagementRequest {
            immediate: true,
            function,
            lun: self.lun,
            task_tag: self.tag(),
            referenced_task_tag: referenced.map_or(RESERVED_TASK_TAG, |task| task.task_tag),
            cmd_sn: self.cmd_sn,
            exp_stat_sn: Sn(0),
            ref_cmd_sn: referenced.map_or(Sn(0), |task| task.cmd_sn),
            exp_data_sn: 0,
        }
    }

    /// Sends a PDU of the initiator on the connection at `place`, with its ExpStatSN.
    pub(crate) fn send(
        &mut self,
        place: usize,
        header: impl Into<Header>,
        data: &[u8],
    ) -> Result<(), Stop> {
        let bytes = self.encode(place, header, data);
        self.connections[place].wire.send_bytes(&bytes)
    }

    /// The bytes that [`Self::send`] would send.
    pub(crate) fn encode(
        &mut self,
        place: usize,
        header: impl Into<Header>,
        data: &[u8],
    ) -> Vec<u8> {
        let connection = &mut self.connections[place];
        let mut header = header.into();
        let exp_stat_sn = connection.exp_stat_sn;
        match &mut header {
            Header::ScsiCommand(pdu) => pdu.exp_stat_sn = exp_stat_sn,
            Header::TaskManagementRequest(pdu) => pdu.exp_stat_sn = exp_stat_sn,
            Header::NopOut(pdu) => pdu.exp_stat_sn = exp_stat_sn,
            Header::TextRequest(pdu) => pdu.exp_stat_sn = exp_stat_sn,
            Header::DataOut(pdu) => pdu.exp_stat_sn = exp_stat_sn,
            Header::LogoutRequest(pdu) => pdu.exp_stat_sn = exp_stat_sn,
            Header::Snack(pdu) => pdu.exp_stat_sn = exp_stat_sn,
            _ => {}
        }
        connection.wire.encode(header, data)
    }

    /// The next PDU on the connection at `place`, whose StatSN must follow the last one.
    pub(crate) fn receive(&mut self, place: usize) -> Result<Received, Stop> {
        if let Some(early) = self.connections[place].early.pop_front() {
            return Ok(early);
        }
        loop {
            let came = self.receive_or_end(place)?;
            let came =
                came.ok_or_else(|| Stop::Failed("the peer closed the connection".to_owned()))?;
            let is_message = matches!(came.header, Header::AsyncMessage(_));
            if !(is_message && self.passes_over_messages) {
                return Ok(came);
            }
        }
    }

    /// Gives a PDU back, to be received again before all others.
    pub(crate) fn put_back(&mut self, place: usize, received: Received) {
        self.connections[place].early.push_front(received);
    }

    /// The same, or `None` at the end of the connection.
    pub(crate) fn receive_or_end(&mut self, place: usize) -> Result<Option<Received>, Stop> {
        let connection = &mut self.connections[place];
        let Some(received) = connection.wire.receive_or_end()? else {
            return Ok(None);
        };
        if let Some(stat_sn) = received.stat_sn() {
            let expected = connection.exp_stat_sn;
            equal("StatSN (§4.2.2.2)", Sn(stat_sn), expected)?;
            connection.exp_stat_sn = expected.next();
        }
        let max_cmd_sn = Sn(received.max_cmd_sn());
        if self.max_cmd_sn.lt(max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
        Ok(Some(received))
    }

    /// The SCSI Response of the task, which must come next.
    pub(crate) fn response(&mut self, place: usize, tag: TaskTag) -> Result<ScsiResponse, Stop> {
        let (response, _) = expect_pdu!(self.receive(place)?, ScsiResponse)?;
        equal("task of the response", response.task_tag, tag)?;
        Ok(response)
    }

    /// Fails unless the task ends well, next.
    pub(crate) fn good(&mut self, place: usize, tag: TaskTag) -> Result<ScsiResponse, Stop> {
        let response = self.response(place, tag)?;
        equal("status", response.status, ScsiStatus::Good)?;
        Ok(response)
    }

    /// An R2T for the task, which must come next.
    pub(crate) fn r2t(&mut self, place: usize, tag: TaskTag) -> Result<R2t, Stop> {
        let (r2t, _) = expect_pdu!(self.receive(place)?, R2t)?;
        equal("task of the R2T", r2t.task_tag, tag)?;
        Ok(r2t)
    }

    /// Sends a ping whose answer must be the next PDU: what was sent before has had its effect,
    /// and had no other answer. Immediate, so that no CmdSN is taken (§11.18).
    pub(crate) fn ping(&mut self, place: usize) -> Result<NopIn, Stop> {
        let tag = self.tag();
        self.send_ping(place, tag, &[])?;
        let (nop, _) = expect_pdu!(self.receive(place)?, NopIn)?;
        equal("task of the NOP-In", nop.task_tag, tag)?;
        Ok(nop)
    }

    pub(crate) fn send_ping(
        &mut self,
        place: usize,
        tag: TaskTag,
        data: &[u8],
    ) -> Result<(), Stop> {
        let ping = NopOut {
            immediate: true,
            lun: self.lun,
            task_tag: tag,
            transfer_tag: RESERVED_TAG,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: Sn(0),
        };
        self.send(place, ping, data)
    }

    /// Reads, and fails unless all came in order and the status was good. Gives each Data-In.
    pub(crate) fn read(
        &mut self,
        place: usize,
        lba: u32,
        blocks: u16,
    ) -> Result<(Vec<u8>, Vec<DataIn>), Stop> {
        let command = self.read10(lba, blocks);
        self.send(place, command, &[])?;
        self.data_of(place, command.task_tag)
    }

    /// Takes in all Data-In of a read up to its status.
    pub(crate) fn data_of(
        &mut self,
        place: usize,
        tag: TaskTag,
    ) -> Result<(Vec<u8>, Vec<DataIn>), Stop> {
        let (mut data, mut pdus) = (Vec::new(), Vec::new());
        loop {
            let received = self.receive(place)?;
            let Header::DataIn(data_in) = received.header else {
                self.put_back(place, received);
                let response = self.good(place, tag)?;
                let sent = pdus.len() as u32;
                equal("ExpDataSN (§11.4.8)", response.exp_data_sn, sent)?;
                return Ok((data, pdus));
            };
            equal("task of the Data-In", data_in.task_tag, tag)?;
            equal("DataSN", data_in.data_sn, pdus.len() as u32)?;
            equal("Buffer Offset", data_in.buffer_offset, data.len() as u32)?;
            data.extend_from_slice(&received.data);
            pdus.push(data_in);
            if let Some(status) = data_in.status {
                equal("status", status, ScsiStatus::Good)?;
                return Ok((data, pdus));
            }
        }
    }

    /// Sends the data that an R2T asks for, out of the whole data of its command.
    pub(crate) fn answer_r2t(&mut self, place: usize, r2t: &R2t, whole: &[u8]) -> Result<(), Stop> {
        for (header, from, to) in self.sequence(place, r2t) {
            self.send(place, header, &whole[from..to])?;
        }
        Ok(())
    }

    /// The Data-Out PDUs that answer an R2T, each with the part of the data that it carries.
    pub(crate) fn sequence(&self, place: usize, r2t: &R2t) -> Vec<(DataOut, usize, usize)> {
        let first = r2t.buffer_offset as usize;
        let end = first + r2t.desired_data_transfer_length as usize;
        let step = self.connections[place].max_send_bytes;
        let starts = (first..end).step_by(step);
        let pdu = |(data_sn, from): (usize, usize)| {
            let to = end.min(from + step);
            let header = DataOut {
                final_: to == end,
                lun: r2t.lun,
                task_tag: r2t.task_tag,
                transfer_tag: r2t.transfer_tag,
                exp_stat_sn: Sn(0),
                data_sn: data_sn as u32,
                buffer_offset: from as u32,
            };
            (header, from, to)
        };
        starts.enumerate().map(pdu).collect()
    }

    /// Answers the R2Ts of a write until its status, which must be good. Gives the R2Ts.
    pub(crate) fn serve_write(
        &mut self,
        place: usize,
        tag: TaskTag,
        whole: &[u8],
    ) -> Result<Vec<R2t>, Stop> {
        let mut r2ts = Vec::new();
        loop {
            let received = self.receive(place)?;
            if matches!(received.header, Header::R2t(_)) {
                self.put_back(place, received);
                let r2t = self.r2t(place, tag)?;
                r2ts.push(r2t);
                self.answer_r2t(place, &r2t, whole)?;
            } else {
                self.put_back(place, received);
                self.good(place, tag)?;
                return Ok(r2ts);
            }
        }
    }

    /// Writes by R2T alone; fails unless it ends well. Gives the R2Ts.
    pub(crate) fn write(&mut self, place: usize, lba: u32, whole: &[u8]) -> Result<Vec<R2t>, Stop> {
        let command = self.write10(lba, (whole.len() / BLOCK_BYTES) as u16);
        self.send(place, command, &[])?;
        self.serve_write(place, command.task_tag, whole)
    }

    /// Fails unless the blocks from `lba` on hold `data`.
    pub(crate) fn holds(&mut self, place: usize, lba: u32, data: &[u8]) -> Result<(), Stop> {
        let (read, _) = self.read(place, lba, (data.len() / BLOCK_BYTES) as u16)?;
        require(read == data, || {
            let at = read.iter().zip(data).position(|(a, b)| a != b);
            format!("other data at byte {at:?} from block {lba} on")
        })
    }

    /// A logout for immediate delivery.
    pub(crate) fn logout_request(&mut self, reason: LogoutReason, cid: u16) -> LogoutRequest {
        LogoutRequest {
            immediate: true,
            reason,
            task_tag: self.tag(),
            cid,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: Sn(0),
        }
    }

    /// Logs out and gives the answer, which must come next.
    pub(crate) fn log_out(
        &mut self,
        place: usize,
        reason: LogoutReason,
        cid: u16,
    ) -> Result<LogoutResponse, Stop> {
        let request = self.logout_request(reason, cid);
        self.send(place, request, &[])?;
        let (response, _) = expect_pdu!(self.receive(place)?, LogoutResponse)?;
        equal("task of the answer", response.task_tag, request.task_tag)?;
        Ok(response)
    }

    /// Carries out a function and gives its answer, which must come next.
    pub(crate) fn manage(
        &mut self,
        place: usize,
        request: TaskManagementRequest,
    ) -> Result<TaskManagementResult, Stop> {
        self.send(place, request, &[])?;
        let (response, _) = expect_pdu!(self.receive(place)?, TaskManagementResponse)?;
        equal("task of the answer", response.task_tag, request.task_tag)?;
        Ok(response.response)
    }

    /// Fails unless the peer closes the connection, with nothing more said.
    pub(crate) fn closed(&mut self, place: usize) -> Result<(), Stop> {
        match self.receive_or_end(place)? {
            None => Ok(()),
            Some(received) => Err(Stop::Failed(format!(
                "expected the end of the connection, not {:?}",
                received.header
            ))),
        }
    }
}

/// A CDB of ten bytes for a number of blocks.
pub(crate) fn ten(opcode: u8, lba: u32, blocks: u16) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// `len` bytes in which no two blocks are alike.
pub(crate) fn distinct(len: usize, seed: u64) -> Vec<u8> {
    // A step of Weyl's sequence for each word.
    let mut word = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        data.extend_from_slice(&word.to_be_bytes());
    }
    data.truncate(len);
    data
}
