//! Loading an object: open, prepare, load, with all that the kernel says about it.

use libbpf_rs::{Object, ObjectBuilder, OpenObject};

use super::verifier::{self, Transcript};
use super::{EbpfError, available};

/// An object whose programs the kernel has accepted. They are attached by what is done with
/// [`Loaded::object`]; maps and programs that nothing else holds go with it.
#[derive(Debug)]
pub struct Loaded {
    /// Its maps and programs.
    pub object: Object,
    /// What libbpf and the verifier said while it was loaded: instructions, states, stack depth.
    pub verifier_log: String,
}

/// Loads the object `name` (its source is `src/bpf/NAME.bpf.c`) from the bytes that the build script
/// made. `prepare` sets its read-only data, or leaves out programs that this kernel cannot have.
///
/// # Errors
/// [`EbpfError`]: what this machine lacks, or why the kernel refuses.
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
    // libelf wants the file's start aligned as the allocator aligns, which a constant's bytes need
    // not be.
    let aligned = bytes.to_vec();
    ObjectBuilder::default().open_memory(&aligned)
}
