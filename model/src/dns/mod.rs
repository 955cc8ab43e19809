//! What is said of a name, by whom, and what its CAA records mean. What servers say travels from prober to aggregator;
//! what it means ([`judge_caa`], [`name_differences`]) is pure, so that both ends judge alike.

mod caa;
mod compare;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

pub use self::{
    caa::{CaaAsk, CaaRefusal, CaaVerdict, caa_names, judge_caa, lookup_problem},
    compare::{ComparedRecord, DnsOpinion, NameDifference, name_differences},
};
use crate::{FailureKind, HostName, Scope};

/// Who is asked about a name. Only runs have such probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesProbe {
    /// The name; of a wildcard that below its asterisk.
    pub name: HostName,
    /// Resolvers that see what the world sees, besides the machine's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public: Vec<SocketAddr>,
    /// Whether the servers of the name's zone are asked too, wherever on the internet they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub authorities: bool,
    /// Where a zone's servers may be; anywhere where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// What a vantage was told of a name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NameSight {
    /// What each server says: the machine's own, the public ones, the zone's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<NameView>,
    /// Why there are none of the zone's own servers; absent where there are some, or where none were wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_authority: Option<FailureKind>,
    /// The name and all above it with their CAA records, as the first public resolver that answers gives them, or the
    /// machine's own where no public one was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caa: Vec<CaaAt>,
}

impl NameSight {
    /// A newer prober may tell it in another form, which is as good as nothing told.
    ///
    /// # Errors
    /// None but those of the text itself.
    pub fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Self>>, D::Error> {
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

/// Whose server it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerOwner {
    /// The asking machine's own resolver: for a pod the cluster's.
    Own,
    /// A resolver that sees what the world sees.
    Public,
    /// A server of the zone itself.
    Authority {
        /// The zone.
        zone: String,
        /// The server's name.
        server: String,
    },
}

/// What one server says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameView {
    /// Whose it is.
    pub by: ServerOwner,
    /// Where it was asked.
    pub server: SocketAddr,
    /// Of IPv4.
    pub a: RecordAnswer,
    /// Of IPv6.
    pub aaaa: RecordAnswer,
    /// The aliases from the name on, each with where the one before leads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// CAA records of the name itself.
    pub caa: CaaAnswer,
}

/// What became of a question for addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordAnswer {
    /// These addresses, sorted.
    Addresses(Vec<IpAddr>),
    /// The name exists and has none.
    None,
    /// There is no such name.
    NoName,
    /// No answer that says anything.
    Failed(FailureKind),
}

impl RecordAnswer {
    /// The addresses, where there are some.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Addresses(addresses) => addresses,
            Self::None | Self::NoName | Self::Failed(_) => &[],
        }
    }
}

/// One CAA record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CaaRecord {
    /// Its flags: 128 says that who does not know its tag must not issue.
    pub flags: u8,
    /// What it is about.
    pub tag: String,
    /// What it says.
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

/// What became of the question for a name's CAA records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaaAnswer {
    /// These.
    Records(Vec<CaaRecord>),
    /// There are none.
    None,
    /// No answer: there may be some.
    Failed(FailureKind),
}

/// A name on the way up, with what became of its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaaAt {
    /// The name.
    pub name: String,
    /// Its records.
    pub answer: CaaAnswer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct TaggedRecord {
        #[serde(default, deserialize_with = "NameSight::lenient")]
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
