//! What is asked of a host's name, for whom, and what became of the question.

use parallax_api::{
    names::CaaState,
    runs::{NameFactsRequest, NameFactsResult, RunRequest, RunVantages},
};
use parallax_model::HostName;

/// What became of the question.
#[derive(Debug)]
pub enum NameAnswer {
    /// It was answered.
    Found(Box<NameFactsResult>),
    /// It was not, and why.
    NotAsked(String),
}

/// What is asked of the name, for whom.
#[derive(Debug, Clone, Default)]
pub struct NameQuery {
    /// By which names the authority goes in CAA records; none where it is not known.
    pub identities: Vec<String>,
    /// The account that would ask.
    pub account_uri: Option<String>,
}

impl NameQuery {
    /// The run that asks.
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
    /// What a run came to.
    #[must_use]
    pub fn of(found: Option<Box<NameFactsResult>>) -> Self {
        match found {
            Some(found) if !found.facts.views.is_empty() => Self::Found(found),
            _ => Self::NotAsked(
                "nobody answered; probers of an older version do not know the question".to_owned(),
            ),
        }
    }

    /// The answer, where there is one.
    #[must_use]
    pub const fn found(&self) -> Option<&NameFactsResult> {
        match self {
            Self::Found(found) => Some(found),
            Self::NotAsked(_) => None,
        }
    }

    /// What nobody looked at, of what could be looked at here.
    #[must_use]
    pub fn not_checked(&self) -> Vec<String> {
        match self {
            Self::NotAsked(why) => vec![format!(
                "CAA records, and what others than the asking nodes say of the name: {why}"
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
