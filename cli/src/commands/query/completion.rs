//! `parallax completion`: what the shell needs to complete our words.

use clap_complete::Shell;

use crate::{commands::print, exit::Failure};

/// The completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: source <(parallax completion bash)")]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut command, "parallax", &mut out);
    print(&String::from_utf8_lossy(&out))
}
