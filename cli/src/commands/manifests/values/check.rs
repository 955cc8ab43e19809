//! Validation of values: reports what the API server would reject, with line numbers.

use std::collections::BTreeMap;

use parallax_aggregator::{ConfigError, ConfigProblem, YamlDocument};

use super::raw::RawToleration;

/// Collects the problems found.
pub(super) struct ValueProblems<'a> {
    document: &'a YamlDocument,
    found: Vec<ConfigProblem>,
}

impl<'a> ValueProblems<'a> {
    pub(super) const fn new(document: &'a YamlDocument) -> Self {
        Self {
            document,
            found: Vec::new(),
        }
    }

    /// Returns all problems, if there are any.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        if self.found.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::new(self.found))
        }
    }

    pub(super) fn add(&mut self, path: &str, message: String) {
        self.found.push(self.document.problem(path, message));
    }

    fn expect(&mut self, good: bool, path: &str, expected: &str, found: &str) {
        if !good {
            let found: String = found.chars().take(80).collect();
            self.add(path, format!("expected {expected}, found {found:?}"));
        }
    }

    pub(super) fn in_range(&mut self, path: &str, value: u64, low: u64, high: u64, unit: &str) {
        if !(low..=high).contains(&value) {
            self.add(path, format!("expected {low} to {high} {unit}, found {value}"));
        }
    }

    pub(super) fn one_of(&mut self, path: &str, value: &str, known: &[&str]) {
        self.expect(known.contains(&value), path, &known.join(" or "), value);
    }

    pub(super) fn non_empty(&mut self, path: &str, length: usize) {
        if length == 0 {
            self.add(path, "expected at least one".to_owned());
        }
    }

    pub(super) fn port(&mut self, path: &str, port: u16) {
        if port == 0 {
            self.add(path, "expected 1 to 65535, found 0".to_owned());
        }
    }

    /// Ports below 1024 require a privilege that no Parallax Pod has.
    pub(super) fn unprivileged_port(&mut self, path: &str, port: u16) {
        if port < 1_024 {
            self.add(path, format!("expected 1024 to 65535, found {port}"));
        }
    }

    /// The namespace of the installation, to which `-host` may be appended.
    pub(super) fn namespace(&mut self, path: &str, name: &str) {
        self.expect(
            is_label(name) && name.len() <= 58,
            path,
            "the name of a namespace (at most 58 of a-z, 0-9 and inner -)",
            name,
        );
    }

    /// The name of an object.
    pub(super) fn name(&mut self, path: &str, name: &str) {
        self.expect(
            is_subdomain(name),
            path,
            "a name of a-z, 0-9, - and . that starts and ends with a letter or digit",
            name,
        );
    }

    /// A key of a `ConfigMap`, which is also used as a file name.
    pub(super) fn key(&mut self, path: &str, key: &str) {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        self.expect(
            (1..=253).contains(&key.len()) && key.bytes().all(known) && !key.starts_with(".."),
            path,
            "a key of letters, digits, -, _ and .",
            key,
        );
    }

    /// A host name or an IP address.
    pub(super) fn host(&mut self, path: &str, host: &str) {
        let good = is_subdomain(host) || host.parse::<std::net::IpAddr>().is_ok();
        self.expect(good, path, "a host name or an IP address, without a port", host);
    }

    pub(super) fn image(&mut self, path: &str, image: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        let good = image.starts_with(|c: char| c.is_ascii_alphanumeric())
            && image.ends_with(|c: char| c.is_ascii_alphanumeric())
            && image.chars().all(plain);
        self.expect(good, path, "an image like REGISTRY/parallax:TAG", image);
    }

    /// `500m`, `1.5`, `128Mi`: digits with at most one decimal point, and a suffix of Kubernetes quantities.
    pub(super) fn quantity(&mut self, path: &str, text: &str) {
        const SUFFIXES: [&str; 15] = [
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi",
        ];
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        let good = digits > 0 && number.len() - digits <= 1 && SUFFIXES.contains(&suffix);
        self.expect(good, path, "a quantity like 500m, 1.5 or 128Mi", text);
    }

    pub(super) fn labels(&mut self, path: &str, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            let (prefix, name) = key
                .split_once('/')
                .map_or((None, key.as_str()), |(a, b)| (Some(a), b));
            let good = prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name);
            self.expect(good, path, "label keys like kubernetes.io/os", key);
            self.expect(
                is_label_value(value),
                path,
                "label values of at most 63 letters, digits, -, _ and .",
                value,
            );
        }
    }

    pub(super) fn toleration(&mut self, path: &str, raw: &RawToleration) {
        let operator = raw.operator.as_deref().unwrap_or("Equal");
        self.one_of(&format!("{path}.operator"), operator, &["Exists", "Equal"]);
        if let Some(effect) = &raw.effect {
            self.one_of(
                &format!("{path}.effect"),
                effect,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
        if raw.key.is_none() && operator != "Exists" {
            self.add(
                path,
                "expected a key, or operator: Exists to tolerate every taint".to_owned(),
            );
        }
        if raw.value.is_some() && operator == "Exists" {
            self.add(
                &format!("{path}.value"),
                "expected no value with operator: Exists".to_owned(),
            );
        }
        if raw.toleration_seconds.is_some() && raw.effect.as_deref() != Some("NoExecute") {
            self.add(
                &format!("{path}.tolerationSeconds"),
                "expected tolerationSeconds only with effect: NoExecute".to_owned(),
            );
        }
    }
}

/// Reports whether this is a label of RFC 1123.
fn is_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Reports whether this is a subdomain of RFC 1123.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Reports whether this is a label value, or the name part of a label key.
fn is_label_value(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= 63
            && text.starts_with(edge)
            && text.ends_with(edge)
            && text.chars().all(|c| edge(c) || "-_.".contains(c)))
}
