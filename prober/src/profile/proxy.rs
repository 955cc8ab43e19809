//! The proxy a Go client would use for a plain request: `HTTP_PROXY` and `NO_PROXY` of *its* environment
//! (`golang.org/x/net/http/httpproxy`). It is noted, not imitated: a verdict says that the real client goes another way.

use std::net::IpAddr;

/// The proxy for `http://host/`, from the environment of the client in question; absent where it goes straight.
pub fn proxied_by(environment: impl Fn(&str) -> Option<String>, host: &str) -> Option<String> {
    let read = |names: [&str; 2]| {
        names
            .iter()
            .find_map(|name| environment(name).filter(|value| !value.is_empty()))
    };
    let proxy = read(["HTTP_PROXY", "http_proxy"])?;
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    // Go never sends requests for this machine through a proxy.
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let excepted =
        read(["NO_PROXY", "no_proxy"]).is_some_and(|list| list.split(',').any(|entry| covers(entry, &host)));
    (!loopback && !excepted).then_some(proxy)
}

/// `*`, a name and everything below it, a name behind a dot for what is below it only, or an address.
fn covers(entry: &str, host: &str) -> bool {
    let entry = entry.trim().to_ascii_lowercase();
    let entry = entry
        .split_once(':')
        .filter(|(_, port)| *port == "80")
        .map_or(entry.as_str(), |(name, _)| name);
    if let Some((network, bits)) = entry.split_once('/') {
        return in_network(network, bits, host);
    }
    match entry.trim_start_matches('*') {
        "" => !entry.is_empty(),
        below if below.starts_with('.') => host.ends_with(below),
        name => host == name || host.ends_with(&format!(".{name}")),
    }
}

fn in_network(network: &str, bits: &str, host: &str) -> bool {
    let (Ok(IpAddr::V4(network)), Ok(bits), Ok(IpAddr::V4(host))) =
        (network.parse(), bits.parse::<u32>(), host.parse())
    else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
    u32::from(network) & mask == u32::from(host) & mask
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
            proxied_by(environment, host).is_some()
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
        ] {
            assert_eq!(proxied(no_proxy, host), expected, "{no_proxy} {host}");
        }
        assert_eq!(proxied_by(|_| None, "shop.example.org"), None);
    }
}
