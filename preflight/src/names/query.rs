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
    Answered(Box<NameFactsResult>),
    /// The query was not made or not answered; the reason.
    NotQueried(String),
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
    pub fn run_request(&self, host: &HostName) -> RunRequest {
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
    pub fn from_run(found: Option<Box<NameFactsResult>>) -> Self {
        match found {
            Some(found) if !found.facts.views.is_empty() => Self::Answered(found),
            _ => Self::NotQueried("no vantage responded; older probers do not support this query".to_owned()),
        }
    }

    /// The facts, if there are any.
    #[must_use]
    pub const fn facts(&self) -> Option<&NameFactsResult> {
        match self {
            Self::Answered(found) => Some(found),
            Self::NotQueried(_) => None,
        }
    }

    /// Lists what was not tested.
    #[must_use]
    pub fn not_checked(&self) -> Vec<String> {
        match self {
            Self::NotQueried(reason) => vec![format!(
                "CAA records, and the responses of resolvers other than the nodes' own: {reason}"
            )],
            Self::Answered(found) => {
                let mut all = Vec::new();
                if found.verdict.caa == CaaState::NotQueried {
                    all.push(found.verdict.caa_description.clone());
                }
                all.extend(found.facts.not_queried.iter().cloned());
                if let Some(kind) = &found.facts.no_authority {
                    all.push(format!("the zone's own servers: {}", kind.description()));
                }
                all
            }
        }
    }
}
