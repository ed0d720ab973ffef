//! Compiles the eBPF programs in `src/bpf` of the package with clang; only with the feature `ebpf`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    if env::var_os("CARGO_FEATURE_EBPF").is_none() {
        return ExitCode::SUCCESS;
    }
    match compile_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("cargo::error={problem}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles each `src/bpf/NAME.bpf.c` into `OUT_DIR/NAME.bpf.o`.
fn compile_all() -> Result<(), String> {
    // Cargo runs this in the package's folder; relative names still work when the sources move.
    let sources = Path::new("src/bpf");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed=../tcp/src/bpf/kernel.h");
    println!("cargo::rerun-if-env-changed=CLANG");
    let entries = sources
        .read_dir()
        .map_err(|error| format!("cannot read {}: {error}", sources.display()))?;
    for entry in entries.flatten() {
        let source = entry.path();
        // Rebuild also when files are added or removed, not only when a source or header changes.
        println!("cargo::rerun-if-changed={}", source.display());
        if source.to_string_lossy().ends_with(".bpf.c") {
            compile(&source)?;
        }
    }
    Ok(())
}

fn compile(source: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let object = PathBuf::from(variable("OUT_DIR")?)
        .join(source.file_name().unwrap_or_default())
        .with_extension("o");
    let output = Command::new(&clang)
        .args(["-g", "-O2", "-target", "bpf"])
        // The kernel defines a hook's arguments; few programs need them all.
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        // bpf_tracing.h needs the architecture whose registers hold the arguments.
        .arg(match variable("CARGO_CFG_TARGET_ARCH")?.as_str() {
            "x86_64" => "-D__TARGET_ARCH_x86".to_owned(),
            "aarch64" => "-D__TARGET_ARCH_arm64".to_owned(),
            other => format!("-D__TARGET_ARCH_{other}"),
        })
        .arg("-isystem")
        // The headers of the same libbpf version that loads the programs.
        .arg(variable("DEP_BPF_INCLUDE")?)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()
        .map_err(|error| {
            format!(
                "the feature `ebpf` needs clang, and `{clang}` does not start ({error}): install \
                 it (Debian: apt-get install clang), name another in CLANG, or build without \
                 the feature"
            )
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    let first = said.lines().find(|line| line.contains("error"));
    Err(format!(
        "{clang} does not compile {}: {}",
        source.display(),
        first.unwrap_or("see above")
    ))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo does not set {name}"))
}
