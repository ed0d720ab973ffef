//! I_T nexuses, and their common state in a device: reservations, mode parameters, and whether units are started.
//!
//! The common state is behind a lock that READ and WRITE never take. Every change increments a version; a nexus with
//! another version fetches, once, the effects on it: the access that reservations leave it, and unit attentions to
//! report.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::copy::CopyRecord;
use super::fence::{Batch, Batches, Fence, Ticket, UnitOperations, drain_all};
use super::port::InitiatorPort;
use super::reservation::Reservations;
use super::reserve_keep::Replaced;
use super::unit_change::Changing;
use super::{LogicalUnit, UnitAttention, UnitAttentions};

/// The access that a unit's reservations leave to a nexus, or that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// Commands that no reservation excludes.
    Nothing,
    /// Commands allowed in spite of a persistent reservation, such as registering.
    Registering,
    /// Commands that read the medium.
    Reading,
    /// All commands.
    Full,
}

/// A unit's state for one nexus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    pub(super) access: Access,
    pub(super) mode: ModeParameters,
    /// START STOP UNIT has stopped it.
    pub(super) stopped: bool,
}

/// The mode parameters that MODE SELECT can change; one set for all initiators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModeParameters {
    /// WCE of the Caching page.
    pub(super) write_cache: bool,
    /// SWP of the Control page.
    pub(super) write_protected: bool,
}

impl ModeParameters {
    pub(super) const fn default_of(unit: &LogicalUnit) -> ModeParameters {
        ModeParameters {
            write_cache: unit.write_cache,
            write_protected: false,
        }
    }
}

/// Identifies a nexus among all of a device since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NexusId(u64);

/// One unit's part of the common state.
#[derive(Debug)]
pub(super) struct UnitState {
    pub(super) reservations: Reservations,
    /// Counts changes of the persistent reservations that survive a restart.
    pub(super) kept_version: u64,
    /// Present while the latest such change is being saved; the reservations do not change further until then.
    pub(super) replaced: Option<Replaced>,
    pub(super) mode: ModeParameters,
    pub(super) stopped: bool,
    /// Counts changes of these two that wait for the cache.
    pub(super) changes: u64,
    /// Present while the latest one waits.
    pub(super) changing: Option<Changing>,
}

impl UnitState {
    /// The part that another device's unit inherits.
    pub(super) fn inherited(&self) -> UnitState {
        UnitState {
            reservations: Reservations {
                // A reservation of RESERVE (6) belongs to a nexus, and nexuses belong to a device.
                exclusive: None,
                ..self.reservations.clone()
            },
            kept_version: self.kept_version,
            replaced: None,
            mode: self.mode,
            stopped: self.stopped,
            changes: self.changes,
            changing: None,
        }
    }
}

/// A nexus as seen by the others.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) id: NexusId,
    pub(super) port: InitiatorPort,
    /// Unit attentions that it has not fetched yet, by unit index.
    pending: Vec<UnitAttentions>,
    /// Indices of units where its tasks must be aborted.
    aborts: Vec<usize>,
    /// Its operations at the units' stores, by unit index.
    batches: Vec<Batches>,
    /// Another session has replaced it.
    replaced: bool,
}

/// A lost nexus with operations still outstanding at the stores.
#[derive(Debug)]
struct Gone {
    id: NexusId,
    port: InitiatorPort,
    /// By unit index.
    batches: Vec<(usize, Arc<Batch>)>,
}

/// The common state of a device's nexuses.
#[derive(Debug)]
pub(super) struct State {
    last_id: u64,
    pub(super) nexuses: Vec<Known>,
    /// Bounded by the number of outstanding operations at the stores.
    gone: Vec<Gone>,
    pub(super) units: Vec<UnitState>,
}

impl State {
    /// Makes every nexus selected by `hit` report `attention` for the unit at `place`.
    pub(super) fn establish(
        &mut self,
        place: usize,
        attention: UnitAttention,
        hit: impl Fn(&Known) -> bool,
    ) {
        for nexus in self.nexuses.iter_mut().filter(|nexus| hit(nexus)) {
            nexus.pending[place].establish(attention);
        }
    }

