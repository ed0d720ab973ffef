//! The tables of a plan that say what lies between hosts: routers, and ways through them.

use serde::{Deserialize, Serialize};
use wansan_settings::settings;

use crate::vpn::{Cipher, Vpn};

settings! {
    /// `[[router]]`: one router, or several alike. It sends on what comes to it, by its routes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RouterTable {
        /// Its name: small letters, digits and hyphens. No host has it
        pub name: String;
        /// How many there are. More than one are called NAME-1, NAME-2 and so on, and NAME means all of
        /// them
        pub count: u32 = 1, in 1..=250, "N";
    }
}

settings! {
    /// `[[route]]`: a way from initiators to the target, which sessions take by its name.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RouteTable {
        /// Its name
        pub name: String;
        /// The routers on it, from the initiator's side to the target's. A path has to join each with the
        /// next one, and the ends with the hosts
        pub via: Vec<String>, "names";
        /// The tunnel between the first and the last of them
        pub vpn: Vpn = Vpn::default();
        /// How IPsec encrypts
        pub cipher: Option<Cipher>;
    }
}

settings! {
    /// `[routing]`: how hosts and routers tell the routes of connections apart.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RoutingTable {
        /// By what: the initiator's TCP port, the initiator's address, or the target's
        pub by: RoutingBy = RoutingBy::Port;
    }
}

/// By what hosts and routers tell the routes of connections apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingBy {
    /// The initiator's TCP port: each connection has its own. What no rule distinguishes takes the
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
