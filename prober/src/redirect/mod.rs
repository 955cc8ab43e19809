//! Decides whether and where a redirect is followed. Pure; the rules are data, for targets and for client profiles.

mod destination;
mod reserved;

use std::{borrow::Cow, net::IpAddr};

use http::{StatusCode, header, response::Parts};
use parallax_model::{FailureKind, HostName, Phase, RedirectPolicy, Scheme};
use url::Url;

pub(crate) use self::{
    destination::{RequestDestination, host_and_port},
    reserved::reserved,
};
use crate::{failure::EarlyEnd, sanitize::sanitized};

/// Statuses that redirect a client.
pub(crate) const REDIRECT_STATUSES: &[u16] = &[301, 302, 303, 307, 308];

/// The redirect rules of a client.
#[derive(Debug, Clone)]
pub(crate) struct FollowRules {
    /// Statuses that are redirects.
    pub(crate) statuses: &'static [u16],
    /// Statuses among them that are refused.
    pub(crate) refused_statuses: &'static [u16],
    /// Maximum number of redirects.
    pub(crate) max: usize,
    /// Whether a repeated URL is a loop; otherwise only the maximum ends it.
    pub(crate) detects_loops: bool,
    /// The allowed schemes; both if empty.
    pub(crate) schemes: Vec<Scheme>,
    pub(crate) hosts: RedirectHosts,
    pub(crate) ports: RedirectPorts,
    /// Maximum length of the path in bytes.
    pub(crate) max_path: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum RedirectHosts {
    /// Any host.
    Any,
    /// Only these hosts.
    Only(Vec<String>),
    /// Any host except those that Let's Encrypt's server refuses: a missing slash (`….well-known`), a reserved address,
    /// no dot.
    Public,
}

#[derive(Debug, Clone)]
pub(crate) enum RedirectPorts {
    Any,
    Only(Vec<u16>),
}

impl FollowRules {
    /// The rules of a target: by default only its own host, at its own port, 80 and 443.
    pub(crate) fn from_policy(policy: &RedirectPolicy, own: &RequestDestination) -> Self {
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
            statuses: REDIRECT_STATUSES,
            refused_statuses: &[],
            max: policy.max.into(),
            detects_loops: true,
            schemes: policy.schemes.clone(),
            hosts: RedirectHosts::Only(hosts),
            ports: RedirectPorts::Only(ports),
            max_path: None,
        }
    }

    fn check(&self, url: &Url, to: &RequestDestination) -> Result<(), RedirectRefusal> {
        if !self.schemes.is_empty() && !self.schemes.contains(&to.scheme) {
            return Err(RedirectRefusal::Scheme(to.scheme.to_string()));
        }
        match &self.ports {
            RedirectPorts::Only(ports) if !ports.contains(&to.port) => {
                return Err(RedirectRefusal::Port(to.port));
            }
            _ => {}
        }
        match &self.hosts {
            RedirectHosts::Any => {}
            RedirectHosts::Only(hosts) if hosts.contains(&to.host) => {}
            RedirectHosts::Only(_) => return Err(RedirectRefusal::OtherHost(to.host.clone())),
            RedirectHosts::Public => check_public(&to.host)?,
        }
        match self.max_path {
            Some(longest) if url.path().len() > longest => Err(RedirectRefusal::TooLong),
            _ => Ok(()),
        }
    }
}

/// Top-level domains outside the public DNS (RFC 6761, RFC 6762, RFC 7686, RFC 9476, and ICANN's `internal`).
const NOT_PUBLIC: &[&str] = &[
    "alt",
    "example",
    "internal",
    "invalid",
    "local",
    "localhost",
    "onion",
    "test",
];

/// The host rules of Boulder's `va/http.go`. Boulder requires a top-level domain that IANA has registered. That list
/// changes weekly and is not included; a name that is in neither list does not resolve publicly anyway.
fn check_public(host: &str) -> Result<(), RedirectRefusal> {
    if host.ends_with(".well-known") {
        return Err(RedirectRefusal::MissingSlash(host.to_owned()));
    }
    if let Ok(address) = host.parse() {
        return if reserved(address) {
            Err(RedirectRefusal::Reserved(address))
        } else {
            Ok(())
        };
    }
    match host.trim_end_matches('.').rsplit_once('.') {
        Some((_, top)) if !NOT_PUBLIC.contains(&top) => Ok(()),
        _ => Err(RedirectRefusal::NotPublic(host.to_owned())),
    }
}

/// The reason why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedirectRefusal {
    /// The maximum number of redirects was followed.
    TooMany(usize),
    /// The client refuses this redirect status.
    Status,
    /// The location is not a URL.
    NoUrl,
    Scheme(String),
    Port(u16),
    TooLong,
    /// The URL has no host.
    NoHost,
    /// The host is like `shop.example.org.well-known`.
    MissingSlash(String),
    Reserved(IpAddr),
    NotPublic(String),
    OtherHost(String),
    /// The URL was requested before.
    Loop(String),
}

/// A redirect that is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedRedirect {
    status: u16,
    pub(crate) reason: RedirectRefusal,
}

