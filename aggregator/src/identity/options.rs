//! What a configuration says of the accounts of probers.

use parallax_model::Namespace;

use parallax_kubernetes::object_key::ObjectKey;

/// Knowing probers by the tokens of their Kubernetes accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityOptions {
    /// What the tokens must be meant for.
    pub audience: String,
    /// The accounts of probers that run as Pods.
    pub probers: Vec<ObjectKey>,
    /// The accounts of Pods that only answer the echo.
    pub responders: Vec<ObjectKey>,
    /// Where the accounts of enrolled vantages outside the cluster are, if there may be any.
    pub vantages: Option<Namespace>,
}

impl IdentityOptions {
    /// Where the Pods of all these accounts are.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let accounts = self.probers.iter().chain(&self.responders);
        accounts.map(|account| account.namespace.as_str())
    }
}
