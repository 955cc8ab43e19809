//! Lines of the plan stream, as sent by the aggregator.

use parallax_model::PlanLine;

/// Parses the bytes as one line.
pub fn check(bytes: &[u8]) {
    let Ok(line) = serde_json::from_slice::<PlanLine>(bytes) else {
        return;
    };
    if line == PlanLine::Unknown {
        return;
    }
    let written = serde_json::to_vec(&line).expect("a line can be serialized");
    let read: PlanLine = serde_json::from_slice(&written).expect("a serialized line can be parsed");
    assert_eq!(read, line);
}
