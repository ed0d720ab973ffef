//! Which targets there are, and what each one is made of.
//!
//! The directory does not change: new settings make a new one, which takes the place of the old one
//! for the logins that follow. Sessions keep the target that they have logged in to, so that one
//! that is taken away is served until its last session ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::chap::TargetAccounts;
use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};
use wansan_iscsi::target::{Memory, SessionConfig};
use wansan_iscsi::text::send_targets::is_iscsi_name;

use super::{Access, PORTAL_GROUP_TAG, TargetError};
use crate::store::{LunSpec, OpenError, OpenedStore, Store};

/// One target: its name, its logical units, and who may use them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSpec {
    /// Its iSCSI name.
    pub name: String,
    /// Its logical units by number, 0 to 16,383; at least one.
    pub luns: BTreeMap<u16, LunSpec>,
    /// Commands of one session that may be in hand at once, 1 to 65,536.
    pub command_window: u32,
    /// What to negotiate for.
    pub wanted: Wanted,
    /// Whom it lets in by CHAP; without it, nobody has to prove anything.
    pub chap: Option<Arc<TargetAccounts>>,
    /// Who may see and use it.
    pub access: Access,
}

/// What sessions that only look for targets get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// What to negotiate for.
    pub wanted: Wanted,
    /// Whom it lets in by CHAP; without it, nobody has to prove anything.
    pub chap: Option<Arc<TargetAccounts>>,
}

/// All that can change while a server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The targets, each with a name of its own; at least one.
    pub targets: Vec<TargetSpec>,
    /// How they are found.
    pub discovery: Discovery,
}

/// What new settings have changed: names of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Targets that are there now.
    pub added: Vec<String>,
    /// Targets that new logins do not find any more; sessions that are there go on.
    pub removed: Vec<String>,
    /// Targets with other settings for new logins.
    pub changed: Vec<String>,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            ("added", &self.added),
            ("removed", &self.removed),
            ("changed", &self.changed),
        ];
        let mut begun = false;
        for (what, names) in all.into_iter().filter(|(_, names)| !names.is_empty()) {
            let comma = if begun { "; " } else { "" };
            write!(f, "{comma}{what} {}", names.join(", "))?;
            begun = true;
        }
        if begun {
            Ok(())
        } else {
            f.write_str("no target has changed")
        }
    }
}

/// A target that is served.
pub(super) struct ServedTarget {
    pub(super) spec: TargetSpec,
    /// What its sessions are made of.
    pub(super) session: SessionConfig,
    /// By the places of the units in the device.
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
    /// A target without a name or a unit, for sessions that only look for others.
    pub(super) discovery: Arc<ServedTarget>,
}

impl Directory {
    /// Makes the directory of `offer`. Targets whose units are those that `old` has keep them, with
    /// all that is in them; all other stores are opened. Their files stay only if each of the
    /// second result is [kept](OpenedStore::keep).
    pub(super) fn new(
        offer: &Offer,
        old: Option<&Directory>,
        memory: &Arc<Memory>,
    ) -> Result<(Directory, Vec<OpenedStore>), TargetError> {
        if offer.targets.is_empty() {
            return Err(TargetError::NoTarget);
        }
        let mut targets = BTreeMap::new();
        let mut opened = Vec::new();
        for spec in &offer.targets {
            check(spec)?;
            let known = old.and_then(|old| old.target(&spec.name));
            let known = known.filter(|known| known.spec.luns == spec.luns);
            let target = match known {
                Some(known) if known.spec == *spec => Arc::clone(known),
                Some(known) => {
                    let session = SessionConfig {
                        command_window: spec.command_window,
                        ..known.session.clone()
                    };
                    Arc::new(ServedTarget {
                        spec: spec.clone(),
                        session,
                        stores: Arc::clone(&known.stores),
                    })
                }
                None => {
                    let (device, stores) = open_luns(spec)?;
                    let served = ServedTarget {
                        spec: spec.clone(),
                        session: session(device, spec.command_window, memory),
                        stores: stores
                            .iter()
                            .map(|opened| Arc::clone(opened.store()))
                            .collect(),
                    };
                    opened.extend(stores);
                    Arc::new(served)
                }
            };
            if targets.insert(spec.name.clone(), target).is_some() {
                return Err(TargetError::Twice {
                    name: spec.name.clone(),
                });
            }
        }
        offer.discovery.wanted.check()?;
        let spec = TargetSpec {
            name: String::new(),
            luns: BTreeMap::new(),
            command_window: DISCOVERY_WINDOW,
            wanted: offer.discovery.wanted.clone(),
            chap: offer.discovery.chap.clone(),
            access: Access::default(),
        };
        let discovery = Arc::new(ServedTarget {
            session: session(TargetDevice::new(Vec::new())?, DISCOVERY_WINDOW, memory),
            spec,
            stores: Arc::new([]),
        });
        Ok((Directory { targets, discovery }, opened))
    }

