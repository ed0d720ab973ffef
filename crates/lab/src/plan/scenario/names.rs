//! The names that a plan gives to hosts and routers, and the nodes of each.

use std::net::Ipv4Addr;

use wansan_mistake::{Mistake, nearest};

use crate::plan::document::Document;
use crate::world::{MAX_NODES, Role, Topology};

/// The nodes of a plan by name. Nodes are given by index, from 0: hosts first, then routers.
pub(super) struct Names {
    /// Every defined name, with its nodes.
    groups: Vec<(String, Vec<usize>)>,
    /// Name and role of each node.
    nodes: Vec<(String, Role)>,
    /// The address of each real host; empty in a world that assigns addresses.
    addresses: Vec<Ipv4Addr>,
}

impl Names {
    pub(super) fn of(document: &Document, text: &str) -> Result<Names, Mistake> {
        let mut names = Names {
            groups: Vec::new(),
            nodes: Vec::new(),
            addresses: Vec::new(),
        };
        for (place, table) in document.host.iter().enumerate() {
            names
                .add(&table.name, table.count, Role::Host)
                .map_err(|mistake| mistake.in_table(text, "host", place, "name"))?;
        }
        for (place, table) in document.router.iter().enumerate() {
            names
                .add(&table.name, table.count, Role::Router)
                .map_err(|mistake| mistake.in_table(text, "router", place, "name"))?;
        }
        Ok(names)
    }

    fn add(&mut self, name: &str, count: u32, role: Role) -> Result<(), Mistake> {
        let table = table_of(role);
        check(table, name)?;
        let singles: Vec<String> = if count == 1 {
            vec![name.to_owned()]
        } else {
            (1..=count).map(|n| format!("{name}-{n}")).collect()
        };
        for single in singles.iter().map(String::as_str).chain([name]) {
            let taken = self.groups.iter().find(|(other, _)| other == single);
            if let Some((_, nodes)) = taken {
                let other = table_of(self.nodes[nodes[0]].1);
                return Err(Mistake::new(if other == table {
                    format!("{table} `{single}` is given twice")
                } else {
                    format!("{table} `{single}`: a {other} has that name already")
                }));
            }
        }
        let first = self.nodes.len();
        let nodes: Vec<usize> = (first..first + singles.len()).collect();
        if first + singles.len() > MAX_NODES {
            return Err(Mistake::new(format!(
                "{table}: hosts and routers together are more than {MAX_NODES}"
            )));
        }
        self.groups.push((name.to_owned(), nodes));
        for (offset, single) in singles.into_iter().enumerate() {
            if count > 1 {
                self.groups.push((single.clone(), vec![first + offset]));
            }
            self.nodes.push((single, role));
        }
        Ok(())
    }

    /// Name and role of each node, by index.
    pub(super) fn nodes(&self) -> &[(String, Role)] {
        &self.nodes
    }

    /// The name of a node.
    pub(super) fn name(&self, node: usize) -> &str {
        &self.nodes[node].0
    }

    /// The nodes that `name` denotes; `key` is its place in the plan.
    pub(super) fn all(&self, key: &str, name: &str) -> Result<&[usize], Mistake> {
        self.of_roles(key, name, "host or router", &[Role::Host, Role::Router])
    }

    /// The hosts that `name` denotes.
    pub(super) fn hosts(&self, key: &str, name: &str) -> Result<&[usize], Mistake> {
        self.of_roles(key, name, "host", &[Role::Host])
    }

    /// Sets the addresses of the nodes, which are real hosts, in order.
    pub(super) fn have_addresses(&mut self, addresses: Vec<Ipv4Addr>) {
        self.addresses = addresses;
    }

    /// A node's address in that network.
    pub(super) fn address(&self, network: usize, node: usize) -> Ipv4Addr {
        let own = self.addresses.get(node).copied();
        own.unwrap_or_else(|| Topology::address(network, node))
    }

    /// The address that servers on a node listen at: the wildcard address in an isolated world.
    pub(super) fn listening(&self, node: usize) -> Ipv4Addr {
        let own = self.addresses.get(node).copied();
        own.unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// The single host that `name` denotes.
    pub(super) fn host(&self, key: &str, name: &str) -> Result<usize, Mistake> {
        self.only(key, name, self.hosts(key, name)?, "runs on one host")
    }

    /// The single router that `name` denotes.
    pub(super) fn router(&self, key: &str, name: &str) -> Result<usize, Mistake> {
        let nodes = self.of_roles(key, name, "router", &[Role::Router])?;
        self.only(key, name, nodes, "goes by one router at a time")
    }

    fn only(&self, key: &str, name: &str, nodes: &[usize], why: &str) -> Result<usize, Mistake> {
        match nodes {
            [only] => Ok(*only),
            several => Err(Mistake::new(format!(
                "`{key}` {why}, and `{name}` means {}: choose one, such as `{}`",
                several.len(),
                self.name(several[0])
            ))),
        }
    }

    fn of_roles(
        &self,
        key: &str,
        name: &str,
        what: &str,
        roles: &[Role],
    ) -> Result<&[usize], Mistake> {
        let fits = |nodes: &[usize]| roles.contains(&self.nodes[nodes[0]].1);
        let known = self.groups.iter().filter(|(_, nodes)| fits(nodes));
        let found = known.clone().find(|(group, _)| group == name);
        found.map(|(_, nodes)| nodes.as_slice()).ok_or_else(|| {
            let known: Vec<&str> = known.map(|(group, _)| group.as_str()).collect();
            Mistake::new(format!(
                "`{key}` names a {what} `{name}` that does not exist; {}",
                nearest(name, &known)
            ))
        })
    }
}

/// Checks the name of a plan's table.
pub(super) fn check(table: &str, name: &str) -> Result<(), Mistake> {
    let proper = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=32).contains(&name.len()) && name.bytes().all(proper) {
        return Ok(());
    }
    let begin: String = name.chars().take(64).collect();
    let more = if begin == name { "" } else { " …" };
    Err(Mistake::new(format!(
        "{table} name = {begin:?}{more}: a name is 1 to 32 lower-case letters, digits and hyphens"
    )))
}

fn table_of(role: Role) -> &'static str {
    match role {
        Role::Host => "[[host]]",
        Role::Router => "[[router]]",
    }
}
