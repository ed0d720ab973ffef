//! Loading an object: open, prepare, load, and collect the kernel's log.

use libbpf_rs::{Object, ObjectBuilder, OpenObject};

use super::verifier::{self, Transcript};
use super::{EbpfError, available};

/// An object whose programs the kernel has accepted. Attach them through [`Loaded::object`]; maps and programs without
/// other references end with it.
#[derive(Debug)]
pub struct Loaded {
    /// Its maps and programs.
    pub object: Object,
    /// The log of libbpf and the verifier: instructions, states, stack depth.
    pub verifier_log: String,
}

/// Loads the object `name` (its source is `src/bpf/NAME.bpf.c`) from the bytes that the build script made. `prepare`
/// sets its read-only data, and disables programs that this kernel does not support.
///
/// # Errors
/// [`EbpfError`]: what this machine lacks, or why the kernel rejects the object.
pub fn load(
    name: &'static str,
    bytes: &[u8],
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Loaded, EbpfError> {
    available()?;
    let transcript = Transcript::begin();
    let loaded = open(bytes).and_then(|mut object| {
        for mut program in object.progs_mut() {
            program.set_log_level(verifier::LOG_LEVEL);
        }
        prepare(&mut object)?;
        object.load()
    });
    let verifier_log = transcript.end();
    match loaded {
        Ok(object) => {
            verifier::keep_where_asked(name, &verifier_log)?;
            Ok(Loaded {
                object,
                verifier_log,
            })
        }
        Err(error) => Err(verifier::refused(name, &error, &verifier_log)),
    }
}

fn open(bytes: &[u8]) -> libbpf_rs::Result<OpenObject> {
    // libelf needs the file aligned as by the allocator; a constant's bytes need not be.
    let aligned = bytes.to_vec();
    ObjectBuilder::default().open_memory(&aligned)
}
