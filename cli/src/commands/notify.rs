//! `parallax notify`: try the ways to those who are told of incidents.

use std::{fmt::Write as _, path::PathBuf};

use parallax_aggregator::Config;

use super::print;
use crate::exit::Failure;

/// Look after those who are told of incidents.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: NotifyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NotifyCommand {
    /// Send one message, marked as a test, to each receiver under `notify` in the configuration; one line each.
    ///
    /// Exit code 0: all took it. 1: some did not. 2: the configuration is wrong, or names nobody. 3: it could not be tried.
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// The configuration of the aggregator.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CONFIG")]
    config: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let NotifyCommand::Test(args) = &args.what;
    let config = Config::load(&args.config).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::could_not)?;
    let tried = runtime.block_on(config.try_receivers()).map_err(|error| {
        if matches!(error, parallax_notify::TestDeliveryError::Nobody) {
            Failure::usage(error)
        } else {
            Failure::could_not(error)
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
                one.way,
                took.as_millis()
            ),
            Err(why) => writeln!(text, "{} ({}): not delivered: {why}", one.name, one.way),
        };
    }
    print(&text)?;
    if tried.iter().all(|one| one.outcome.is_ok()) {
        Ok(())
    } else {
        Err(Failure::No)
    }
}
