//! The route that cert-manager would create for a selected solver: an Ingress, an `HTTPRoute`, or a path in an
//! existing Ingress.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cert_manager::{GatewaySolver, IngressSolver, Solver};

/// How requests for the challenge would be routed to the solver.
#[derive(Debug, Clone, PartialEq)]
pub enum SolverRoute {
    /// A new Ingress.
    Ingress(IngressSolver),
    /// A path in an existing Ingress, where a mistake affects the traffic that the Ingress serves.
    EditInPlace {
        /// The name of the Ingress.
        name: String,
        /// The other settings of the solver.
        solver: IngressSolver,
    },
    /// A new `HTTPRoute`.
    Route(GatewaySolver),
}

/// Annotations that override the solver's own settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SolverOverrides {
    /// The Ingress to edit in place.
    pub name: Option<String>,
    /// The class, as annotation.
    pub class: Option<String>,
    /// The class, as `ingressClassName`.
    pub class_name: Option<String>,
    /// The Gateway: name, kind, namespace.
    pub parent: Option<(String, String, Option<String>)>,
}

/// Why a selected solver cannot answer an HTTP-01 challenge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsolvableReason {
    /// It is a DNS-01 solver.
    #[error(
        "cert-manager would use DNS-01, which a preflight over HTTP cannot test; DNS-01 requires no reachable address"
    )]
    Dns01,
    /// Neither Ingress nor `HTTPRoute` is configured.
    #[error(
        "the solver has neither http01.ingress nor http01.gatewayHTTPRoute, so cert-manager rejects it; configure one of them"
    )]
    Empty,
    /// Several of class, ingressClassName and name are set.
    #[error("{0}: cert-manager accepts only one of class, ingressClassName and name; keep one")]
    Ambiguous(&'static str),
    /// An `HTTPRoute` without a Gateway.
    #[error(
        "neither the solver's gatewayHTTPRoute nor an annotation names a Gateway; set parentRefs, or use --gateway"
    )]
    NoParent,
}

const ANNOTATION_PREFIX: &str = "acme.cert-manager.io/";

impl SolverOverrides {
    /// Reads the overrides from a Certificate's annotations.
    #[must_use]
    pub fn from_certificate(annotations: &BTreeMap<String, String>) -> Self {
        let of = |name: &str| annotations.get(&format!("{ANNOTATION_PREFIX}{name}")).cloned();
        Self {
            name: of("http01-override-ingress-name"),
            class: of("http01-override-ingress-class"),
            class_name: of("http01-override-ingress-ingressclassname"),
            parent: of("http01-parentrefname").map(|name| {
                let kind = of("http01-parentrefkind").unwrap_or_else(|| "Gateway".to_owned());
                (name, kind, of("http01-parentrefnamespace"))
            }),
        }
    }

    /// Reads the overrides that the Certificate created from an Ingress would have.
    #[must_use]
    pub fn from_ingress(name: &str, annotations: &BTreeMap<String, String>) -> Self {
        let of = |name: &str| annotations.get(&format!("{ANNOTATION_PREFIX}{name}")).cloned();
        let in_place = of("http01-edit-in-place").is_some_and(|value| value == "true");
        Self {
            name: in_place.then(|| name.to_owned()),
            class: of("http01-ingress-class"),
            class_name: of("http01-ingress-ingressclassname"),
            parent: None,
        }
    }

    /// Overrides the issuer's class with an `ingressClassName`.
    #[must_use]
    pub fn with_class_name(class: &str) -> Self {
        Self {
            class_name: Some(class.to_owned()),
            ..Self::default()
        }
    }
}

fn is_set(text: &str) -> bool {
    !text.is_empty()
}

impl SolverRoute {
    /// Returns the route that cert-manager would create, with the overrides applied.
    ///
    /// # Errors
    /// See [`UnsolvableReason`]; cert-manager would reject the solver as well.
    pub fn from_solver(solver: &Solver, overrides: &SolverOverrides) -> Result<Self, UnsolvableReason> {
        let Some(http) = &solver.http01 else {
            return Err(UnsolvableReason::Dns01);
        };
        if let Some(ingress) = &http.ingress {
            return Self::from_ingress_solver(ingress.clone(), overrides);
        }
        let Some(mut route) = http.gateway_http_route.clone() else {
            return Err(UnsolvableReason::Empty);
        };
        if let Some((name, kind, namespace)) = &overrides.parent {
            let mut parent = json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": name});
            if let Some(namespace) = namespace {
                parent["namespace"] = Value::from(namespace.as_str());
            }
            route.parent_refs = vec![parent];
        }
        if route.parent_refs.is_empty() {
            return Err(UnsolvableReason::NoParent);
        }
        Ok(Self::Route(route))
    }

