//! Commands that query a running aggregator.

pub(crate) mod baseline;
pub(crate) mod completion;
pub(crate) mod explain;
pub(crate) mod forecasts;
pub(crate) mod incident_actions;
pub(crate) mod incidents;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod targets;

mod challenges;
mod client;
mod cluster;
mod output_format;

pub(crate) use client::{ApiClient, ConnectionArgs, ServerArgs};
pub(crate) use cluster::{API_SERVER_TIMEOUT, DEFAULT_NAMESPACE};
pub(crate) use output_format::{Output, TextTable};

use parallax_diagnosis::view::View;
use serde::Deserialize as _;
use serde_json::Value;

use crate::exit::Failure;

/// Fetches the aggregator's state, as JSON and as a parsed view.
fn fetch_state(client: &ApiClient) -> Result<(Value, View), Failure> {
    let state: Value = block_on(client.get(&["v1", "state"], &[]))?;
    let view = View::deserialize(&state).map_err(Failure::indeterminate)?;
    Ok((state, view))
}

/// Runs a future to completion on its own runtime.
pub(crate) fn block_on<T>(doing: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::indeterminate)?
        .block_on(doing)
}
