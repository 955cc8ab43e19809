//! Causes and likelihoods that depend on the situation.

use super::*;

#[test]
fn a_route_whose_service_has_no_endpoint_is_named_with_that_service() {
    let spec = serde_json::json!({"services": [
        {"namespace": "shop", "name": "web", "ports": [{"port": 80, "targetPort": 3000}]},
    ]});
    let spec: crate::topology::TopologySpec = serde_json::from_value(spec).unwrap();
    let topology = Topology::try_from(spec).unwrap();
    let f26 = all().find(|cause| cause.id == "F26").unwrap();
    let known = CauseContext {
        origin: topology.service(&"shop/web".parse().unwrap()),
        controller: ControllerPresence::Present,
        ..situation(&topology, &[])
    };
    for status in [404, 503] {
        let known = with_failures(&known, &[(FailureKind::Status, Some(status), 9.0)]);
        assert_eq!(likeliest(RegionKind::Target, &known), "F26", "{status}");
        assert_eq!(
            mechanism_text(f26, &known),
            format!(
                "Service shop/web behind the route has no usable endpoint (none exists), so the controller answers {status}"
            )
        );
    }
    let commands: Vec<_> = (f26.remedies)(&known)
        .into_iter()
        .filter_map(|remedy| remedy.command)
        .collect();
    assert!(
        commands[0].contains("-n shop") && commands[0].contains("service-name=web"),
        "{commands:?}"
    );
    // A failure before the controller responds is not about the Service behind it.
    let refused = with_failures(&known, &[(FailureKind::Refused, None, 9.0)]);
    assert_ne!(likeliest(RegionKind::Target, &refused), "F26");
}

/// Each of these was once named F18, which is about redirects.
#[test]
fn what_is_wrong_with_tls_is_told_by_the_kind_of_failure() {
    let topology = Topology::default();
    let of = |kind: FailureKind| {
        let known = with_failures(&situation(&topology, &[]), &[(kind, None, 9.0)]);
        let ranked = rank(RegionKind::Target, &known);
        let (cause, share) = ranked[0];
        (cause.id, mechanism_text(cause, &known), share)
    };
    for (kind, id, words) in [
        (
            FailureKind::CertificateWrongName,
            "P13",
            "is not valid for the requested name",
        ),
        (FailureKind::CertificateExpired, "P14", "has expired"),
        (FailureKind::CertificateNotYetValid, "P14", "is not valid yet"),
        (
            FailureKind::CertificateUntrusted,
            "P15",
            "a private CA or a self-signed certificate",
        ),
        (
            FailureKind::CertificateChainIncomplete,
            "P16",
            "without the intermediate certificate",
        ),
        (FailureKind::NotTls, "P17", "does not speak TLS"),
    ] {
        let (named, sentence, share) = of(kind.clone());
        assert_eq!(named, id, "{kind}");
        assert!(sentence.contains(words), "{kind}: {sentence}");
        assert!(share > 0.5, "{kind}: {share}");
    }
    // A private CA that issues directly from its root, with a caIssuers URL, looks like a chain without its
    // intermediate.
    let incomplete = with_failures(
        &situation(&topology, &[]),
        &[(FailureKind::CertificateChainIncomplete, None, 9.0)],
    );
    let ids: Vec<&str> = rank(RegionKind::Target, &incomplete)
        .iter()
        .map(|(c, _)| c.id)
        .collect();
    assert!(ids[..2] == ["P16", "P15"], "{ids:?}");
}

#[test]
fn a_redirect_is_named_only_where_one_was_seen() {
    let topology = Topology::default();
    let routed = CauseContext {
        controller: ControllerPresence::Present,
        ..situation(&topology, &[])
    };
    let shares = |kind: FailureKind, status: Option<u16>| {
        let known = with_failures(&routed, &[(kind, status, 9.0)]);
        let ranked = rank(RegionKind::Target, &known);
        (ranked[0].0.id, ranked.iter().any(|(cause, _)| cause.id == "F18"))
    };
    for kind in FailureKind::ALL {
        let redirect = matches!(
            kind,
            FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::RedirectTooMany
        );
        let (first, listed) = shares(kind.clone(), None);
        assert_eq!(first == "F18", redirect, "{kind}");
        assert_eq!(listed, redirect, "{kind}");
    }
    assert_eq!(shares(FailureKind::Status, Some(302)).0, "F18");
    assert_eq!(shares(FailureKind::Status, Some(404)), ("F19", false));
}

