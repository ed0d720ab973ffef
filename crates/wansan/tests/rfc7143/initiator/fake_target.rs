//! A target that does what a test says, and `wansan bench` as the initiator that it says it to.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    BHS_BYTES, Bhs, DataIn, Header, LoginRequest, LoginResponse, LoginStatus, LogoutResponse,
    LogoutResult, NopIn, R2t, RESERVED_TAG, RESERVED_TASK_TAG, Residual, ResponseCode, ScsiCommand,
    ScsiResponse, ScsiStatus, Stage,
};
use wansan_peers::process::Running;
use wansan_peers::trial::Stop;
use wansan_trace::TaskTag;

use crate::client::{Pairs, pairs_of, text_of};
use crate::peer::WANSAN;
use crate::wire::{Received, Wire, expect_pdu};

/// The name of every fake target.
pub(super) const TARGET_NAME: &str = "iqn.2026-11.net.example:fake";
/// How long the initiator may take for one step: generous, as the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// READ CAPACITY (16), as SERVICE ACTION IN (16).
const SERVICE_ACTION_IN_16: u8 = 0x9e;
const BLOCKS: u64 = 2048;
const BLOCK_BYTES: u32 = 512;

/// A portal where a fake target waits.
#[derive(Debug)]
pub(super) struct Portal {
    listener: TcpListener,
    pub(super) address: SocketAddr,
}

