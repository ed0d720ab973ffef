//! Settings of a target.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use wansan_iscsi::keys::{Wanted, WantedError};
use wansan_settings::address::ListenAddress;
use wansan_settings::quantity::Span;
use wansan_settings::record::{KindSettings, TcpSettings};
use wansan_settings::{Text, given, settings, usual};
use wansan_tcp::network::Network;

use super::{
    AckSettings, ChapSettingsError, NegotiationSettings, RecoverySettings, TargetChapSettings,
};
use crate::store::LunSpec;
use crate::target::{
    Access, Discovery, NamePattern, Offer, Sending, TargetConfig, TargetError, TargetSpec,
};

settings! {
    /// All settings of `wansan target`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TargetSettings {
        with file: TargetFile;
        with process: ProcessSettings;
    }
}

settings! {
    /// The targets and portals: a `target.toml`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TargetFile {
        /// Listen addresses, at least one; port 0 picks a free port
        pub listen: Vec<String>, "ADDRESS:PORT";
        /// Discovery sessions
        pub discovery: DiscoverySettings = usual(), of DiscoverySettings;
        /// The targets, each served at every listen address; at least one
        pub target: Vec<UnitsSettings>, of UnitsSettings;
    }
}

settings! {
    /// Discovery of targets.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DiscoverySettings {
        /// Values to offer in negotiation
        pub negotiation: NegotiationSettings = usual(), of NegotiationSettings;
        /// CHAP (RFC 7143 §12.1.3) for discovery sessions [default: none]
        pub chap: Option<TargetChapSettings>, of TargetChapSettings;
    }
}

settings! {
    /// Settings of the target process.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessSettings {
        /// Threads that serve sessions [default: one per core, 8 at most]
        pub threads: u16 = usual_threads(), in 1..=1024, "N";
        /// TCP congestion control of the connections, by its kernel name
        pub congestion_control: Option<String>, "NAME";
        /// On shutdown, how long to wait for initiators to log out on request; 0s requests none
        pub drain: Span = Span(Duration::from_secs(10)), "TIME";
        /// Serve Prometheus metrics at this address, under /metrics, without authentication. A port
        /// alone means loopback
        pub metrics: Option<Text<ListenAddress>>, "[ADDRESS:]PORT";
        /// Print events as JSON, one per line
        pub json: bool = false;
        /// What to record, and where
        pub record: KindSettings = usual(), of KindSettings;
        with tcp: TcpSettings;
    }
}

settings! {
    /// One target: its name, its logical units, and who may use them.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UnitsSettings {
        /// The target's iSCSI name
        pub name: String, "IQN";
        /// A logical unit, numbered from 0 in the order given: memory:SIZE or file:PATH, then any of
        /// ,size=SIZE (creates the file) ,direct (the file bypasses the page cache) ,content=SEED
        /// (memory only: the data that `wansan bench --verify` expects) ,block=512|4096 ,thin ,read-only
        /// ,service-time=TIME ,servers=N
        pub lun: Vec<Lun>, of LunSettings, "STORE";
        /// Connections per session (MC/S)
        pub max_connections: u16 = 32, in 1..=1024, "N";
        /// Access control
        pub access: AccessSettings = usual(), of AccessSettings;
        /// Required CHAP authentication [default: none]
        pub chap: Option<TargetChapSettings>, of TargetChapSettings, "CHAP (RFC 7143 §12.1.3)";
        /// Values to offer in negotiation
        pub negotiation: NegotiationSettings = usual(), of NegotiationSettings,
            "Negotiation (RFC 7143 §13)";
        /// When responses are passed to TCP
        pub sending: SendingSettings = usual(), of SendingSettings,
            "TCP sending (RFC 1122 §4.2.3)";
        with window: WindowSettings;
        with recovery: RecoverySettings;
    }
}

settings! {
    /// The command window (RFC 7143 §4.2.2.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WindowSettings {
        /// Command window: commands per session in progress at once (MaxCmdSN − ExpCmdSN + 1)
        pub command_window: u32 = 1024, in 1..=65_536, "N";
    }
}

