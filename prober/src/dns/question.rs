//! The name and record type of a query.

use hickory_proto::{
    op::Query,
    rr::{Name, RecordType as WireType},
};
use parallax_model::RecordType;

/// The name and record type of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DnsQuestion {
    pub(super) name: Name,
    pub(super) record: RecordType,
}

impl DnsQuestion {
    /// Creates a question for a name that is taken as fully qualified.
    pub(crate) fn new(name: &str, record: RecordType) -> Result<Self, NotAName> {
        let mut parsed = Name::from_ascii(name).map_err(|_| NotAName)?;
        parsed.set_fqdn(true);
        Ok(Self { name: parsed, record })
    }

    pub(super) fn wire_type(&self) -> WireType {
        match self.record {
            RecordType::A => WireType::A,
            RecordType::Aaaa => WireType::AAAA,
        }
    }

    pub(super) fn matches(&self, query: &Query) -> bool {
        query.name() == &self.name && query.query_type() == self.wire_type()
    }
}

/// The text is not a domain name: a label is empty or longer than 63 bytes, or the name is longer than 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a domain name")]
pub(crate) struct NotAName;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_beyond_63_bytes_is_no_name() {
        assert_eq!(DnsQuestion::new(&"x".repeat(64), RecordType::A), Err(NotAName));
    }
}
