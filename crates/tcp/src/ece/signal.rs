//! The congestion control of receiving sockets in the kernel: loading it, and its sockets' orders.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object, OpenObject};
use wansan_trace::event::Ecn;

use super::{NAME, Order, Signals};
use crate::TcpInfo;
use crate::congestion;
use crate::control::ControlError;
use crate::ebpf;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ece.bpf.o"));

/// The longest name of a congestion control (`TCP_CA_NAME_MAX`, less the NUL).
const NAME_BYTES: usize = 15;

/// A congestion control of receiving sockets, loaded by this process under its own name as long as the value lives.
/// Connections that use it keep it until they close.
#[derive(Debug)]
pub struct EceSignal {
    name: String,
    orders: MapHandle,
    told: MapHandle,
    _link: Link,
    _object: Object,
}

impl EceSignal {
    /// Loads it.
    ///
    /// # Errors
    /// [`ControlError`]: what this machine lacks, or the kernel's error.
    pub fn load() -> Result<EceSignal, ControlError> {
        loop {
            let name = free_name()?;
            match load_as(&name) {
                // Another process took the name first.
                Err(ControlError::AlreadyThere { .. }) => {}
                done => return done,
            }
        }
    }

    /// The kernel's name for it. Use [`EceSignal::attach`] instead of this name: a socket that chooses it by name, such
    /// as a listener, makes the kernel send ECN-capable packets even if ECN was not negotiated, which an AQM marks
    /// without effect (RFC 3168 §6.1.1).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the congestion control of a connection with it, if ECN was negotiated; returns whether it was. Call it
    /// after the handshake, as on an accepted socket.
    ///
    /// # Errors
    /// When it is no TCP socket.
    pub fn attach(&self, socket: impl AsFd) -> io::Result<bool> {
        let has_ecn = TcpInfo::of(&socket)?.ecn() != Ecn::Off;
        if has_ecn {
            congestion::choose(socket, &self.name).map_err(io::Error::other)?;
        }
        Ok(has_ecn)
    }

    /// Sets a socket's order, replacing the previous one.
    ///
    /// # Errors
    /// When it is no socket, or the kernel is out of memory.
    pub fn order(&self, socket: impl AsFd, order: &Order) -> io::Result<()> {
        let updated = self
            .orders
            .update(&key(&socket), &order_bytes(order), MapFlags::ANY);
        updated.map_err(io::Error::other)
    }

    /// Makes a socket signal once, at the next arriving segment, and removes its order.
    ///
    /// # Errors
    /// As for [`EceSignal::order`].
    pub fn ask(&self, socket: impl AsFd) -> io::Result<()> {
        let before = self.orders.lookup(&key(&socket), MapFlags::ANY);
        let word = before.map_err(io::Error::other)?.unwrap_or_default();
        let asked = word
            .first_chunk()
            .map_or(0, |word| u64::from_ne_bytes(*word));
        let order = Order {
            asked: asked + 1,
            ..Order::default()
        };
        self.order(socket, &order)
    }

    /// The signals of a socket: none before a segment arrived, or on a connection without ECN.
    #[must_use]
    pub fn signals(&self, socket: impl AsFd) -> Signals {
        let told = self.told.lookup(&key(&socket), MapFlags::ANY);
        let told = told.ok().flatten();
        told.and_then(|told| signals_of(&told)).unwrap_or_default()
    }
}

/// `struct order` of `bpf/ece.bpf.c`.
fn order_bytes(order: &Order) -> Vec<u8> {
    let words = [
        order.asked,
        order.passed_bytes,
        order.passed_at.ns(),
        order.going_bytes,
        order.drain_bytes_per_s,
        order.bound_bytes,
        order.least_bytes,
    ];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// From `struct told` of `bpf/ece.bpf.c`; `None` when the bytes are invalid.
fn signals_of(told: &[u8]) -> Option<Signals> {
    let word = |place: usize| {
        let word = told.get(place * 8..place * 8 + 8)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    };
    Some(Signals {
        segments: word(0)?,
        signals: word(1)?,
        answers: word(2)?,
        recovering: word(3)?,
        spared: word(4)?,
        powerless: word(5)?,
        backlog_max_bytes: word(6)?,
        loop_ns: word(7)?,
        arrival_bytes_per_s: word(8)?,
    })
}

/// Socket storage is addressed by descriptor.
fn key(socket: &impl AsFd) -> [u8; 4] {
    socket.as_fd().as_raw_fd().to_ne_bytes()
}

/// A name that no congestion control has now.
fn free_name() -> Result<String, ControlError> {
    let taken = congestion::available().map_err(|error| ControlError::Unseen(error.to_string()))?;
    let mut names = (0_u32..).map(|number| match number {
        0 => NAME.to_owned(),
        number => format!("{NAME}{number}"),
    });
    let free = names.find(|name| !taken.split(' ').any(|other| other == name));
    free.filter(|name| name.len() <= NAME_BYTES)
        .ok_or_else(|| refused("every name that it could have is taken"))
}

fn load_as(name: &str) -> Result<EceSignal, ControlError> {
    let mut object = ebpf::load("ece", OBJECT, |open| rename(open, name))?.object;
    let map = object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps);
    let link = map
        .ok_or_else(|| refused("its program has no struct_ops"))?
        .attach_struct_ops()
        .map_err(|error| match error.kind() {
            libbpf_rs::ErrorKind::AlreadyExists => ControlError::AlreadyThere { name: NAME },
            _ => refused(&error.to_string()),
        })?;
    let handle = |name: &str| {
        let map = object.maps().find(|map| map.name() == name);
        let map = map.ok_or_else(|| refused(&format!("its program has no map {name}")))?;
        MapHandle::try_from(&map).map_err(|error| refused(&error.to_string()))
    };
    Ok(EceSignal {
        name: name.to_owned(),
        orders: handle("ece_orders")?,
        told: handle("ece_told")?,
        _link: link,
        _object: object,
    })
}

/// Writes the name into the structure that the kernel registers.
fn rename(open: &mut OpenObject, name: &str) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        if map.map_type() != MapType::StructOps {
            continue;
        }
        let data = map.initial_value_mut().unwrap_or_default();
        let place = data
            .windows(NAME.len())
            .position(|bytes| bytes == NAME.as_bytes());
        if let Some(room) = place.and_then(|place| data.get_mut(place..place + name.len())) {
            room.copy_from_slice(name.as_bytes());
        }
    }
    Ok(())
}

fn refused(reason: &str) -> ControlError {
    ControlError::NotRegistered {
        name: NAME,
        reason: reason.replace('\n', " "),
    }
}