impl From<RefusedRedirect> for EarlyEnd {
    fn from(refused: RefusedRedirect) -> Self {
        let kind = match &refused.reason {
            RedirectRefusal::TooMany(_) => FailureKind::RedirectTooMany,
            RedirectRefusal::Loop(_) => FailureKind::RedirectLoop,
            _ => FailureKind::RedirectRefused,
        };
        // The preflight recognizes these texts in reports (`parallax_preflight::wording`).
        let to = match &refused.reason {
            RedirectRefusal::TooMany(most) => {
                return Self::new(Phase::Check, kind).with_detail(format!("at most {most} are followed"));
            }
            RedirectRefusal::Loop(to) => {
                return Self::new(Phase::Check, kind).with_detail(sanitized(&format!("back to {to}")));
            }
            RedirectRefusal::Status => "which must not be used here".to_owned(),
            RedirectRefusal::NoUrl => "to an invalid URL".to_owned(),
            RedirectRefusal::Scheme(scheme) => format!("to the scheme {scheme}"),
            RedirectRefusal::Port(port) => format!("to port {port}"),
            RedirectRefusal::TooLong => "with too long a path".to_owned(),
            RedirectRefusal::NoHost => "to a URL without a host".to_owned(),
            RedirectRefusal::MissingSlash(host) => format!("to {host}, where a slash is missing"),
            RedirectRefusal::Reserved(address) => format!("to the reserved address {address}"),
            RedirectRefusal::NotPublic(host) => format!("to {host}, which is no public name"),
            RedirectRefusal::OtherHost(host) => format!("to another host, {host}"),
        };
        Self::new(Phase::Check, kind)
            .with_detail(sanitized(&format!("redirected by {} {to}", refused.status)))
    }
}

/// Returns the `Location` of a response, unless it is absent or empty.
pub(crate) fn location(head: &Parts) -> Option<Cow<'_, str>> {
    let value = head.headers.get(header::LOCATION)?.as_bytes();
    (!value.is_empty()).then(|| String::from_utf8_lossy(value))
}

/// Returns host and port of a location as written, and the rest; `None` if it is relative.
pub(crate) fn written_authority(location: &str) -> Option<(&str, &str)> {
    if location.starts_with("///") {
        return None;
    }
    let (scheme, rest) = location.split_once("//")?;
    let absolute = scheme.strip_suffix(':').is_some_and(|scheme| {
        !scheme.is_empty()
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    if !absolute && !scheme.is_empty() {
        return None;
    }
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    Some((host, tail))
}

/// Resolves a location against the current URL, as Go does: after three slashes Go reads a path, browsers a host.
fn resolve_location(mut current: Url, location: &str) -> Result<Url, url::ParseError> {
    if !location.starts_with("///") {
        return current.join(location);
    }
    let (path, query) = location
        .split_once('?')
        .map_or((location, None), |(path, query)| (path, Some(query)));
    current.set_path(path);
    current.set_query(query);
    Ok(current)
}

/// The URLs that a probe has requested so far.
#[derive(Debug)]
pub(crate) struct RedirectTrail {
    seen: Vec<String>,
}

impl RedirectTrail {
    pub(crate) fn new(at: &RequestDestination) -> Self {
        Self { seen: vec![at.url()] }
    }

    /// Returns the next destination; `None` if the response is not a redirect.
    pub(crate) fn next(
        &mut self,
        at: &RequestDestination,
        head: &Parts,
        rules: &FollowRules,
    ) -> Result<Option<RequestDestination>, RefusedRedirect> {
        let status = head.status.as_u16();
        let refused = |reason| Err(RefusedRedirect { status, reason });
        if !rules.statuses.contains(&status) {
            return Ok(None);
        }
        let Some(location) = location(head) else {
            return Ok(None);
        };
        if self.seen.len() > rules.max {
            return refused(RedirectRefusal::TooMany(rules.max));
        }
        if rules.refused_statuses.contains(&status) {
            return refused(RedirectRefusal::Status);
        }
        // The URL library, like a browser, would use the first part of the path as the host.
        if written_authority(&location).is_some_and(|(host, _)| host.trim_start_matches(':').is_empty()) {
            return refused(RedirectRefusal::NoHost);
        }
        let target = Url::parse(&at.url()).and_then(|current| resolve_location(current, &location));
        let Ok(url) = target else {
            return refused(RedirectRefusal::NoUrl);
        };
        let Some(to) = RequestDestination::from_url(&url) else {
            return refused(RedirectRefusal::Scheme(url.scheme().to_owned()));
        };
        rules
            .check(&url, &to)
            .map_err(|reason| RefusedRedirect { status, reason })?;
        let next = to.url();
        if rules.detects_loops && self.seen.contains(&next) {
            return refused(RedirectRefusal::Loop(next));
        }
        self.seen.push(next);
        Ok(Some(to))
    }
}

/// Whether the next request keeps method and body (RFC 9110 §15.4): only after 307 and 308.
pub(crate) fn keeps_method(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    )
}

#[cfg(test)]
mod tests;
