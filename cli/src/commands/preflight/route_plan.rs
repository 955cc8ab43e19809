//! Determines the route that cert-manager would create for each name: from a Certificate, an Ingress or an issuer,
//! or from flags.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::HostName;
use parallax_preflight::{
    Certificate, GatewaySolver, IngressSolver, Issuer, NameQuery, Solver, SolverOverrides, SolverRoute,
    caa_identities, from_object, parse_host,
};
use serde_json::{Value, json};

use super::{
    args::Request,
    cluster::{ClusterClient, ClusterError, ObjectKind},
    error::{NoVerdict, NoVerdictReason},
};
use crate::exit::Failure;

/// A name, and how its challenge would be routed.
#[derive(Debug, Clone)]
pub(super) struct PlannedName {
    pub(super) host: HostName,
    /// `None` if no issuer, class or Gateway is given.
    pub(super) route: Option<SolverRoute>,
    /// `solver 2 of 3 of ClusterIssuer letsencrypt`.
    pub(super) solver_position: Option<String>,
    /// A note on other solvers that match equally well.
    pub(super) note: Option<String>,
    /// `waitInsteadOfSelfCheck` of the solver.
    pub(super) skip_self_check_delay: Option<String>,
    /// The CA and account for CAA evaluation.
    pub(super) name_query: NameQuery,
    /// The time from the creation of the last object to the first node's response.
    pub(super) propagation: Option<Duration>,
}

impl PlannedName {
    fn of(host: HostName) -> Self {
        Self {
            host,
            route: None,
            solver_position: None,
            note: None,
            skip_self_check_delay: None,
            name_query: NameQuery::default(),
            propagation: None,
        }
    }

    /// Returns a description for people.
    pub(super) fn description(&self) -> String {
        let approach = self.route.as_ref().map(SolverRoute::description);
        match (approach, &self.solver_position) {
            (Some(approach), Some(picked)) => format!("{approach} ({picked})"),
            (Some(approach), None) => approach,
            (None, _) => "no issuer, class or Gateway given".to_owned(),
        }
    }
}

/// The source of the solver and of further names.
#[derive(Debug, Default)]
struct SolverSource {
    names: Vec<String>,
    issuer: Option<(ObjectKind, String)>,
    labels: BTreeMap<String, String>,
    overrides: SolverOverrides,
}

pub(super) async fn plan_names(
    args: &Request,
    cluster: Option<&ClusterClient>,
) -> Result<Vec<PlannedName>, NoVerdict> {
    let source = match cluster {
        Some(cluster) => read_source(args, cluster).await?,
        None => SolverSource::default(),
    };
    let names = if args.hosts.is_empty() {
        &source.names
    } else {
        &args.hosts
    };
    let mut hosts = Vec::new();
    for name in names {
        let host = parse_host(name)
            .map_err(|error| NoVerdictReason::InvalidHost.with_failure(Failure::usage(error)))?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        return Err(NoVerdictReason::Invalid
            .usage("no host name: the object contains none; give one as an argument".to_owned()));
    }
    let by_flag = route_from_flags(args);
    let issuer = match (&source.issuer, cluster) {
        (Some((sort, name)), Some(cluster)) => Some((
            *sort,
            name.as_str(),
            read_issuer(cluster, args, *sort, name).await?,
        )),
        _ => None,
    };
    if !args.no_create && issuer.is_none() && by_flag.is_none() {
        return Err(NoVerdictReason::Invalid.usage(
            "no issuer given: use --issuer, --cluster-issuer, --certificate or --ingress; or --class or --gateway without an issuer; or --no-create to test the existing path only"
                .to_owned(),
        ));
    }
    hosts
        .into_iter()
        .map(|host| {
            let mut planned = PlannedName::of(host);
            if let Some((sort, name, issuer)) = &issuer {
                plan_route(&mut planned, *sort, name, issuer, &source)?;
            } else {
                planned.route.clone_from(&by_flag);
            }
            if let Some(identity) = &args.caa_identity {
                planned.name_query.identities = vec![identity.to_ascii_lowercase()];
            }
            Ok(planned)
        })
        .collect()
}

