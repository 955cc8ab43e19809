//! Valid targets, and the errors of invalid ones.

use serde_json::json;

use super::*;

fn target(url: &str) -> Result<Target, InvalidTarget> {
    TargetSpec::new(url).try_into()
}

#[test]
fn the_four_schemes_become_probes_with_a_stable_id() {
    assert_eq!(
        target("http://Shop.example.test").unwrap().id.as_str(),
        "http://shop.example.test/"
    );
    assert_eq!(
        target("https://shop.example.test:443/a?b=1#c")
            .unwrap()
            .id
            .as_str(),
        "https://shop.example.test/a?b=1"
    );
    assert_eq!(
        target("tcp://10.0.0.1:5432").unwrap().id.as_str(),
        "tcp://10.0.0.1:5432"
    );
    assert_eq!(
        target("dns://kubernetes.default.svc").unwrap().id.as_str(),
        "dns://kubernetes.default.svc"
    );
}

#[test]
fn an_ipv6_literal_keeps_its_brackets_in_the_id_and_loses_them_in_the_host() {
    let target = target("http://[2001:db8::1]:8080/").unwrap();
    assert_eq!(target.id.as_str(), "http://[2001:db8::1]:8080/");
    let ProbeSpec::Http(http) = target.probe else {
        panic!("an HTTP probe")
    };
    assert_eq!((http.host.as_str(), http.port), ("2001:db8::1", 8080));
}

#[test]
fn each_impossible_target_is_refused_with_the_field_and_the_expectation() {
    for (url, words) in [
        ("shop.example.test", "expected http://"),
        ("ftp://shop.example.test/", "is not supported"),
        ("tcp://db.example.test", "needs a port"),
        ("http://user:secret@shop.example.test/", "user name or password"),
        ("http://*.example.test/", "wildcard"),
        ("tcp://db:5432/path", "no path"),
        ("tls://db", "tls:// target needs a port"),
    ] {
        let error = target(url).unwrap_err().to_string();
        assert!(error.contains(words), "{url}: {error}");
    }
    let mut spec = TargetSpec::new("dns://a.example.test");
    spec.expect_body_contains = Some("x".into());
    assert!(
        Target::try_from(spec)
            .unwrap_err()
            .to_string()
            .contains("expectBodyContains")
    );
    let mut spec = TargetSpec::new("http://a.example.test");
    spec.interval_ms = Some(1);
    assert!(
        Target::try_from(spec)
            .unwrap_err()
            .to_string()
            .contains("200 to 3600000")
    );
}

fn checked(spec: serde_json::Value) -> Result<Target, String> {
    let spec: TargetSpec = serde_json::from_value(spec).map_err(|e| e.to_string())?;
    Target::try_from(spec).map_err(|e| e.to_string())
}

#[test]
fn everything_people_write_reaches_the_probe() {
    let target = checked(json!({
        "url": "https://shop.example.test/health", "method": "POST", "body": "{}", "contentType": "application/json",
        "expectStatus": "200", "expectBodyMatches": "^ok", "expectHeaders": {"X-Cache": null, "Server": "shop"},
        "expectTls": {"minVersion": "1.3", "daysLeft": 14, "issuer": "R11"}, "maxBodyBytes": 1000,
        "httpVersion": "2", "redirects": {"max": 3, "hosts": ["www.example.test"]}, "tlsVerify": false,
        "proxyHeader": "unknown"
    }))
    .unwrap();
    let ProbeSpec::Http(probe) = target.probe else {
        panic!("an HTTP probe")
    };
    assert_eq!(
        (probe.method, probe.version, probe.max_body),
        (Method::Post, HttpVersion::Http2, Some(1000))
    );
    assert_eq!(probe.expect_headers["server"].as_deref(), Some("shop"));
    assert_eq!(probe.expect_headers["x-cache"], None);
    assert!(probe.accept_invalid_certificate && probe.redirects.is_some() && probe.expect_tls.is_some());
    let target =
        checked(json!({"url": "tls://db.example.test:5432", "send": "PING\\r\\n", "expect": "PONG"}))
            .unwrap();
    assert_eq!(target.id.as_str(), "tls://db.example.test:5432");
    let ProbeSpec::Tcp(probe) = target.probe else {
        panic!("a TCP probe")
    };
    assert!(probe.tls);
    assert_eq!(probe.send.unwrap().as_bytes(), b"PING\r\n");
}

