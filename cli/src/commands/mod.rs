//! One module per subcommand.

pub(crate) mod aggregator;
pub(crate) mod check;
mod credentials_file;
pub(crate) mod manual;
pub(crate) mod notify;
pub(crate) mod preflight;
pub(crate) mod prober;
pub(crate) mod query;
pub(crate) mod record;
mod recording;
pub(crate) mod replay;
pub(crate) mod server_text;
pub(crate) mod solver;
pub(crate) mod up;
pub(crate) mod vantage;
pub(crate) mod verify_install;

use std::io::{IsTerminal, Write as _};

use parallax_terminal::ColorMode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;

/// Reports whether the binary was invoked as `kubectl parallax`.
pub(crate) fn invoked_as_kubectl_plugin() -> bool {
    let called = std::env::args_os().next();
    called
        .as_deref()
        .and_then(|path| std::path::Path::new(path).file_stem())
        .is_some_and(|name| name == "kubectl-parallax")
}

/// Colour on a terminal, unless `NO_COLOR` is set.
fn color() -> ColorMode {
    let plain =
        !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    if plain {
        ColorMode::Plain
    } else {
        ColorMode::Colored
    }
}

/// Prints a text to stdout. A closed pipe (`| head`) is not an error.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::indeterminate(error)),
        _ => Ok(()),
    }
}

/// Returns a token that SIGINT and SIGTERM cancel. A second signal exits the process at once.
fn stop_on_signal() -> Result<CancellationToken, Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::indeterminate)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::indeterminate)?;
    let token = CancellationToken::new();
    let stop = token.clone();
    // Detached: it lives as long as the process and holds no resources.
    tokio::spawn(async move {
        for round in 0..2 {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if round == 0 {
                stop.cancel();
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(token)
}
