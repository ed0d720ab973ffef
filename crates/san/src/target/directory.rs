//! The targets, and their units and settings.
//!
//! The directory is immutable: new settings make a new one, which replaces the old one for later logins. Sessions keep
//! the target that they logged in to, so that a removed target is served until its last session ends.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::chap::TargetAccounts;
use wansan_iscsi::scsi::TargetDevice;
use wansan_iscsi::target::{Memory, SessionConfig, UNSOLICITED_BYTES};
use wansan_iscsi::text::send_targets::is_iscsi_name;
use wansan_server::{Changes, Mailboxes};

use super::mail::Mail;
use super::opening::{Before, Unsettled, check_files};
use super::{Access, Sending, TargetError};
use crate::store::{LunSpec, OpenError, OpenedStore, Store};

/// One target: its name, its LUNs, and who may use them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSpec {
    /// Its iSCSI name.
    pub name: String,
    /// Its logical units by number, 0 to 16,383; at least one.
    pub luns: BTreeMap<u16, LunSpec>,
    /// Size of a session's command window, 1 to 65,536.
    pub command_window: u32,
    /// The values to negotiate.
    pub wanted: Wanted,
    /// CHAP accounts; without them no authentication is required.
    pub chap: Option<Arc<TargetAccounts>>,
    /// Who may see and use it.
    pub access: Access,
    /// How it sends responses over TCP.
    pub sending: Sending,
}

/// The settings of discovery sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The values to negotiate.
    pub wanted: Wanted,
    /// CHAP accounts; without them no authentication is required.
    pub chap: Option<Arc<TargetAccounts>>,
}

/// All settings that can change at run time.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The targets, with unique names; at least one.
    pub targets: Vec<TargetSpec>,
    /// Discovery.
    pub discovery: Discovery,
    /// Opens the store of a logical unit: [`LunSpec::open`], or the caller's own function.
    pub open: fn(&LunSpec) -> Result<OpenedStore, OpenError>,
}

/// A target that is served.
pub(super) struct ServedTarget {
    pub(super) spec: TargetSpec,
    /// The settings of its sessions.
    pub(super) session: SessionConfig,
    /// By the index of the unit in the device.
    pub(super) stores: Arc<[Arc<dyn Store>]>,
}

impl fmt::Debug for ServedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

/// The targets.
#[derive(Debug)]
pub(super) struct Directory {
    targets: BTreeMap<String, Arc<ServedTarget>>,
    /// Former targets, the newest first, which may still have sessions.
    left: Vec<Weak<ServedTarget>>,
    /// A target without a name or a unit, for discovery sessions.
    pub(super) discovery: Arc<ServedTarget>,
    most_connections: usize,
}

impl Directory {
    /// Makes the directory of `offer`. Stores open [`Before`] are kept, with their content; all others are opened.
    /// Sessions may start once the rest is settled.
    pub(super) fn new(
        offer: &Offer,
        before: &Before<'_>,
        memory: &Arc<Memory>,
    ) -> Result<(Directory, Unsettled), TargetError> {
        check_offer(offer, before)?;
        let mut targets = BTreeMap::new();
        let mut unsettled = Unsettled::default();
        for spec in &offer.targets {
            let known = before.target(&spec.name);
            let known = known.filter(|known| known.spec.luns == spec.luns);
            let target = match known {
                Some(known) if known.spec == *spec => Arc::clone(known),
                Some(known) => {
                    let session = SessionConfig {
                        command_window: spec.command_window,
                        separate_status: spec.sending.separate_status,
                        join_sends: spec.sending.join_sends,
                        ..known.session.clone()
                    };
                    Arc::new(ServedTarget {
                        spec: spec.clone(),
                        session,
                        stores: Arc::clone(&known.stores),
                    })
                }
                None => {
                    let units = before.open(spec, offer.open)?;
                    unsettled.append(units.unsettled);
                    Arc::new(ServedTarget {
                        spec: spec.clone(),
                        session: session(units.device, spec, memory),
                        stores: units.stores,
                    })
                }
            };
            targets.insert(spec.name.clone(), target);
        }
        let spec = TargetSpec {
            name: String::new(),
            luns: BTreeMap::new(),
            command_window: DISCOVERY_WINDOW,
            wanted: offer.discovery.wanted.clone(),
            chap: offer.discovery.chap.clone(),
            access: Access::default(),
            sending: Sending::default(),
        };
        let discovery = Arc::new(ServedTarget {
            session: session(Arc::new(TargetDevice::new(Vec::new())?), &spec, memory),
            spec,
            stores: Arc::new([]),
        });
        let stays = |old: &Arc<ServedTarget>| {
            let now = targets.get(&old.spec.name);
            now.is_some_and(|now| Arc::ptr_eq(now, old))
        };
        let left = before.targets.iter().filter(|old| !stays(old));
        let connections = offer.targets.iter().map(|spec| spec.wanted.max_connections);
        let directory = Directory {
            most_connections: connections.max().unwrap_or(1).into(),
            left: left.map(Arc::downgrade).collect(),
            targets,
            discovery,
        };
        Ok((directory, unsettled))
    }

