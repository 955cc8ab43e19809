//! `parallax manual DIRECTORY`: writes the manual pages, for packages and releases.

use std::path::PathBuf;

use crate::exit::Failure;

/// Write the manual pages, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "To read one: man -l DIRECTORY/parallax.1")]
pub(crate) struct Args {
    /// Existing directory for the pages.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> Result<(), Failure> {
    clap_mangen::generate_to(command, &args.directory).map_err(|error| {
        Failure::usage(anyhow::anyhow!(error).context(format!(
            "cannot write the manual pages to {}",
            args.directory.display()
        )))
    })
}