#[test]
fn a_policy_before_the_applications_pods_is_named_and_makes_its_cause_likelier_than_none_does() {
    let guarded = |policies: Option<&[&str]>| {
        let spec: crate::topology::TopologySpec = serde_json::from_value(serde_json::json!({
            "services": [{"namespace": "shop", "name": "web", "clusterIPs": ["10.96.0.7"],
                "ports": [{"port": 80, "targetPort": 8080}], "guardedBy": policies}],
        }))
        .unwrap();
        Topology::try_from(spec).unwrap()
    };
    let f13 = all().find(|cause| cause.id == "F13").unwrap();
    let look = |policies: Option<&[&str]>| {
        let topology = guarded(policies);
        let mut situation = situation(&topology, &[]);
        situation.origin = topology.services().values().next();
        situation.controller = ControllerPresence::Present;
        let situation = with_failures(&situation, &[(FailureKind::Status, Some(503), 20.0)]);
        let share = rank(RegionKind::Target, &situation)
            .into_iter()
            .find(|(cause, _)| cause.id == "F13")
            .map_or(0.0, |(_, share)| share);
        (
            share,
            mechanism_text(f13, &situation),
            moving_facts(&rank(RegionKind::Target, &situation), &situation),
        )
    };
    let (unknown, _, facts) = look(None);
    assert!(facts.is_empty(), "{facts:?}");
    let (unselected, _, facts) = look(Some(&[]));
    assert_eq!(
        (facts[0].text.as_str(), facts[0].cause.as_deref()),
        (
            "no NetworkPolicy selects the Pods of Service shop/web",
            Some("F13")
        )
    );
    assert!(facts[0].multiplier < 1.0);
    let (named, mechanism, facts) = look(Some(&["only-the-front"]));
    assert!(
        unselected < unknown && unknown < named,
        "{unselected} {unknown} {named}"
    );
    assert!(mechanism.contains("shop/only-the-front"), "{mechanism}");
    assert_eq!(
        facts[0].text,
        "NetworkPolicy shop/only-the-front restricts ingress to the Pods of Service shop/web"
    );
    assert!(facts.len() == 1 && facts[0].multiplier > 1.0, "{facts:?}");
    let restricted = guarded(Some(&["only-the-front"]));
    assert!(
        {
            let situation = situation(&restricted, &[]);
            moving_facts(&rank(RegionKind::Cross, &situation), &situation).is_empty()
        },
        "the fact applies to the Pods of one Service only"
    );
}

#[test]
fn ready_pods_that_a_policy_guards_are_kept_from_the_controller_rather_than_broken() {
    let topology = |policies: Option<&[&str]>| {
        let spec: crate::topology::TopologySpec = serde_json::from_value(serde_json::json!({
            "nodes": [{"name": "n3"}],
            "services": [{"namespace": "shop", "name": "web", "clusterIPs": ["10.96.0.7"],
                "ports": [{"port": 80, "targetPort": 8080}], "guardedBy": policies,
                "endpoints": [{"pod": "web-1", "address": "10.244.3.10", "node": "n3"}]}],
        }))
        .unwrap();
        Topology::try_from(spec).unwrap()
    };
    // The controller responds with 504 or 503 in both cases: only server errors, few or many.
    let likeliest = |policies: Option<&[&str]>, errors: f64| {
        let topology = topology(policies);
        let mut situation = situation(&topology, &[]);
        situation.origin = topology.services().values().next();
        situation.controller = ControllerPresence::Present;
        likeliest(
            RegionKind::Target,
            &with_failures(&situation, &[(FailureKind::Status, Some(503), errors)]),
        )
    };
    for errors in [3.0, 13.0, 400.0] {
        assert_eq!(likeliest(Some(&["default-deny"]), errors), "F13", "{errors}");
        assert_eq!(likeliest(Some(&[]), errors), "F20", "{errors}");
        assert_eq!(likeliest(None, errors), "F20", "{errors}");
    }
}

#[test]
fn however_often_a_filter_drops_it_stays_the_likeliest_reason_of_a_balancer_silent_to_everybody_inside() {
    let topology = Topology::default();
    let info = FrontInfo {
        service: "ingress/nginx".parse().unwrap(),
        kind: FrontKind::LoadBalancer(IpMode::Proxy),
        port: 80,
        target_port: 8080,
    };
    for timeouts in [3.0, 12.0, 40.0, 400.0] {
        let mut s = situation(&topology, &[]);
        s.info = Some(&info);
        s.failures_by_class = [0.0; 10];
        s.failures_by_class[0] = timeouts;
        let ranked: Vec<&str> = rank(RegionKind::Vip, &s)
            .iter()
            .map(|(cause, _)| cause.id)
            .collect();
        assert_eq!(ranked[..2], ["F14", "F28"], "{timeouts} timeouts");
    }
}
