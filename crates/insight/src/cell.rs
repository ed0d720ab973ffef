//! The records of one cell.

use std::collections::BTreeMap;

use wansan_trace::event::{
    Connection, Crossing, Packet, Path as PathSample, Pdu, Request, Stamp, Tcp, Thread,
};
use wansan_trace::file::{self, Kind, Table};
use wansan_trace::{Recorder, Sample, SessionId};

use crate::below;
use crate::join::{Joined, join};
use crate::packets::Packets;
use crate::pdus::Pdus;
use crate::weights::Weights;
use crate::wire::{self, Carrier, Times};

/// One cell's records, with its I/Os joined. Kinds that were not recorded are `None`.
#[derive(Debug)]
pub struct Cell {
    /// The I/Os, with wire crossings derived from packets and TCP layers' crossings derived from time stamps, where
    /// recorded.
    pub joined: Joined,
    /// Crossings that recorders lost, by host.
    pub io_dropped: file::Dropped,
    /// PDUs.
    pub pdu: Option<Pdus>,
    /// The TCP connections of sessions.
    pub connection: Option<Table<Connection>>,
    /// TCP samples and events.
    pub tcp: Option<Table<Tcp>>,
    /// Kernel time stamps of socket data.
    pub stamp: Option<Table<Stamp>>,
    /// Packets.
    pub packet: Option<Packets>,
    /// The TCP connections of the sessions' connections, where their packets passed.
    pub carriers: Vec<Carrier>,
    /// Path samples.
    pub path: Option<Table<PathSample>>,
    /// Samples of programs' threads.
    pub thread: Option<Table<Thread>>,
    /// Requests to attached disks.
    pub request: Option<Table<Request>>,
}

impl Cell {
    /// Builds a cell from recorders in memory. `None` if they have no crossings.
    #[must_use]
    pub fn gather(recorders: &[(&str, &Recorder)]) -> Option<Cell> {
        let io = file::gather::<Crossing>(recorders)?;
        Some(Cell::gather_beside(&io, recorders))
    }

    /// The same, with the crossings already gathered.
    #[must_use]
    pub fn gather_beside(io: &Table<Crossing>, recorders: &[(&str, &Recorder)]) -> Cell {
        let cell = Cell {
            joined: join(&io.rows),
            io_dropped: io.dropped.clone(),
            pdu: file::gather(recorders).map(Table::into),
            connection: file::gather(recorders),
            tcp: file::gather(recorders),
            stamp: file::gather(recorders),
            packet: file::gather(recorders).map(Table::into),
            carriers: Vec::new(),
            path: file::gather(recorders),
            thread: file::gather(recorders),
            request: file::gather(recorders),
        };
        cell.derive()
    }

    /// Derives crossings of the wire and of TCP's layers from several kinds of records.
    pub(crate) fn derive(mut self) -> Cell {
        self.thin();
        if let (Some(packets), Some(connections)) = (&self.packet, &self.connection)
            && let captured = wire::captured(packets, &connections.rows)
            && !captured.is_empty()
        {
            self.carriers = captured;
            // It says no more than a capture does, of which there are no such records.
            self.connection = None;
        } else if let (Some(pdus), Some(packets), Some(connections)) =
            (&self.pdu, &self.packet, &self.connection)
        {
            self.carriers = wire::derive(&mut self.joined, &pdus.rows, packets, &connections.rows);
        }
        if let (Some(pdus), Some(stamps)) = (&self.pdu, &self.stamp) {
            below::derive(&mut self.joined, stamps, pdus);
        }
        self
    }

    /// Keeps the I/Os that all ends recorded, if one of them recorded a sample: the smallest sample is part of the others.
    fn thin(&mut self) {
        let rows = self.connection.iter().flat_map(|table| &table.rows);
        let numbers = rows.map(|row| row.record.sampled_one_in);
        let sample = Sample::one_in(numbers.max().unwrap_or(1));
        if sample != Sample::ALL {
            if let Some(pdus) = &mut self.pdu {
                pdus.thin(sample);
            }
            let weights = Weights::of(sample, self.pdu.as_ref());
            self.joined.thin(sample, weights);
        }
    }

    /// Whether the cell comes from packets captured at one point of the path.
    #[must_use]
    pub fn is_captured(&self) -> bool {
        let is_of_packets = |carrier: &Carrier| carrier.begin.is_some();
        self.connection.is_none() && self.carriers.iter().any(is_of_packets)
    }

    /// Whether the records of a session begin with it: a capture may have begun in the middle.
    #[must_use]
    pub fn has_begin(&self, session: SessionId) -> bool {
        let own = self.carriers.iter().filter(|it| it.session == session);
        let mut begins = own.filter_map(|carrier| carrier.begin);
        !begins.any(|begin| begin.times == Times::ByAcknowledgements)
    }

    /// Records that recorders lost, by kind and host; kinds and hosts that lost none are left out.
    #[must_use]
    pub fn dropped(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        fn of<T: Kind>(table: Option<&Table<T>>) -> (&'static str, Option<&file::Dropped>) {
            (T::NAME, table.map(|table| &table.dropped))
        }
        [
            (Crossing::NAME, Some(&self.io_dropped)),
            (Pdu::NAME, self.pdu.as_ref().and_then(Pdus::dropped)),
            of(self.connection.as_ref()),
            of(self.tcp.as_ref()),
            of(self.stamp.as_ref()),
            (
                Packet::NAME,
                self.packet.as_ref().and_then(Packets::dropped),
            ),
            of(self.path.as_ref()),
            of(self.thread.as_ref()),
            of(self.request.as_ref()),
        ]
        .into_iter()
        .filter_map(|(kind, dropped)| {
            let lost: BTreeMap<String, u64> = dropped?
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(host, count)| (host.clone(), *count))
                .collect();
            (!lost.is_empty()).then(|| (kind.to_owned(), lost))
        })
        .collect()
    }
}
