//! The names of Certificates that would be validated over HTTP-01, with their solvers. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use parallax_api::forecasts::{CertificateValidity, RenewalForecastList};
use parallax_kubernetes::watch::Key;
use parallax_model::{EventTime, HostName};
use parallax_preflight::{
    Certificate, Issuer, IssuerRef, SolverOverrides, SolverRoute, UnsolvableReason, caa_identities,
    parse_host, select_solver,
};

use crate::cert_manager::CertManagerState;

/// The maximum number of names; more would take too much of the mesh's capacity.
pub(super) const MAX_SUBJECTS: usize = 1_000;

/// One name of one Certificate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RenewalSubject {
    pub(super) validity: CertificateValidity,
    pub(super) host: HostName,
    /// `ClusterIssuer letsencrypt`.
    pub(super) issuer: String,
    /// The route of the solver, or the reason for which cert-manager would reject the solver.
    pub(super) route: Result<SolverRoute, String>,
    /// The solver waits this long instead of making the self check.
    pub(super) skip_self_check_delay: Option<String>,
    /// The CA's identities in CAA records.
    pub(super) identities: Vec<String>,
    pub(super) account: Option<String>,
}

/// All names to check, with the validity of every Certificate.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RenewalSubjects {
    pub(super) subjects: Vec<RenewalSubject>,
    pub(super) validities: Vec<CertificateValidity>,
    /// Why some kind of object is not known.
    pub(super) missing: Option<String>,
    pub(super) left_out: usize,
}

impl RenewalSubjects {
    pub(super) fn from_state(state: &CertManagerState) -> Self {
        let missing = [
            state.certificates.missing_reason(),
            state.issuers.missing_reason(),
            state.cluster_issuers.missing_reason(),
        ];
        let mut subjects = Self {
            missing: missing.into_iter().flatten().next().map(ToString::to_string),
            ..Self::default()
        };
        let no_issuers = BTreeMap::new();
        let certificates = state.certificates.objects();
        let issuers = state.issuers.objects().unwrap_or(&no_issuers);
        let cluster = state.cluster_issuers.objects().unwrap_or(&no_issuers);
        for certificate in certificates.into_iter().flat_map(BTreeMap::values) {
            let term = certificate_validity(certificate);
            subjects.validities.push(term.clone());
            let reference = &certificate.spec.issuer_ref;
            let namespace = &certificate.metadata.namespace;
            let Some((issuer, words)) = find_issuer(reference, namespace, issuers, cluster) else {
                continue;
            };
            for host in dns_names(certificate) {
                let Some(subject) = renewal_subject(certificate, &term, host, issuer, &words) else {
                    continue;
                };
                if subjects.subjects.len() < MAX_SUBJECTS {
                    subjects.subjects.push(subject);
                } else {
                    subjects.left_out += 1;
                }
            }
        }
        subjects
    }
}

/// Returns the issuer, or `None` if it has another group or does not exist; cert-manager reports that itself.
fn find_issuer<'a>(
    reference: &IssuerRef,
    namespace: &str,
    issuers: &'a BTreeMap<Key, Arc<Issuer>>,
    cluster: &'a BTreeMap<Key, Arc<Issuer>>,
) -> Option<(&'a Issuer, String)> {
    let key = |namespace: &str| Key {
        namespace: namespace.to_owned(),
        name: reference.name.clone(),
    };
    if !matches!(reference.group.as_str(), "" | "cert-manager.io") {
        return None;
    }
    match reference.kind.as_str() {
        "" | "Issuer" => {
            let found = issuers.get(&key(namespace))?;
            Some((found, format!("Issuer {namespace}/{}", reference.name)))
        }
        "ClusterIssuer" => {
            let found = cluster.get(&key(""))?;
            Some((found, format!("ClusterIssuer {}", reference.name)))
        }
        _ => None,
    }
}

fn dns_names(certificate: &Certificate) -> Vec<&str> {
    let spec = &certificate.spec;
    let mut names: Vec<&str> = spec.dns_names.iter().map(String::as_str).collect();
    if !spec.common_name.is_empty() {
        names.push(&spec.common_name);
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the name as a subject if it would be validated over HTTP-01.
fn renewal_subject(
    certificate: &Certificate,
    term: &CertificateValidity,
    host: &str,
    issuer: &Issuer,
    words: &str,
) -> Option<RenewalSubject> {
    let acme = issuer.spec.acme.as_ref()?;
    let picked = select_solver(&acme.solvers, host, &certificate.metadata.labels)?;
    let overrides = SolverOverrides::from_certificate(&certificate.metadata.annotations);
    let approach = match SolverRoute::from_solver(picked.solver, &overrides) {
        Err(UnsolvableReason::Dns01) => return None,
        Ok(approach) => Ok(approach),
        Err(refused) => Err(refused.to_string()),
    };
    let account = issuer.status.acme.as_ref().map(|acme| acme.uri.clone());
    Some(RenewalSubject {
        validity: term.clone(),
        host: parse_host(host).ok()?,
        issuer: words.to_owned(),
        route: approach,
        skip_self_check_delay: picked.solver.wait_instead_of_self_check.clone(),
        identities: caa_identities(&acme.server),
        account: account.filter(|uri| !uri.is_empty()),
    })
}

fn certificate_validity(certificate: &Certificate) -> CertificateValidity {
    let time = |text: &Option<String>| {
        let stamp: Timestamp = text.as_deref()?.parse().ok()?;
        Some(EventTime(stamp.as_microsecond()))
    };
    CertificateValidity {
        namespace: certificate.metadata.namespace.clone(),
        certificate: certificate.metadata.name.clone(),
        renewal: time(&certificate.status.renewal_time),
        not_after: time(&certificate.status.not_after),
    }
}

/// Returns the list of an aggregator that has not checked any name: it is starting, or another replica leads.
#[must_use]
pub fn empty_forecasts(objects: &CertManagerState) -> RenewalForecastList {
    let subjects = RenewalSubjects::from_state(objects);
    let waiting = "this aggregator has not checked any name: it is starting, or another replica leads";
    RenewalForecastList::unavailable(subjects.missing.as_deref().unwrap_or(waiting))
}
