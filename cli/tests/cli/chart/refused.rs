//! Wrong values are refused by Helm itself, with the path of the value and what is expected.

use std::fs;

use serde::Deserialize;

use super::{cases, helm};
use crate::commands::text;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    values: String,
    /// What the message contains.
    message: Vec<String>,
}

#[test]
fn wrong_values_are_refused_with_their_path_and_what_is_expected() {
    let test = "wrong_values_are_refused_with_their_path_and_what_is_expected";
    let Some(helm) = helm::installed(test) else {
        return;
    };
    let cases: Vec<Case> = cases("refused");
    assert!(cases.len() >= 150, "{}", cases.len());
    let expects = |case: &&Case| {
        let mut words = case.message.iter();
        words.any(|word| {
            ["want ", "must be ", "expected "]
                .iter()
                .any(|sign| word.contains(sign))
        })
    };
    let expecting = cases.iter().filter(expects).count();
    assert!(
        expecting >= 40,
        "only {expecting} cases assert what the message expects"
    );
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    for case in cases {
        fs::write(&values, &case.values).unwrap();
        let release = ("parallax", "parallax");
        let output = helm
            .template(release, &["--values", values.to_str().unwrap()])
            .unwrap();
        let message = text(&output.stderr);
        assert!(!output.status.success(), "accepted: {}", case.values);
        for word in &case.message {
            assert!(
                message.contains(word),
                "{}{word} is not in {message}",
                case.values
            );
        }
    }
}

#[test]
fn a_namespace_that_leaves_no_room_for_the_host_probers_is_refused() {
    let Some(helm) = helm::installed("a_namespace_that_leaves_no_room_for_the_host_probers_is_refused")
    else {
        return;
    };
    for namespace in ["Parallax", "-a", &"a".repeat(59)] {
        let output = helm.template(("parallax", namespace), &[]).unwrap();
        let message = text(&output.stderr);
        assert!(
            !output.status.success() && message.contains("--namespace: expected"),
            "{namespace}: {message}"
        );
    }
}
