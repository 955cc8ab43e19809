//! The account of an enrolled vantage.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ServiceAccount, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use parallax_aggregator::{REACH_LABEL, VANTAGE_LABEL};
use parallax_model::{Reach, Vantage};

use crate::exit::Failure;

/// Annotation: when the token that was given out last ends.
const UNTIL: &str = "parallax.dev/until";

/// Longest name: the account's has a prefix, and a label's value ends at 63.
const LONGEST: usize = 48;

/// Who is enrolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EnrolledVantages {
    pub(super) vantage: Vantage,
    pub(super) until: Option<Timestamp>,
}

impl EnrolledVantages {
    /// What an account says; nothing for one that is no vantage's.
    pub(super) fn of(account: &ServiceAccount) -> Option<Self> {
        let labels = account.metadata.labels.as_ref()?;
        let (reach, name) = (labels.get(REACH_LABEL)?, labels.get(VANTAGE_LABEL)?);
        let until = account
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(UNTIL));
        Some(Self {
            vantage: format!("{reach}:{name}").parse().ok()?,
            until: until.and_then(|text| text.parse().ok()),
        })
    }
}

/// The account's name for a vantage's.
pub(super) fn name(vantage: &str) -> Result<String, Failure> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = vantage.as_bytes();
    let good = bytes.len() <= LONGEST
        && bytes.iter().all(|b| inner(*b))
        && edge(bytes.first())
        && edge(bytes.last());
    if good {
        Ok(format!("parallax-vantage-{vantage}"))
    } else {
        Err(Failure::Usage(format!(
            "expected a name of at most {LONGEST} of a-z, 0-9 and inner -, found {vantage:?}"
        )))
    }
}

/// The account to be made. No token of the API server comes with it, and no right.
pub(super) fn new(name: String, reach: Reach, vantage: &str) -> ServiceAccount {
    let labels = [
        ("app.kubernetes.io/name", "parallax"),
        (VANTAGE_LABEL, vantage),
        (REACH_LABEL, reach.label()),
    ];
    ServiceAccount {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(
                labels
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect::<BTreeMap<_, _>>(),
            ),
            ..ObjectMeta::default()
        },
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// A patch that says when the newest token ends.
pub(super) fn until(end: Timestamp) -> serde_json::Value {
    serde_json::json!({"metadata": {"annotations": {UNTIL: end.to_string()}}})
}
