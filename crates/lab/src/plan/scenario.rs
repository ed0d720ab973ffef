//! What one cell builds and runs: hosts by their full names, links between them, and the
//! programs on them.

use std::time::Duration;

use wansan_trace::units::{format_bytes, format_duration};

use super::document::{Document, InitiatorTable, Schedule, SessionTable, WorkloadTable};
use super::quantity::{Loss, QueueBound};
use crate::world::{HostSpec, MAX_HOSTS, MAX_INTERFACES, TcpSettings};
use wansan_mistake::{Mistake, nearest};

/// A resolved cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Every host.
    pub hosts: Vec<HostSpec>,
    /// Longest IP packet on every link, in bytes.
    pub mtu_bytes: u32,
    /// The links of the wan.
    pub links: Vec<Link>,
    /// The host of the target.
    pub target_host: String,
    /// The initiators, one on a host.
    pub initiators: Vec<Initiator>,
}

/// An initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiator {
    /// Its host.
    pub host: String,
    /// The connections of its session, each by the place of the interface that it takes at both
    /// ends.
    pub routes: Vec<usize>,
    /// How they share out commands.
    pub schedule: Schedule,
}

/// One link of the wan, alike in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The place of the interface that it takes at every host: 0, or the number of links that lie
    /// beside it.
    pub interface: usize,
    /// The hosts on its one side.
    pub near: Vec<String>,
    /// The hosts on its other side.
    pub far: Vec<String>,
    /// One-way delay.
    pub delay: Duration,
    /// Bits per second in each direction; `None`: unlimited.
    pub rate_bits_per_s: Option<u64>,
    /// The bound of the queue in front of the link.
    pub queue: QueueBound,
    /// Random loss in each direction.
    pub loss: Loss,
}

impl Link {
    /// Whether the link joins these two hosts, either way.
    #[must_use]
    pub fn joins(&self, one: &str, other: &str) -> bool {
        let has = |side: &[String], host: &str| side.iter().any(|name| name == host);
        (has(&self.near, one) && has(&self.far, other))
            || (has(&self.near, other) && has(&self.far, one))
    }
}

impl Scenario {
    /// Resolves names and checks what serde cannot.
    pub(super) fn resolve(document: &Document) -> Result<Scenario, Mistake> {
        let groups = Groups::of(document)?;
        let links = links(document, &groups)?;
        let target_host = groups.one("target", &document.target.host)?;
        let mut initiators: Vec<Initiator> = Vec::new();
        for initiator in &document.initiator {
            for host in groups.all("initiator", &initiator.host)? {
                if initiators.iter().any(|other| other.host == *host) {
                    return Err(Mistake::new(format!(
                        "[[initiator]] host = \"{}\": `{host}` has an initiator already",
                        initiator.host
                    )));
                }
                initiators.push(Initiator {
                    host: host.clone(),
                    routes: routes(initiator, host, &target_host, &links)?,
                    schedule: initiator.schedule,
                });
            }
        }
        if initiators.is_empty() {
            return Err(Mistake::new("the plan has no [[initiator]]"));
        }
        if document.target.luns.is_empty() {
            return Err(Mistake::new(
                "[target] luns: list one at least, such as \"memory:1GiB\"",
            ));
        }
        workload(&document.workload)?;
        session(&document.session)?;
        Ok(Scenario {
            hosts: groups.hosts(document, &links),
            mtu_bytes: mtu(document)?,
            links,
            target_host,
            initiators,
        })
    }
}

/// The names that a plan gives to hosts, and the hosts behind each.
struct Groups(Vec<(String, Vec<String>)>);

