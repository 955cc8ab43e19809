//! Targets as people write them, and the other small texts of the model.

use parallax_model::{ExpectedStatus, Front, Target, TargetSpec, Vantage};

/// The bytes are a URL, a target in JSON, or one of the short written forms.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    accepted(TargetSpec::of(text));
    if let Ok(spec) = serde_json::from_str::<TargetSpec>(text) {
        accepted(spec);
    }
    if let Ok(front) = text.parse::<Front>() {
        assert_eq!(front.to_string().parse(), Ok(front));
    }
    if let Ok(vantage) = text.parse::<Vantage>() {
        assert_eq!(vantage.to_string().parse(), Ok(vantage));
    }
    if let Ok(statuses) = ExpectedStatus::try_from(text.to_owned()) {
        assert_eq!(ExpectedStatus::try_from(statuses.to_string()), Ok(statuses));
    }
}

/// The id of a target is a URL of the same target.
fn accepted(spec: TargetSpec) {
    let (expect_status, expect_body_contains) =
        (spec.expect_status.clone(), spec.expect_body_contains.clone());
    let Ok(target) = Target::try_from(spec) else {
        return;
    };
    let again = TargetSpec {
        expect_status,
        expect_body_contains,
        ..TargetSpec::of(target.id.as_str())
    };
    let again = Target::try_from(again).expect("the id of a target can be read again");
    assert_eq!((&again.id, &again.probe), (&target.id, &target.probe));
}
