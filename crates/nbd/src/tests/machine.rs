//! What tests do with both machines alike.

use crate::client::{self, Client, ClientError};
use crate::server::{self, Server, ServerError};
use crate::wire::{OptionCode, OptionHeader};
use crate::{Abilities, BlockSizes, Export};

/// Either machine.
pub(super) trait Machine {
    type Event: std::fmt::Debug;
    type Error: std::fmt::Debug + PartialEq;

    fn space(&mut self) -> &mut [u8];
    fn received(&mut self, bytes: usize);
    fn poll(&mut self) -> Result<Option<Self::Event>, Self::Error>;
    fn pending(&self) -> &[u8];
    fn sent(&mut self, bytes: usize);
}

macro_rules! machine {
    ($machine:ty, $event:ty, $error:ty) => {
        impl Machine for $machine {
            type Event = $event;
            type Error = $error;

            fn space(&mut self) -> &mut [u8] {
                <$machine>::space(self)
            }

            fn received(&mut self, bytes: usize) {
                <$machine>::received(self, bytes);
            }

            fn poll(&mut self) -> Result<Option<Self::Event>, Self::Error> {
                self.poll_event()
            }

            fn pending(&self) -> &[u8] {
                <$machine>::pending(self)
            }

            fn sent(&mut self, bytes: usize) {
                <$machine>::sent(self, bytes);
            }
        }
    };
}

machine!(Server, server::Event, ServerError);
machine!(Client, client::Event, ClientError);

/// Lengths of the pieces in which a stream arrives, again and again.
#[derive(Debug, Clone)]
pub(super) struct Cuts {
    lengths: Vec<usize>,
    next: usize,
}

impl Cuts {
    pub(super) fn new(lengths: &[usize]) -> Self {
        Cuts {
            lengths: lengths.to_vec(),
            next: 0,
        }
    }

    pub(super) fn next(&mut self) -> usize {
        self.next += 1;
        self.lengths[self.next % self.lengths.len()]
    }
}

/// Gives the next piece of `bytes` to a machine, and takes its events. Returns how long the piece was.
pub(super) fn feed_piece<M: Machine>(
    machine: &mut M,
    bytes: &[u8],
    cuts: &mut Cuts,
    events: &mut Vec<M::Event>,
) -> Result<usize, M::Error> {
    let space = machine.space();
    assert!(!space.is_empty());
    let taken = bytes.len().min(space.len()).min(cuts.next());
    space[..taken].copy_from_slice(&bytes[..taken]);
    machine.received(taken);
    while let Some(event) = machine.poll()? {
        events.push(event);
    }
    Ok(taken)
}

/// Gives bytes to a machine, all at once if there is space for them.
pub(super) fn feed<M: Machine>(machine: &mut M, bytes: &[u8]) -> Result<Vec<M::Event>, M::Error> {
    let mut cuts = Cuts::new(&[usize::MAX]);
    let mut events = Vec::new();
    let mut fed = 0;
    while fed < bytes.len() {
        fed += feed_piece(machine, &bytes[fed..], &mut cuts, &mut events)?;
    }
    Ok(events)
}

/// What a machine has to send.
pub(super) fn take<M: Machine>(machine: &mut M) -> Vec<u8> {
    let bytes = machine.pending().to_vec();
    machine.sent(bytes.len());
    bytes
}

/// An export of 1 MiB that can do everything.
pub(super) fn export(name: &str) -> Export {
    Export {
        name: name.to_owned(),
        description: format!("this is {name}"),
        size_bytes: 1 << 20,
        block: BlockSizes {
            minimum_bytes: 512,
            preferred_bytes: 4096,
            maximum_bytes: 256 << 10,
        },
        abilities: Abilities {
            read_only: false,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            cache: true,
            multi_conn: true,
        },
    }
}

/// An option as bytes.
pub(super) fn option(option: OptionCode, data: &[u8]) -> Vec<u8> {
    let header = OptionHeader {
        option,
        data_bytes: data.len() as u32,
    };
    [&header.emit(), data].concat()
}
