//! A prober's report: the decompressed body of `POST /v1/observations`. The aggregator's decoder is private and has no
//! other dependencies, so its file is included here.

use parallax_model::{Observation, ReportHeader};

#[path = "../../aggregator/src/ingest/lines.rs"]
mod lines;

/// Decodes the bytes as the body.
pub fn check(bytes: &[u8]) {
    let Ok(batch) = lines::parse_report(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&batch.header).expect("a header can be serialized");
    assert_eq!(
        serde_json::from_slice::<ReportHeader>(&written).expect("a serialized header can be parsed"),
        batch.header
    );
    for observation in &batch.observations {
        let written = serde_json::to_vec(observation).expect("an observation can be serialized");
        let read: Observation =
            serde_json::from_slice(&written).expect("a serialized observation can be parsed");
        assert_eq!(read, *observation);
    }
    let longest = bytes.split(|byte| *byte == b'\n').count() as u64;
    assert!(batch.malformed_lines + batch.observations.len() as u64 <= longest);
}
