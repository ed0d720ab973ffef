//! The tables of a plan that say what lies between hosts: routers, and ways through them.

use serde::{Deserialize, Serialize};
use wansan_settings::settings;

use crate::vpn::{Cipher, Vpn};

settings! {
    /// `[[router]]`: one router, or several alike. It forwards packets by its routes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RouterTable {
        /// Its name: lower-case letters, digits and hyphens; no host may have the same
        pub name: String;
        /// Number of copies. Several are called NAME-1, NAME-2 and so on, and NAME means all of
        /// them
        pub count: u32 = 1, in 1..=250, "N";
    }
}

settings! {
    /// `[[route]]`: a route from initiators to the target; sessions select it by name.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RouteTable {
        /// Its name
        pub name: String;
        /// Its routers, from the initiator's side to the target's. A path must join each with the next one, and
        /// the ends with the hosts
        pub via: Vec<String>, "names";
        /// The tunnel between the first and the last router
        pub vpn: Vpn = Vpn::default();
        /// The cipher of IPsec
        pub cipher: Option<Cipher>;
    }
}

settings! {
    /// `[routing]`: how hosts and routers assign connections to routes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RoutingTable {
        /// The selector: the initiator's TCP port, the initiator's address, or the target's address
        pub by: RoutingBy = RoutingBy::Port;
    }
}

/// How hosts and routers assign connections to routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingBy {
    /// The initiator's TCP port: each connection has its own. Packets that match no rule take the
    /// first route.
    #[default]
    Port,
    /// The initiator's address: its host has one per route.
    Source,
    /// The target's address: its host has one per route, and routers need no rules.
    Prefix,
}

impl RoutingBy {
    /// Its name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RoutingBy::Port => "port",
            RoutingBy::Source => "source",
            RoutingBy::Prefix => "prefix",
        }
    }
}
