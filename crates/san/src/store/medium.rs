//! SCSI operations on a store other than reading, writing and flushing.

use core::fmt;
use std::sync::Arc;

use wansan_iscsi::scsi::{CopySegment, LbaStatus, MediumOperation};

use super::{Store, StoreError};

/// Bytes moved in one step.
const STEP_BYTES: usize = 1 << 20;

/// A [`MediumOperation`] with its stores.
pub struct MediumJob {
    operation: Box<MediumOperation>,
    /// All stores of the target, by the index of their unit.
    stores: Arc<[Arc<dyn Store>]>,
    unit: usize,
    /// Force unit access: written data must be on the medium before completion.
    fua: bool,
    /// The Data-In of the response, after execution.
    output: Vec<u8>,
}

impl PartialEq for MediumJob {
    /// For jobs of the same target.
    fn eq(&self, other: &MediumJob) -> bool {
        (&self.operation, self.unit, &self.output) == (&other.operation, other.unit, &other.output)
    }
}

impl Eq for MediumJob {}

impl fmt::Debug for MediumJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MediumJob")
            .field("operation", &self.operation)
            .field("unit", &self.unit)
            .finish_non_exhaustive()
    }
}

impl MediumJob {
    /// `operation` on the unit with index `unit` in `stores`. With `fua` written data is on the medium at completion.
    #[must_use]
    pub fn new(
        operation: Box<MediumOperation>,
        stores: &Arc<[Arc<dyn Store>]>,
        unit: usize,
        fua: bool,
    ) -> MediumJob {
        MediumJob {
            operation,
            stores: Arc::clone(stores),
            unit,
            fua,
            output: Vec::new(),
        }
    }

