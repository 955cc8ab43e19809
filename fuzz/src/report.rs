//! A prober's report: what `POST /v1/observations` does with a body once it is unpacked. The aggregator keeps its
//! decoder to itself and needs nothing else for it, so the file is taken in here as it is.

use parallax_model::{Observation, ReportHeader};

#[path = "../../aggregator/src/ingest/lines.rs"]
mod lines;

/// The bytes are the body.
pub fn check(bytes: &[u8]) {
    let Ok(batch) = lines::parse(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&batch.header).expect("a header can be written");
    assert_eq!(
        serde_json::from_slice::<ReportHeader>(&written).expect("what was written can be read"),
        batch.header
    );
    for observation in &batch.observations {
        let written = serde_json::to_vec(observation).expect("an observation can be written");
        let read: Observation = serde_json::from_slice(&written).expect("what was written can be read");
        assert_eq!(read, *observation);
    }
    let longest = bytes.split(|byte| *byte == b'\n').count() as u64;
    assert!(batch.malformed + batch.observations.len() as u64 <= longest);
}