    /// At most one override may be set, and it clears the issuer's settings.
    fn from_ingress_solver(
        mut solver: IngressSolver,
        overrides: &SolverOverrides,
    ) -> Result<Self, UnsolvableReason> {
        let over = [&overrides.name, &overrides.class, &overrides.class_name];
        if over.iter().filter(|over| over.is_some()).count() > 1 {
            return Err(UnsolvableReason::Ambiguous(
                "the annotations that override the solver",
            ));
        }
        if over.iter().any(|over| over.is_some()) {
            let text = |over: &Option<String>| over.clone().unwrap_or_default();
            solver.name = text(&overrides.name);
            solver.class = text(&overrides.class);
            solver.ingress_class_name = text(&overrides.class_name);
        }
        let own = [&solver.name, &solver.class, &solver.ingress_class_name];
        if own.iter().filter(|own| is_set(own)).count() > 1 {
            return Err(UnsolvableReason::Ambiguous(
                "http01.ingress of the issuer's solver",
            ));
        }
        if is_set(&solver.name) {
            return Ok(Self::EditInPlace {
                name: solver.name.clone(),
                solver,
            });
        }
        Ok(Self::Ingress(solver))
    }

    /// Returns a description for people.
    #[must_use]
    pub fn description(&self) -> String {
        match self {
            Self::Ingress(solver) if is_set(&solver.ingress_class_name) => {
                format!("an Ingress of class {}", solver.ingress_class_name)
            }
            Self::Ingress(solver) if is_set(&solver.class) => {
                format!(
                    "an Ingress with the annotation kubernetes.io/ingress.class: {}",
                    solver.class
                )
            }
            Self::Ingress(_) => "an Ingress of the default class".to_owned(),
            Self::EditInPlace { name, .. } => format!("an additional path in Ingress {name}"),
            Self::Route(route) => {
                let parents: Vec<&str> = route
                    .parent_refs
                    .iter()
                    .filter_map(|parent| parent["name"].as_str())
                    .collect();
                format!("an HTTPRoute on {}", parents.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_object;

    #[expect(clippy::needless_pass_by_value, reason = "reads as a table of objects")]
    fn solver(http: Value) -> Solver {
        from_object(json!({"http01": http})).unwrap()
    }

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| (format!("{ANNOTATION_PREFIX}{name}"), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn an_issuers_class_holds_until_an_annotation_overrides_it_wholly() {
        let nginx = solver(json!({"ingress": {"ingressClassName": "nginx"}}));
        let words =
            |overrides: &SolverOverrides| SolverRoute::from_solver(&nginx, overrides).unwrap().description();
        assert_eq!(words(&SolverOverrides::default()), "an Ingress of class nginx");
        let annotated =
            SolverOverrides::from_certificate(&annotations(&[("http01-override-ingress-class", "old")]));
        assert_eq!(
            words(&annotated),
            "an Ingress with the annotation kubernetes.io/ingress.class: old"
        );
        assert_eq!(
            words(&SolverOverrides::with_class_name("other")),
            "an Ingress of class other"
        );
        let in_place =
            SolverOverrides::from_ingress("web", &annotations(&[("http01-edit-in-place", "true")]));
        assert_eq!(words(&in_place), "an additional path in Ingress web");
        let not = SolverOverrides::from_ingress("web", &annotations(&[("http01-edit-in-place", "false")]));
        assert_eq!(words(&not), "an Ingress of class nginx");
        let none = solver(json!({"ingress": {}}));
        assert_eq!(
            SolverRoute::from_solver(&none, &SolverOverrides::default())
                .unwrap()
                .description(),
            "an Ingress of the default class"
        );
    }

    #[test]
    fn an_issuer_that_names_an_ingress_edits_it() {
        let named = solver(json!({"ingress": {"name": "web"}}));
        assert!(matches!(
            SolverRoute::from_solver(&named, &SolverOverrides::default()),
            Ok(SolverRoute::EditInPlace { name, .. }) if name == "web"
        ));
    }

    #[test]
    fn what_cert_manager_refuses_is_refused() {
        let refused = |http: Value, overrides: &SolverOverrides| {
            SolverRoute::from_solver(&solver(http), overrides).unwrap_err()
        };
        let none = SolverOverrides::default();
        assert!(matches!(
            refused(json!({"ingress": {"class": "a", "ingressClassName": "b"}}), &none),
            UnsolvableReason::Ambiguous(_)
        ));
        let two = SolverOverrides::from_certificate(&annotations(&[
            ("http01-override-ingress-name", "web"),
            ("http01-override-ingress-ingressclassname", "b"),
        ]));
        assert!(matches!(
            refused(json!({"ingress": {}}), &two),
            UnsolvableReason::Ambiguous(_)
        ));
        assert_eq!(refused(json!({}), &none), UnsolvableReason::Empty);
        assert_eq!(
            refused(json!({"gatewayHTTPRoute": {}}), &none),
            UnsolvableReason::NoParent
        );
        let dns: Solver = from_object(json!({"dns01": {"webhook": {}}})).unwrap();
        assert_eq!(
            SolverRoute::from_solver(&dns, &none).unwrap_err(),
            UnsolvableReason::Dns01
        );
    }

    #[test]
    fn a_routes_gateway_may_come_from_an_annotation() {
        let route =
            solver(json!({"gatewayHTTPRoute": {"parentRefs": [{"name": "gw"}], "labels": {"a": "b"}}}));
        let over = SolverOverrides::from_certificate(&annotations(&[
            ("http01-parentrefname", "public"),
            ("http01-parentrefnamespace", "infra"),
        ]));
        let SolverRoute::Route(route) = SolverRoute::from_solver(&route, &over).unwrap() else {
            panic!("a route")
        };
        assert_eq!(
            route.parent_refs,
            [
                json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public", "namespace": "infra"})
            ]
        );
    }
}
