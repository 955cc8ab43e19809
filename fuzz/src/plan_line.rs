//! Lines of the plan stream, as the aggregator may send them.

use parallax_model::PlanLine;

/// The bytes are one line.
pub fn check(bytes: &[u8]) {
    let Ok(line) = serde_json::from_slice::<PlanLine>(bytes) else {
        return;
    };
    if line == PlanLine::Unknown {
        return;
    }
    let written = serde_json::to_vec(&line).expect("a line can be written");
    let read: PlanLine = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(read, line);
}