/// Returns the route for `--class` or `--gateway`.
fn route_from_flags(args: &Request) -> Option<SolverRoute> {
    if let Some(class) = &args.class {
        return Some(SolverRoute::Ingress(IngressSolver {
            ingress_class_name: class.clone(),
            ..IngressSolver::default()
        }));
    }
    let gateway = args.gateway.as_ref()?;
    let mut parent = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway"});
    if let Some((namespace, name)) = gateway.split_once('/') {
        parent["namespace"] = namespace.into();
        parent["name"] = name.into();
    } else {
        parent["name"] = gateway.as_str().into();
    }
    Some(SolverRoute::Route(GatewaySolver {
        parent_refs: vec![parent],
        ..GatewaySolver::default()
    }))
}

async fn read_source(args: &Request, cluster: &ClusterClient) -> Result<SolverSource, NoVerdict> {
    let namespace = &args.namespace;
    if let Some(name) = &args.certificate {
        let object = get_required(cluster, ObjectKind::Certificate, namespace, name).await?;
        let certificate: Certificate = from_object(object)
            .map_err(|error| unreadable(ObjectKind::Certificate, namespace, name, &error))?;
        let spec = certificate.spec;
        let mut names = spec.dns_names;
        if !spec.common_name.is_empty() && !names.contains(&spec.common_name) {
            names.push(spec.common_name);
        }
        names.extend(spec.ip_addresses);
        let sort = issuer_kind(&spec.issuer_ref.kind, &spec.issuer_ref.group)?;
        return Ok(SolverSource {
            names,
            issuer: Some((sort, spec.issuer_ref.name)),
            overrides: SolverOverrides::from_certificate(&certificate.metadata.annotations),
            labels: certificate.metadata.labels,
        });
    }
    if let Some(name) = &args.ingress {
        let object = get_required(cluster, ObjectKind::Ingress, namespace, name).await?;
        return source_from_ingress(&object, namespace, name);
    }
    let issuer = match (&args.issuer, &args.cluster_issuer) {
        (Some(name), _) => Some((ObjectKind::Issuer, name.clone())),
        (None, Some(name)) => Some((ObjectKind::ClusterIssuer, name.clone())),
        (None, None) => None,
    };
    Ok(SolverSource {
        issuer,
        ..SolverSource::default()
    })
}

/// Reads the Certificate that cert-manager would create from an Ingress.
fn source_from_ingress(object: &Value, namespace: &str, name: &str) -> Result<SolverSource, NoVerdict> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let map = |value: &Value| -> BTreeMap<String, String> {
        let entries = value.as_object().into_iter().flatten();
        entries
            .filter_map(|(key, value)| Some((key.clone(), text(value)?)))
            .collect()
    };
    let annotations = map(&object["metadata"]["annotations"]);
    let named = |name: &str| annotations.get(&format!("cert-manager.io/{name}")).cloned();
    let issuer = match (named("issuer"), named("cluster-issuer")) {
        (Some(issuer), None) => {
            let sort = issuer_kind(
                &named("issuer-kind").unwrap_or_default(),
                &named("issuer-group").unwrap_or_default(),
            )?;
            (sort, issuer)
        }
        (None, Some(issuer)) => (ObjectKind::ClusterIssuer, issuer),
        (Some(_), Some(_)) => {
            return Err(NoVerdictReason::Invalid.usage(format!(
                "Ingress {namespace}/{name} has both annotations cert-manager.io/issuer and cert-manager.io/cluster-issuer; cert-manager rejects that; keep one"
            )));
        }
        (None, None) => {
            return Err(NoVerdictReason::Invalid.usage(format!(
                "Ingress {namespace}/{name} names no issuer (annotation cert-manager.io/issuer or cert-manager.io/cluster-issuer); give the hosts with --issuer or --cluster-issuer instead"
            )));
        }
    };
    let hosts = object["spec"]["tls"].as_array().into_iter().flatten();
    let certified = hosts
        .flat_map(|tls| tls["hosts"].as_array().into_iter().flatten())
        .filter_map(text)
        .collect();
    Ok(SolverSource {
        names: certified,
        issuer: Some(issuer),
        // ingress-shim copies the labels to the Certificate.
        labels: map(&object["metadata"]["labels"]),
        overrides: SolverOverrides::from_ingress(name, &annotations),
    })
}

