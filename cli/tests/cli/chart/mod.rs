//! The Helm chart, rendered by a real Helm: it creates the objects of `parallax manifests`, and refuses wrong values.

mod files;
pub(crate) mod helm;
mod refused;
mod rendered;

use std::fs;

use serde::de::DeserializeOwned;

use crate::commands::repository;

/// Reads the cases of a fixture of the chart.
fn cases<T: DeserializeOwned>(fixture: &str) -> Vec<T> {
    let path = repository(&format!("cli/tests/fixtures/chart/{fixture}.yaml"));
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