    /// Resets the unit at `place` to its initial state, except for persistent state.
    pub(super) fn reset(&mut self, place: usize, units: &[LogicalUnit]) {
        if let (Some(state), Some(unit)) = (self.units.get_mut(place), units.get(place)) {
            state.mode = ModeParameters::default_of(unit);
            state.stopped = false;
            state.changing = None;
            state.reservations.exclusive = None;
        }
    }

    /// Aborts the tasks of every nexus selected by `hit` at the unit at `place`. They end without
    /// an answer (TAS is 0).
    pub(super) fn abort(&mut self, place: usize, hit: impl Fn(&Known) -> bool) {
        for nexus in self.nexuses.iter_mut().filter(|nexus| hit(nexus)) {
            if !nexus.aborts.contains(&place) {
                nexus.aborts.push(place);
            }
        }
    }

    /// A fence for the store operations, at the unit at `place`, of every nexus selected by `hit`, and of those that
    /// are gone.
    pub(super) fn fence(&mut self, place: usize, hit: impl Fn(NexusId) -> bool) -> Fence {
        let mut fence = Fence::default();
        for nexus in self.nexuses.iter_mut().filter(|nexus| hit(nexus.id)) {
            nexus.batches[place].fence_off(&mut fence);
        }
        for (at, batch) in self.gone.iter().flat_map(|gone| &gone.batches) {
            if *at == place {
                fence.await_batch(Arc::clone(batch));
            }
        }
        fence
    }

    /// A fence for all outstanding store operations of the initiator port `port`: of nexuses that are gone, and of the
    /// one that a new session of `port` replaces, which starts no more.
    fn succeed(&mut self, port: &InitiatorPort) -> Fence {
        let mut fence = Fence::default();
        for nexus in self.nexuses.iter_mut().filter(|nexus| nexus.port == *port) {
            nexus.replaced = true;
            for batches in &mut nexus.batches {
                batches.fence_off(&mut fence);
            }
        }
        let left = self.gone.iter().filter(|gone| gone.port.name == port.name);
        for (_, batch) in left.flat_map(|gone| &gone.batches) {
            fence.await_batch(Arc::clone(batch));
        }
        fence
    }

    /// Whether another session has replaced this nexus.
    pub(super) fn is_replaced(&self, id: NexusId) -> bool {
        let mut nexuses = self.nexuses.iter();
        nexuses.any(|nexus| nexus.id == id && nexus.replaced)
    }

    /// The state of the unit at `place` for a nexus.
    fn view(&self, place: usize, id: NexusId, port: &InitiatorPort) -> View {
        let unit = &self.units[place];
        let access = unit.reservations.access(id, port);
        // Access granted by a change takes effect once it is saved; access removed, at once.
        let before = unit.replaced.as_ref().map(Replaced::before);
        let before = before.map_or(Access::Full, |before| before.access(id, port));
        View {
            access: access.min(before),
            mode: unit.mode,
            stopped: unit.stopped,
        }
    }
}

/// Called when sessions must be reviewed.
type Bell = Box<dyn Fn() + Send + Sync>;

/// The common state and its version.
pub(super) struct Common {
    /// Counts the changes. Written under the lock, after the state.
    version: AtomicU64,
    state: Mutex<State>,
    bell: OnceLock<Bell>,
}

impl fmt::Debug for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Common {
    pub(super) fn new(units: &[LogicalUnit]) -> Arc<Common> {
        let units = units.iter().map(|unit| UnitState {
            reservations: Reservations::default(),
            kept_version: 0,
            replaced: None,
            mode: ModeParameters::default_of(unit),
            stopped: false,
            changes: 0,
            changing: None,
        });
        Arc::new(Common {
            version: AtomicU64::new(0),
            state: Mutex::new(State {
                last_id: 0,
                nexuses: Vec::new(),
                gone: Vec::new(),
                units: units.collect(),
            }),
            bell: OnceLock::new(),
        })
    }

