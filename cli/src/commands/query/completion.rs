//! `parallax completion`: prints shell completion scripts.

use clap_complete::Shell;

use crate::{commands::print, exit::Failure};

/// Print the completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: source <(parallax completion bash)")]
pub(crate) struct Args {
    /// Shell to complete for.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut command, "parallax", &mut out);
    print(&String::from_utf8_lossy(&out))
}
