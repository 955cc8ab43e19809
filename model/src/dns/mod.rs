//! What several DNS servers answer for a name, and what its CAA records mean. The answers travel from prober
//! to aggregator; their evaluation ([`evaluate_caa`], [`name_differences`]) is pure, so that both ends reach the
//! same result.

mod caa;
mod compare;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

pub use self::{
    caa::{CaaAsk, CaaRefusal, CaaVerdict, caa_names, evaluate_caa, lookup_problem},
    compare::{ComparedRecord, DnsOpinion, NameDifference, name_differences},
};
use crate::{FailureKind, HostName, Scope};

/// A probe that queries several servers for a name. Used in runs only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesProbe {
    /// The name; for a wildcard, the name below the asterisk.
    pub name: HostName,
    /// Public resolvers to query in addition to the machine's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "public")]
    pub public_resolvers: Vec<SocketAddr>,
    /// Whether to query the authoritative servers of the name's zone as well, wherever they are on the
    /// internet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "authorities")]
    pub query_authorities: bool,
    /// Addresses that the authoritative servers may have; unrestricted if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// The answers that one vantage received for a name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NameSight {
    /// One view per server: the machine's own resolvers, the public ones, the authoritative servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<NameView>,
    /// Why there is no view of an authoritative server; absent if there is one, or if none was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "no_authority")]
    pub authority_failure: Option<FailureKind>,
    /// CAA records of the name and all its parents, from the first public resolver that answers, or from the
    /// machine's own resolver if no public one was queried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caa: Vec<CaaAt>,
}

impl NameSight {
    /// Deserializes a value leniently: a form that only a newer prober knows becomes `None`.
    ///
    /// # Errors
    /// Returns only the errors of the underlying format.
    pub fn deserialize_lenient<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<Self>>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum TaggedAnswer {
            Known(Box<NameSight>),
            Newer(IgnoredAny),
        }
        Ok(match TaggedAnswer::deserialize(deserializer)? {
            TaggedAnswer::Known(sight) => Some(sight),
            TaggedAnswer::Newer(_) => None,
        })
    }
}

/// The owner of a DNS server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerOwner {
    /// The machine's own resolver; for a Pod, that of the cluster.
    #[serde(rename = "own")]
    Local,
    /// A public resolver.
    Public,
    /// An authoritative server of the zone.
    Authority {
        /// The zone.
        zone: String,
        /// The server's name.
        server: String,
    },
}

/// The answers of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameView {
    /// The server's owner.
    #[serde(rename = "by")]
    pub owner: ServerOwner,
    /// The server's address.
    pub server: SocketAddr,
    /// The answer for IPv4 addresses.
    pub a: RecordAnswer,
    /// The answer for IPv6 addresses.
    pub aaaa: RecordAnswer,
    /// The chain of aliases, starting with the target of the name's own alias.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// CAA records of the name itself.
    pub caa: CaaAnswer,
}

/// The answer to a query for addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordAnswer {
    /// These addresses, sorted.
    Addresses(Vec<IpAddr>),
    /// The name exists but has no address.
    None,
    /// There is no such name.
    #[serde(rename = "no_name")]
    NoSuchName,
    /// No usable answer.
    Failed(FailureKind),
}

impl RecordAnswer {
    /// The addresses; empty if there are none.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Addresses(addresses) => addresses,
            Self::None | Self::NoSuchName | Self::Failed(_) => &[],
        }
    }
}

/// One CAA record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CaaRecord {
    /// Flags; 128 (critical) means that an authority that does not support the tag must not issue.
    pub flags: u8,
    /// The property tag.
    pub tag: String,
    /// The property value.
    pub value: String,
}

impl fmt::Display for CaaRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {:?}",
            self.flags,
            self.tag.to_ascii_lowercase(),
            self.value
        )
    }
}

/// The answer to a query for CAA records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaaAnswer {
    /// The records.
    Records(Vec<CaaRecord>),
    /// There are no records.
    None,
    /// No usable answer: there may be records.
    Failed(FailureKind),
}

/// The CAA answer for a name or one of its parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaaAt {
    /// The name.
    pub name: String,
    /// The answer.
    pub answer: CaaAnswer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct TaggedRecord {
        #[serde(default, deserialize_with = "NameSight::deserialize_lenient")]
        names: Option<Box<NameSight>>,
    }

    #[test]
    fn facts_in_a_form_that_only_a_newer_prober_knows_are_none_and_refuse_nothing() {
        let newer = r#"{"names":{"views":[{"by":"resolver_over_quic","server":"192.0.2.1:853"}]}}"#;
        assert_eq!(serde_json::from_str::<TaggedRecord>(newer).unwrap().names, None);
        let more = r#"{"names":{"caa":[{"name":"test","answer":"none"}],"dnssec":"bogus"}}"#;
        let sight = serde_json::from_str::<TaggedRecord>(more).unwrap().names.unwrap();
        assert_eq!(sight.caa[0].answer, CaaAnswer::None);
        assert_eq!(serde_json::from_str::<TaggedRecord>("{}").unwrap().names, None);
    }
}
