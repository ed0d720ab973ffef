//! TCP endpoints with the programs' socket options.

use std::net::SocketAddr;

use wansan_path::SUPER_FRAME_MAX_BYTES;
use wansan_san::DelayedAck;
use wansan_san::settings::AckSettings;
use wansan_sim::storage::EndConfig;
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::congestion::loaded::Loaded;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::{BufferConfig, SendConfig};
use wansan_tcp::control::Algorithm;

use super::network::addresses;
use crate::plan::{Cell, ControlTable, Document, Receiver, Relay, Size};

/// Length of IPv4 and TCP headers with timestamps.
const HEADER_BYTES: u32 = 20 + 20 + 12;

/// Length of the timestamp option in each segment (RFC 7323 §3.2).
const TIMESTAMP_BYTES: u32 = 12;

/// Socket options of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Socket<'a> {
    /// Its congestion control; `None` for its host's default.
    pub(super) control: Option<&'a str>,
    /// TCP_NODELAY.
    pub(super) nodelay: bool,
    /// TCP_QUICKACK after each read.
    pub(super) quick_acks: bool,
    /// SO_SNDBUF.
    pub(super) send_buffer: Option<Size>,
    /// SO_RCVBUF.
    pub(super) receive_buffer: Option<Size>,
    /// TCP_NOTSENT_LOWAT.
    pub(super) unsent: Option<Size>,
    /// TCP_MAXSEG.
    pub(super) mss: Option<u16>,
}

impl Socket<'_> {
    /// The options of a program that sets only TCP_NODELAY.
    pub(super) const PLAIN: Socket<'static> = Socket {
        control: None,
        nodelay: true,
        quick_acks: false,
        send_buffer: None,
        receive_buffer: None,
        unsent: None,
        mss: None,
    };

    /// The options of iSCSI programs.
    pub(super) fn iscsi(nodelay: bool, acks: AckSettings) -> Socket<'static> {
        Socket {
            nodelay,
            quick_acks: acks.delayed_ack == DelayedAck::Quick,
            ..Socket::PLAIN
        }
    }

    /// The options of connections accepted at a listening address.
    pub(super) fn accepted<'a>(cell: &'a Cell, at: SocketAddr) -> Socket<'a> {
        let (scenario, document) = (&cell.scenario, &cell.document);
        let mut receivers = scenario.receivers.iter();
        let listens = |it: &&Receiver| addresses(scenario, &it.host, it.listen).contains(&at);
        if let Some(receiver) = receivers.find(listens) {
            return Socket {
                receive_buffer: receiver.buffer.receive_buffer,
                ..Socket::PLAIN
            };
        }
        let mut relays = scenario.relays.iter();
        let listens = |it: &&Relay| addresses(scenario, &it.host, it.listen).contains(&at);
        if let Some(relay) = relays.find(listens) {
            let side = &relay.table.flow.r#in;
            return Socket::of_relay(side);
        }
        let table = document.target.as_ref();
        table.map_or(Socket::PLAIN, |table| {
            Socket::iscsi(!table.sending.sending().nagle, table.sending.acks)
        })
    }

    /// The endpoint with these options, on a host of the plan.
    pub(super) fn end(&self, document: &Document, seed: u64) -> EndConfig {
        let mtu_bytes = u32::try_from(document.world.mtu.0).unwrap_or(u32::MAX);
        self.end_over(mtu_bytes, document, seed)
    }

    /// The same for a path with that MTU.
    pub(super) fn end_over(&self, mtu_bytes: u32, document: &Document, seed: u64) -> EndConfig {
        let tcp = &document.tcp;
        let mss = mtu_bytes.saturating_sub(HEADER_BYTES);
        // The option's value includes the timestamps.
        let own = self
            .mss
            .map(|mss| u32::from(mss).saturating_sub(TIMESTAMP_BYTES));
        let mss = own.map_or(mss, |own| own.min(mss));
        let bytes = |sizes: [Size; 3]| sizes.map(|size| size.0);
        let name = self.control.unwrap_or(&tcp.congestion_control);
        let so_rcvbuf_bytes = self.receive_buffer.map(|size| size.0);
        let usual = ReceiveConfig::default();
        EndConfig {
            send: SendConfig {
                mss,
                buffer: BufferConfig {
                    wmem_bytes: bytes(tcp.wmem.0),
                    so_sndbuf_bytes: self.send_buffer.map(|size| size.0),
                    // As in namespaces: larger bursts would overflow a short queue that these do not.
                    gso_max_bytes: u64::from(SUPER_FRAME_MAX_BYTES),
                    ..BufferConfig::default()
                },
                nodelay: self.nodelay,
                most_unsent_bytes: self.unsent.map(|size| size.0),
                ecn: tcp.ecn,
                ..SendConfig::default()
            },
            receive: ReceiveConfig {
                rmem_bytes: bytes(tcp.rmem.0),
                // The lab's programs are privileged to exceed rmem_max.
                rmem_max_bytes: usual.rmem_max_bytes.max(so_rcvbuf_bytes.unwrap_or(0)),
                so_rcvbuf_bytes,
                mss,
                ecn: tcp.ecn,
                ..usual
            },
            law: law(name, &tcp.control_of(name), seed),
            law_name: name.to_owned(),
            quick_acks: self.quick_acks,
        }
    }
}

/// The algorithm of a name; `table` has the parameters for one of `wansan cc`.
fn law(name: &str, table: &ControlTable, seed: u64) -> Law {
    match Algorithm::by_name(name) {
        Some(algorithm) => {
            let options = table.options().unwrap_or_default();
            Law::Loaded(Loaded::new(algorithm, &options))
        }
        None => Law::named(name, Hz::default(), seed).expect("plans are checked for it"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::Plan;

    const PLAN: &str = r#"
        title = "trial"
        host = [{ name = "storage" }, { name = "client" }]
        path = [{ between = ["client", "storage"], delay = "1ms" }]
        target = { host = "storage", luns = ["memory:1MiB"] }
        initiator = [{ host = "client" }]
        workload = { op = "read", block = "4KiB", time = "1s" }
        world = { kind = "sim" }
    "#;

    #[test]
    fn hosts_send_as_much_at_once_as_in_namespaces() {
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let end = Socket::PLAIN.end(plan.document(), 0);
        let most = u64::from(SUPER_FRAME_MAX_BYTES);
        assert_eq!(end.send.buffer.gso_max_bytes, most);
    }
}