settings! {
    /// A logical unit.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LunSettings {
        /// LUN [default: the previous one plus 1, from 0]
        pub number: Option<u16>, in 0..=16_383, "N";
        /// Its backing store, in the syntax of `wansan target --lun`
        pub store: LunSpec, "STORE";
    }
}

/// A logical unit; in TOML a plain string if only its store is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Lun(pub LunSettings);

settings! {
    /// Who may see and use a target.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AccessSettings {
        /// Initiators that may log in: a name, or a prefix and a *; repeat for each. An empty list admits
        /// nobody [default: all]
        pub initiators: Option<Vec<Text<NamePattern>>>, "IQN", as "allow-initiator";
        /// Networks or addresses that initiators may connect from; repeat for each. An empty list admits
        /// nobody [default: all]
        pub networks: Option<Vec<Text<Network>>>, "ADDRESS/PREFIX", as "allow-network";
    }
}

settings! {
    /// When responses are passed to TCP. Every non-default value makes short reads over a long path slower.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SendingSettings {
        /// Nagle's algorithm (RFC 1122 §4.2.3.4): hold back a short segment while data is
        /// unacknowledged
        pub nagle: bool = Sending::default().nagle, "ON|OFF";
        /// How to return the status of a read: in its last Data-In (RFC 7143 §11.7.3), or in a separate
        /// SCSI Response
        pub status: StatusPlace = StatusPlace::InData, "WHERE";
        /// Write queued PDUs to the socket together, instead of one by one
        pub join_sends: bool = Sending::default().join_sends, "ON|OFF";
        with acks: AckSettings;
    }
}

/// Where to return the status of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatusPlace {
    /// In its last Data-In.
    InData,
    /// In a separate SCSI Response.
    Separate,
}

/// Invalid settings of a target.
#[derive(Debug, thiserror::Error)]
#[error("{mistake}")]
pub struct TargetFileError {
    /// The key in the settings, such as `target[1].chap`.
    pub place: String,
    /// The mistake.
    pub mistake: TargetMistake,
}

/// A mistake in a target's settings.
#[derive(Debug, thiserror::Error)]
pub enum TargetMistake {
    /// Two of its units have the same number.
    #[error("target {name}: two LUNs have number {number}; renumber one")]
    LunTwice {
        /// The target's name.
        name: String,
        /// The number.
        number: u16,
    },
    /// No number is left for a unit.
    #[error("target {name}: a LUN number must be 0 to 16383; number this one")]
    LunNumber {
        /// The target's name.
        name: String,
    },
    /// A negotiated value.
    #[error("negotiation of target {name}: {source}")]
    Negotiation {
        /// The target's name.
        name: String,
        /// The cause.
        source: WantedError,
    },
    /// CHAP.
    #[error("chap of {of}: {source}")]
    Chap {
        /// The target's name, or `discovery`.
        of: String,
        /// The cause.
        source: ChapSettingsError,
    },
}

/// More threads than sessions that are busy at once gain nothing.
fn usual_threads() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cores.min(8)).unwrap_or(1)
}

impl<'de> Deserialize<'de> for Lun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StoreOrTable;

        impl<'de> Visitor<'de> for StoreOrTable {
            type Value = Lun;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table, or a store such as \"memory:1GiB\"")
            }

            fn visit_str<E: de::Error>(self, store: &str) -> Result<Lun, E> {
                store
                    .parse()
                    .map(|store: LunSpec| store.into())
                    .map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Lun, A::Error> {
                LunSettings::deserialize(MapAccessDeserializer::new(map)).map(Lun)
            }
        }

        deserializer.deserialize_any(StoreOrTable)
    }
}

impl From<LunSpec> for Lun {
    fn from(store: LunSpec) -> Self {
        Lun(LunSettings {
            number: None,
            store,
        })
    }
}

impl ProcessSettings {
    /// The configuration of a [`Target`](crate::Target) that serves `offer` at the addresses of `listen`.
    #[must_use]
    pub fn config(&self, listen: &[String], offer: Offer, report: fn(&str)) -> TargetConfig {
        TargetConfig {
            listen: listen.to_vec(),
            offer,
            congestion_control: self.congestion_control.clone(),
            threads: self.threads.into(),
            kinds: self.record.kinds(),
            record_bytes: self.record.place.memory_bytes(),
            tcp_interval: self.tcp.tcp_interval.0,
            report,
        }
    }
}

