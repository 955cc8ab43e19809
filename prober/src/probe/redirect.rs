//! Where an answer sends us, and whether we go there. Pure; the rules are data, for targets and for client profiles.

use http::{StatusCode, header, response::Parts};
use parallax_model::{FailureKind, HostName, Phase, RedirectPolicy, Scheme};
use url::Url;

use super::{place::Place, reserved::reserved};
use crate::{classify::Stop, result::tamed};

/// The codes that send a client elsewhere at once.
pub(crate) const CODES: &[u16] = &[301, 302, 303, 307, 308];

/// What a client follows.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Statuses that are redirects.
    pub(crate) codes: &'static [u16],
    /// Those among them that are refused.
    pub(crate) refused_codes: &'static [u16],
    /// Most redirects followed.
    pub(crate) most: usize,
    /// Whether a URL seen before is a loop of its own kind; else only the count ends it.
    pub(crate) notices_loops: bool,
    /// Both where empty.
    pub(crate) schemes: Vec<Scheme>,
    pub(crate) hosts: Hosts,
    pub(crate) ports: Ports,
    /// Longest path, in bytes.
    pub(crate) longest_path: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Hosts {
    /// Any.
    Any,
    /// These.
    Only(Vec<String>),
    /// Any but what Let's Encrypt's server refuses: a missing slash (`….well-known`), a reserved address, no dot.
    Public,
}

#[derive(Debug, Clone)]
pub(crate) enum Ports {
    Any,
    Only(Vec<u16>),
}

impl Rules {
    /// Those of a target: by default only the target itself.
    pub(super) fn of(policy: &RedirectPolicy, own: &Place) -> Self {
        let mut hosts = vec![own.host.to_ascii_lowercase()];
        hosts.extend(
            policy
                .hosts
                .iter()
                .map(HostName::as_str)
                .map(str::to_ascii_lowercase),
        );
        let ports = if policy.ports.is_empty() {
            vec![80, 443, own.port]
        } else {
            policy.ports.clone()
        };
        Self {
            codes: CODES,
            refused_codes: &[],
            most: policy.max.into(),
            notices_loops: true,
            schemes: policy.schemes.clone(),
            hosts: Hosts::Only(hosts),
            ports: Ports::Only(ports),
            longest_path: None,
        }
    }

    fn allow(&self, url: &Url, to: &Place) -> Result<(), String> {
        if !self.schemes.is_empty() && !self.schemes.contains(&to.scheme) {
            return Err(format!("to the scheme {}", to.scheme));
        }
        match &self.ports {
            Ports::Only(ports) if !ports.contains(&to.port) => return Err(format!("to port {}", to.port)),
            _ => {}
        }
        if self
            .longest_path
            .is_some_and(|longest| url.path().len() > longest)
        {
            return Err("with too long a path".to_owned());
        }
        match &self.hosts {
            Hosts::Any => Ok(()),
            Hosts::Only(hosts) if hosts.contains(&to.host) => Ok(()),
            Hosts::Only(_) => Err(format!("to another host, {}", to.host)),
            Hosts::Public => public(&to.host),
        }
    }
}

/// The host rules of Boulder's `va/http.go`. It also wants a registered top-level domain; that list changes weekly and
/// a name outside it does not resolve in public anyway.
fn public(host: &str) -> Result<(), String> {
    if let Ok(address) = host.parse() {
        return if reserved(address) {
            Err(format!("to the reserved address {host}"))
        } else {
            Ok(())
        };
    }
    if host.ends_with(".well-known") {
        return Err(format!("to {host}, where a slash is missing"));
    }
    if host.contains('.') {
        Ok(())
    } else {
        Err(format!("to {host}, which is no public name"))
    }
}

/// The way of one probe so far.
#[derive(Debug)]
pub(crate) struct Trail {
    seen: Vec<String>,
}

impl Trail {
    pub(crate) fn begin(at: &Place) -> Self {
        Self { seen: vec![at.url()] }
    }

    /// Where the answer sends us; nowhere where it is none to be followed.
    pub(crate) fn next(&mut self, at: &Place, head: &Parts, rules: &Rules) -> Result<Option<Place>, Stop> {
        let status = head.status.as_u16();
        let refused = |why: String| {
            Err(Stop::new(Phase::Check, FailureKind::RedirectRefused)
                .because(tamed(&format!("redirected by {status} {why}"))))
        };
        if !rules.codes.contains(&status) {
            return Ok(None);
        }
        let Some(location) = head.headers.get(header::LOCATION) else {
            return Ok(None);
        };
        if self.seen.len() > rules.most {
            return Err(Stop::new(Phase::Check, FailureKind::RedirectTooMany)
                .because(format!("at most {} are followed", rules.most)));
        }
        if rules.refused_codes.contains(&status) {
            return refused("which must not be used here".to_owned());
        }
        let target = location
            .to_str()
            .ok()
            .and_then(|location| Url::parse(&at.url()).ok()?.join(location).ok());
        let Some(url) = target else {
            return refused("to what is no URL".to_owned());
        };
        let Some(to) = Place::of_url(&url) else {
            return refused(format!("to the scheme {}", url.scheme()));
        };
        if let Err(why) = rules.allow(&url, &to) {
            return refused(why);
        }
        let next = to.url();
        if rules.notices_loops && self.seen.contains(&next) {
            return Err(
                Stop::new(Phase::Check, FailureKind::RedirectLoop).because(tamed(&format!("back to {next}")))
            );
        }
        self.seen.push(next);
        Ok(Some(to))
    }
}

/// Whether the next request keeps method and body (RFC 9110 §15.4): only 307 and 308 do.
pub(super) fn keeps_method(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    )
}

#[cfg(test)]
mod tests {
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

    fn place(url: &str) -> Place {
        Place::of_url(&url.parse().unwrap()).unwrap()
    }

    fn rules(policy: &str) -> Rules {
        Rules::of(
            &serde_json::from_str(policy).unwrap(),
            &place("http://shop.example.test/"),
        )
    }

    fn goes(rules: &Rules, status: u16, location: &str) -> Result<Option<String>, FailureKind> {
        let at = place("http://shop.example.test/");
        Trail::begin(&at)
            .next(&at, &head(status, location), rules)
            .map(|to| to.map(|to| to.url()))
            .map_err(|stop| match stop.fault {
                crate::classify::Fault::Target(kind) => kind,
                crate::classify::Fault::Own(own) => panic!("{own}"),
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
        assert_eq!(goes(&rules, 304, "/x"), Ok(None), "no redirect");
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
        let mut trail = Trail::begin(&at);
        for n in 0..2 {
            at = trail
                .next(&at, &head(302, &format!("/{n}")), &rules)
                .unwrap()
                .unwrap();
        }
        let stop = trail.next(&at, &head(302, "/2"), &rules).unwrap_err();
        assert_eq!(stop.fault, FailureKind::RedirectTooMany.into());
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_of_a_location_we_stay_on_the_targets_own_host(location in "\\PC{0,60}") {
            let response = Response::builder().status(302).header("location", location.as_bytes()).body(());
            if let Ok(response) = response {
                let at = place("http://shop.example.test/");
                let next = Trail::begin(&at).next(&at, &response.into_parts().0, &rules(r#"{"max":5}"#));
                if let Ok(Some(to)) = next {
                    prop_assert_eq!(to.host, "shop.example.test");
                }
            }
        }
    }
}
