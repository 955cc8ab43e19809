//! `challenges`: how pending Challenges of cert-manager are explained.

use parallax_acme::challenges::ChallengeOptions;
use parallax_model::Namespace;
use serde::Deserialize;

use super::duration::parse_within;

/// Minimum and maximum time that a Challenge has been pending before it is explained, in seconds.
const WAIT_RANGE_S: (u64, u64) = (1, 3_600);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawChallenges {
    /// A duration with s, m, h or d.
    pub(super) wait_before: Option<String>,
    pub(super) cert_manager_namespace: Option<Namespace>,
}

pub(super) fn validate(raw: RawChallenges, wrong: &mut impl FnMut(&str, String)) -> ChallengeOptions {
    let mut options = ChallengeOptions {
        cert_manager_namespace: raw.cert_manager_namespace.map(String::from),
        ..ChallengeOptions::default()
    };
    if let Some(text) = raw.wait_before {
        match parse_within(&text, WAIT_RANGE_S) {
            Some(wait) => options.wait_before = wait,
            None => wrong(
                "challenges.waitBefore",
                format!("expected a duration from 1s to 1h such as 30s, found {text:?}"),
            ),
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use parallax_model::Micros;

    use super::*;

    #[test]
    fn the_wait_is_a_duration_within_its_range() {
        let read = |text: &str| {
            let mut errors = Vec::new();
            let raw = RawChallenges {
                wait_before: Some(text.to_owned()),
                cert_manager_namespace: None,
            };
            let options = validate(raw, &mut |field, message| {
                errors.push(format!("{field}: {message}"));
            });
            (options.wait_before, errors)
        };
        assert_eq!(read("2m"), (Micros::from_secs(120), Vec::new()));
        for refused in ["0s", "2h", "30", "soon"] {
            let (wait, errors) = read(refused);
            assert_eq!(wait, ChallengeOptions::default().wait_before);
            assert_eq!(
                errors,
                [format!(
                    "challenges.waitBefore: expected a duration from 1s to 1h such as 30s, found {refused:?}"
                )]
            );
        }
    }
}