    /// No code under this lock can panic with a relevant change half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the state.
    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the state, and notifies all nexuses. `change` also gets the previous version.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state, self.version.load(Ordering::Relaxed));
        // `SeqCst`: see the fence's module.
        self.version.fetch_add(1, Ordering::SeqCst);
        changed
    }

    /// Sets the function that [`Common::ring`] calls; the first one stays.
    pub(super) fn set_bell(&self, bell: Bell) {
        let _ = self.bell.set(bell);
    }

    /// Requests a review of every session of the device.
    pub(super) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }
}

/// One I_T nexus, i.e. one iSCSI session, as its owner sees it: its state at each unit, its unit attentions, its store
/// operations, and its copies. Dropping it loses the nexus: reservations of RESERVE (6) are released (SPC-2 5.5.1).
#[derive(Debug)]
pub struct Nexus {
    common: Arc<Common>,
    id: NexusId,
    port: InitiatorPort,
    /// The version of `views`.
    version: u64,
    views: Vec<View>,
    attentions: Vec<UnitAttentions>,
    /// Indices of units where its tasks must be aborted.
    aborts: Vec<usize>,
    /// Its store operations, by unit index.
    operations: Vec<UnitOperations>,
    /// The fence of the last decoded command's response.
    fence: Fence,
    /// Another session has replaced it.
    replaced: bool,
    /// EXTENDED COPY commands, for RECEIVE COPY STATUS; oldest first.
    pub(super) copies: VecDeque<CopyRecord>,
}

impl Nexus {
    /// A nexus of `port`, replacing an existing one, whose loss it reports at each unit. Its first operation must wait
    /// for the fence of [`Nexus::take_fence`]: the initiator may repeat commands that it considers lost, and an old
    /// write must not land after a new one (RFC 7143 §6.3.5). Make nexuses of a port in the order in which their
    /// sessions replace each other: one starts no store operation once the next one is made.
    pub(super) fn new(common: &Arc<Common>, port: InitiatorPort) -> Nexus {
        let (id, units, fence) = common.change(|state, _| {
            state.last_id += 1;
            let id = NexusId(state.last_id);
            let units = state.units.len();
            let mut pending = UnitAttentions::default();
            if state.nexuses.iter().any(|nexus| nexus.port == port) {
                pending.establish(UnitAttention::NexusLost);
            }
            let fence = state.succeed(&port);
            state.nexuses.push(Known {
                id,
                port: port.clone(),
                pending: vec![pending; units],
                aborts: Vec::new(),
                batches: (0..units).map(|_| Batches::default()).collect(),
                replaced: false,
            });
            (id, units, fence)
        });
        let mut nexus = Nexus {
            common: Arc::clone(common),
            id,
            port,
            version: 0,
            views: Vec::new(),
            attentions: vec![UnitAttentions::default(); units],
            aborts: Vec::new(),
            operations: (0..units).map(|_| UnitOperations::default()).collect(),
            fence,
            replaced: false,
            copies: VecDeque::new(),
        };
        nexus.fetch();
        nexus
    }

    /// Its identifier.
    #[must_use]
    pub fn id(&self) -> NexusId {
        self.id
    }

    /// The initiator port at its end.
    #[must_use]
    pub fn port(&self) -> &InitiatorPort {
        &self.port
    }

    pub(super) fn take_attention(&mut self, place: usize) -> Option<UnitAttention> {
        self.attentions[place].take()
    }

    /// The state of the unit at `place`, as of the last [`Nexus::refresh`].
    pub(super) fn view(&self, place: usize) -> View {
        self.views[place]
    }

    /// The version of the common state that it has fetched.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Fetches changes, if any.
    #[inline]
    pub(super) fn refresh(&mut self) {
        if self.is_stale() {
            self.fetch();
        }
    }

    fn is_stale(&self) -> bool {
        self.version != self.common.version.load(Ordering::SeqCst)
    }

