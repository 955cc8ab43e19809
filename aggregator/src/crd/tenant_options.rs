//! Limits of `Target` objects, which users of a namespace write.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{AddressRange, CredentialName};

/// Maximum number of Targets in total.
pub(crate) const MAX_TARGETS: usize = 1_000;

/// Default maximum number of Targets per namespace.
const DEFAULT_MAX_TARGETS: usize = 100;

/// The `tenants` section of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantOptions {
    /// Maximum number of Targets of a namespace without an exception.
    pub(crate) max_targets: usize,
    /// Exceptions by namespace.
    pub(crate) namespaces: BTreeMap<String, NamespaceException>,
}

/// What the operator permits the Targets of one namespace in addition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamespaceException {
    /// Whether every field of a target is permitted, such as a request body or a short interval, except credentials.
    pub(crate) any_probe: bool,
    /// Addresses that may be probed even if another rule refuses them.
    pub(crate) allow: Vec<AddressRange>,
    /// Credentials of the probers that the Targets may use.
    pub(crate) credentials: BTreeSet<CredentialName>,
    /// Maximum number of Targets, if it is not the common one.
    pub(crate) max_targets: Option<usize>,
}

impl Default for TenantOptions {
    fn default() -> Self {
        Self {
            max_targets: DEFAULT_MAX_TARGETS,
            namespaces: BTreeMap::new(),
        }
    }
}

impl TenantOptions {
    /// Returns the maximum number of Targets of a namespace.
    pub(crate) fn max_targets(&self, namespace: &str) -> usize {
        self.namespaces
            .get(namespace)
            .and_then(|exception| exception.max_targets)
            .unwrap_or(self.max_targets)
    }

    /// Reports whether a namespace may use every field of a target.
    pub(crate) fn permits_any_probe(&self, namespace: &str) -> bool {
        self.namespaces
            .get(namespace)
            .is_some_and(|exception| exception.any_probe)
    }

    /// Reports whether a namespace may use a credential of the probers.
    pub(crate) fn permits_credential(&self, namespace: &str, name: &CredentialName) -> bool {
        self.namespaces
            .get(namespace)
            .is_some_and(|exception| exception.credentials.contains(name))
    }

    /// Returns the addresses that a namespace may probe by exception.
    pub(crate) fn allowed_addresses(&self, namespace: &str) -> &[AddressRange] {
        self.namespaces
            .get(namespace)
            .map_or(&[], |exception| exception.allow.as_slice())
    }
}
