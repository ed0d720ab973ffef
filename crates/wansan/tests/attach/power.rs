//! A target that loses power: a served store keeps of each sector what was flushed last, or anything written since.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand_core::Rng;
use wansan_iscsi::keys::Wanted;
use wansan_peers::trial::Stop;
use wansan_san::store::{Extent, LunSpec, OpenError, OpenedStore, Store, StoreError};
use wansan_san::target::{Access, Discovery, Offer, Sending, TargetSpec};
use wansan_san::{Target, TargetConfig, TargetError};
use wansan_trace::Kinds;

use crate::history::SECTOR_BYTES;

const NAME: &str = "iqn.2026-01.net.example:losing";
/// How long its port may be held once it has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// A disk whose cache is volatile.
struct Losing(Mutex<Sectors>);

struct Sectors {
    now: Vec<u8>,
    /// What the medium may hold of sectors that were written since the last flush: what was flushed, then all that was written.
    unflushed: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Losing {
    fn sectors(&self) -> MutexGuard<'_, Sectors> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sectors {
    fn write(&mut self, offset: usize, data: &[u8], is_durable: bool) {
        for (at, data) in (offset..)
            .step_by(SECTOR_BYTES)
            .zip(data.chunks(SECTOR_BYTES))
        {
            let held = &mut self.now[at..at + SECTOR_BYTES];
            let place = at / SECTOR_BYTES;
            if is_durable {
                self.unflushed.remove(&place);
            } else {
                let before = held.to_vec();
                let versions = self.unflushed.entry(place).or_insert_with(|| vec![before]);
                versions.push(data.to_vec());
            }
            held.copy_from_slice(data);
        }
    }

    /// Returns how many sectors do not hold what was written last.
    fn lose(&mut self, random: &mut impl Rng) -> u64 {
        let mut lost = 0;
        for (place, versions) in std::mem::take(&mut self.unflushed) {
            let left = &versions[random.next_u32() as usize % versions.len()];
            let held = &mut self.now[place * SECTOR_BYTES..][..SECTOR_BYTES];
            lost += u64::from(held != &left[..]);
            held.copy_from_slice(left);
        }
        lost
    }
}

impl Store for Losing {
    fn size_bytes(&self) -> u64 {
        self.sectors().now.len() as u64
    }

    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError> {
        dst.copy_from_slice(&self.sectors().now[offset as usize..][..dst.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        self.sectors().write(offset as usize, src, fua);
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.sectors().unflushed.clear();
        Ok(())
    }

    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut sectors = self.sectors();
        let mut bytes = sectors.now[offset as usize..][..len].to_vec();
        if change(&mut bytes) {
            sectors.write(offset as usize, &bytes, fua);
        }
        Ok(())
    }

    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        self.write_at(offset, &vec![0; len as usize], false)
    }

    fn extent_at(&self, _: u64) -> Result<Extent, StoreError> {
        Ok(Extent {
            allocated: true,
            end: self.size_bytes(),
        })
    }

    fn is_memory(&self) -> bool {
        false
    }
}

/// The stores of the targets of this process, by the notations of their units.
static STORES: Mutex<BTreeMap<String, Arc<Losing>>> = Mutex::new(BTreeMap::new());

fn open(spec: &LunSpec) -> Result<OpenedStore, OpenError> {
    let stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    match stores.get(&spec.to_string()) {
        Some(store) => Ok(OpenedStore::of(Arc::clone(store) as Arc<dyn Store>)),
        None => spec.open(),
    }
}

/// A target, served by this process, and its disk.
pub(crate) struct LosingTarget {
    config: TargetConfig,
    store: Arc<Losing>,
    target: Option<Target>,
    /// Sectors that it has lost so far.
    pub(crate) lost: u64,
}

impl LosingTarget {
    /// One with a disk of `bytes` zeros, at that address.
    pub(crate) fn start(portal: &str, bytes: usize) -> Result<LosingTarget, Stop> {
        let store = Arc::new(Losing(Mutex::new(Sectors {
            now: vec![0; bytes],
            unflushed: BTreeMap::new(),
        })));
        // No such file: the store is found by this name.
        let name = format!("file:/disk-of-{portal},thin");
        let spec = name.parse::<LunSpec>();
        let spec = spec.map_err(|error| Stop::Failed(error.to_string()))?;
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.insert(spec.to_string(), Arc::clone(&store));
        drop(stores);
        let target = TargetSpec {
            name: NAME.to_owned(),
            luns: BTreeMap::from([(0, spec)]),
            command_window: 128,
            wanted: Wanted::default(),
            chap: None,
            access: Access::default(),
            sending: Sending::default(),
        };
        let config = TargetConfig {
            listen: vec![portal.to_owned()],
            offer: Offer {
                targets: vec![target],
                discovery: Discovery::default(),
                open,
            },
            congestion_control: None,
            threads: 1,
            kinds: Kinds::NONE,
            record_bytes: 0,
            tcp_interval: Duration::from_secs(1),
            report: |_| {},
        };
        let mut losing = LosingTarget {
            config,
            store,
            target: None,
            lost: 0,
        };
        losing.serve()?;
        Ok(losing)
    }

    pub(crate) fn url(portal: &str) -> String {
        format!("iscsi://{portal}/{NAME}/0")
    }

    pub(crate) fn serve(&mut self) -> Result<(), Stop> {
        let began = Instant::now();
        loop {
            match Target::start(&self.config) {
                Ok(target) => {
                    self.target = Some(target);
                    return Ok(());
                }
                // A process that another trial is just starting holds what this one had open until it executes.
                Err(TargetError::Listen { source, .. })
                    if source.kind() == ErrorKind::AddrInUse && began.elapsed() < PATIENCE => {}
                Err(error) => return Err(Stop::Failed(error.to_string())),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Cuts its power.
    pub(crate) fn cut(&mut self, random: &mut impl Rng) {
        if let Some(target) = self.target.take() {
            drop(target.stop());
        }
        self.lost += self.store.sectors().lose(random);
    }

    pub(crate) fn holds(&self, bytes: usize) -> Vec<u8> {
        self.store.sectors().now[..bytes].to_vec()
    }
}
