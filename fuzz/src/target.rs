//! Targets as users write them, and the other small text formats of the model.

use parallax_model::{ExpectedStatus, Front, Target, TargetSpec, Vantage};

/// The bytes are a URL, a target in JSON, or one of the short forms.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    accepted(TargetSpec::new(text));
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

/// The id of an accepted target is a URL of the same target.
pub(crate) fn accepted(spec: TargetSpec) {
    let Ok(target) = Target::try_from(spec.clone()) else {
        return;
    };
    let again = TargetSpec {
        url: target.id.to_string(),
        ..spec
    };
    let again = Target::try_from(again).expect("the id of a target can be parsed");
    assert_eq!(again, target);
}