impl TargetFile {
    /// The targets to serve; reads secrets from their files.
    ///
    /// # Errors
    /// [`TargetFileError`].
    pub fn offer(&self) -> Result<Offer, TargetFileError> {
        let targets = self.target.iter().enumerate().map(|(place, target)| {
            let error = |(key, mistake)| TargetFileError {
                place: format!("target[{place}].{key}"),
                mistake,
            };
            target.spec().map_err(error)
        });
        let chap = self.discovery.chap.as_ref().map(TargetChapSettings::target);
        Ok(Offer {
            targets: targets.collect::<Result<_, _>>()?,
            discovery: Discovery {
                wanted: self.discovery.negotiation.wanted(RecoverySettings {
                    error_recovery_level: 0,
                }),
                chap: chap.transpose().map_err(|source| TargetFileError {
                    place: "discovery.chap".to_owned(),
                    mistake: TargetMistake::Chap {
                        of: "discovery".to_owned(),
                        source,
                    },
                })?,
            },
            open: LunSpec::open,
        })
    }

    /// The key that `error` concerns, such as `target[1].lun[0]`, if any; the last one if there are several.
    #[must_use]
    pub fn place_of(&self, error: &TargetError) -> Option<String> {
        use TargetError as E;
        match error {
            E::Name { name } | E::Twice { name } => self.of_target(name, "name"),
            E::NoLun { name } | E::InUse { name } => self.of_target(name, "lun"),
            E::OneFile { spec }
            | E::Held { spec, .. }
            | E::OtherOptions { spec, .. }
            | E::Open { spec, .. }
            | E::Geometry { spec, .. } => self.of_lun(spec),
            E::Portal { address } | E::Listen { address, .. } => {
                let place = self.listen.iter().rposition(|listen| listen == address)?;
                Some(format!("listen[{place}]"))
            }
            E::NoTarget => Some("target".to_owned()),
            E::NoPortal => Some("listen".to_owned()),
            E::Device(_) | E::Wanted(_) | E::Congestion(_) | E::Machine(_) => None,
        }
    }

    fn of_target(&self, name: &str, key: &str) -> Option<String> {
        let place = self.target.iter().rposition(|it| it.name == name)?;
        Some(format!("target[{place}].{key}"))
    }

    fn of_lun(&self, spec: &str) -> Option<String> {
        let targets = self.target.iter().enumerate().rev();
        let mut places = targets.filter_map(|(place, target)| {
            let is_it = |Lun(lun): &Lun| lun.store.to_string() == spec;
            let lun = target.lun.iter().rposition(is_it)?;
            Some(format!("target[{place}].lun[{lun}]"))
        });
        places.next()
    }
}

impl UnitsSettings {
    /// The default settings of a target of that name with those units.
    #[must_use]
    pub fn new(name: &str, luns: Vec<LunSpec>) -> UnitsSettings {
        given::<UnitsSettings>(|given| {
            given.name = Some(name.to_owned());
            given.lun = Some(luns.into_iter().map(Lun::from).collect());
        })
    }

    /// The target's specification; on error, the wrong key, and the mistake.
    fn spec(&self) -> Result<TargetSpec, (String, TargetMistake)> {
        let wanted = Wanted {
            max_connections: self.max_connections,
            // Otherwise levels 1 and 2 allow only one R2T at a time (RFC 7143 §13.19).
            data_sequence_in_order: false,
            ..self.negotiation.wanted(self.recovery)
        };
        let name = self.name.clone();
        wanted.check().map_err(|source| {
            let name = name.clone();
            let mistake = TargetMistake::Negotiation { name, source };
            ("negotiation".to_owned(), mistake)
        })?;
        let chap = self.chap.as_ref().map(TargetChapSettings::target);
        Ok(TargetSpec {
            luns: self.luns()?,
            command_window: self.window.command_window,
            wanted,
            chap: chap.transpose().map_err(|source| {
                let of = name.clone();
                ("chap".to_owned(), TargetMistake::Chap { of, source })
            })?,
            access: self.access.access(),
            sending: self.sending.sending(),
            name,
        })
    }

