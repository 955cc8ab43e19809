//! `tenants`: limits of `Target` objects, and exceptions by namespace.

use std::collections::BTreeMap;

use parallax_model::Namespace;
use serde::Deserialize;

use crate::crd::{MAX_TARGETS, NamespaceException, TenantOptions};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawTenants {
    /// Targets per namespace, 0 to 1000.
    pub(super) max_targets: Option<usize>,
    #[serde(default)]
    pub(super) namespaces: BTreeMap<String, RawException>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawException {
    #[serde(default)]
    any_probe: bool,
    #[serde(default)]
    allow: Vec<String>,
    /// Names of credentials of the probers.
    #[serde(default)]
    credentials: Vec<String>,
    max_targets: Option<usize>,
}

pub(super) fn validate(raw: RawTenants, wrong: &mut impl FnMut(&str, String)) -> TenantOptions {
    let mut options = TenantOptions::default();
    if let Some(most) = limit("tenants.maxTargets", raw.max_targets, wrong) {
        options.max_targets = most;
    }
    for (namespace, exception) in raw.namespaces {
        let field = format!("tenants.namespaces.{namespace}");
        if let Err(error) = namespace.parse::<Namespace>() {
            wrong(&field, error.to_string());
            continue;
        }
        let ranges = exception.allow.iter().enumerate().filter_map(|(i, text)| {
            text.parse()
                .map_err(|error| wrong(&format!("{field}.allow[{i}]"), format!("{error}")))
                .ok()
        });
        let allow = ranges.collect();
        let names = exception.credentials.iter().enumerate().filter_map(|(i, name)| {
            name.parse()
                .map_err(|error| wrong(&format!("{field}.credentials[{i}]"), format!("{error}")))
                .ok()
        });
        let credentials = names.collect();
        let max_targets = limit(&format!("{field}.maxTargets"), exception.max_targets, wrong);
        options.namespaces.insert(
            namespace,
            NamespaceException {
                any_probe: exception.any_probe,
                allow,
                credentials,
                max_targets,
            },
        );
    }
    options
}

fn limit(field: &str, given: Option<usize>, wrong: &mut impl FnMut(&str, String)) -> Option<usize> {
    match given {
        Some(given) if given > MAX_TARGETS => {
            wrong(field, format!("expected 0 to {MAX_TARGETS}, got {given}"));
            None
        }
        given => given,
    }
}
