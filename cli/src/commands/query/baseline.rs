//! `parallax baseline`: manages the baselines of targets.

use parallax_api::baselines::{BaselineResetAnswer, BaselineResetRequest};

use super::{ApiClient, ServerArgs, block_on};
use crate::{commands::print, exit::Failure};

/// Manage baselines: what a target answers while it works. `parallax targets -o wide` shows them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: BaselineCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BaselineCommand {
    /// Forget the baseline of a target, so that it is learned again from the target's next responses.
    Reset {
        /// Id of the target, as shown by `parallax targets`.
        #[arg(value_name = "TARGET")]
        target: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let BaselineCommand::Reset { target, server } = args.command;
    let client = ApiClient::new(&server)?;
    let request = BaselineResetRequest { target };
    let answer: BaselineResetAnswer = block_on(client.post(&["v1", "baselines", "reset"], &request))?;
    let text = if answer.had_baseline {
        "baseline reset; it will be learned again from the next rounds"
    } else {
        "no baseline to reset"
    };
    print(&format!("{}: {text}\n", answer.target))
}
