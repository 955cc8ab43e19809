//! `parallax baseline`: what targets answer while they work.

use parallax_api::baselines::{BaselineResetAnswer, BaselineResetRequest};

use super::{ApiClient, ServerArgs, wait};
use crate::{commands::print, exit::Failure};

/// What targets answer while they work. `parallax targets -o wide` shows it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: BaselineCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BaselineCommand {
    /// Forget what a target answers while it works: what it answers from now on is what counts as working.
    Reset {
        /// The target's id, as `parallax targets` shows it.
        #[arg(value_name = "TARGET")]
        target: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let BaselineCommand::Reset { target, server } = args.what;
    let client = ApiClient::new(&server)?;
    let request = BaselineResetRequest { target };
    let answer: BaselineResetAnswer = wait(client.post(&["v1", "baselines", "reset"], &request))?;
    let text = if answer.known {
        "baseline reset; it is learned again from the next rounds"
    } else {
        "there was no baseline to reset"
    };
    print(&format!("{}: {text}\n", answer.target))
}
