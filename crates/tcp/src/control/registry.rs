//! Congestion controls in the running kernel: load, keep, find and unload.
//!
//! A link (`BPF_LINK_TYPE_STRUCT_OPS`) holds a control in the kernel. It ends with its last descriptor, or, if the link
//! was pinned in the BPF file system, with that file.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};
use libbpf_rs::{Link, MapCore, MapHandle, MapType, Object, OpenObject, ProgramType};

use super::{Algorithm, ControlError, Options, State, Status, data};
use crate::congestion;
use crate::ebpf::{self, Loaded};

mod pins;

use pins::Pins;

/// The sections of read-only data that are set before loading: names of libbpf's maps.
const GROWTH: &str = ".rodata.growth";
const LAW: &str = ".rodata.law";

/// A control that is still loaded this long after its pins were removed is held by a process.
const PATIENCE: Duration = Duration::from_secs(5);

/// A control that this process holds in the kernel.
#[derive(Debug)]
pub struct Control {
    algorithm: Algorithm,
    /// The options that it was loaded with, if known.
    options: Option<Options>,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    /// Loaded by this process.
    Loaded {
        link: Link,
        object: Object,
        verifier_log: String,
    },
    /// Already loaded; this descriptor keeps it loaded meanwhile.
    Shared { _link: OwnedFd },
}

impl Control {
    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The options that it was loaded with; unknown if another process holds it.
    #[must_use]
    pub fn options(&self) -> Option<Options> {
        self.options
    }

    /// Whether another process had loaded it before.
    #[must_use]
    pub fn was_there(&self) -> bool {
        matches!(self.hold, Hold::Shared { .. })
    }

    /// The log of libbpf and the verifier from loading it; empty if another process did.
    #[must_use]
    pub fn verifier_log(&self) -> &str {
        match &self.hold {
            Hold::Loaded { verifier_log, .. } => verifier_log,
            Hold::Shared { .. } => "",
        }
    }

    /// Keeps it loaded after this process ends, until [`unload`].
    ///
    /// # Errors
    /// [`ControlError::Keeping`], which unloads it at once. [`ControlError::AlreadyThere`] when another process holds
    /// it.
    pub fn keep(self) -> Result<(), ControlError> {
        let algorithm = self.algorithm;
        let Hold::Loaded {
            mut link,
            mut object,
            ..
        } = self.hold
        else {
            return Err(ControlError::AlreadyThere {
                name: algorithm.name(),
            });
        };
        let pins = Pins::of(algorithm);
        pins.make_room()?;
        let pinned = pins.pin(&mut link, &mut object);
        if pinned.is_err() {
            // A partial pin would obstruct the next attempt.
            let _gone = pins.remove();
        }
        pinned
    }
}

/// Loads the control of `algorithm` into the kernel, under its name.
///
/// # Errors
/// [`ControlError`]: invalid options, what this machine lacks, a name that is taken, or the kernel's error.
pub fn load(algorithm: Algorithm, options: &Options) -> Result<Control, ControlError> {
    options.check()?;
    let (source, bytes) = program(algorithm);
    let Loaded {
        mut object,
        verifier_log,
    } = ebpf::load(source, bytes, |open| configure(open, options))?;
    let mut map = object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps)
        .ok_or_else(|| refused(algorithm, "its program has no struct_ops"))?;
    let link = map
        .attach_struct_ops()
        .map_err(|error| match error.kind() {
            libbpf_rs::ErrorKind::AlreadyExists => ControlError::AlreadyThere {
                name: algorithm.name(),
            },
            _ => refused(algorithm, &error.to_string()),
        })?;
    Ok(Control {
        algorithm,
        options: Some(*options),
        hold: Hold::Loaded {
            link,
            object,
            verifier_log,
        },
    })
}

/// Makes `algorithm` available to sockets as long as the value lives: loads it with the `wanted` options, or shares one
/// that is loaded with them. Without `wanted`, the options of its standard are loaded, and a control that is already
/// loaded is shared whatever its options.
///
/// # Errors
/// As [`load`], and [`ControlError::LoadedOtherwise`].
pub fn hold(algorithm: Algorithm, wanted: Option<&Options>) -> Result<Control, ControlError> {
    let options = wanted.copied().unwrap_or_default();
    match load(algorithm, &options) {
        Err(ControlError::AlreadyThere { .. }) => {}
        done => return done,
    }
    let Some(link) = find(algorithm)? else {
        // It was unloaded just now; or another program has taken the name, without a link.
        return load(algorithm, &options);
    };
    let pins = Pins::of(algorithm);
    let found = if pins.exist() { pins.options() } else { None };
    if wanted.is_some() && found.as_ref() != wanted {
        return Err(ControlError::LoadedOtherwise {
            name: algorithm.name(),
            found: match found {
                Some(_) => "with other parameters",
                None => "by a running program, with unknown parameters",
            },
        });
    }
    Ok(Control {
        algorithm,
        options: found,
        hold: Hold::Shared { _link: link },
    })
}