    /// Bytes of its data.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.operation.data_bytes()
    }

    /// The Data-In of the response, after execution.
    #[must_use]
    pub fn into_output(self) -> Vec<u8> {
        self.output
    }

    /// Executes it. May block.
    ///
    /// # Errors
    /// The store's error, or [`StoreError::Miscompare`].
    pub fn run(&mut self) -> Result<(), StoreError> {
        self.carry_out()?;
        if self.fua {
            for unit in self.operation.written_units(self.unit) {
                self.stores[unit].flush()?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self) -> Result<(), StoreError> {
        let store = &*self.stores[self.unit];
        match &*self.operation {
            MediumOperation::Verify {
                offset_bytes,
                len_bytes,
            } => for_each_step(*len_bytes, |at, bytes| {
                store.read_at(offset_bytes + at, bytes)
            }),
            MediumOperation::Compare {
                offset_bytes,
                len_bytes,
                data,
            } => compare(store, *offset_bytes, *len_bytes, data),
            MediumOperation::WriteAndVerify {
                offset_bytes,
                data,
                compare: compared,
            } => {
                store.write_at(*offset_bytes, data, true)?;
                let len_bytes = data.len() as u64;
                if *compared {
                    return compare(store, *offset_bytes, len_bytes, data);
                }
                for_each_step(len_bytes, |at, bytes| {
                    store.read_at(offset_bytes + at, bytes)
                })
            }
            MediumOperation::WriteSame {
                offset_bytes,
                len_bytes,
                block,
            } => write_same(store, (*offset_bytes, *len_bytes), block),
            MediumOperation::Deallocate { ranges } => ranges
                .iter()
                .try_for_each(|(offset, len)| store.deallocate(*offset, *len)),
            MediumOperation::CompareAndWrite {
                offset_bytes,
                data,
                fua,
            } => compare_and_write(store, *offset_bytes, data, *fua),
            MediumOperation::OrWrite {
                offset_bytes,
                data,
                fua,
            } => store.update(*offset_bytes, data.len(), *fua, &mut |bytes| {
                for (byte, bits) in bytes.iter_mut().zip(data) {
                    *byte |= bits;
                }
                true
            }),
            MediumOperation::Status {
                offset_bytes,
                block_bytes,
                max_runs,
            } => {
                let block_bytes = u64::from(*block_bytes);
                self.output = status(store, *offset_bytes, block_bytes, *max_runs)?;
                Ok(())
            }
            MediumOperation::PreFetch {
                offset_bytes,
                len_bytes,
            } => {
                store.pre_fetch(*offset_bytes, *len_bytes);
                Ok(())
            }
            MediumOperation::Copy(job) => {
                let copied = job.segments.iter().try_for_each(|segment| {
                    copy(&self.stores, segment, |bytes| job.progress.copied(bytes))?;
                    job.progress.segment_done();
                    Ok(())
                });
                job.progress.end(copied.is_ok());
                copied
            }
            MediumOperation::FlushFor(change) => {
                let flushed = store.flush();
                change.end(flushed.is_ok());
                flushed
            }
            MediumOperation::KeepReservations(change) => {
                let kept = match store.reservations() {
                    Some(file) => file.keep(change.text()).map_err(StoreError::Reservations),
                    None => Ok(()),
                };
                change.end(kept.is_ok());
                kept
            }
        }
    }
}

/// Calls `step` with a buffer for each piece of `len_bytes`, and the offset of the piece.
fn for_each_step(
    len_bytes: u64,
    mut step: impl FnMut(u64, &mut [u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut buffer = vec![0; len_bytes.min(STEP_BYTES as u64) as usize];
    let mut at = 0;
    while at < len_bytes {
        let bytes = (len_bytes - at).min(STEP_BYTES as u64) as usize;
        step(at, &mut buffer[..bytes])?;
        at += bytes as u64;
    }
    Ok(())
}

/// The first byte that differs, if any.
fn difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    one.iter().zip(other).position(|(one, other)| one != other)
}

fn compare(store: &dyn Store, offset: u64, len: u64, data: &[u8]) -> Result<(), StoreError> {
    for_each_step(len, |at, bytes| {
        store.read_at(offset + at, bytes)?;
        let mut done = 0;
        while done < bytes.len() {
            let from = ((at + done as u64) % data.len() as u64) as usize;
            let part = &data[from..];
            let part = &part[..part.len().min(bytes.len() - done)];
            if let Some(place) = difference(&bytes[done..done + part.len()], part) {
                return Err(StoreError::Miscompare {
                    offset: offset + at + (done + place) as u64,
                    at: (from + place) as u64,
                });
            }
            done += part.len();
        }
        Ok(())
    })
}

fn compare_and_write(
    store: &dyn Store,
    offset: u64,
    data: &[u8],
    fua: bool,
) -> Result<(), StoreError> {
    let (expected, new) = data.split_at(data.len() / 2);
    let mut differs = None;
    store.update(offset, expected.len(), fua, &mut |bytes| {
        differs = difference(bytes, expected);
        if differs.is_none() {
            bytes.copy_from_slice(new);
        }
        differs.is_none()
    })?;
    match differs {
        None => Ok(()),
        Some(at) => Err(StoreError::Miscompare {
            offset: offset + at as u64,
            at: at as u64,
        }),
    }
}

fn write_same(
    store: &dyn Store,
    (offset, len): (u64, u64),
    block: &[u8],
) -> Result<(), StoreError> {
    // As many whole blocks as fit in a step.
    let repeated = block.repeat((len.min(STEP_BYTES as u64) as usize / block.len()).max(1));
    let mut at = 0;
    while at < len {
        let bytes = (len - at).min(repeated.len() as u64);
        store.write_at(offset + at, &repeated[..bytes as usize], false)?;
        at += bytes;
    }
    Ok(())
}

/// A block counts as mapped if any part of it is allocated.
fn status(
    store: &dyn Store,
    offset: u64,
    block_bytes: u64,
    max_runs: usize,
) -> Result<Vec<u8>, StoreError> {
    let mut status = LbaStatus::from(offset / block_bytes);
    let mut at = offset;
    // One run more than requested shows where the last one ends.
    while at < store.size_bytes() {
        let extent = store.extent_at(at)?;
        let end = match extent.allocated {
            true => extent.end.next_multiple_of(block_bytes),
            // A block only partly in a hole belongs to the next extent; if no block is filled, to this one.
            false => extent.end / block_bytes * block_bytes,
        };
        let (mapped, end) = if end > at {
            (extent.allocated, end)
        } else {
            (true, at + block_bytes)
        };
        let before = status.runs();
        if before == max_runs && !status.goes_on(mapped) {
            break;
        }
        status.push((end - at) / block_bytes, mapped);
        let next = status.next_lba() * block_bytes;
        if next < end {
            // The field for the run's block count is full.
            break;
        }
        at = end;
    }
    Ok(status.into_data())
}

/// Copies a segment, in an order that preserves overlapping bytes.
fn copy(
    stores: &[Arc<dyn Store>],
    segment: &CopySegment,
    copied: impl Fn(u64),
) -> Result<(), StoreError> {
    let (from, to) = (&*stores[segment.from_unit], &*stores[segment.to_unit]);
    let backwards = segment.from_unit == segment.to_unit && segment.from_bytes < segment.to_bytes;
    for_each_step(segment.len_bytes, |at, bytes| {
        let len = bytes.len() as u64;
        let at = match backwards {
            true => segment.len_bytes - at - len,
            false => at,
        };
        from.read_at(segment.from_bytes + at, bytes)?;
        to.write_at(segment.to_bytes + at, bytes, false)?;
        copied(len);
        Ok(())
    })
}