fn issuer_kind(kind: &str, group: &str) -> Result<ObjectKind, NoVerdict> {
    match (kind, group) {
        ("" | "Issuer", "" | "cert-manager.io") => Ok(ObjectKind::Issuer),
        ("ClusterIssuer", "" | "cert-manager.io") => Ok(ObjectKind::ClusterIssuer),
        _ => Err(NoVerdictReason::NotAcme.usage(format!(
            "the issuer is a {kind} of {group}, not one of cert-manager's own kinds, so its challenges cannot be predicted"
        ))),
    }
}

async fn get_required(
    cluster: &ClusterClient,
    kind: ObjectKind,
    namespace: &str,
    name: &str,
) -> Result<Value, NoVerdict> {
    cluster
        .get(kind, namespace, name)
        .await
        .map_err(|missing| match missing {
            ClusterError::NotFound => NoVerdictReason::NotFound.indeterminate(format!(
                "there is no {}; check the name, and whether cert-manager is installed",
                kind.qualified_name(namespace, name)
            )),
            failed @ ClusterError::Failed(..) => failed.into(),
        })
}

fn unreadable(kind: ObjectKind, namespace: &str, name: &str, error: &str) -> NoVerdict {
    NoVerdictReason::Invalid.indeterminate(format!(
        "cannot read {}: {error}",
        kind.qualified_name(namespace, name)
    ))
}

async fn read_issuer(
    cluster: &ClusterClient,
    args: &Request,
    kind: ObjectKind,
    name: &str,
) -> Result<Issuer, NoVerdict> {
    let object = get_required(cluster, kind, &args.namespace, name).await?;
    from_object(object).map_err(|error| unreadable(kind, &args.namespace, name, &error))
}

/// Selects the solver as cert-manager would, and determines its route.
fn plan_route(
    planned: &mut PlannedName,
    kind: ObjectKind,
    name: &str,
    issuer: &Issuer,
    source: &SolverSource,
) -> Result<(), NoVerdict> {
    let owner = kind.qualified_name(&issuer.metadata.namespace, name);
    let Some(acme) = &issuer.spec.acme else {
        return Err(NoVerdictReason::NotAcme.indeterminate(format!(
            "{owner} is not an ACME issuer, so it creates no challenges and needs no preflight"
        )));
    };
    let solvers: &[Solver] = &acme.solvers;
    let Some(picked) = parallax_preflight::select_solver(solvers, planned.host.as_str(), &source.labels)
    else {
        return Err(NoVerdictReason::NoSolver.indeterminate(format!(
            "none of the {} solvers of {owner} applies to {}; cert-manager would report \"no configured challenge solvers can be used\"; add a solver, or widen a selector",
            solvers.len(),
            planned.host
        )));
    };
    let place = |place: usize| place + 1;
    let approach = SolverRoute::from_solver(picked.solver, &source.overrides).map_err(|error| {
        NoVerdictReason::NoHttpSolver.indeterminate(format!(
            "{}: solver {} of {owner}: {error}",
            planned.host,
            place(picked.index)
        ))
    })?;
    planned.route = Some(approach);
    let account = issuer.status.acme.as_ref().map(|acme| acme.uri.clone());
    planned.name_query = NameQuery {
        identities: caa_identities(&acme.server),
        account_uri: account.filter(|uri| !uri.is_empty()),
    };
    planned.solver_position = Some(format!(
        "solver {} of {} of {owner}",
        place(picked.index),
        solvers.len()
    ));
    planned
        .skip_self_check_delay
        .clone_from(&picked.solver.wait_instead_of_self_check);
    if !picked.equally_good.is_empty() {
        let others: Vec<String> = picked
            .equally_good
            .iter()
            .map(|other| place(*other).to_string())
            .collect();
        planned.note = Some(format!(
            "solver {} matches {} equally well; the order of the list decides",
            others.join(" and "),
            planned.host
        ));
    }
    Ok(())
}
