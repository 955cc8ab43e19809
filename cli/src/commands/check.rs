//! `parallax check URL…`.

pub(crate) use parallax_check::CheckOptions as Args;
use parallax_check::{Check, CheckOutcome};

use super::{color, prober::read_roots, stop_on_signal};
use crate::exit::Failure;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let check = Check::new(args).map_err(Failure::usage)?;
    let roots = args
        .extra_roots
        .iter()
        .map(|path| read_roots(path))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    // A single thread, so that other work does not distort the timings.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::indeterminate)?;
    let outcome = runtime.block_on(async {
        let stop = stop_on_signal()?;
        check
            .run(&roots, color(), &stop)
            .await
            .map_err(|error| Failure::Indeterminate(format!("cannot write the result: {error}")))
    });
    // A thread that blocks in the C library's resolver cannot be stopped; leave it behind.
    runtime.shutdown_background();
    match outcome? {
        CheckOutcome::Works => Ok(()),
        CheckOutcome::Fails => Err(Failure::Negative),
        CheckOutcome::Unknown { unknown, all } => Err(Failure::Indeterminate(format!(
            "the result of {unknown} of {all} URLs is unknown; see above"
        ))),
    }
}