impl Portal {
    pub(super) fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Portal { listener, address })
    }

    /// The next connection of the initiator.
    pub(super) fn accept(&self) -> Result<Wire, Stop> {
        let accepted = self.accept_unless(|| Ok(false))?;
        Ok(accepted.expect("only an end would keep it from coming"))
    }

    /// The next connection, or `None` once `over` and nobody waits.
    pub(super) fn accept_unless(
        &self,
        mut over: impl FnMut() -> Result<bool, Stop>,
    ) -> Result<Option<Wire>, Stop> {
        let until = Instant::now() + PATIENCE;
        loop {
            let is_over = over()?;
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(Some(Wire::on(stream, PATIENCE)?));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if is_over {
                return Ok(None);
            }
            if Instant::now() >= until {
                return Err(Stop::Failed("the initiator does not connect".to_owned()));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The next connection, logged in with `answers` in place of what a target says by itself.
    pub(super) fn serve(&self, answers: Pairs<'_>) -> Result<Target, Stop> {
        Target::log_in(self.accept()?, answers)
    }
}

/// A running `wansan bench`; it ends when dropped.
#[derive(Debug)]
pub(super) struct Bench {
    process: Running,
    folder: TempDir,
}

impl Bench {
    /// Starts it against the portal with these arguments beside the URL.
    pub(super) fn start(portal: &Portal, arguments: &[&str]) -> Result<Self, Stop> {
        let folder = TempDir::with_prefix("wansan-rfc7143-")?;
        let output = File::create(folder.path().join("output"))?;
        let url = format!("iscsi://{}/{TARGET_NAME}/0", portal.address);
        let mut command = Command::new(WANSAN);
        command
            .args(["bench", &url, "--json", "--block", "4KiB"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let process = Running::start(&mut command)?;
        Ok(Bench { process, folder })
    }

    pub(super) fn has_ended(&mut self) -> Result<bool, Stop> {
        Ok(self.process.wait(Duration::ZERO)?.is_some())
    }

    /// How it ends, and what it printed.
    pub(super) fn end(mut self) -> Result<(ExitStatus, String), Stop> {
        let status = self.process.wait(PATIENCE)?;
        let printed = std::fs::read_to_string(self.folder.path().join("output"))?;
        match status {
            Some(status) => Ok((status, printed)),
            None => Err(Stop::Failed(format!("it does not end: {printed}"))),
        }
    }

    /// Fails unless it ends well, without an I/O error.
    pub(super) fn ends_well(self) -> Result<(), Stop> {
        let (status, printed) = self.end()?;
        if status.success() && printed.contains("\"errors\":0") {
            Ok(())
        } else {
            Err(Stop::Failed(format!("{status}: {printed}")))
        }
    }
}

/// The target's end of one connection in full feature phase.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) wire: Wire,
    /// What the initiator said in its first Login Request, and in which header.
    pub(super) login: LoginRequest,
    pub(super) keys: Vec<(String, String)>,
    pub(super) stat_sn: Sn,
    pub(super) exp_cmd_sn: Sn,
    /// Commands that may come beyond ExpCmdSN.
    pub(super) window: u32,
}

/// What a target answers by itself to a key that it was offered, if it needs an answer.
fn answer_to<'a>(key: &str, offer: &'a str) -> Option<&'a str> {
    match key {
        "HeaderDigest" | "DataDigest" | "AuthMethod" => Some("None"),
        "MaxConnections" | "MaxOutstandingR2T" | "iSCSIProtocolLevel" => Some("1"),
        "ErrorRecoveryLevel" => Some("0"),
        "InitialR2T" | "DataPDUInOrder" | "DataSequenceInOrder" => Some("Yes"),
        "ImmediateData" => Some("No"),
        "MaxBurstLength" | "FirstBurstLength" => Some("8192"),
        "TaskReporting" => Some("RFC3720"),
        "DefaultTime2Wait" | "DefaultTime2Retain" => Some(offer),
        _ => None,
    }
}

impl Target {
    fn log_in(mut wire: Wire, answers: Pairs<'_>) -> Result<Self, Stop> {
        let (login, mut received) = expect_pdu!(wire.receive()?, LoginRequest)?;
        let keys = pairs_of(&received.data)?;
        let mut request = login;
        let mut stat_sn = Sn(1000);
        let mut said: Vec<(String, String)> = Vec::new();
        loop {
            let mut text = Vec::new();
            if stat_sn == Sn(1000) {
                text.push(("TargetPortalGroupTag".to_owned(), "1".to_owned()));
            }
            for (key, offer) in pairs_of(&received.data)? {
                let fixed = answers.iter().find(|(name, _)| *name == key);
                let fixed = fixed.map(|(_, value)| *value);
                if let Some(answer) = answer_to(&key, &offer)
                    .and(fixed)
                    .or(answer_to(&key, &offer))
                {
                    text.push((key, answer.to_owned()));
                }
            }
            if request.csg == Stage::OperationalNegotiation {
                let own = answers
                    .iter()
                    .find(|(key, _)| *key == "MaxRecvDataSegmentLength");
                let told = said
                    .iter()
                    .any(|(key, _)| key == "MaxRecvDataSegmentLength");
                text.extend(
                    own.filter(|_| !told)
                        .map(|&(k, v)| (k.to_owned(), v.to_owned())),
                );
            }
            let tsih = u16::from(request.nsg == Some(Stage::FullFeaturePhase)) * 77;
            let response = LoginResponse {
                continue_: false,
                csg: request.csg,
                nsg: request.nsg,
                version_max: 0,
                version_active: 0,
                isid: request.isid,
                tsih,
                task_tag: request.task_tag,
                stat_sn,
                exp_cmd_sn: request.cmd_sn,
                max_cmd_sn: request.cmd_sn.add(63),
                status: LoginStatus::Success,
            };
            let pairs: Vec<(&str, &str)> = text.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            wire.send(response, &text_of(&pairs))?;
            said.extend(text);
            stat_sn = stat_sn.next();
            if request.nsg == Some(Stage::FullFeaturePhase) {
                break;
            }
            (request, received) = expect_pdu!(wire.receive()?, LoginRequest)?;
        }
        let is_on = |key: &str| said.contains(&(key.to_owned(), "CRC32C".to_owned()));
        wire.set_digests(is_on("HeaderDigest"), is_on("DataDigest"));
        wire.set_max_data_bytes(1 << 20);
        Ok(Target {
            wire,
            login,
            keys,
            stat_sn,
            exp_cmd_sn: request.cmd_sn,
            window: 64,
        })
    }

    pub(super) fn max_cmd_sn(&self) -> Sn {
        self.exp_cmd_sn.add(self.window).sub(1)
    }

    /// The StatSN of a PDU that takes one.
    pub(super) fn take_stat_sn(&mut self) -> Sn {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.next();
        stat_sn
    }

    /// The next PDU; a numbered one must be the next in CmdSN order.
    pub(super) fn receive(&mut self) -> Result<Received, Stop> {
        let received = self.wire.receive()?;
        let cmd_sn = match received.header {
            Header::ScsiCommand(pdu) if !pdu.immediate => pdu.cmd_sn,
            Header::NopOut(pdu) if !pdu.immediate => pdu.cmd_sn,
            Header::TextRequest(pdu) if !pdu.immediate => pdu.cmd_sn,
            Header::LogoutRequest(pdu) if !pdu.immediate => pdu.cmd_sn,
            _ => return Ok(received),
        };
        if cmd_sn != self.exp_cmd_sn {
            let expected = self.exp_cmd_sn;
            return Err(Stop::Failed(format!("CmdSN {cmd_sn}, not {expected}")));
        }
        self.exp_cmd_sn = cmd_sn.next();
        Ok(received)
    }

    /// The next read or write of the load; what comes before it (READ CAPACITY) is answered.
    pub(super) fn command(&mut self) -> Result<(ScsiCommand, Received), Stop> {
        loop {
            let (command, received) = expect_pdu!(self.receive()?, ScsiCommand)?;
            if command.cdb[0] != SERVICE_ACTION_IN_16 {
                return Ok((command, received));
            }
            let mut capacity = [0; 32];
            capacity[..8].copy_from_slice(&(BLOCKS - 1).to_be_bytes());
            capacity[8..12].copy_from_slice(&BLOCK_BYTES.to_be_bytes());
            let asked = command.expected_data_transfer_length as usize;
            self.data_in(&command, 0, 0, &capacity[..asked.min(32)], true)?;
        }
    }

    /// A Data-In PDU as the command may get it; the last one brings GOOD.
    pub(super) fn data_in_header(&mut self, command: &ScsiCommand, last: bool) -> DataIn {
        DataIn {
            final_: last,
            acknowledge: false,
            status: last.then_some(ScsiStatus::Good),
            residual: Residual::None,
            lun: command.lun,
            task_tag: command.task_tag,
            transfer_tag: RESERVED_TAG,
            stat_sn: if last { self.take_stat_sn() } else { Sn(0) },
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            data_sn: 0,
            buffer_offset: 0,
        }
    }

    pub(super) fn data_in(
        &mut self,
        command: &ScsiCommand,
        data_sn: u32,
        buffer_offset: u32,
        data: &[u8],
        last: bool,
    ) -> Result<(), Stop> {
        let header = DataIn {
            data_sn,
            buffer_offset,
            ..self.data_in_header(command, last)
        };
        self.wire.send(header, data)
    }

    /// The response that ends a command with `status`.
    pub(super) fn respond(
        &mut self,
        command: &ScsiCommand,
        status: ScsiStatus,
    ) -> Result<(), Stop> {
        let response = ScsiResponse {
            response: ResponseCode::CommandCompleted,
            status,
            task_tag: command.task_tag,
            snack_tag: 0,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            exp_data_sn: 0,
            residual: Residual::None,
            bidirectional_read_residual: Residual::None,
        };
        self.wire.send(response, &[])
    }

    /// An R2T for a part of the command's data.
    pub(super) fn ask(
        &mut self,
        command: &ScsiCommand,
        r2t_sn: u32,
        from: u32,
        length: u32,
    ) -> Result<(), Stop> {
        let r2t = self.r2t(command, r2t_sn, from, length);
        self.wire.send(r2t, &[])
    }

    pub(super) fn r2t(&self, command: &ScsiCommand, r2t_sn: u32, from: u32, length: u32) -> R2t {
        R2t {
            lun: command.lun,
            task_tag: command.task_tag,
            transfer_tag: 0x5000 + r2t_sn,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            r2t_sn,
            buffer_offset: from,
            desired_data_transfer_length: length,
        }
    }

    /// Asks the initiator for a sign of life; its answer carries `transfer_tag`.
    pub(super) fn ping(&mut self, transfer_tag: u32, data: &[u8]) -> Result<(), Stop> {
        let ping = NopIn {
            lun: wansan_iscsi::wire::Lun::default(),
            task_tag: RESERVED_TASK_TAG,
            transfer_tag,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        self.wire.send(ping, data)
    }

    /// Answers reads and writes well until the initiator logs out.
    pub(super) fn serve_to_the_end(&mut self) -> Result<(), Stop> {
        loop {
            let received = self.receive()?;
            match received.header {
                Header::ScsiCommand(command) => self.carry_out(&command)?,
                Header::LogoutRequest(request) => return self.log_out(request.task_tag),
                Header::NopOut(_) => {}
                other => return Err(Stop::Failed(format!("unexpected {other:?}"))),
            }
        }
    }

    /// Answers a read with zeros, and a write once its data has come.
    pub(super) fn carry_out(&mut self, command: &ScsiCommand) -> Result<(), Stop> {
        let length = command.expected_data_transfer_length;
        if command.cdb[0] == SERVICE_ACTION_IN_16 {
            let mut capacity = [0; 32];
            capacity[..8].copy_from_slice(&(BLOCKS - 1).to_be_bytes());
            capacity[8..12].copy_from_slice(&BLOCK_BYTES.to_be_bytes());
            return self.data_in(command, 0, 0, &capacity[..length.min(32) as usize], true);
        }
        if command.read {
            return self.data_in(command, 0, 0, &vec![0; length as usize], true);
        }
        if command.write {
            self.ask(command, 0, 0, length)?;
            while !expect_pdu!(self.receive()?, DataOut)?.0.final_ {}
        }
        self.respond(command, ScsiStatus::Good)
    }

    /// The answer to a logout, then the end of the connection.
    pub(super) fn log_out(&mut self, tag: TaskTag) -> Result<(), Stop> {
        let response = LogoutResponse {
            response: LogoutResult::Closed,
            task_tag: tag,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            time2wait_s: 0,
            time2retain_s: 0,
        };
        self.wire.send(response, &[])?;
        self.wire.drop_connection();
        Ok(())
    }

    /// Fails unless the initiator gives the connection up, with or without a logout.
    pub(super) fn is_given_up(&mut self) -> Result<(), Stop> {
        while let Some(came) = self.wire.receive_or_end()? {
            if matches!(came.header, Header::LogoutRequest(_)) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Refuses the login that comes next on the connection.
pub(super) fn refuse(wire: &mut Wire, status: LoginStatus, text: Pairs<'_>) -> Result<(), Stop> {
    let (request, _) = expect_pdu!(wire.receive()?, LoginRequest)?;
    let response = LoginResponse {
        continue_: false,
        csg: request.csg,
        nsg: None,
        version_max: 0,
        version_active: 0,
        isid: request.isid,
        tsih: 0,
        task_tag: request.task_tag,
        stat_sn: Sn(0),
        exp_cmd_sn: request.cmd_sn,
        max_cmd_sn: request.cmd_sn,
        status,
    };
    wire.send(response, &text_of(text))?;
    wire.drop_connection();
    Ok(())
}

/// A header's bytes.
pub(super) fn bytes_of(header: impl Into<Header>) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    header.into().emit(&mut bhs);
    bhs
}
