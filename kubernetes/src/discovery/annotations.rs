//! The annotations `parallax.dev/…` of Services, Ingresses, routes and namespaces.
//!
//! An invalid annotation is noted and ignored; it does not affect others.

use parallax_model::{ExpectedStatus, HostName, RootCertificates};

use super::notes::{NoteCollector, quote};
use crate::objects::{ANNOTATION_PREFIX, KeptMetadata};

/// Minimum and maximum interval in milliseconds. Users of a namespace write annotations, so the minimum is that of a
/// `Target` object, not of a configured target.
const INTERVAL_MS: (u64, u64) = (5_000, 3_600_000);

/// Annotation whose value never appears in a note.
const EXTRA_ROOTS: &str = "extra-roots";

/// Maximum length of a path in bytes.
const MAX_PATH_LENGTH: usize = 1024;

/// Parsed annotations of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ProbeAnnotations {
    /// `parallax.dev/probe`: whether to probe at all.
    pub(super) probe: Option<bool>,
    /// `parallax.dev/path`: the path to request.
    pub(super) path: Option<String>,
    /// `parallax.dev/expect`: statuses that count as success.
    pub(super) expect: Option<ExpectedStatus>,
    /// `parallax.dev/interval`, in milliseconds.
    pub(super) interval_ms: Option<u64>,
    /// `parallax.dev/sample`: hosts to probe if the object names a wildcard.
    pub(super) samples: Vec<HostName>,
    /// `parallax.dev/pending`: the object is not in service yet.
    pub(super) pending: bool,
    /// `parallax.dev/extra-roots`: additional CA certificates for verifying its TLS hosts.
    pub(super) extra_roots: Option<RootCertificates>,
}

/// Parses the annotations of an object; `object` is its display name, such as `Ingress shop/web`.
pub(super) fn parse_annotations(
    object: &str,
    meta: &KeptMetadata,
    notes: &mut NoteCollector,
) -> ProbeAnnotations {
    let mut wish = ProbeAnnotations::default();
    for (name, value) in &meta.annotations {
        let Some(word) = name.strip_prefix(ANNOTATION_PREFIX) else {
            continue;
        };
        if let Err(expected) = wish.set(word, value.trim()) {
            notes.add(
                object,
                format_args!(
                    "{}: expected {expected}, got {}",
                    quote(name).trim_matches('"'),
                    // The value may be a private key by mistake.
                    if word == EXTRA_ROOTS {
                        "something else".to_owned()
                    } else {
                        quote(value)
                    }
                ),
            );
        }
    }
    wish
}

impl ProbeAnnotations {
    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        match word {
            "probe" => {
                self.probe = Some(match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err("\"true\" or \"false\"".to_owned()),
                });
            }
            "pending" => {
                self.pending = match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err("\"true\" or \"false\"".to_owned()),
                };
            }
            "path" => {
                let sound = value.starts_with('/')
                    && value.len() <= MAX_PATH_LENGTH
                    && !value
                        .chars()
                        .any(|c| c.is_whitespace() || c.is_control() || c == '#');
                if !sound {
                    return Err("a path that begins with / and has no white space".to_owned());
                }
                self.path = Some(value.to_owned());
            }
            "expect" => {
                let expected = ExpectedStatus::try_from(value.to_owned());
                self.expect =
                    Some(expected.map_err(|_| "statuses like 200, 200-299,404, 2xx or <500".to_owned())?);
            }
            "interval" => {
                let (low, high) = INTERVAL_MS;
                let interval = parse_milliseconds(value).filter(|ms| (low..=high).contains(ms));
                self.interval_ms = Some(interval.ok_or("a time like 10s or 5m, from 5s to 60m")?);
            }
            "sample" => {
                self.samples = value
                    .split(',')
                    .map(|host| {
                        let host = host.trim();
                        HostName::new(host)
                            .ok()
                            .filter(|_| !host.contains(['*', '/', ':']))
                            .ok_or_else(|| "host names with commas between them".to_owned())
                    })
                    .collect::<Result<_, _>>()?;
            }
            EXTRA_ROOTS => {
                let roots = RootCertificates::try_from(value.to_owned());
                self.extra_roots =
                    Some(roots.map_err(|_| "CA certificates in PEM form without private keys")?);
            }
            _ => {
                return Err(
                    "one of the annotations probe, path, expect, interval, pending, sample and extra-roots"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

/// Parses `500ms`, `10s`, `5m`.
fn parse_milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match text.get(digits.len()..)? {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (ProbeAnnotations, Vec<String>) {
        let meta = KeptMetadata {
            annotations: pairs
                .iter()
                .map(|(name, value)| (format!("parallax.dev/{name}"), (*value).to_owned()))
                .collect(),
            ..KeptMetadata::default()
        };
        let mut notes = NoteCollector::default();
        let wish = parse_annotations("Service shop/web", &meta, &mut notes);
        (wish, notes.finish().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn each_annotation_says_what_it_says() {
        let (wish, notes) = read(&[
            ("probe", "true"),
            ("path", "/healthz?full=1"),
            ("expect", "200-299,404"),
            ("interval", "30s"),
            ("sample", "a.example.test, b.example.test"),
            ("pending", "true"),
            (
                "extra-roots",
                "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----",
            ),
        ]);
        assert_eq!(notes, [""; 0]);
        assert_eq!(wish.probe, Some(true));
        assert_eq!(wish.path.as_deref(), Some("/healthz?full=1"));
        assert_eq!(
            wish.expect,
            Some(ExpectedStatus::Ranges(vec![(200, 299), (404, 404)]))
        );
        assert_eq!(wish.interval_ms, Some(30_000));
        assert_eq!(wish.samples.len(), 2);
        assert!(wish.pending);
        assert_eq!(wish.extra_roots.unwrap().certificates().len(), 1);
    }

    #[test]
    fn a_wish_that_cannot_be_understood_is_noted_with_what_was_expected_and_the_others_hold() {
        for (name, value, expected) in [
            ("probe", "yes", "expected \"true\" or \"false\", got \"yes\""),
            ("path", "healthz", "expected a path that begins with /"),
            ("path", "/a b", "no white space"),
            ("expect", "fine", "expected statuses like 200"),
            ("interval", "10", "expected a time like 10s or 5m"),
            ("interval", "4999ms", "from 5s to 60m"),
            ("interval", "99999999999999999999s", "expected a time"),
            ("sample", "*.example.test", "expected host names"),
            (
                "pending",
                "maybe",
                "expected \"true\" or \"false\", got \"maybe\"",
            ),
            (
                "extra-roots",
                "-----BEGIN PRIVATE KEY-----\nMAMCAQE=\n-----END PRIVATE KEY-----",
                "expected CA certificates in PEM form without private keys, got something else",
            ),
            ("prob", "true", "expected one of the annotations"),
        ] {
            let (wish, notes) =
                read(&[(name, value), ("path", "/kept")][..if name == "path" { 1 } else { 2 }]);
            assert_eq!(notes.len(), 1, "{name}={value}");
            let start = format!("Service shop/web: parallax.dev/{name}: ");
            assert!(
                notes[0].starts_with(&start) && notes[0].contains(expected),
                "{}",
                notes[0]
            );
            assert_eq!(wish.path.as_deref(), (name != "path").then_some("/kept"));
        }
    }
}
