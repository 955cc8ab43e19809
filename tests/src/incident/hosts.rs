//! Host names, listed or as a numbered pattern.

use parallax_model::{HostName, InvalidName};
use serde::{Deserialize, Serialize};

/// Maximum number of names of a pattern; more would not fit into a round of the lab's single CPU.
const MAX_HOSTS: u32 = 1000;

/// Host names of an Ingress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "HostsForm", into = "HostsForm")]
pub struct IngressHosts(Vec<HostName>);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum HostsForm {
    List(Vec<HostName>),
    Range(NumberedHosts),
}

/// `{pattern: "shop-%02d.example.test", count: 50}`: numbered from 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NumberedHosts {
    pattern: String,
    count: u32,
}

/// Invalid hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHosts {
    /// No names.
    #[error("hosts: expected at least one name")]
    None,
    /// Too many or no names.
    #[error("hosts.count: expected 1 to {MAX_HOSTS}, got {0}")]
    Count(u32),
    /// No mark for the number.
    #[error("hosts.pattern: expected exactly one number mark like %d or %02d, got {0:?}")]
    Pattern(String),
    /// An invalid name.
    #[error("hosts: {0}")]
    Name(#[from] InvalidName),
}

impl IngressHosts {
    /// Returns the names, in the order of the file.
    #[must_use]
    pub fn names(&self) -> &[HostName] {
        &self.0
    }
}

impl TryFrom<HostsForm> for IngressHosts {
    type Error = InvalidHosts;

    fn try_from(written: HostsForm) -> Result<Self, InvalidHosts> {
        match written {
            HostsForm::List(names) if names.is_empty() => Err(InvalidHosts::None),
            HostsForm::List(names) => Ok(Self(names)),
            HostsForm::Range(NumberedHosts { pattern, count }) => {
                if !(1..=MAX_HOSTS).contains(&count) {
                    return Err(InvalidHosts::Count(count));
                }
                let (before, width, after) =
                    number_mark(&pattern).ok_or_else(|| InvalidHosts::Pattern(pattern.clone()))?;
                let names = (1..=count).map(|n| HostName::new(format!("{before}{n:0width$}{after}")));
                Ok(Self(names.collect::<Result<_, _>>()?))
            }
        }
    }
}

impl From<IngressHosts> for HostsForm {
    fn from(hosts: IngressHosts) -> Self {
        Self::List(hosts.0)
    }
}

/// Splits a pattern at its single `%d` or `%0Nd` into prefix, width and suffix.
fn number_mark(pattern: &str) -> Option<(&str, usize, &str)> {
    let (before, rest) = pattern.split_once('%')?;
    let (width, after) = rest.split_once('d')?;
    let width = match width {
        "" => 0,
        digits => digits.strip_prefix('0')?.parse().ok().filter(|w| *w <= 9)?,
    };
    (!after.contains('%')).then_some((before, width, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(yaml: &str) -> Result<Vec<String>, String> {
        serde_saphyr::from_str::<IngressHosts>(yaml)
            .map(|hosts| hosts.names().iter().map(ToString::to_string).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_pattern_counts_from_one_with_its_width() {
        let names = hosts("{pattern: 'shop-%02d.example.test', count: 12}").unwrap();
        assert_eq!(names.len(), 12);
        assert_eq!(names[0], "shop-01.example.test");
        assert_eq!(names[11], "shop-12.example.test");
        assert_eq!(
            hosts("{pattern: 'a%d.test', count: 2}").unwrap(),
            ["a1.test", "a2.test"]
        );
    }

    #[test]
    fn hosts_that_name_nothing_are_refused() {
        for wrong in [
            "[]",
            "{pattern: 'shop.example.test', count: 2}",
            "{pattern: 'a%dx%d', count: 2}",
            "{pattern: 'a%2d', count: 2}",
            "{pattern: 'a%d', count: 0}",
            "{pattern: 'a%d', count: 1001}",
        ] {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
    }
}