    #[cold]
    fn fetch(&mut self) {
        let mut state = self.common.lock();
        // Under the lock, so the version is that of this state.
        self.version = self.common.version.load(Ordering::Relaxed);
        self.views.clear();
        let views = (0..state.units.len()).map(|place| state.view(place, self.id, &self.port));
        self.views.extend(views);
        let own = state.nexuses.iter_mut().find(|known| known.id == self.id);
        if let Some(own) = own {
            for (attentions, pending) in self.attentions.iter_mut().zip(&mut own.pending) {
                attentions.merge(std::mem::take(pending));
            }
            self.aborts.append(&mut own.aborts);
            for (operations, batches) in self.operations.iter_mut().zip(&own.batches) {
                operations.turn_to(batches.current());
            }
            self.replaced = own.replaced;
        }
    }

    /// Whether another nexus has aborted tasks of this one since [`Nexus::take_aborts`]. Called for each step of each
    /// command, so it only checks.
    #[inline]
    pub(crate) fn has_aborts(&mut self) -> bool {
        self.refresh();
        !self.aborts.is_empty()
    }

    /// The indices of units where another nexus has aborted this one's tasks since the last call.
    pub(crate) fn take_aborts(&mut self) -> Vec<usize> {
        self.refresh();
        std::mem::take(&mut self.aborts)
    }

    /// Whether another session has replaced this one, as of the last refresh: no store operation may start for it any
    /// more.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced
    }

    /// Delays the response of the command being decoded until `fence` is down.
    pub(super) fn wait_for(&mut self, fence: Fence) {
        self.fence.merge(fence);
    }

    /// The fence of the last decoded command: wait for it before starting a store operation, and before the response.
    pub(crate) fn take_fence(&mut self) -> Fence {
        std::mem::take(&mut self.fence)
    }

    /// Counts an operation at the store of the unit at `place` that also accesses the units at `others`. `None` when
    /// the state has changed since the last refresh: it may not be allowed any more.
    pub(crate) fn enter(&mut self, place: usize, others: &[usize]) -> Option<Ticket> {
        let ticket = Ticket::enter(&mut self.operations, place, others);
        // Checked after the batch was marked busy: see the fence's module.
        if self.is_stale() {
            self.leave(ticket);
            return None;
        }
        Some(ticket)
    }

    /// The store has completed an operation.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        if ticket.leave(&mut self.operations) {
            self.common.ring();
        }
    }

    /// Ends the nexus while store operations may be outstanding: fences wait for them until the result is dropped.
    pub(crate) fn end(mut self) -> Remains {
        let batches = self.take_busy();
        if !batches.is_empty() {
            self.common.lock().gone.push(Gone {
                id: self.id,
                port: self.port.clone(),
                batches: batches.clone(),
            });
        }
        Remains {
            common: Arc::clone(&self.common),
            id: self.id,
            batches,
        }
    }

    /// The batches with operations, with the units' indices. Ownership moves to the caller.
    fn take_busy(&mut self) -> Vec<(usize, Arc<Batch>)> {
        let operations = std::mem::take(&mut self.operations);
        let units = operations.iter().enumerate();
        let busy = units.flat_map(|(place, unit)| unit.busy().map(move |batch| (place, batch)));
        busy.map(|(place, batch)| (place, Arc::clone(batch)))
            .collect()
    }

    pub(super) fn belongs_to(&self, common: &Arc<Common>) -> bool {
        Arc::ptr_eq(&self.common, common)
    }
}

impl Drop for Nexus {
    fn drop(&mut self) {
        let mut state = self.common.lock();
        state.nexuses.retain(|known| known.id != self.id);
        let mut held = false;
        for unit in &mut state.units {
            if unit.reservations.exclusive == Some(self.id) {
                unit.reservations.exclusive = None;
                held = true;
            }
        }
        if held {
            self.common.version.fetch_add(1, Ordering::SeqCst);
        }
        drop(state);
        if drain_all(&self.take_busy()) {
            self.common.ring();
        }
    }
}

/// Outstanding store operations of an ended session. Drop it when they complete: other sessions may
/// wait for that.
#[derive(Debug)]
#[must_use = "dropping it says that the stores have answered"]
pub struct Remains {
    common: Arc<Common>,
    id: NexusId,
    batches: Vec<(usize, Arc<Batch>)>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        if self.batches.is_empty() {
            return;
        }
        self.common.lock().gone.retain(|gone| gone.id != self.id);
        if drain_all(&self.batches) {
            self.common.ring();
        }
    }
}