#[test]
fn extra_roots_reach_probes_over_tls_and_no_others() {
    let pem = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    for url in ["https://a.test/", "tls://a.test:5432"] {
        let roots = match checked(json!({"url": url, "extraRoots": pem})).unwrap().probe {
            ProbeSpec::Http(probe) => probe.extra_roots,
            ProbeSpec::Tcp(probe) => probe.extra_roots,
            other => panic!("{other:?}"),
        };
        assert_eq!(roots.unwrap().certificates().len(), 1, "{url}");
    }
    for (spec, expected) in [
        (
            json!({"url": "http://a.test/", "extraRoots": pem}),
            "extraRoots: only for https and tls targets",
        ),
        (
            json!({"url": "https://a.test/", "extraRoots": pem, "tlsVerify": false}),
            "extraRoots: with tlsVerify: false no certificate is rejected",
        ),
        (
            json!({"url": "https://a.test/", "extraRoots": "/etc/ssl/ca.crt"}),
            "expected one or more CA certificates in PEM form",
        ),
    ] {
        let error = checked(spec).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_probe_carries_the_names_of_credentials_and_the_proxy_is_the_server_that_it_connects_to() {
    let target = checked(json!({
        "url": "https://api.example.test/health", "requestHeaders": {"X-Team": "shop"}, "credential": "shop",
        "clientCertificate": "mesh", "httpProxy": "http://proxy.example.test:3128", "proxyCredential": "proxy",
    }))
    .unwrap();
    let probe = &target.probe;
    let server = probe.server().map(|(host, port)| (host.as_str(), port));
    assert_eq!(server, Some(("proxy.example.test", 3128)));
    assert_eq!(probe.resolved_host().unwrap().as_str(), "proxy.example.test");
    assert_eq!(
        (probe.host().unwrap().as_str(), probe.port()),
        ("api.example.test", Some(443))
    );
    assert!(!probe.is_tls(), "the proxy is asked in plain text");
    let ProbeSpec::Http(http) = probe else {
        panic!("an HTTP probe")
    };
    assert_eq!(http.request_headers["x-team"], "shop");
    let plain = checked(json!({"url": "http://a.test/", "resolver": "10.0.0.1:53"})).unwrap();
    assert_eq!(plain.probe.resolver(), Some("10.0.0.1:53".parse().unwrap()));
    assert_eq!(plain.probe.resolved_host(), plain.probe.host());
}

#[test]
fn the_same_url_probed_in_another_way_has_another_id() {
    for (spec, id) in [
        (
            json!({"url": "http://a.test/", "keepAlive": true}),
            "http://a.test/#keep-alive",
        ),
        (
            json!({"url": "dns://a.test", "record": "AAAA"}),
            "dns://a.test#AAAA",
        ),
        (
            json!({"url": "dns://a.test", "transport": "tcp", "resolver": "10.0.0.1:53"}),
            "dns://a.test#tcp,@10.0.0.1:53",
        ),
        (
            json!({"url": "dns://a.test", "search": "musl"}),
            "dns://a.test#musl",
        ),
        (json!({"url": "dns://a.test", "record": "A"}), "dns://a.test"),
        (
            json!({"url": "http://a.test/", "search": "musl", "keepAlive": true}),
            "http://a.test/#keep-alive,musl",
        ),
        (
            json!({"url": "http://a.test/", "search": "glibc"}),
            "http://a.test/",
        ),
        (
            json!({"url": "tcp://db:5432", "search": "musl"}),
            "tcp://db:5432#musl",
        ),
        (
            json!({"url": "https://a.test/", "credential": "shop", "clientCertificate": "mesh"}),
            "https://a.test/#credential=shop,certificate=mesh",
        ),
        (
            json!({"url": "https://a.test/", "httpProxy": "http://Proxy.test:3128/", "proxyCredential": "p"}),
            "https://a.test/#proxy=proxy.test:3128",
        ),
        (
            json!({"url": "http://a.test/", "httpProxy": "http://[2001:db8::1]:80"}),
            "http://a.test/#proxy=[2001:db8::1]:80",
        ),
        (
            json!({"url": "https://a.test/", "resolver": "[2001:db8::53]:53"}),
            "https://a.test/#@[2001:db8::53]:53",
        ),
        (
            json!({"url": "tls://db:5432", "resolver": "10.0.0.1:53", "clientCertificate": "mesh"}),
            "tls://db:5432#@10.0.0.1:53,certificate=mesh",
        ),
        (
            json!({"url": "http://a.test/", "requestHeaders": {"X-Team": "shop"}}),
            "http://a.test/",
        ),
    ] {
        assert_eq!(checked(spec).unwrap().id.as_str(), id);
    }
}

#[test]
fn each_impossible_field_is_refused_by_name_with_what_was_expected() {
    for (spec, words) in [
        (
            json!({"url": "tcp://a:1", "expectStatus": "200"}),
            "expectStatus: only for http and https",
        ),
        (
            json!({"url": "http://a/", "expectTls": {}}),
            "expectTls: only for https and tls",
        ),
        (
            json!({"url": "http://a/", "send": "x"}),
            "send: only for tcp and tls",
        ),
        (json!({"url": "tls://a:1", "record": "A"}), "record: only for dns"),
        (json!({"url": "http://a/", "body": "x"}), "body: only a POST"),
        (
            json!({"url": "http://a/", "contentType": "x/y"}),
            "contentType: there is no body",
        ),
        (
            json!({"url": "http://a/", "method": "HEAD", "expectBodyContains": "x"}),
            "method: the response to a HEAD",
        ),
        (
            json!({"url": "http://a/", "httpVersion": "2"}),
            "httpVersion: HTTP/2 is negotiated",
        ),
        (
            json!({"url": "http://a/", "redirects": {"max": 21}}),
            "redirects.max: expected 1 to 20",
        ),
        (
            json!({"url": "http://a/", "redirects": {"max": 1, "host": []}}),
            "unknown field `host`",
        ),
        (
            json!({"url": "http://a/", "expectBodyMatches": "("}),
            "regular expression",
        ),
        (
            json!({"url": "http://a/", "expectHeaders": {"a b": null}}),
            "expectHeaders: expected header names",
        ),
        (
            json!({"url": "http://a/", "maxBodyBytes": 1_u64 << 31}),
            "maxBodyBytes: expected 0 to 1073741824 bytes",
        ),
        (
            json!({"url": "http://a/", "mustNotAnswer": "never"}),
            "refused, timeout",
        ),
        (
            json!({"url": "http://a/", "mustNotAnswerAt": ["shop"]}),
            "invalid IP address",
        ),
        (
            json!({"url": "dns://a", "mustNotAnswerAt": ["192.0.2.1"]}),
            "mustNotAnswerAt: only for http, https, tcp and tls",
        ),
        (
            json!({"url": "http://a/", "mustNotAnswerFrom": ["nodes", "vpc", "internet"]}),
            "mustNotAnswerFrom: no vantage would get an answer",
        ),
        (
            json!({"url": "http://a/", "mustNotAnswerFrom": ["moon"]}),
            "unknown variant `moon`",
        ),
        (
            json!({"url": "http://a/", "method": "PUT"}),
            "unknown variant `PUT`",
        ),
        (json!({"url": "tcp://a:1", "send": "\\q"}), "after a backslash"),
        (
            json!({"url": "http://a/", "keepAlive": true, "redirects": {"max": 1}}),
            "keepAlive: it repeats",
        ),
        (
            json!({"url": "http://a/", "expectStatsu": "200"}),
            "unknown field `expectStatsu`",
        ),
    ] {
        let error = checked(spec.clone()).unwrap_err();
        assert!(error.contains(words), "{spec}: {error}");
    }
}

#[test]
fn headers_credentials_proxy_and_resolver_are_refused_where_they_cannot_apply() {
    for (spec, words) in [
        (
            json!({"url": "tcp://a:1", "requestHeaders": {"X-Team": "shop"}}),
            "requestHeaders: only for http and https",
        ),
        (
            json!({"url": "http://a/", "requestHeaders": {"Authorization": "Bearer x"}}),
            "requestHeaders: \"Authorization\": a header's value appears in plans, recordings and the API; use credential",
        ),
        (
            json!({"url": "tls://a:1", "credential": "shop"}),
            "credential: only for http and https",
        ),
        (
            json!({"url": "https://a/", "credential": "shop", "tlsVerify": false}),
            "credential: with tlsVerify: false any server would receive it",
        ),
        (
            json!({"url": "https://a/", "credential": "shop",
                "extraRoots": "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----"}),
            "credential: it is sent to servers that the probers themselves trust only",
        ),
        (
            json!({"url": "https://a/", "credential": "Bearer x"}),
            "expected the name of a credential",
        ),
        (
            json!({"url": "http://a/", "clientCertificate": "shop"}),
            "clientCertificate: only for https and tls",
        ),
        (
            json!({"url": "tls://a:1", "httpProxy": "http://p:3128"}),
            "httpProxy: only for http and https",
        ),
        (
            json!({"url": "http://a/", "httpProxy": "http://p"}),
            "expected an HTTP proxy as http://HOST:PORT",
        ),
        (
            json!({"url": "http://a/", "httpProxy": "http://u:p@p:3128"}),
            "use proxyCredential",
        ),
        (
            json!({"url": "http://a/", "proxyCredential": "shop"}),
            "proxyCredential: there is no proxy",
        ),
        (
            json!({"url": "http://web.shop.svc/", "httpProxy": "http://p:3128"}),
            "httpProxy: it is for targets outside the cluster",
        ),
        (
            json!({"url": "http://web.shop.svc.cluster.local./", "httpProxy": "http://p:3128"}),
            "httpProxy: it is for targets outside the cluster",
        ),
        (
            json!({"url": "http://a/", "httpProxy": "http://p:3128", "resolver": "10.0.0.1:53"}),
            "httpProxy: the proxy resolves the name",
        ),
        (
            json!({"url": "http://a/", "httpProxy": "http://p:3128", "proxyHeader": "tcp"}),
            "httpProxy: the proxy would receive the PROXY header",
        ),
        (
            json!({"url": "http://a/", "httpProxy": "http://p:3128", "mustNotAnswer": "refused"}),
            "httpProxy: a failure of the proxy would look like silence",
        ),
        (
            json!({"url": "http://a/", "httpProxy": "http://p:3128", "mustNotAnswerFrom": ["internet"]}),
            "httpProxy: a failure of the proxy would look like silence",
        ),
        (
            json!({"url": "http://a/", "resolver": "10.0.0.1:53", "search": "musl"}),
            "resolver: it is asked for the name as it is written",
        ),
        (
            json!({"url": "http://a/", "resolver": "dns.example.test:53"}),
            "invalid socket address",
        ),
    ] {
        let error = checked(spec.clone()).unwrap_err();
        assert!(error.contains(words), "{spec}: {error}");
    }
}

#[test]
fn silence_somewhere_leaves_the_target_itself_as_it_is() {
    let target = checked(json!({
        "url": "https://wiki.example.test/", "mustNotAnswer": "refused,403", "mustNotAnswerAt": ["203.0.113.10"],
        "mustNotAnswerFrom": ["internet"],
    }))
    .unwrap();
    let ProbeSpec::Http(own) = &target.probe else {
        panic!()
    };
    assert_eq!(own.must_not_answer, None, "all other vantages must get an answer");
    let asked: Vec<_> = target.forbidden_probes.iter().map(|q| q.id.as_str()).collect();
    assert_eq!(
        asked,
        [
            "https://wiki.example.test/#silent-at=203.0.113.10:443",
            "https://wiki.example.test/#silent-from=internet"
        ]
    );
    let ProbeSpec::Http(asked) = &target.forbidden_probes[0].probe else {
        panic!()
    };
    assert_eq!(asked.must_not_answer.as_ref().unwrap().to_string(), "refused,403");
    assert!(target.must_answer_kind(Whence::Nodes) && !target.must_answer_kind(Whence::Internet));
}
