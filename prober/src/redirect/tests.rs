//! Redirects that a prober follows, and those that it refuses.

use http::Response;
use proptest::prelude::*;

use super::*;

fn head(status: u16, location: &str) -> Parts {
    Response::builder()
        .status(status)
        .header("location", location)
        .body(())
        .unwrap()
        .into_parts()
        .0
}

fn place(url: &str) -> RequestDestination {
    RequestDestination::from_url(&url.parse().unwrap()).unwrap()
}

fn rules(policy: &str) -> FollowRules {
    FollowRules::from_policy(
        &serde_json::from_str(policy).unwrap(),
        &place("http://shop.example.test/"),
    )
}

fn goes(rules: &FollowRules, status: u16, location: &str) -> Result<Option<String>, FailureKind> {
    let at = place("http://shop.example.test/");
    RedirectTrail::new(&at)
        .next(&at, &head(status, location), rules)
        .map(|to| to.map(|to| to.url()))
        .map_err(|refused| match EarlyEnd::from(refused).origin {
            crate::failure::FailureOrigin::Target(kind) => kind,
            crate::failure::FailureOrigin::Own(own) => panic!("{own}"),
        })
}

#[test]
fn by_default_a_redirect_is_followed_on_the_same_host_only() {
    let rules = rules(r#"{"max":5}"#);
    let refused = Err(FailureKind::RedirectRefused);
    for (location, expected) in [
        ("/login", Ok(Some("http://shop.example.test/login".to_owned()))),
        (
            "https://SHOP.example.test/",
            Ok(Some("https://shop.example.test/".to_owned())),
        ),
        ("//cdn.example.test/", refused.clone()),
        ("http://shop.example.test:8080/", refused.clone()),
        ("ftp://shop.example.test/", refused.clone()),
        ("javascript:alert(1)", refused.clone()),
        ("http://[::1", refused.clone()),
        ("/", Err(FailureKind::RedirectLoop)),
    ] {
        assert_eq!(goes(&rules, 301, location), expected, "{location}");
    }
    assert_eq!(goes(&rules, 304, "/x"), Ok(None), "not a redirect");
    assert_eq!(goes(&rules, 301, ""), Ok(None), "an empty location");
    assert_eq!(
        goes(&rules, 301, "http:///login"),
        refused,
        "the path is not a host"
    );
}

#[test]
fn the_parts_of_a_location_are_as_they_were_written() {
    for (location, expected) in [
        ("/x", None),
        ("x//y", None),
        ("///x", None),
        ("?u=http://other/", None),
        ("//cdn.example.test/x", Some(("cdn.example.test", "/x"))),
        ("http://SHOP.example.test:80", Some(("SHOP.example.test:80", ""))),
        (
            "https://user@[2001:db8::1]:443?x",
            Some(("[2001:db8::1]:443", "?x")),
        ),
        ("http:///x", Some(("", "/x"))),
    ] {
        assert_eq!(written_authority(location), expected, "{location}");
    }
}

#[test]
fn schemes_hosts_and_ports_are_what_the_policy_says() {
    let rules = rules(r#"{"max":5,"schemes":["https"],"hosts":["www.example.test"],"ports":[8443]}"#);
    assert!(
        goes(&rules, 308, "https://www.example.test:8443/")
            .unwrap()
            .is_some()
    );
    for location in [
        "http://www.example.test:8443/",
        "https://www.example.test/",
        "https://a.test:8443/",
    ] {
        assert_eq!(
            goes(&rules, 308, location),
            Err(FailureKind::RedirectRefused),
            "{location}"
        );
    }
}

#[test]
fn more_redirects_than_allowed_are_too_many() {
    let rules = rules(r#"{"max":2}"#);
    let mut at = place("http://shop.example.test/");
    let mut trail = RedirectTrail::new(&at);
    for n in 0..2 {
        at = trail
            .next(&at, &head(302, &format!("/{n}")), &rules)
            .unwrap()
            .unwrap();
    }
    let refused = trail.next(&at, &head(302, "/2"), &rules).unwrap_err();
    assert_eq!(
        EarlyEnd::from(refused).origin,
        FailureKind::RedirectTooMany.into()
    );
}

proptest! {
    #[test]
    fn whatever_a_server_says_of_a_location_we_stay_on_the_targets_own_host(location in "\\PC{0,60}") {
        let response = Response::builder().status(302).header("location", location.as_bytes()).body(());
        if let Ok(response) = response {
            let at = place("http://shop.example.test/");
            let next = RedirectTrail::new(&at).next(&at, &response.into_parts().0, &rules(r#"{"max":5}"#));
            if let Ok(Some(to)) = next {
                prop_assert_eq!(to.host, "shop.example.test");
            }
        }
    }
}
