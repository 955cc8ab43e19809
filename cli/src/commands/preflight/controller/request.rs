//! Converts a Preflight object's spec into the request that the command line would make.

use parallax_aggregator::crd::preflights::PreflightBody;
use serde_json::Value;

use super::super::{
    args::{KnownAuthority, PreflightSettings, Request},
    error::{NoVerdict, NoVerdictReason},
};

/// Reads a spec. The API server enforces the rules of the CRD; this reports what an earlier version accepted.
pub(super) fn from_spec(
    spec: &Value,
    namespace: &str,
    settings: &PreflightSettings,
) -> Result<(Request, PreflightBody), NoVerdict> {
    let body: PreflightBody = serde_json::from_value(spec.clone())
        .map_err(|error| NoVerdictReason::Invalid.usage(format!("spec: {error}")))?;
    let profile = match body.profile.as_deref() {
        None | Some("boulder") => KnownAuthority::Boulder,
        Some("pebble") => KnownAuthority::Pebble,
        Some(other) => {
            return Err(NoVerdictReason::Invalid
                .usage(format!("spec.profile: expected boulder or pebble, found {other}")));
        }
    };
    let (issuer, cluster_issuer) = match &body.issuer_ref {
        None => (None, None),
        Some(reference) => match reference.kind.as_deref() {
            None | Some("Issuer") => (Some(reference.name.clone()), None),
            Some("ClusterIssuer") => (None, Some(reference.name.clone())),
            Some(other) => {
                return Err(NoVerdictReason::Invalid.usage(format!(
                    "spec.issuerRef.kind: expected Issuer or ClusterIssuer, found {other}"
                )));
            }
        },
    };
    let gateway = body.gateway_ref.as_ref().map(|gateway| {
        gateway.namespace.as_ref().map_or_else(
            || gateway.name.clone(),
            |namespace| format!("{namespace}/{}", gateway.name),
        )
    });
    let request = Request {
        hosts: body.hosts.clone(),
        issuer,
        cluster_issuer,
        class: body.class.clone(),
        gateway,
        certificate: body
            .certificate_ref
            .as_ref()
            .map(|reference| reference.name.clone()),
        ingress: body.ingress_ref.as_ref().map(|reference| reference.name.clone()),
        namespace: namespace.to_owned(),
        no_create: body.no_create,
        yes: body.allow_billable,
        edit_in_place: false,
        strict: body.strict,
        faithful_timing: body.faithful_timing,
        profile,
        caa_identity: body.caa_identity.clone(),
        ready: body.ready_seconds.unwrap_or(60),
        settings: settings.clone(),
    };
    Ok((request, body))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use serde_json::json;

    use super::*;

    /// Parses command-line arguments.
    fn said(words: &[&str]) -> Request {
        let command = Request::augment_args(clap::Command::new("preflight"));
        let matches = command
            .try_get_matches_from([&["preflight"], words].concat())
            .unwrap();
        Request::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_spec_asks_what_the_command_line_would() {
        for (spec, words) in [
            (
                json!({"hosts": ["shop.example.test"], "class": "nginx"}),
                vec!["shop.example.test", "--class", "nginx"],
            ),
            (
                json!({"hosts": ["a.example.test", "b.example.test"], "issuerRef": {"name": "le"}, "strict": true,
                       "faithfulTiming": true, "profile": "pebble", "caaIdentity": "ca.test", "readySeconds": 90}),
                vec![
                    "a.example.test",
                    "b.example.test",
                    "--issuer",
                    "le",
                    "--strict",
                    "--faithful-timing",
                    "--profile",
                    "pebble",
                    "--caa-identity",
                    "ca.test",
                    "--ready",
                    "90",
                ],
            ),
            (
                json!({"hosts": ["a.example.test"], "issuerRef": {"name": "le", "kind": "ClusterIssuer"}, "allowBillable": true}),
                vec!["a.example.test", "--cluster-issuer", "le", "--yes"],
            ),
            (
                json!({"certificateRef": {"name": "web"}, "ttlSecondsAfterFinished": 5, "rerun": "2"}),
                vec!["--certificate", "web"],
            ),
            (
                json!({"ingressRef": {"name": "web"}, "noCreate": true}),
                vec!["--ingress", "web", "--no-create"],
            ),
            (
                json!({"hosts": ["a.example.test"], "gatewayRef": {"name": "public", "namespace": "infra"}}),
                vec!["a.example.test", "--gateway", "infra/public"],
            ),
            (
                json!({"hosts": ["a.example.test"], "gatewayRef": {"name": "public"}}),
                vec!["a.example.test", "--gateway", "public"],
            ),
        ] {
            let parsed = said(&[&words[..], &["-n", "shop"]].concat());
            let (request, _) = from_spec(&spec, "shop", &parsed.settings).unwrap();
            assert_eq!(format!("{request:?}"), format!("{parsed:?}"), "{spec}");
        }
    }

    #[test]
    fn what_cannot_be_read_names_the_field() {
        let setting = said(&["a.example.test"]).settings;
        for (spec, field) in [
            (json!({"hosts": "a.example.test"}), "spec: invalid type"),
            (json!({"hostz": []}), "hostz"),
            (json!({"hosts": [], "profile": "other"}), "spec.profile"),
            (
                json!({"hosts": [], "issuerRef": {"name": "x", "kind": "Other"}}),
                "spec.issuerRef.kind",
            ),
            (Value::Null, "spec: "),
        ] {
            let error = from_spec(&spec, "shop", &setting).unwrap_err();
            assert_eq!(error.reason, NoVerdictReason::Invalid);
            assert!(
                error.failure.to_string().contains(field),
                "{spec}: {}",
                error.failure
            );
        }
    }
}
