//! The tables of a plan that say what lies between hosts: routers, and ways through them.

use serde::{Deserialize, Serialize};

use super::one;
use crate::plan::quantity::whole;

/// `[[router]]`: one router, or several alike. It sends on what comes to it, by its routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterTable {
    /// Its name: small letters, digits and hyphens. No host has it.
    pub name: String,
    /// How many there are, 1 to 250. More than one are called NAME-1, NAME-2 and so on, and NAME
    /// means all of them.
    #[serde(default = "one", deserialize_with = "whole::<1, 250, _>")]
    pub count: u32,
}

/// `[[route]]`: a way from initiators to the target, which sessions take by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// Its name.
    pub name: String,
    /// The routers on it, from the initiator's side to the target's. A path has to join each with
    /// the next one, and the ends with the hosts.
    pub via: Vec<String>,
    /// The tunnel between the first and the last of them.
    #[serde(default)]
    pub vpn: Vpn,
    /// How IPsec encrypts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cipher: Option<Cipher>,
}

/// What a route's packets are wrapped in between its first and its last router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vpn {
    /// Nothing.
    #[default]
    None,
    /// WireGuard.
    Wireguard,
    /// IPsec: ESP (RFC 4303), with keys by IKEv2 (RFC 7296).
    Ipsec,
}

impl Vpn {
    /// As a plan says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Vpn::None => "none",
            Vpn::Wireguard => "wireguard",
            Vpn::Ipsec => "ipsec",
        }
    }
}

impl Vpn {
    /// The most bytes that a tunnel's packets have beyond those inside of them.
    #[must_use]
    pub const fn overhead_bytes(self) -> u32 {
        match self {
            Vpn::None => 0,
            // IPv4, UDP, WireGuard's header and tag.
            Vpn::Wireguard => 20 + 8 + 16 + 16,
            // IPv4, UDP (RFC 3948), ESP's header, an IV, padding to a block with its two bytes, and
            // an ICV, each as long as any of the ciphers has it.
            Vpn::Ipsec => 20 + 8 + 8 + 16 + 15 + 2 + 16,
        }
    }
}

/// How IPsec encrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cipher {
    /// AES-GCM (RFC 4106).
    #[default]
    AesGcm,
    /// AES-CBC (RFC 3602).
    AesCbc,
    /// Triple DES in CBC mode (RFC 2451).
    #[serde(rename = "3des")]
    TripleDes,
}

impl Cipher {
    /// As a plan says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::AesGcm => "aes-gcm",
            Cipher::AesCbc => "aes-cbc",
            Cipher::TripleDes => "3des",
        }
    }
}

/// `[routing]`: how hosts and routers tell the routes of connections apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoutingTable {
    /// By what.
    pub by: RoutingBy,
}

/// By what hosts and routers tell the routes of connections apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingBy {
    /// The initiator's TCP port: each connection has its own. What no rule tells apart takes the
    /// route that is written first.
    #[default]
    Port,
    /// The initiator's address: its host has one for each route.
    Source,
    /// The target's address: its host has one for each route, and routers need no rules.
    Prefix,
}

impl RoutingBy {
    /// As a plan says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RoutingBy::Port => "port",
            RoutingBy::Source => "source",
            RoutingBy::Prefix => "prefix",
        }
    }
}
