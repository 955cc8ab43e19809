//! `parallax notify`: tests the receivers of notifications.

use std::{fmt::Write as _, path::PathBuf};

use parallax_aggregator::Config;

use super::print;
use crate::exit::Failure;

/// Test the receivers of notifications.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: NotifyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NotifyCommand {
    /// Send a test message to each receiver under `notify` in the configuration, and print one line per receiver.
    ///
    /// Exit codes: 0 all receivers accepted it, 1 some did not, 2 invalid configuration or no receiver, 3 could not
    /// run.
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// The aggregator's configuration file.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CONFIG")]
    config: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let NotifyCommand::Test(args) = &args.command;
    let config = Config::load(&args.config).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::indeterminate)?;
    let tried = runtime
        .block_on(config.send_test_notifications())
        .map_err(|error| {
            if matches!(error, parallax_notify::TestDeliveryError::NoReceivers) {
                Failure::usage(error)
            } else {
                Failure::indeterminate(error)
            }
        })?;
    let mut text = String::new();
    for one in &tried {
        // Writing into a string cannot fail.
        let _ = match &one.outcome {
            Ok(took) => writeln!(
                text,
                "{} ({}): delivered in {} ms",
                one.name,
                one.kind,
                took.as_millis()
            ),
            Err(reason) => writeln!(text, "{} ({}): not delivered: {reason}", one.name, one.kind),
        };
    }
    print(&text)?;
    if tried.iter().all(|one| one.outcome.is_ok()) {
        Ok(())
    } else {
        Err(Failure::Negative)
    }
}