/// Unloads a kept control. Connections that use it keep it until they close.
///
/// # Errors
/// [`ControlError::NotLoaded`], [`ControlError::HeldByProcess`], or the error that prevents unloading.
pub fn unload(algorithm: Algorithm) -> Result<(), ControlError> {
    let name = algorithm.name();
    match show(algorithm)?.state {
        State::Kept => {
            Pins::of(algorithm).remove()?;
            gone(algorithm)
        }
        State::Held => Err(ControlError::HeldByProcess { name }),
        State::Absent => Err(ControlError::NotLoaded { name }),
    }
}

/// Waits for the kernel to unload it after the last pin is removed: the link goes first, then the name that sockets
/// choose.
fn gone(algorithm: Algorithm) -> Result<(), ControlError> {
    let since = Instant::now();
    let is_offered = || {
        let names = congestion::available().unwrap_or_default();
        names
            .split_whitespace()
            .any(|name| name == algorithm.name())
    };
    while find(algorithm)?.is_some() || is_offered() {
        if since.elapsed() > PATIENCE {
            return Err(ControlError::HeldByProcess {
                name: algorithm.name(),
            });
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// All of wansan's controls, loaded or not.
///
/// # Errors
/// [`ControlError`] when the process may not list them.
pub fn list() -> Result<Vec<Status>, ControlError> {
    Algorithm::ALL.into_iter().map(show).collect()
}

/// The state of a control.
///
/// # Errors
/// [`ControlError`] when the process may not list them.
pub fn show(algorithm: Algorithm) -> Result<Status, ControlError> {
    ebpf::available()?;
    let pins = Pins::of(algorithm);
    let state = match (find(algorithm)?, pins.exist()) {
        (Some(_), true) => State::Kept,
        (Some(_), false) => State::Held,
        (None, _) => State::Absent,
    };
    let options = match state {
        State::Kept => pins.options(),
        State::Held | State::Absent => None,
    };
    Ok(Status {
        algorithm,
        state,
        options,
    })
}

/// The program of an algorithm, by the name of its source.
fn program(algorithm: Algorithm) -> (&'static str, &'static [u8]) {
    macro_rules! object {
        ($name:literal) => {
            (
                $name,
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")).as_slice(),
            )
        };
    }
    match algorithm {
        Algorithm::Reno => object!("reno"),
        Algorithm::HighSpeed => object!("hstcp"),
        Algorithm::Scalable => object!("scal"),
    }
}

/// Writes the options into the program's read-only data, and disables programs that only tests call.
fn configure(open: &mut OpenObject, options: &Options) -> libbpf_rs::Result<()> {
    for mut program in open.progs_mut() {
        let called_by_the_kernel = program.prog_type() == ProgramType::StructOps;
        program.set_autoload(called_by_the_kernel);
    }
    for mut map in open.maps_mut() {
        let data = match map.name().to_str() {
            Some(GROWTH) => data::of_growth(&options.growth),
            Some(LAW) => data::of_highspeed(&options.highspeed),
            _ => continue,
        };
        map.set_initial_value(&data)?;
    }
    Ok(())
}

/// A descriptor of the link that holds `algorithm`, whichever process made it.
fn find(algorithm: Algorithm) -> Result<Option<OwnedFd>, ControlError> {
    for link in LinkInfoIter::default() {
        let LinkTypeInfo::StructOps(struct_ops) = link.info else {
            continue;
        };
        // Links and maps may appear and disappear during the search.
        let Ok(map) = MapHandle::from_map_id(struct_ops.map_id) else {
            continue;
        };
        if map.name() == algorithm.name() {
            match link_by_id(link.id) {
                Ok(link) => return Ok(Some(link)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ControlError::Unseen(error.to_string())),
            }
        }
    }
    Ok(None)
}

#[allow(
    unsafe_code,
    reason = "libbpf-rs does not give descriptors of links by their numbers"
)]
fn link_by_id(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number and nothing else.
    let descriptor = unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) };
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: the kernel has just made it, owned by this caller alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn refused(algorithm: Algorithm, reason: &str) -> ControlError {
    ControlError::NotRegistered {
        name: algorithm.name(),
        reason: reason.replace('\n', " "),
    }
}