impl Groups {
    fn of(document: &Document) -> Result<Self, Mistake> {
        let mut groups = Groups(Vec::new());
        let mut taken: Vec<String> = Vec::new();
        for table in &document.host {
            let name = &table.name;
            let proper = !name.is_empty()
                && name.len() <= 32
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            if !proper {
                return Err(Mistake::new(format!(
                    "[[host]] name = \"{name}\": a name is 1 to 32 small letters, digits and \
                     hyphens"
                )));
            }
            let hosts: Vec<String> = if table.count == 1 {
                vec![name.clone()]
            } else {
                (1..=table.count).map(|n| format!("{name}-{n}")).collect()
            };
            for host in hosts.iter().chain([name]) {
                if taken.contains(host) {
                    return Err(Mistake::new(format!("[[host]] `{host}` is there twice")));
                }
            }
            taken.extend(hosts.iter().cloned());
            groups.0.push((name.clone(), hosts.clone()));
            if table.count > 1 {
                let singles = hosts.into_iter().map(|host| (host.clone(), vec![host]));
                groups.0.extend(singles);
            }
        }
        if taken.len() > MAX_HOSTS {
            return Err(Mistake::new(format!(
                "[[host]]: {} hosts are more than {MAX_HOSTS}",
                taken.len()
            )));
        }
        Ok(groups)
    }

    fn all(&self, key: &str, name: &str) -> Result<&[String], Mistake> {
        self.0
            .iter()
            .find(|(group, _)| group == name)
            .map(|(_, hosts)| hosts.as_slice())
            .ok_or_else(|| {
                let known: Vec<&str> = self.0.iter().map(|(group, _)| group.as_str()).collect();
                Mistake::new(format!(
                    "`{key}` names a host `{name}` that is not there; {}",
                    nearest(name, &known)
                ))
            })
    }

    fn one(&self, key: &str, name: &str) -> Result<String, Mistake> {
        match self.all(key, name)? {
            [host] => Ok(host.clone()),
            hosts => Err(Mistake::new(format!(
                "`{key}` runs on one host, and `{name}` means {}: choose one, such as `{}`",
                hosts.len(),
                hosts[0]
            ))),
        }
    }

    fn hosts(&self, document: &Document, links: &[Link]) -> Vec<HostSpec> {
        let bytes = |sizes: [super::Size; 3]| sizes.map(|size| size.0);
        let tcp = TcpSettings {
            congestion_control: document.tcp.congestion_control.clone(),
            rmem_bytes: bytes(document.tcp.rmem),
            wmem_bytes: bytes(document.tcp.wmem),
            ecn: document.tcp.ecn,
        };
        let tables = document.host.iter().map(|table| &table.name);
        tables
            .flat_map(|name| self.all("host", name).unwrap_or_default())
            .map(|host| HostSpec {
                name: host.clone(),
                tcp: tcp.clone(),
                interfaces: links
                    .iter()
                    .filter(|link| link.near.contains(host) || link.far.contains(host))
                    .map(|link| link.interface + 1)
                    .max()
                    .unwrap_or(1),
            })
            .collect()
    }
}

fn links(document: &Document, groups: &Groups) -> Result<Vec<Link>, Mistake> {
    let mut links: Vec<Link> = Vec::new();
    for path in &document.path {
        let [near, far] = &path.between;
        let mut link = Link {
            name: path.name.clone(),
            interface: 0,
            near: groups.all("path.between", near)?.to_vec(),
            far: groups.all("path.between", far)?.to_vec(),
            delay: path.delay.0,
            rate_bits_per_s: path.rate.map(|rate| rate.0),
            queue: path.queue,
            loss: path.loss,
        };
        if links.iter().any(|other| other.name == link.name) {
            return Err(Mistake::new(format!(
                "[[path]] name = \"{}\" is there twice",
                link.name
            )));
        }
        if link.delay > Duration::from_secs(60) {
            return Err(Mistake::new(format!(
                "[[path]] `{}`: a delay of {} is more than 60s",
                link.name,
                format_duration(link.delay)
            )));
        }
        for one in &link.near {
            for other in &link.far {
                if one == other {
                    return Err(Mistake::new(format!(
                        "[[path]] `{}` joins `{one}` with itself",
                        link.name
                    )));
                }
                let beside = links.iter().filter(|first| first.joins(one, other));
                let free = beside.map(|first| first.interface + 1).max();
                link.interface = link.interface.max(free.unwrap_or(0));
            }
        }
        if link.interface >= MAX_INTERFACES {
            return Err(Mistake::new(format!(
                "[[path]] `{}`: more than {MAX_INTERFACES} paths lie side by side",
                link.name
            )));
        }
        links.push(link);
    }
    Ok(links)
}

