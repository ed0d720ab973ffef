//! `wansan completions`: shell completion scripts for wansan's command line.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::{Shell, generate};

use super::heard;

/// Arguments of `wansan completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to write the script for
    #[arg(value_parser = PossibleValuesParser::new(["bash", "fish", "zsh"])
        .try_map(|name| name.parse::<Shell>()))]
    shell: Shell,
}

/// Runs `wansan completions`; `wansan` is the command line.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn run(args: &CompletionsArgs, mut wansan: clap::Command) -> Result<ExitCode> {
    // Generate into memory first: `generate` panics if it cannot write.
    let mut script = Vec::new();
    generate(args.shell, &mut wansan, "wansan", &mut script);
    let mut out = io::stdout().lock();
    heard(out.write_all(&script).and_then(|()| out.flush()))?;
    Ok(ExitCode::SUCCESS)
}
