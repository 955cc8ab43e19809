//! The hosts that a credential is for.

use std::{fmt, str::FromStr};

use parallax_model::HostName;

/// An exact host, or every name below a domain (`*.example.com`). Compared without case and without the root dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// Lower case. Starts with a dot if it is the end of a name.
    pattern: String,
}

/// The text is no host rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a host name, an address or *.DOMAIN with at least two labels, got {0:?}")]
pub struct InvalidHostRule(String);

impl HostRule {
    /// Returns the rule for exactly this host.
    #[must_use]
    pub fn exact(host: &HostName) -> Self {
        Self {
            pattern: normalized(host.as_str()),
        }
    }

    pub(crate) fn matches(&self, host: &HostName) -> bool {
        let host = normalized(host.as_str());
        if self.pattern.starts_with('.') {
            host.len() > self.pattern.len() && host.ends_with(&self.pattern)
        } else {
            host == self.pattern
        }
    }
}

fn normalized(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

impl FromStr for HostRule {
    type Err = InvalidHostRule;

    fn from_str(text: &str) -> Result<Self, InvalidHostRule> {
        let invalid = || InvalidHostRule(text.chars().take(256).collect());
        let name = text.strip_prefix("*.").unwrap_or(text);
        // The whole of a top-level domain is no party that a secret is for.
        let too_wide = name.len() < text.len() && !name.trim_end_matches('.').contains('.');
        let characters = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_address = text.parse::<std::net::IpAddr>().is_ok();
        if name.is_empty()
            || name.starts_with('.')
            || too_wide
            || !(is_address || name.chars().all(characters))
        {
            return Err(invalid());
        }
        // "*.example.com" becomes ".example.com".
        Ok(Self {
            pattern: normalized(text.strip_prefix('*').unwrap_or(text)),
        })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.pattern.starts_with('.') { "*" } else { "" };
        write!(f, "{star}{}", self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_host_or_everything_below_a_domain() {
        for (rule, host, expected) in [
            ("shop.example.com", "shop.example.com", true),
            ("Shop.example.com", "SHOP.example.com.", true),
            ("shop.example.com", "a.shop.example.com", false),
            ("shop.example.com", "shop.example.com.evil.test", false),
            ("*.example.com", "shop.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "notexample.com", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.10", false),
            ("2001:db8::1", "2001:db8::1", true),
        ] {
            let rule: HostRule = rule.parse().unwrap();
            assert_eq!(
                rule.matches(&HostName::new(host).unwrap()),
                expected,
                "{rule} {host}"
            );
        }
    }

    #[test]
    fn a_rule_for_every_host_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "*.com",
            "*.com.",
            "a*.example.com",
            ".example.com",
            "https://a",
            "a b",
            "a:443",
        ] {
            assert!(text.parse::<HostRule>().is_err(), "{text}");
        }
    }
}
