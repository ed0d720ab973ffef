//! PDUs over a real socket, each as its test wants it: any field, any digest, in any order.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use wansan_iscsi::wire::{Ahs, BHS_BYTES, Bhs, FrameError, Header, Opcode, Receiver, Transmitter};
use wansan_peers::trial::Stop;

/// A PDU as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) bhs: Bhs,
    pub(crate) header: Header,
    pub(crate) data: Vec<u8>,
}

impl Received {
    /// The F bit, which login calls T (§11.2.1.3).
    pub(crate) fn final_(&self) -> bool {
        self.bhs[1] & 0x80 != 0
    }

    /// StatSN, where the PDU carries a status that takes a number of its own (§4.2.2.2).
    pub(crate) fn stat_sn(&self) -> Option<u32> {
        let has_task = self.bhs[16..20] != [0xff; 4];
        let numbered = match self.header {
            Header::NopIn(_) => has_task,
            Header::DataIn(data_in) => data_in.status.is_some(),
            Header::R2t(_) => false,
            _ => true,
        };
        numbered.then(|| self.stat_sn_field())
    }

    /// The field where StatSN stands, whatever the PDU.
    pub(crate) fn stat_sn_field(&self) -> u32 {
        self.word(24)
    }

    pub(crate) fn exp_cmd_sn(&self) -> u32 {
        self.word(28)
    }

    pub(crate) fn max_cmd_sn(&self) -> u32 {
        self.word(32)
    }

    /// The word that begins at byte `at` of the header.
    pub(crate) fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes([
            self.bhs[at],
            self.bhs[at + 1],
            self.bhs[at + 2],
            self.bhs[at + 3],
        ])
    }
}

/// One end of a connection, in blocking calls that give up after a time.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    receiver: Receiver,
    transmitter: Transmitter,
    patience: Duration,
}

impl Wire {
    /// Connects to `address`.
    pub(crate) fn connect(address: &str, patience: Duration) -> Result<Self, Stop> {
        Ok(Self::on(TcpStream::connect(address)?, patience)?)
    }

    /// Takes over a connected socket.
    pub(crate) fn on(stream: TcpStream, patience: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Wire {
            stream,
            receiver: Receiver::new(),
            transmitter: Transmitter::new(),
            patience,
        })
    }

    /// From the next PDU on, both ways (§11.2.3).
    pub(crate) fn set_digests(&mut self, header: bool, data: bool) {
        self.receiver.set_digests(header, data);
        self.transmitter.set_digests(header, data);
    }

    /// The longest data segment that is taken from the next PDU on.
    pub(crate) fn set_max_data_bytes(&mut self, bytes: usize) {
        self.receiver.set_max_data_bytes(bytes);
    }

    /// The PDU as it goes out: padded, with right digests.
    pub(crate) fn encode(&mut self, header: impl Into<Header>, data: &[u8]) -> Vec<u8> {
        let mut bhs = [0; BHS_BYTES];
        header.into().emit(&mut bhs);
        self.encode_bhs(&bhs, &[], data)
    }

    /// The PDU with this header, which may mean nothing, and these additional segments.
    pub(crate) fn encode_bhs(&mut self, bhs: &Bhs, ahs: &[Ahs<'_>], data: &[u8]) -> Vec<u8> {
        self.transmitter
            .push_with_ahs(bhs, ahs, data.len(), |to| to.copy_from_slice(data));
        let bytes = self.transmitter.pending().to_vec();
        self.transmitter.sent(bytes.len());
        bytes
    }

    /// Sends one PDU.
    pub(crate) fn send(&mut self, header: impl Into<Header>, data: &[u8]) -> Result<(), Stop> {
        let bytes = self.encode(header, data);
        self.send_bytes(&bytes)
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.stream
            .write_all(bytes)
            .map_err(|error| Stop::Failed(format!("sending: {error}")))
    }

    /// The next PDU.
    pub(crate) fn receive(&mut self) -> Result<Received, Stop> {
        self.receive_or_end()?
            .ok_or_else(|| Stop::Failed("the peer closed the connection".to_owned()))
    }

    /// The next PDU, or `None` when the other end has closed the connection.
    pub(crate) fn receive_or_end(&mut self) -> Result<Option<Received>, Stop> {
        let until = Instant::now() + self.patience;
        loop {
            match self.receiver.next() {
                Ok(Some(pdu)) => {
                    let header = Header::parse(pdu.bhs)
                        .map_err(|error| Stop::Failed(format!("{error}: {:02x?}", pdu.bhs)))?;
                    return Ok(Some(Received {
                        bhs: *pdu.bhs,
                        header,
                        data: pdu.data.to_vec(),
                    }));
                }
                Ok(None) => {}
                Err(error) => return Err(broken(&error)),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Stop::Failed(format!("nothing came in {:?}", self.patience)));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(self.receiver.space()) {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.receiver.filled(bytes),
                Err(error) => match error.kind() {
                    io::ErrorKind::ConnectionReset => return Ok(None),
                    io::ErrorKind::WouldBlock
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// Everything that still comes until the other end closes the connection.
    pub(crate) fn until_closed(&mut self) -> Result<Vec<Received>, Stop> {
        let mut came = Vec::new();
        while let Some(pdu) = self.receive_or_end()? {
            came.push(pdu);
        }
        Ok(came)
    }

    /// Ends the connection without a word.
    pub(crate) fn drop_connection(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn broken(error: &FrameError) -> Stop {
    Stop::Failed(format!("the peer sent a broken PDU: {error}"))
}

/// Fails unless the PDU is of this kind; gives its fields.
macro_rules! expect_pdu {
    ($received:expr, $kind:ident) => {{
        let received: $crate::wire::Received = $received;
        match received.header {
            wansan_iscsi::wire::Header::$kind(pdu) => Ok((pdu, received)),
            _ => Err(wansan_peers::trial::Stop::Failed(format!(
                concat!("expected ", stringify!($kind), ", not {:?}"),
                received.header
            ))),
        }
    }};
}
pub(crate) use expect_pdu;

/// Fails unless both are the same.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the values are mostly small, and made for it"
)]
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    want: T,
) -> Result<(), Stop> {
    if got == want {
        Ok(())
    } else {
        Err(Stop::Failed(format!("{what} is {got:?}, not {want:?}")))
    }
}

/// The opcode of an initiator's or a target's PDU, as byte 0 has it.
pub(crate) fn opcode_byte(opcode: Opcode, immediate: bool) -> u8 {
    opcode.to_wire() | if immediate { 0x40 } else { 0 }
}
