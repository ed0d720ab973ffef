//! The tables of a plan for traffic beside, or instead of, sessions: relays that split connections, and measured
//! streams.

use wansan_relay::FlowSettings;
use wansan_settings::settings;
use wansan_stream::{BufferSettings, StreamSettings};

use super::TcpTable;

settings! {
    /// `[[relay]]`: `wansan relay` on a host. Initiators and streams select it by name (`through`); an unused one
    /// is not started.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RelayTable {
        /// Its name: lower-case letters, digits and hyphens
        pub name: String = "relay".to_owned();
        /// The host that it runs on. A path must join it with every host whose connections go through it
        pub host: String;
        /// The host that it forwards to: that of the target, or of the streams through it. A path
        /// must join both
        pub to: String;
        with flow: FlowSettings;
    }
}

settings! {
    /// `[[stream]]`: `wansan stream send` on one host, measured together with `wansan stream receive` on
    /// another.
    #[derive(Debug, Clone, PartialEq)]
    pub struct StreamTable {
        /// Its name in results and parameters: lower-case letters, digits and hyphens
        pub name: String = "stream".to_owned();
        /// The host that sends
        pub from: String;
        /// The host that receives; all streams to one host have the same receive buffer
        pub to: String;
        /// The `[[relay]]` that it goes through; by default directly over a path
        pub through: Option<String>;
        /// Parallel TCP connections; 0 disables the stream
        pub flows: u32 = 1, in 0..=1000;
        with stream: StreamSettings;
        with buffer: BufferSettings;
    }
}

impl RelayTable {
    /// How it carries flows: a side without a congestion control uses that of `[tcp]`.
    #[must_use]
    pub fn flow(&self, tcp: &TcpTable) -> FlowSettings {
        let mut flow = self.flow.clone();
        for side in [&mut flow.r#in, &mut flow.out] {
            let control = &mut side.congestion_control;
            control.get_or_insert_with(|| tcp.congestion_control.clone());
        }
        flow
    }
}
