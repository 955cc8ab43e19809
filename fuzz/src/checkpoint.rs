//! A checkpoint of another process: a compressed document of a `ConfigMap` or the store. The aggregator's decoder is private, so
//! its file is included here.

use std::sync::Arc;

use parallax_diagnosis::{Engine, Settings, topology::Topology};
use parallax_model::{EventTime, Micros};

use crate::work::bounded;

#[path = "../../aggregator/src/checkpoint/document.rs"]
#[expect(dead_code, reason = "the target only reads checkpoints")]
mod document;

use document::CheckpointDocument;

/// Bytes allocated for each byte of a document.
const FACTOR: u64 = 2_048;

/// Reads the bytes as a document, compressed or not, and restores an engine from it.
pub fn check(bytes: &[u8]) {
    let read = bounded(bytes, FACTOR, CheckpointDocument::from_slice);
    let Ok(document) = read.or_else(|_| CheckpointDocument::from_gzip(bytes)) else {
        return;
    };
    let settings = Settings {
        interval: Micros::from_secs(5),
        timeout: Micros::from_secs(3),
    };
    let mut engine = Engine::new(settings, Arc::new(Topology::default()));
    engine.restore(&document.checkpoint, EventTime(20_000_000));
    engine.advance(EventTime(40_000_000));
    let again = engine.checkpoint(EventTime(40_000_000));
    let written = serde_json::to_string(&again).expect("a checkpoint can be serialized");
    assert!(!written.is_empty());
}
