//! The proxy that a Go client would use for a request, given `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of
//! *its* environment (`golang.org/x/net/http/httpproxy`). Probes do not use it; a verdict notes that the real
//! client takes another path.

use std::net::IpAddr;

use crate::Scheme;

/// Returns the proxy for a request with this scheme, host and port in the environment of the given client, or
/// `None` if the client connects directly. A redirect to https can select a different variable.
#[must_use]
pub fn proxy_for(
    environment: impl Fn(&str) -> Option<String>,
    scheme: Scheme,
    host: &str,
    port: u16,
) -> Option<String> {
    let read = |names: [&str; 2]| {
        names
            .iter()
            .find_map(|name| environment(name).filter(|value| !value.is_empty()))
    };
    let proxy = read(match scheme {
        Scheme::Http => ["HTTP_PROXY", "http_proxy"],
        Scheme::Https => ["HTTPS_PROXY", "https_proxy"],
    })?;
    let host = host
        .trim_matches(['[', ']'])
        .trim_end_matches('.')
        .to_ascii_lowercase();
    // Go never uses a proxy for localhost or loopback addresses.
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let excepted = read(["NO_PROXY", "no_proxy"])
        .is_some_and(|list| list.split(',').any(|entry| no_proxy_matches(entry, &host, port)));
    (!loopback && !excepted).then_some(proxy)
}

/// Whether a `NO_PROXY` entry matches: `*`, an address, a network, a name with its subdomains, or a name with
/// a leading dot for its subdomains only. Names and addresses may have a port, which must equal that of the
/// request.
fn no_proxy_matches(entry: &str, host: &str, port: u16) -> bool {
    let entry = entry.trim().to_ascii_lowercase();
    if entry.is_empty() {
        return false;
    }
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = entry.split_once('/') {
        return network_contains(network, bits, host);
    }
    let (name, wanted) = split_port(&entry);
    if wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return host.parse() == Ok(address);
    }
    let name = name
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('.'))
        .unwrap_or(name);
    match name.strip_prefix('.') {
        Some(_) => host.ends_with(name),
        None => host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// Splits an entry into host and optional port. An IPv6 address with a port has brackets.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    let split = entry
        .rsplit_once(':')
        .filter(|(name, _)| !name.contains(':') || name.ends_with(']'))
        .and_then(|(name, port)| Some((name, port.parse().ok()?)));
    match split {
        Some((name, port)) => (name.trim_matches(['[', ']']), Some(port)),
        None => (entry.trim_matches(['[', ']']), None),
    }
}

fn network_contains(network: &str, bits: &str, host: &str) -> bool {
    let (Ok(network), Ok(bits), Ok(host)) = (
        network.parse::<IpAddr>(),
        bits.parse::<u32>(),
        host.parse::<IpAddr>(),
    ) else {
        return false;
    };
    let (network, host, width) = match (network, host) {
        (IpAddr::V4(network), IpAddr::V4(host)) => (u32::from(network).into(), u32::from(host).into(), 32),
        (IpAddr::V6(network), IpAddr::V6(host)) => (u128::from(network), u128::from(host), 128),
        _ => return false,
    };
    let Some(ignored) = u32::checked_sub(width, bits) else {
        return false;
    };
    u128::checked_shr(network ^ host, ignored).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_holds_but_for_what_no_proxy_names() {
        let proxied = |no_proxy: &str, host: &str| {
            let environment = |name: &str| match name {
                "HTTP_PROXY" => Some("http://proxy:3128".to_owned()),
                "NO_PROXY" => Some(no_proxy.to_owned()),
                _ => None,
            };
            proxy_for(environment, Scheme::Http, host, 80).is_some()
        };
        for (no_proxy, host, expected) in [
            ("", "shop.example.org", true),
            ("example.org", "shop.example.org", false),
            (".example.org", "example.org", true),
            ("a.test, .example.org", "shop.example.org", false),
            ("*", "shop.example.org", false),
            ("ample.org", "shop.example.org", true),
            ("10.0.0.0/8", "10.1.2.3", false),
            ("10.0.0.0/8", "11.1.2.3", true),
            ("", "localhost", false),
            ("shop.example.org:80", "shop.example.org", false),
            ("shop.example.org:443", "shop.example.org", true),
            ("*.example.org", "shop.example.org", false),
            ("example.org", "SHOP.example.org.", false),
            ("10.1.2.3:80", "10.1.2.3", false),
            ("10.1.2.3", "10.1.2.30", true),
            ("2001:db8::/32", "2001:db8::7", false),
            ("2001:db8::/32", "2001:db9::7", true),
            ("10.0.0.0/8", "2001:db8::7", true),
            ("2001:db8::7", "[2001:db8::7]", false),
            ("[2001:db8::7]:80", "2001:db8::7", false),
            ("0.0.0.0/0", "10.1.2.3", false),
            ("10.0.0.0/40", "10.1.2.3", true),
        ] {
            assert_eq!(proxied(no_proxy, host), expected, "{no_proxy} {host}");
        }
        assert_eq!(proxy_for(|_| None, Scheme::Http, "shop.example.org", 80), None);
    }

    #[test]
    fn behind_a_redirect_to_https_the_other_variable_holds() {
        let environment = |name: &str| match name {
            "http_proxy" => Some("http://plain:3128".to_owned()),
            "HTTPS_PROXY" => Some("http://secure:3128".to_owned()),
            _ => None,
        };
        let proxied = |scheme, port| proxy_for(environment, scheme, "shop.example.org", port);
        assert_eq!(proxied(Scheme::Http, 80).as_deref(), Some("http://plain:3128"));
        assert_eq!(proxied(Scheme::Https, 443).as_deref(), Some("http://secure:3128"));
    }
}
