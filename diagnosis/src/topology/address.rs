//! Private addresses: those unreachable from the internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reports whether an address is unreachable over the internet: RFC 1918, RFC 6598 (carrier-grade NAT),
/// link-local, loopback, unspecified, and unique local addresses (RFC 4193). IPv4-mapped IPv6 addresses are
/// treated as IPv4.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => private_v4(v4),
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or_else(|| private_v6(v6), private_v4),
    }
}

const fn private_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_private()
        || address.is_link_local()
        || address.is_loopback()
        || address.is_unspecified()
        || (a == 100 && b & 0xc0 == 64)
}

const fn private_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_is_what_the_internet_cannot_reach() {
        for (text, private) in [
            ("10.0.0.1", true),
            ("172.31.0.1", true),
            ("172.32.0.1", false),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("169.254.20.10", true),
            ("203.0.113.10", false),
            ("fd00::1", true),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", true),
        ] {
            assert_eq!(is_private(text.parse().unwrap()), private, "{text}");
        }
    }
}
