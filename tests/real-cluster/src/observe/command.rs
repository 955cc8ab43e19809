//! `parallax status` as a user or a script runs it: with a kubeconfig and a forwarded port.

use std::{cell::RefCell, path::Path, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};

use super::{Clock, ExitCode, StatusResult, Timeline};

/// Timeout of one run.
const STATUS_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs it once.
pub(super) async fn status(binary: &Path, kubeconfig: &Path, clock: Clock, timeline: &RefCell<Timeline>) {
    let at = clock.now();
    let running = Command::new(binary)
        .args(["status", "--kubeconfig"])
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .output();
    let (code, line) = match timeout(STATUS_TIMEOUT, running).await {
        Ok(Ok(output)) => {
            let printed = if output.stdout.is_empty() {
                output.stderr
            } else {
                output.stdout
            };
            let printed = String::from_utf8_lossy(&printed).into_owned();
            (
                output.status.code(),
                printed.lines().next().unwrap_or_default().to_owned(),
            )
        }
        Ok(Err(error)) => (None, error.to_string()),
        Err(_) => (None, format!("no exit within {STATUS_TIMEOUT:?}")),
    };
    timeline.borrow_mut().statuses.push(StatusResult {
        at,
        until: clock.now(),
        code: ExitCode(code),
        line,
    });
}
