//! Opening the stores of targets: stores that are open already are kept, with their content; the others are opened.
//!
//! A file can be opened only once, and a memory store is lost when it is closed. So a target's stores are never
//! reopened: they are looked up in the targets being served, including removed ones that still have sessions.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use wansan_iscsi::scsi::{Geometry, Identity, LogicalUnit, TargetDevice};

use super::directory::{ServedTarget, TargetSpec};
use super::{PORTAL_GROUP_TAG, TargetError};
use crate::store::{Backing, LunSpec, OpenError, OpenedStore, Store};

/// The targets served before new settings.
pub(super) struct Before<'a> {
    /// The targets; of two with the same name, the newer one is first.
    pub(super) targets: Vec<Arc<ServedTarget>>,
    /// Whether a target of that name has sessions, or store operations outstanding for one.
    pub(super) is_in_use: &'a dyn Fn(&str) -> bool,
}

/// A target's units.
pub(super) struct Units {
    pub(super) device: Arc<TargetDevice>,
    /// By the index of the unit in the device.
    pub(super) stores: Arc<[Arc<dyn Store>]>,
    pub(super) unsettled: Unsettled,
}

/// The part of new settings that is not settled before they replace the old ones.
#[derive(Default)]
pub(super) struct Unsettled {
    /// Newly opened stores. Their files stay only if each is [kept](OpenedStore::keep).
    pub(super) opened: Vec<OpenedStore>,
    heirs: Vec<Heir>,
}

impl Unsettled {
    pub(super) fn append(&mut self, mut other: Unsettled) {
        self.opened.append(&mut other.opened);
        self.heirs.append(&mut other.heirs);
    }

    /// Transfers the state of all units whose stores were open before. Call it when no initiator can log in until the
    /// new settings apply: later changes to the old units are lost.
    ///
    /// # Errors
    /// When an initiator has logged in to the old ones meanwhile.
    pub(super) fn inherit(&self, is_in_use: &dyn Fn(&str) -> bool) -> Result<(), TargetError> {
        self.heirs
            .iter()
            .try_for_each(|heir| heir.inherit(is_in_use))
    }
}

/// A unit of a new device whose store was open before.
struct Heir {
    target: String,
    spec: LunSpec,
    device: Arc<TargetDevice>,
    place: usize,
    store: Arc<dyn Store>,
    holder: Arc<ServedTarget>,
    held_place: usize,
    /// It is the same unit of the same target.
    is_same: bool,
}

impl Heir {
    fn inherit(&self, is_in_use: &dyn Fn(&str) -> bool) -> Result<(), TargetError> {
        let name = &self.holder.spec.name;
        if is_in_use(name) {
            let name = name.clone();
            return Err(match name == self.target {
                true => TargetError::InUse { name },
                false => TargetError::Held {
                    spec: self.spec.to_string(),
                    name,
                },
            });
        }
        if self.is_same {
            let old = &self.holder.session.device;
            self.device.inherit(self.place, old, self.held_place);
            return Ok(());
        }
        restore_reservations(&self.device, self.place, &self.spec, &*self.store)
    }
}