    /// The units by number.
    fn luns(&self) -> Result<BTreeMap<u16, LunSpec>, (String, TargetMistake)> {
        let mut luns = BTreeMap::new();
        let mut next = 0;
        for (place, Lun(lun)) in self.lun.iter().enumerate() {
            let number = lun.number.unwrap_or(next);
            let name = self.name.clone();
            if number > 16_383 {
                return Err((format!("lun[{place}]"), TargetMistake::LunNumber { name }));
            }
            if luns.insert(number, lun.store.clone()).is_some() {
                let mistake = TargetMistake::LunTwice { name, number };
                return Err((format!("lun[{place}].number"), mistake));
            }
            next = number + 1;
        }
        Ok(luns)
    }
}

impl AccessSettings {
    /// The access list.
    fn access(&self) -> Access {
        let (initiators, networks) = (self.initiators.as_ref(), self.networks.as_ref());
        Access {
            initiators: initiators.map(|list| list.iter().map(|it| it.0.clone()).collect()),
            networks: networks.map(|list| list.iter().map(|it| it.0).collect()),
        }
    }
}

impl SendingSettings {
    /// The sending options.
    #[must_use]
    pub fn sending(&self) -> Sending {
        Sending {
            nagle: self.nagle,
            separate_status: self.status == StatusPlace::Separate,
            join_sends: self.join_sends,
            delayed_ack: self.acks.delayed_ack,
        }
    }
}

#[cfg(test)]
mod tests {
    use wansan_tcp::DelayedAck;

    use super::*;

    #[test]
    fn a_file_can_say_when_answers_go_to_tcp() {
        let read = |text: &str| wansan_mistake::read::<SendingSettings>(text, "the file");
        assert_eq!(read("").unwrap().sending(), Sending::default());
        let all =
            "nagle = true\nstatus = \"separate\"\njoin_sends = false\ndelayed_ack = \"quick\"";
        let wanted = Sending {
            nagle: true,
            separate_status: true,
            join_sends: false,
            delayed_ack: DelayedAck::Quick,
        };
        assert_eq!(read(all).unwrap().sending(), wanted);
        let words = all.replace("true", "\"on\"").replace("false", "\"off\"");
        assert_eq!(read(&words).unwrap().sending(), wanted);
        let mistake = read("status = \"seperate\"").unwrap_err().to_string();
        assert!(mistake.contains("`separate`"), "{mistake}");
    }

    #[test]
    fn an_empty_list_admits_nobody() {
        let read = |text: &str| wansan_mistake::read::<AccessSettings>(text, "the file").unwrap();
        let admits = |settings: &AccessSettings| {
            let address = "192.0.2.1".parse().unwrap();
            settings
                .access()
                .allows("iqn.2026-01.net.example:host", address)
        };
        for (text, is_admitted) in [
            ("", true),
            ("networks = []", false),
            ("initiators = []", false),
            ("networks = []\ninitiators = [\"iqn.*\"]", false),
            ("networks = [\"192.0.2.0/24\"]", true),
        ] {
            assert_eq!(admits(&read(text)), is_admitted, "{text}");
        }
    }

    #[test]
    fn a_unit_is_a_store_or_a_table() {
        let text = "name = \"iqn.2026-01.net.example:a\"\nlun = [\"memory:1MiB\", { number = 7, \
                    store = \"memory:2MiB\" }, \"memory:3MiB\"]";
        let target: UnitsSettings = wansan_mistake::read(text, "the file").unwrap();
        let numbers: Vec<u16> = target.luns().unwrap().into_keys().collect();
        assert_eq!(numbers, [0, 7, 8]);
        let twice = text.replace("number = 7", "number = 0");
        let target: UnitsSettings = wansan_mistake::read(&twice, "the file").unwrap();
        let (key, mistake) = target.spec().unwrap_err();
        assert_eq!(key, "lun[1].number");
        assert!(mistake.to_string().contains("two LUNs"));
    }
}