    /// The target called `name`.
    pub(super) fn target(&self, name: &str) -> Option<&Arc<ServedTarget>> {
        self.targets.get(name)
    }

    /// All targets, by name.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Arc<ServedTarget>> {
        self.targets.values()
    }

    /// What is different from `old`, and the first target whose units are, if `is_in_use` says that
    /// it has sessions.
    pub(super) fn changes(
        &self,
        old: &Directory,
        is_in_use: impl Fn(&str) -> bool,
    ) -> Result<Changes, TargetError> {
        let mut changes = Changes::default();
        for (name, target) in &self.targets {
            match old.target(name) {
                None => changes.added.push(name.clone()),
                Some(known) if known.spec.luns != target.spec.luns && is_in_use(name) => {
                    return Err(TargetError::InUse { name: name.clone() });
                }
                Some(known) if known.spec != target.spec => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let gone = old
            .targets
            .keys()
            .filter(|name| self.target(name).is_none());
        changes.removed = gone.cloned().collect();
        Ok(changes)
    }
}

/// A session that only asks for targets has one question at a time.
const DISCOVERY_WINDOW: u32 = 8;

fn session(device: TargetDevice, command_window: u32, memory: &Arc<Memory>) -> SessionConfig {
    SessionConfig {
        device: Arc::new(device),
        command_window,
        memory: Arc::clone(memory),
    }
}

fn check(spec: &TargetSpec) -> Result<(), TargetError> {
    if !is_iscsi_name(&spec.name) {
        return Err(TargetError::Name {
            name: spec.name.clone(),
        });
    }
    if spec.luns.is_empty() {
        return Err(TargetError::NoLun {
            name: spec.name.clone(),
        });
    }
    spec.wanted.check()?;
    Ok(())
}

fn open_luns(target: &TargetSpec) -> Result<(TargetDevice, Vec<OpenedStore>), TargetError> {
    let mut units = Vec::new();
    let mut stores = Vec::new();
    for (&number, spec) in &target.luns {
        let opened = spec.open().map_err(|source| TargetError::Open {
            spec: spec.to_string(),
            source,
        })?;
        let store = opened.store();
        let burst_bytes = target.wanted.max_burst_bytes;
        let geometry =
            Geometry::new(store.size_bytes(), spec.block_bytes, burst_bytes).map_err(|source| {
                TargetError::Geometry {
                    spec: spec.to_string(),
                    source,
                }
            })?;
        let identity = Identity {
            target_name: target.name.clone(),
            portal_group_tag: PORTAL_GROUP_TAG,
            number,
        };
        // Only what lies in memory alone has no cache in front of it.
        let write_cache = !store.is_memory();
        units.push(LogicalUnit {
            identity,
            geometry,
            write_cache,
            read_only: spec.read_only,
            thin: spec.thin,
            keeps_reservations: store.reservations().is_some(),
        });
        stores.push(opened);
    }
    let device = TargetDevice::new(units)?;
    // The device has its units in the order of their numbers, as they are here.
    for (place, (opened, spec)) in stores.iter().zip(target.luns.values()).enumerate() {
        restore_reservations(&device, place, &**opened.store()).map_err(|source| {
            TargetError::Open {
                spec: spec.to_string(),
                source,
            }
        })?;
    }
    Ok((device, stores))
}

/// Gives a unit the persistent reservations that were kept when the target was last there.
fn restore_reservations(
    device: &TargetDevice,
    place: usize,
    store: &dyn Store,
) -> Result<(), OpenError> {
    let Some(file) = store.reservations() else {
        return Ok(());
    };
    let unusable = |why: String| OpenError::Reservations {
        path: file.path().to_owned(),
        why,
    };
    let text = file.read().map_err(|error| unusable(error.to_string()))?;
    match device.restore(place, &text) {
        true => Ok(()),
        false => Err(unusable("it is in another form".to_owned())),
    }
}
