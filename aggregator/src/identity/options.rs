//! Options of prober authentication.

use parallax_model::Namespace;

use parallax_kubernetes::object_key::ObjectKey;

/// Authentication of probers by `ServiceAccount` tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityOptions {
    /// Required audience of the tokens.
    pub audience: String,
    /// `ServiceAccounts` of probers that run as Pods.
    pub probers: Vec<ObjectKey>,
    /// `ServiceAccounts` of Pods that only serve the echo.
    pub responders: Vec<ObjectKey>,
    /// Namespace of the `ServiceAccounts` of enrolled vantages outside the cluster; `None` disables enrolment.
    pub vantages: Option<Namespace>,
}

impl IdentityOptions {
    /// Returns the namespaces of the prober and responder Pods.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let accounts = self.probers.iter().chain(&self.responders);
        accounts.map(|account| account.namespace.as_str())
    }
}
