//! `relay.toml`: what `wansan relay --config` relays.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use wansan_mistake::Mistake;
use wansan_relay::{Dscp, EceSettings, Law, ListenerConfig, RelayError, SideSettings};
use wansan_tcp::network::Network;
use wansan_trace::units::{parse_bytes, parse_duration};

use super::buffer;
use super::sides::{MSS_BYTES, some_time};
use crate::commands::quantity::{socket_buffer, time_span};
use crate::commands::settings_file::{self, Parsed};

/// A file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    listener: Vec<ListenerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenerTable {
    listen: String,
    to: String,
    #[serde(default)]
    transparent: bool,
    #[serde(default, deserialize_with = "of_buffer")]
    buffer: Option<u32>,
    #[serde(default, deserialize_with = "of_time_span")]
    connect_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "of_time_span")]
    latency: Option<Duration>,
    law: Option<Parsed<Law>>,
    #[serde(default, deserialize_with = "of_bytes")]
    ece_bound: Option<u64>,
    #[serde(default, deserialize_with = "of_bytes")]
    ece_ramp: Option<u64>,
    #[serde(default, deserialize_with = "of_bytes")]
    ece_every: Option<u64>,
    #[serde(default)]
    networks: Vec<Parsed<Network>>,
    #[serde(default, rename = "in")]
    inward: SideTable,
    #[serde(default, rename = "out")]
    outward: SideTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SideTable {
    congestion_control: Option<String>,
    #[serde(deserialize_with = "of_socket_buffer")]
    receive_buffer: Option<u32>,
    #[serde(deserialize_with = "of_socket_buffer")]
    send_buffer: Option<u32>,
    #[serde(deserialize_with = "of_time")]
    keep_alive: Option<Duration>,
    #[serde(deserialize_with = "of_time")]
    user_timeout: Option<Duration>,
    #[serde(deserialize_with = "of_dscp")]
    dscp: Option<Dscp>,
    #[serde(deserialize_with = "of_mss")]
    mss: Option<u16>,
}

/// Reads a value that is written as text.
fn of_text<'de, D: Deserializer<'de>, T, E: std::fmt::Display>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map(Some).map_err(D::Error::custom)
}

fn of_buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    of_text(deserializer, buffer)
}

fn of_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    of_text(deserializer, parse_bytes)
}

fn of_socket_buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    of_text(deserializer, socket_buffer)
}

fn of_time_span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    of_text(deserializer, time_span)
}

fn of_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    of_text(deserializer, parse_duration)
}

fn of_mss<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let bytes = u16::deserialize(deserializer)?;
    let (least, most) = MSS_BYTES;
    if (least..=most).contains(&bytes) {
        Ok(Some(bytes))
    } else {
        Err(D::Error::custom(format!("give {least} to {most} bytes")))
    }
}

/// A class is a name, or a number that people write with quotes and without.
fn of_dscp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Dscp>, D::Error> {
    struct Class;

    impl Visitor<'_> for Class {
        type Value = Dscp;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a DSCP: 0 to 63, or one of cs0 to cs7, af11 to af43, ef or le in quotes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Dscp, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Dscp, E> {
            self.visit_str(&number.to_string())
        }
    }

    deserializer.deserialize_any(Class).map(Some)
}

/// Reads a `relay.toml`.
///
/// # Errors
/// In one line what is wrong, and where.
pub(super) fn read(path: &Path) -> Result<Vec<ListenerConfig>> {
    let document: Document = settings_file::read(path)?;
    let listeners = document.listener.into_iter();
    Ok(listeners.map(ListenerTable::resolve).collect())
}

/// Puts in front of what is wrong with `listeners`, as the file has them, the file and the line of the
/// listener, where it is only one.
pub(super) fn locate(
    path: &Path,
    listeners: &[ListenerConfig],
    error: &RelayError,
) -> anyhow::Error {
    let mut places = (0..).zip(listeners).filter(|(_, it)| error.is_about(it));
    let first = places.next().filter(|_| places.next().is_none());
    let mistake = Mistake::new(error.to_string());
    let mistake = match (first, settings_file::read_text(path)) {
        (Some((place, _)), Ok(text)) => mistake.in_table(&text, "listener", place, "listen"),
        _ => mistake,
    };
    anyhow::Error::from(mistake).context(path.display().to_string())
}

impl ListenerTable {
    fn resolve(self) -> ListenerConfig {
        let usual = ListenerConfig::new(&self.listen, &self.to);
        let bytes = |bytes: u32| bytes as usize;
        ListenerConfig {
            transparent: self.transparent,
            inward: self.inward.resolve(),
            outward: self.outward.resolve(),
            buffer_bytes: self.buffer.map_or(usual.buffer_bytes, bytes),
            connect_timeout: self.connect_timeout.unwrap_or(usual.connect_timeout),
            latency: self.latency,
            law: self.law.map(|law| law.0),
            ece: EceSettings {
                bound_bytes: self.ece_bound,
                ramp_bytes: self.ece_ramp,
                every_bytes: self.ece_every.unwrap_or(usual.ece.every_bytes),
            },
            networks: self.networks.into_iter().map(|network| network.0).collect(),
            ..usual
        }
    }
}

impl SideTable {
    fn resolve(self) -> SideSettings {
        let usual = SideSettings::default();
        SideSettings {
            congestion_control: self.congestion_control,
            receive_buffer_bytes: self.receive_buffer.map(|bytes| bytes as usize),
            send_buffer_bytes: self.send_buffer.map(|bytes| bytes as usize),
            keep_alive: self.keep_alive.map_or(usual.keep_alive, some_time),
            user_timeout: self.user_timeout.and_then(some_time),
            dscp: self.dscp,
            mss_bytes: self.mss,
        }
    }
}
