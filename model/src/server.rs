//! The product that an HTTP response names as its server.

use serde::{Deserialize, Serialize};

/// Maximum length of a product name in bytes.
const MAX_LENGTH: usize = 32;

/// The product of a `Server` field (RFC 9110 §10.2.4), in lower case and without its version: `nginx/1.27.1`
/// and `nginx` are the same product. The version changes with every upgrade; the product changes only if
/// another server responds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ServerProduct(String);

impl ServerProduct {
    /// Returns the product that a field names, or `None` if it contains no printable name.
    #[must_use]
    pub fn from_field(field: &str) -> Option<Self> {
        let product: String = field
            .trim_start()
            .chars()
            .take_while(|c| !c.is_whitespace() && !matches!(c, '/' | '(' | ','))
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            .take(MAX_LENGTH)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        (!product.is_empty()).then_some(Self(product))
    }

    /// The product as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ServerProduct {
    /// Sanitizes a value from a sender of another version instead of rejecting it.
    fn from(value: String) -> Self {
        Self::from_field(&value).unwrap_or_else(|| Self("unknown".to_owned()))
    }
}

impl From<ServerProduct> for String {
    fn from(product: ServerProduct) -> Self {
        product.0
    }
}

impl std::fmt::Display for ServerProduct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_its_name_without_version_comment_and_case() {
        let product = |field| ServerProduct::from_field(field).map(String::from);
        assert_eq!(product("nginx/1.27.1").as_deref(), Some("nginx"));
        assert_eq!(product("Apache (Debian)").as_deref(), Some("apache"));
        assert_eq!(product("  gunicorn").as_deref(), Some("gunicorn"));
        assert_eq!(product("\u{1b}[31mx y").as_deref(), Some("31mx"));
        assert_eq!(product("/1.0"), None);
        assert_eq!(product(&"x".repeat(100)).map(|text| text.len()), Some(MAX_LENGTH));
    }

    #[test]
    fn what_another_version_sends_is_tamed_and_not_refused() {
        let product: ServerProduct = serde_json::from_str("\"\"").unwrap();
        assert_eq!(product.as_str(), "unknown");
    }
}