/// The interfaces that the connections of an initiator on `host` take, by the names of the paths.
fn routes(
    initiator: &InitiatorTable,
    host: &str,
    target_host: &str,
    links: &[Link],
) -> Result<Vec<usize>, Mistake> {
    let there: Vec<&Link> = links
        .iter()
        .filter(|link| link.joins(host, target_host))
        .collect();
    let names: Vec<&str> = there.iter().map(|link| link.name.as_str()).collect();
    match (&there[..], &initiator.routes[..]) {
        ([], _) => Err(Mistake::new(format!(
            "no [[path]] joins `{host}` and the target's host `{target_host}`"
        ))),
        ([only], []) => Ok(vec![only.interface]),
        ([first, second, ..], []) => Err(Mistake::new(format!(
            "[[path]] `{}` and `{}` both join `{host}` and `{target_host}`: say in `routes` of the \
             [[initiator]] which of them its connections take",
            first.name, second.name
        ))),
        (_, routes) => {
            let interface = |route: &String| {
                let link = there.iter().find(|link| link.name == *route);
                link.map(|link| link.interface).ok_or_else(|| {
                    Mistake::new(format!(
                        "`initiator.routes`: no [[path]] `{route}` joins `{host}` and \
                         `{target_host}`; {}",
                        nearest(route, &names)
                    ))
                })
            };
            routes.iter().map(interface).collect()
        }
    }
}

fn mtu(document: &Document) -> Result<u32, Mistake> {
    let mtu = document.world.mtu.0;
    u32::try_from(mtu)
        .ok()
        .filter(|mtu| (576..=9000).contains(mtu))
        .ok_or_else(|| {
            Mistake::new(format!(
                "`world.mtu` = {} is not within 576B to 9000B",
                format_bytes(mtu)
            ))
        })
}

fn workload(workload: &WorkloadTable) -> Result<(), Mistake> {
    let time = workload.time.0;
    if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        return Err(Mistake::new(format!(
            "`workload.time` = {} is not within 100ms to 1h",
            format_duration(time)
        )));
    }
    if workload.warmup.0 > Duration::from_secs(3600) {
        return Err(Mistake::new(format!(
            "`workload.warmup` = {} is more than 1h",
            format_duration(workload.warmup.0)
        )));
    }
    let block = workload.block.0;
    if block == 0 || !block.is_multiple_of(512) || block > 16 << 20 {
        return Err(Mistake::new(format!(
            "`workload.block` = {} is no whole number of 512B up to 16MiB",
            format_bytes(block)
        )));
    }
    Ok(())
}

/// Lengths that keys can have: 512 to 2^24 − 1 (RFC 7143 §13.12 to §13.14).
fn session(session: &SessionTable) -> Result<(), Mistake> {
    let lengths = [
        ("first_burst", session.first_burst),
        ("max_burst", session.max_burst),
        ("max_recv_data_segment", session.max_recv_data_segment),
    ];
    let wrong = lengths
        .into_iter()
        .find(|(_, length)| !(512..1 << 24).contains(&length.0));
    match wrong {
        Some((key, length)) => Err(Mistake::new(format!(
            "`session.{key}` = {length} is not within 512B to 16777215B"
        ))),
        None if session.first_burst > session.max_burst => Err(Mistake::new(format!(
            "`session.first_burst` = {} is more than `session.max_burst` = {}: lower the first or \
             raise the second",
            session.first_burst, session.max_burst
        ))),
        None => Ok(()),
    }
}
