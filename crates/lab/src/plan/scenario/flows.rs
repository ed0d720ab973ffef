//! The relays and streams of a plan: which of them run, on which host, and how they are connected.

use std::net::{Ipv4Addr, SocketAddrV4};

use wansan_iscsi::text::send_targets::ISCSI_PORT;
use wansan_mistake::{Mistake, nearest};
use wansan_stream::BufferSettings;

use super::Connection;
use super::link::Link;
use super::names::{self, Names};
use super::route::network_between;
use crate::plan::document::{Document, InitiatorTable, RelayTable, StreamTable};

/// Port of stream receivers.
pub(crate) const STREAM_PORT: u16 = 5201;
/// Port of a plan's first relay.
const RELAY_PORT: u16 = 4000;
/// Most relays, and most streams, in a plan.
const MOST: usize = 100;

/// A relay in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Its table in the plan.
    pub table: RelayTable,
    /// Its host.
    pub host: String,
    /// Its listening address.
    pub listen: SocketAddrV4,
    /// Its destination.
    pub to: SocketAddrV4,
}

/// A receiver of streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Its host.
    pub host: String,
    /// Its listening address.
    pub listen: SocketAddrV4,
    /// The receive buffer of each connection.
    pub buffer: BufferSettings,
}

/// A stream with at least one connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Its table in the plan.
    pub table: StreamTable,
    /// The host of its sender.
    pub host: String,
    /// Its destination: its receiver, or a relay.
    pub to: SocketAddrV4,
}

impl Stream {
    /// Its name in messages.
    #[must_use]
    pub fn title(&self) -> String {
        format!("[[stream]] `{}` on `{}`", self.table.name, self.host)
    }
}

/// All flows.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) receivers: Vec<Receiver>,
    pub(super) streams: Vec<Stream>,
}

/// The relays of a plan; only those in use are kept in the end.
pub(super) struct Relays<'a> {
    names: &'a Names,
    links: &'a [Link],
    each: Vec<Candidate<'a>>,
}

struct Candidate<'a> {
    table: &'a RelayTable,
    host: usize,
    to: usize,
    /// The address of its destination host.
    address: Ipv4Addr,
    /// Its destination port, once it is in use.
    port: Option<u16>,
}

