//! Parses a URL argument and records every assumption made, so that the report can state it.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr},
};

use parallax_model::{
    HostName, HttpProbe, HttpProxy, HttpVersion, InvalidTarget, Method, ProbeSpec, Scheme, Target,
    TargetSpec, TcpProbe, TlsExpectation,
};
use parallax_terminal::escape;
use url::Url;

use super::args::CheckOptions;

const EXPECTED: &str =
    "expected http://…, https://…, tcp://HOST:PORT, tls://HOST:PORT, dns://NAME or a bare HOST";

/// What one argument asks to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckSubject {
    /// The argument as typed.
    pub(super) given: String,
    /// The URL as interpreted.
    pub(super) url: String,
    /// The assumptions made, where the user might have meant something else.
    pub(super) assumptions: Vec<String>,
    /// The action to perform.
    pub(super) action: CheckAction,
}

/// The action that the scheme of a URL selects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a handful per process")]
pub(super) enum CheckAction {
    /// Sends a request and follows its redirects.
    Http(HttpProbe),
    /// Connects, with or without TLS.
    Stream(TcpProbe),
    /// Resolves the name only.
    Name(HostName),
}

impl CheckSubject {
    /// Parses an argument. The error contains the argument and what was expected.
    pub(super) fn parse(given: &str, args: &CheckOptions) -> Result<Self, String> {
        let complaint = |reason: String| format!("{:?}: {reason}", escape(given));
        if given.is_empty() || given.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(complaint(format!("{EXPECTED}, without white space")));
        }
        let mut assumptions = Vec::new();
        let text = with_scheme(given, args, &mut assumptions);
        let url = normalize(&text).map_err(complaint)?;
        assumptions.extend(host_assumption(&text, &url));
        let action = action(&url, args).map_err(complaint)?;
        let subject = Self {
            given: given.to_owned(),
            url,
            assumptions,
            action,
        };
        subject.validate(args).map_err(complaint)?;
        Ok(subject)
    }

    pub(super) fn host(&self) -> &str {
        match &self.action {
            CheckAction::Http(probe) => probe.host.as_str(),
            CheckAction::Stream(probe) => probe.host.as_str(),
            CheckAction::Name(name) => name.as_str(),
        }
    }

    /// The port of the URL; `None` for `dns://`.
    pub(super) const fn port(&self) -> Option<u16> {
        match &self.action {
            CheckAction::Http(probe) => Some(probe.port),
            CheckAction::Stream(probe) => Some(probe.port),
            CheckAction::Name(_) => None,
        }
    }

    /// The name or literal address to connect to: that of the proxy, if there is one.
    pub(super) fn dialled_host(&self) -> &str {
        self.proxy()
            .map_or_else(|| self.host(), |proxy| proxy.url.host.as_str())
    }

    /// The port to connect to; `None` for `dns://`.
    pub(super) fn dialled_port(&self) -> Option<u16> {
        self.proxy()
            .map_or_else(|| self.port(), |proxy| Some(proxy.url.port))
    }

    /// The proxy of the requests.
    pub(super) fn proxy(&self) -> Option<&HttpProxy> {
        match &self.action {
            CheckAction::Http(probe) => probe.proxy.as_ref(),
            CheckAction::Stream(_) | CheckAction::Name(_) => None,
        }
    }

    /// Checks that the options apply to this URL.
    fn validate(&self, args: &CheckOptions) -> Result<(), String> {
        if self.port() == Some(0) {
            return Err("nothing can listen on port 0".to_owned());
        }
        if matches!(self.action, CheckAction::Name(_)) {
            if !args.connect_to.is_empty() {
                return Err("--connect-to: not with dns://, which only resolves the name".to_owned());
            }
            if self.host().parse::<std::net::IpAddr>().is_ok() {
                return Err("expected a name after dns://, not an address".to_owned());
            }
        }
        let names: BTreeSet<&str> = args.header.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() < args.header.len() {
            return Err("--header: the same header is given twice; join the values with a comma".to_owned());
        }
        let plain = matches!(&self.action, CheckAction::Http(probe) if probe.scheme == Scheme::Http);
        if plain && let Some(flag) = args.authorization_flag() {
            return Err(format!(
                "{flag}: not over plain HTTP, where everyone on the path can read it; use an https:// URL"
            ));
        }
        if args.profile.client().is_none() {
            return Ok(());
        }
        if !matches!(&self.action, CheckAction::Http(probe) if probe.scheme == Scheme::Http) {
            return Err("--profile: expected an http:// URL; these clients start with plain HTTP".to_owned());
        }
        let own = [
            ("--contains", args.contains.is_some()),
            ("--expect-status", args.expect_status.is_some()),
            ("--days-left", args.days_left.is_some()),
            ("--method", args.method != Method::Get),
            ("--header", !args.header.is_empty()),
            ("--client-cert", args.client_cert.is_some()),
            ("--proxy", args.proxy.is_some()),
            ("--http2", args.http2),
            ("--insecure", args.insecure),
            ("--proxy-header", args.proxy_header.is_some()),
            ("--no-follow", args.no_follow),
            ("--connect-to", !args.connect_to.is_empty()),
            ("--every-address", args.every_address),
            ("--ipv4", args.ipv4),
            ("--ipv6", args.ipv6),
        ];
        match own.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(format!(
                "{flag}: not with --profile, whose client has its own rules"
            )),
            None => Ok(()),
        }
    }
}