    /// Makes the devices notify all threads when sessions must be reviewed.
    pub(super) fn set_bells(&self, mailboxes: &Arc<Mailboxes<Mail>>) {
        for target in self.targets.values() {
            let mailboxes = Arc::clone(mailboxes);
            // An initiator may reset a unit any number of times: one unread review is enough.
            let is_review = |mail: &Mail| matches!(mail, Mail::Review);
            let ring = move || mailboxes.send_all_unless(|| Mail::Review, is_review);
            target.session.device.set_bell(ring);
        }
    }

    /// The most connections that a session of any target may have.
    pub(super) fn most_connections(&self) -> usize {
        self.most_connections
    }

    /// The targets served before another directory replaces this one.
    pub(super) fn before<'a>(&self, is_in_use: &'a dyn Fn(&str) -> bool) -> Before<'a> {
        let left = self.left.iter().filter_map(Weak::upgrade);
        Before {
            targets: self.targets.values().cloned().chain(left).collect(),
            is_in_use,
        }
    }

    /// The target called `name`.
    pub(super) fn target(&self, name: &str) -> Option<&Arc<ServedTarget>> {
        self.targets.get(name)
    }

    /// All targets, by name.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Arc<ServedTarget>> {
        self.targets.values()
    }

    /// The targets of `old` whose units have changed.
    pub(super) fn renewed<'a>(&'a self, old: &'a Directory) -> impl Iterator<Item = &'a str> {
        let both = self.targets.values();
        let both = both.filter_map(|target| Some((target, old.target(&target.spec.name)?)));
        both.filter(|(new, old)| !Arc::ptr_eq(&new.session.device, &old.session.device))
            .map(|(new, _)| new.spec.name.as_str())
    }

    /// The changes since `old`.
    pub(super) fn changes(&self, old: &Directory) -> Changes {
        let mut changes = Changes::default();
        for (name, target) in &self.targets {
            match old.target(name) {
                None => changes.added.push(name.clone()),
                Some(known) if known.spec != target.spec => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let gone = old
            .targets
            .keys()
            .filter(|name| self.target(name).is_none());
        changes.removed = gone.cloned().collect();
        changes
    }
}

/// A discovery session has one request at a time.
const DISCOVERY_WINDOW: u32 = 8;

fn session(device: Arc<TargetDevice>, spec: &TargetSpec, memory: &Arc<Memory>) -> SessionConfig {
    SessionConfig {
        device,
        command_window: spec.command_window,
        unsolicited_bytes: UNSOLICITED_BYTES,
        memory: Arc::clone(memory),
        separate_status: spec.sending.separate_status,
        join_sends: spec.sending.join_sends,
    }
}

/// Checks `offer` by itself, and against the targets served `before`.
fn check_offer(offer: &Offer, before: &Before<'_>) -> Result<(), TargetError> {
    if offer.targets.is_empty() {
        return Err(TargetError::NoTarget);
    }
    offer.discovery.wanted.check()?;
    let mut names = HashSet::new();
    for spec in &offer.targets {
        let name = || spec.name.clone();
        if !is_iscsi_name(&spec.name) {
            return Err(TargetError::Name { name: name() });
        }
        if spec.luns.is_empty() {
            return Err(TargetError::NoLun { name: name() });
        }
        spec.wanted.check()?;
        if !names.insert(&spec.name) {
            return Err(TargetError::Twice { name: name() });
        }
        let known = before.target(&spec.name);
        let is_same = known.is_some_and(|known| known.spec.luns == spec.luns);
        if !is_same && (before.is_in_use)(&spec.name) {
            return Err(TargetError::InUse { name: name() });
        }
    }
    check_files(&offer.targets)
}

#[cfg(test)]
mod tests;