impl Before<'_> {
    /// No targets: the server starts.
    pub(super) fn nothing() -> Before<'static> {
        Before {
            targets: Vec::new(),
            is_in_use: &|_| false,
        }
    }

    /// The newest target named `name` that still exists.
    pub(super) fn target(&self, name: &str) -> Option<&Arc<ServedTarget>> {
        self.targets.iter().find(|target| target.spec.name == name)
    }

    /// Opens the stores of `target` that are not open yet with `open`. It has no sessions.
    pub(super) fn open(
        &self,
        target: &TargetSpec,
        open: fn(&LunSpec) -> Result<OpenedStore, OpenError>,
    ) -> Result<Units, TargetError> {
        let mut units = Vec::new();
        let mut stores = Vec::new();
        let mut unsettled = Unsettled::default();
        let mut held = Vec::new();
        for (&number, spec) in &target.luns {
            let holder = self.holder(target, number, spec)?;
            let store = match &holder {
                Some((holder, place)) => Arc::clone(&holder.stores[*place]),
                None => {
                    let new = open(spec).map_err(|source| TargetError::Open {
                        spec: spec.to_string(),
                        source,
                    })?;
                    let store = Arc::clone(new.store());
                    unsettled.opened.push(new);
                    store
                }
            };
            units.push(unit(target, number, spec, &*store)?);
            stores.push(store);
            held.push(holder);
        }
        let device = Arc::new(TargetDevice::new(units)?);
        // The device orders its units by number, as here.
        for (place, (&number, spec)) in target.luns.iter().enumerate() {
            let Some((holder, held_place)) = held[place] else {
                restore_reservations(&device, place, spec, &*stores[place])?;
                continue;
            };
            unsettled.heirs.push(Heir {
                target: target.name.clone(),
                spec: spec.clone(),
                device: Arc::clone(&device),
                place,
                store: Arc::clone(&stores[place]),
                holder: Arc::clone(holder),
                held_place,
                is_same: holder.is_unit(held_place, &target.name, number),
            });
        }
        Ok(Units {
            device,
            stores: stores.into(),
            unsettled,
        })
    }

    /// The target that has the store of unit `number` of `target` open, and its index there.
    fn holder(
        &self,
        target: &TargetSpec,
        number: u16,
        spec: &LunSpec,
    ) -> Result<Option<(&Arc<ServedTarget>, usize)>, TargetError> {
        for holder in &self.targets {
            for (place, held) in holder.spec.luns.values().enumerate() {
                if held == spec && holder.is_unit(place, &target.name, number) {
                    return Ok(Some((holder, place)));
                }
                if !exclude_each_other(held, spec) {
                    continue;
                }
                let name = &holder.spec.name;
                if *name != target.name && (self.is_in_use)(name) {
                    return Err(TargetError::Held {
                        spec: spec.to_string(),
                        name: name.clone(),
                    });
                }
                if held != spec {
                    return Err(TargetError::OtherOptions {
                        spec: spec.to_string(),
                        held: held.to_string(),
                    });
                }
                return Ok(Some((holder, place)));
            }
        }
        Ok(None)
    }
}

impl ServedTarget {
    /// Whether its unit at `place` is LUN `number` of target `name`.
    fn is_unit(&self, place: usize, name: &str, number: u16) -> bool {
        self.spec.name == name && self.spec.luns.keys().nth(place) == Some(&number)
    }
}

/// The file of a unit.
fn file(spec: &LunSpec) -> Option<&Path> {
    match &spec.backing {
        Backing::File { path, .. } => Some(path),
        Backing::Memory { .. } => None,
    }
}

/// Whether two units exclude each other: a writable file has one unit.
fn exclude_each_other(one: &LunSpec, other: &LunSpec) -> bool {
    file(one).is_some() && file(one) == file(other) && !(one.read_only && other.read_only)
}

/// Checks that no two units share a file.
pub(super) fn check_files(targets: &[TargetSpec]) -> Result<(), TargetError> {
    let mut first: HashMap<&Path, &LunSpec> = HashMap::new();
    for spec in targets.iter().flat_map(|target| target.luns.values()) {
        let Some(path) = file(spec) else { continue };
        let known = first.entry(path).or_insert(spec);
        if !std::ptr::eq(*known, spec) && exclude_each_other(known, spec) {
            return Err(TargetError::OneFile {
                spec: spec.to_string(),
            });
        }
    }
    Ok(())
}

fn unit(
    target: &TargetSpec,
    number: u16,
    spec: &LunSpec,
    store: &dyn Store,
) -> Result<LogicalUnit, TargetError> {
    let burst_bytes = target.wanted.max_burst_bytes;
    let geometry =
        Geometry::new(store.size_bytes(), spec.block_bytes, burst_bytes).map_err(|source| {
            TargetError::Geometry {
                spec: spec.to_string(),
                source,
            }
        })?;
    Ok(LogicalUnit {
        identity: Identity {
            target_name: target.name.clone(),
            portal_group_tag: PORTAL_GROUP_TAG,
            number,
        },
        geometry,
        // Only a memory store has no cache in front of it.
        write_cache: !store.is_memory(),
        read_only: spec.read_only,
        thin: spec.thin,
        keeps_reservations: store.reservations().is_some(),
    })
}

/// Restores the saved persistent reservations of a unit.
fn restore_reservations(
    device: &TargetDevice,
    place: usize,
    spec: &LunSpec,
    store: &dyn Store,
) -> Result<(), TargetError> {
    let Some(file) = store.reservations() else {
        return Ok(());
    };
    let unusable = |why: String| TargetError::Open {
        spec: spec.to_string(),
        source: OpenError::Reservations {
            path: file.path().to_owned(),
            why,
        },
    };
    let text = file.read().map_err(|error| unusable(error.to_string()))?;
    match device.restore(place, &text) {
        true => Ok(()),
        false => Err(unusable("it is in another form".to_owned())),
    }
}