/// Returns the argument with a scheme, and records the one it assumed.
fn with_scheme(given: &str, args: &CheckOptions, assumptions: &mut Vec<String>) -> String {
    if has_scheme(given) {
        return given.to_owned();
    }
    let host = if given.parse::<Ipv6Addr>().is_ok() {
        format!("[{given}]")
    } else {
        given.to_owned()
    };
    let plain = Url::parse(&format!("https://{host}")).is_ok_and(|url| url.port() == Some(80));
    let (scheme, reason) = if args.profile.client().is_some() {
        ("http", ", because every HTTP-01 challenge starts with plain HTTP")
    } else if plain {
        ("http", ", because port 80 is the port of plain HTTP")
    } else {
        ("https", "")
    };
    assumptions.push(format!("no scheme was given: {scheme}:// is assumed{reason}"));
    format!("{scheme}://{host}")
}

/// Whether the argument starts with a scheme. A later `://` belongs to the path or query.
fn has_scheme(given: &str) -> bool {
    given.split_once("://").is_some_and(|(scheme, _)| {
        scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

/// Returns the URL with its host in ASCII form, also for schemes that the URL standard does not treat specially.
fn normalize(text: &str) -> Result<String, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("{EXPECTED} ({reason})");
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https" | "tcp" | "tls" | "dns") {
        return Err(wrong(&format!(
            "the scheme {:?} is not supported",
            escape(&scheme)
        )));
    }
    if matches!(scheme.as_str(), "http" | "https") {
        let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|e| wrong(&e))?;
        return Ok(url.to_string());
    }
    let as_http = Url::parse(&format!("http://{rest}")).map_err(|e| wrong(&e))?;
    let host = as_http.host_str().ok_or_else(|| wrong(&"no host"))?;
    let (path, credentials) = (as_http.path(), !as_http.username().is_empty());
    // The URL parser drops port 80 as the default of http, but for these schemes it is a port like any other.
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let port = as_http
        .port()
        .or_else(|| rest[..end].ends_with(":80").then_some(80));
    let credentials = if credentials { "user@" } else { "" };
    let path = if path == "/" { "" } else { path };
    Ok(match port {
        Some(port) => format!("{scheme}://{credentials}{host}:{port}{path}"),
        None => format!("{scheme}://{credentials}{host}{path}"),
    })
}

/// Returns the assumption to report if the interpreted host differs from the typed one.
fn host_assumption(text: &str, url: &str) -> Option<String> {
    let (_, typed) = text.split_once("://")?;
    let end = typed.find(['/', '?', '#']).unwrap_or(typed.len());
    let typed = typed[..end]
        .rsplit_once(':')
        .map_or(&typed[..end], |(host, port)| {
            if port.bytes().all(|b| b.is_ascii_digit()) {
                host
            } else {
                &typed[..end]
            }
        });
    let parsed = Url::parse(url).ok()?;
    let host = parsed.host_str()?;
    if !typed.is_ascii() {
        return Some(format!("{} is looked up as {host}", escape(typed)));
    }
    (host.parse::<Ipv4Addr>().is_ok() && host != typed)
        .then(|| format!("{} is interpreted as the address {host}", escape(typed)))
}

fn action(url: &str, args: &CheckOptions) -> Result<CheckAction, String> {
    // `Target` accepts TLS options for https only. A plain request that may be redirected to https gets them below.
    let plain = url.starts_with("http://") && !args.no_follow;
    let expect_tls = args.days_left.map(|days| TlsExpectation {
        days_left: Some(days),
        ..TlsExpectation::default()
    });
    let spec = TargetSpec {
        expect_status: args.expect_status.clone(),
        expect_body_contains: args.contains.clone(),
        expect_body_equals: args.expect_body.clone(),
        method: (args.method != Method::Get).then_some(args.method),
        request_headers: args.header.iter().cloned().collect(),
        credential: args.credential(),
        client_certificate: args.client_certificate(),
        http_proxy: args.proxy.clone(),
        proxy_credential: args.proxy_credential(),
        http_version: args.http2.then_some(HttpVersion::Http2),
        tls_verify: (args.insecure && !plain).then_some(false),
        expect_tls: expect_tls.clone().filter(|_| !plain),
        proxy_header: args.proxy_header,
        ..TargetSpec::new(url)
    };
    let target = Target::try_from(spec).map_err(|wrong| flag_error(&wrong))?;
    match target.probe {
        ProbeSpec::Http(mut probe) => {
            probe.accept_invalid_certificate = args.insecure;
            probe.expect_tls = expect_tls;
            Ok(CheckAction::Http(probe))
        }
        ProbeSpec::Tcp(probe) => Ok(CheckAction::Stream(probe)),
        ProbeSpec::Dns(probe) => Ok(CheckAction::Name(probe.name)),
        ProbeSpec::Echo { .. } | ProbeSpec::Challenge(_) | ProbeSpec::Names(_) => Err(EXPECTED.to_owned()),
    }
}

/// Rewrites an error about a field of the target into one about the flag that set it.
fn flag_error(wrong: &InvalidTarget) -> String {
    let message = wrong.to_string();
    let (field, rest) = message.split_once(": ").unwrap_or(("", &message));
    let flag = match field {
        "expectStatus" => "--expect-status",
        "expectBodyContains" => "--contains",
        "expectBodyEquals" => "--expect-body",
        "expectTls" => "--days-left",
        "tlsVerify" => "--insecure",
        "httpVersion" => "--http2",
        "method" => "--method",
        "proxyHeader" => "--proxy-header",
        "requestHeaders" => "--header",
        "credential" => "--bearer-file, --basic-file",
        "clientCertificate" => "--client-cert",
        "httpProxy" => "--proxy",
        "proxyCredential" => "--proxy-basic-file",
        "url" => return rest.to_owned(),
        _ => return message,
    };
    format!("{flag}: {rest}")
}

#[cfg(test)]
#[path = "subject_tests.rs"]
mod tests;