impl<'a> Relays<'a> {
    pub(super) fn of(
        document: &'a Document,
        text: &str,
        names: &'a Names,
        links: &'a [Link],
    ) -> Result<Relays<'a>, Mistake> {
        if document.relay.len() > MOST {
            let count = document.relay.len();
            let mistake = format!("{count} [[relay]]s are more than {MOST}");
            return Err(Mistake::new(mistake));
        }
        let mut each: Vec<Candidate<'_>> = Vec::new();
        for (place, table) in document.relay.iter().enumerate() {
            let at = |key: &'static str| move |m: Mistake| m.in_table(text, "relay", place, key);
            let name = &table.name;
            names::check("[[relay]]", name).map_err(at("name"))?;
            if each.iter().any(|other| other.table.name == *name) {
                let mistake = format!("[[relay]] `{name}` is given twice");
                return Err(at("name")(Mistake::new(mistake)));
            }
            let host = names.host("relay.host", &table.host).map_err(at("host"))?;
            let to = names.host("relay.to", &table.to).map_err(at("to"))?;
            if host == to {
                let mistake = format!("[[relay]] `{name}` leads from `{0}` to `{0}`", table.to);
                return Err(at("to")(Mistake::new(mistake)));
            }
            let network = network_between(host, to, name, names, links)
                .map_err(|mistake| at("to")(mistake.within(format!("[[relay]] `{name}`"))))?;
            table.flow(&document.tcp).check().map_err(|error| {
                let key = error.key().split('.').next().unwrap_or_default();
                let mistake = Mistake::new(format!("[[relay]] `{name}`: {error}"));
                mistake.in_table(text, "relay", place, key)
            })?;
            each.push(Candidate {
                table,
                host,
                to,
                address: names.address(network, to),
                port: None,
            });
        }
        Ok(Relays { names, links, each })
    }

    /// The network by which a client on `client` reaches the relay for `port` of `to`, and the address to connect to;
    /// `who` is the client in mistakes.
    fn enter(
        &mut self,
        who: &str,
        relay: &str,
        client: usize,
        to: usize,
        port: u16,
    ) -> Result<(usize, SocketAddrV4), Mistake> {
        let found = self.each.iter().position(|one| one.table.name == relay);
        let place = found.ok_or_else(|| {
            let known: Vec<&str> = self.each.iter().map(|one| &*one.table.name).collect();
            let near = nearest(relay, &known);
            Mistake::new(format!(
                "{who} goes through [[relay]] `{relay}`, which does not exist; {near}"
            ))
        })?;
        let one = &mut self.each[place];
        let name = |node| self.names.name(node);
        if one.to != to {
            return Err(Mistake::new(format!(
                "{who} goes to `{}`, but [[relay]] `{relay}` leads to `{}`",
                name(to),
                name(one.to)
            )));
        }
        if one.host == client {
            return Err(Mistake::new(format!(
                "{who} is on the host of [[relay]] `{relay}`, `{}`: put them on hosts of their own",
                name(client)
            )));
        }
        if one.port.is_some_and(|other| other != port) {
            return Err(Mistake::new(format!(
                "[[relay]] `{relay}` leads to one port: have one for sessions and one for streams"
            )));
        }
        one.port = Some(port);
        let network = network_between(client, one.host, relay, self.names, self.links)
            .map_err(|mistake| mistake.within(who))?;
        let listens = SocketAddrV4::new(self.names.address(network, one.host), relay_port(place));
        Ok((network, listens))
    }

    /// The connections of an initiator on `client` whose session uses a relay.
    pub(super) fn session(
        &mut self,
        initiator: &InitiatorTable,
        relay: &str,
        client: usize,
        target: usize,
    ) -> Result<Vec<Connection>, Mistake> {
        if !initiator.routes.is_empty() {
            return Err(Mistake::new(
                "an [[initiator]] goes `through` a relay or over `routes`, not both",
            ));
        }
        let who = format!("[[initiator]] `{}`", self.names.name(client));
        let (network, to) = self.enter(&who, relay, client, target, ISCSI_PORT)?;
        let one = Connection {
            route: self.links[network].name.clone(),
            route_place: None,
            source: SocketAddrV4::new(self.names.address(network, client), 0),
            target: *to.ip(),
            port: to.port(),
        };
        let count = initiator.connections.unwrap_or(1);
        Ok(vec![one; count as usize])
    }

    /// Resolves the streams of a plan.
    pub(super) fn streams(&mut self, document: &Document, text: &str) -> Result<Flows, Mistake> {
        let mut flows = Flows::default();
        if document.stream.len() > MOST {
            let count = document.stream.len();
            let mistake = format!("{count} [[stream]]s are more than {MOST}");
            return Err(Mistake::new(mistake));
        }
        for (place, table) in document.stream.iter().enumerate() {
            let at = |key: &'static str| move |m: Mistake| m.in_table(text, "stream", place, key);
            let name = &table.name;
            names::check("[[stream]]", name).map_err(at("name"))?;
            let twice = document.stream[..place].iter().any(|it| it.name == *name);
            if twice {
                let mistake = format!("[[stream]] `{name}` is given twice");
                return Err(at("name")(Mistake::new(mistake)));
            }
            let names = self.names;
            let from = names.host("stream.from", &table.from).map_err(at("from"))?;
            let to = names.host("stream.to", &table.to).map_err(at("to"))?;
            let who = format!("[[stream]] `{name}`");
            if from == to {
                let mistake = format!("{who} goes from `{0}` to `{0}`", table.to);
                return Err(at("to")(Mistake::new(mistake)));
            }
            if table.flows == 0 {
                continue;
            }
            let reached = match &table.through {
                Some(relay) => {
                    let entered = self.enter(&who, relay, from, to, STREAM_PORT);
                    entered.map_err(at("through"))?.1
                }
                None => {
                    let network = network_between(from, to, name, names, self.links);
                    let network = network.map_err(|mistake| at("to")(mistake.within(&who)))?;
                    SocketAddrV4::new(names.address(network, to), STREAM_PORT)
                }
            };
            flows
                .receive(names.name(to), names.listening(to), table)
                .map_err(at("receive_buffer"))?;
            flows.streams.push(Stream {
                table: table.clone(),
                host: names.name(from).to_owned(),
                to: reached,
            });
        }
        Ok(flows)
    }

    /// The relays in use.
    pub(super) fn used(self) -> Vec<Relay> {
        let names = self.names;
        let used = self
            .each
            .into_iter()
            .enumerate()
            .filter_map(|(place, one)| {
                Some(Relay {
                    table: one.table.clone(),
                    host: names.name(one.host).to_owned(),
                    listen: SocketAddrV4::new(names.listening(one.host), relay_port(place)),
                    to: SocketAddrV4::new(one.address, one.port?),
                })
            });
        used.collect()
    }
}

impl Flows {
    /// Adds a receiver on that host.
    fn receive(
        &mut self,
        host: &str,
        address: Ipv4Addr,
        stream: &StreamTable,
    ) -> Result<(), Mistake> {
        let wanted = stream.buffer;
        match self.receivers.iter().find(|other| other.host == host) {
            None => self.receivers.push(Receiver {
                host: host.to_owned(),
                listen: SocketAddrV4::new(address, STREAM_PORT),
                buffer: wanted,
            }),
            Some(other) if other.buffer == wanted => {}
            Some(_) => {
                return Err(Mistake::new(format!(
                    "[[stream]] `{}`: all streams to `{host}` have one receiver, and with it the same \
                     `receive_buffer`",
                    stream.name
                )));
            }
        }
        Ok(())
    }
}

fn relay_port(place: usize) -> u16 {
    // There are fewer than MOST of them.
    RELAY_PORT + place as u16
}
