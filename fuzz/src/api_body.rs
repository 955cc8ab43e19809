//! Bodies of requests at the aggregator's API, from people and programs that may act.

use std::fmt::Debug;

use parallax_api::{
    incident_actions::{AcknowledgeRequest, SilenceRequest, WindowRequest},
    runs::RunRequest,
};
use parallax_model::TargetSpec;
use serde::{Serialize, de::DeserializeOwned};

use crate::{target::accepted, work::bounded};

/// Bytes allocated for each byte of a body.
const FACTOR: u64 = 128;

/// Reads the bytes as each kind of body.
pub fn check(bytes: &[u8]) {
    read::<AcknowledgeRequest>(bytes);
    read::<SilenceRequest>(bytes);
    read::<WindowRequest>(bytes);
    let Some(run) = read::<RunRequest>(bytes) else {
        return;
    };
    accepted(TargetSpec::new(&run.url));
}

fn read<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let body: T = bounded(bytes, FACTOR, |bytes| serde_json::from_slice(bytes)).ok()?;
    let written = serde_json::to_vec(&body).expect("a body can be serialized");
    let again: T = serde_json::from_slice(&written).expect("a serialized body can be read");
    assert_eq!(again, body);
    Some(body)
}
