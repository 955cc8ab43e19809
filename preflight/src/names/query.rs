//! The query for a host's DNS facts, and its result.

use parallax_api::{
    names::CaaState,
    runs::{NameFactsRequest, NameFactsResult, RunRequest, RunVantages},
};
use parallax_model::HostName;

/// The result of the query.
#[derive(Debug)]
pub enum NameAnswer {
    /// The facts.
    Found(Box<NameFactsResult>),
    /// The query was not made or not answered; the reason.
    NotAsked(String),
}

/// The CA and account for which the DNS facts are evaluated.
#[derive(Debug, Clone, Default)]
pub struct NameQuery {
    /// The CA's identities in CAA records; empty if unknown.
    pub identities: Vec<String>,
    /// The URL of the requesting account.
    pub account_uri: Option<String>,
}

impl NameQuery {
    /// Returns the run that queries the facts.
    #[must_use]
    pub fn request(&self, host: &HostName) -> RunRequest {
        RunRequest {
            url: format!("dns://{host}"),
            from: RunVantages::All,
            names: Some(NameFactsRequest {
                identities: self.identities.clone(),
                account_uri: self.account_uri.clone(),
            }),
            ..RunRequest::default()
        }
    }
}

impl NameAnswer {
    /// Converts the result of a run.
    #[must_use]
    pub fn of(found: Option<Box<NameFactsResult>>) -> Self {
        match found {
            Some(found) if !found.facts.views.is_empty() => Self::Found(found),
            _ => Self::NotAsked("no vantage responded; older probers do not support this query".to_owned()),
        }
    }

    /// The facts, if there are any.
    #[must_use]
    pub const fn found(&self) -> Option<&NameFactsResult> {
        match self {
            Self::Found(found) => Some(found),
            Self::NotAsked(_) => None,
        }
    }

    /// Lists what was not tested.
    #[must_use]
    pub fn not_checked(&self) -> Vec<String> {
        match self {
            Self::NotAsked(why) => vec![format!(
                "CAA records, and the responses of resolvers other than the nodes' own: {why}"
            )],
            Self::Found(found) => {
                let mut all = Vec::new();
                if found.judged.caa == CaaState::NotAsked {
                    all.push(found.judged.caa_words.clone());
                }
                all.extend(found.facts.not_asked.iter().cloned());
                if let Some(kind) = &found.facts.no_authority {
                    all.push(format!("the zone's own servers: {}", kind.words()));
                }
                all
            }
        }
    }
}
