//! The ServiceAccount of an enrolled vantage.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ServiceAccount, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use parallax_aggregator::{REACH_LABEL, VANTAGE_LABEL};
use parallax_model::{Reach, Vantage};

use crate::exit::Failure;

/// Annotation with the expiry of the last token issued.
const EXPIRY_ANNOTATION: &str = "parallax.dev/until";

/// Maximum length of a vantage name: the account adds a prefix, and a label value has at most 63 characters.
const MAX_NAME_LENGTH: usize = 48;

/// An enrolled vantage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EnrolledVantage {
    pub(super) vantage: Vantage,
    pub(super) expires: Option<Timestamp>,
}

impl EnrolledVantage {
    /// Reads a vantage from its account, or `None` if the account belongs to no vantage.
    pub(super) fn from_account(account: &ServiceAccount) -> Option<Self> {
        let labels = account.metadata.labels.as_ref()?;
        let (reach, name) = (labels.get(REACH_LABEL)?, labels.get(VANTAGE_LABEL)?);
        let until = account
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(EXPIRY_ANNOTATION));
        Some(Self {
            vantage: format!("{reach}:{name}").parse().ok()?,
            expires: until.and_then(|text| text.parse().ok()),
        })
    }
}

/// Returns the account name for a vantage name.
pub(super) fn account_name(vantage: &str) -> Result<String, Failure> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = vantage.as_bytes();
    let good = bytes.len() <= MAX_NAME_LENGTH
        && bytes.iter().all(|b| inner(*b))
        && edge(bytes.first())
        && edge(bytes.last());
    if good {
        Ok(format!("parallax-vantage-{vantage}"))
    } else {
        Err(Failure::Usage(format!(
            "expected a name of at most {MAX_NAME_LENGTH} characters of a-z, 0-9 and inner -, found {vantage:?}"
        )))
    }
}

/// Builds the account. It has no permissions, and Pods do not mount its token.
pub(super) fn new_account(name: String, reach: Reach, vantage: &str) -> ServiceAccount {
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

/// Builds a patch that records the expiry of the newest token.
pub(super) fn expiry_patch(end: Timestamp) -> serde_json::Value {
    serde_json::json!({"metadata": {"annotations": {EXPIRY_ANNOTATION: end.to_string()}}})
}
