//! Checks whether this machine has any route of an address family.
//!
//! "Network unreachable" for an IPv6 address is evidence about the target only on a machine with IPv6.

use std::{fs, net::IpAddr};

/// Whether any route of the address's family leads off this machine. True if the routes cannot be read: then the error
/// of the kernel counts.
pub(crate) fn has_route(address: IpAddr) -> bool {
    let (file, any): (_, fn(&str) -> bool) = match address {
        IpAddr::V4(_) => ("/proc/net/route", any_v4),
        IpAddr::V6(_) => ("/proc/net/ipv6_route", any_v6),
    };
    fs::read_to_string(file).map_or(true, |table| any(&table))
}

/// `/proc/net/route`: a heading, then a line per route with the interface first.
fn any_v4(table: &str) -> bool {
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(|interface| interface != "lo")
}

/// `/proc/net/ipv6_route`: no heading; destination first, interface last. Link-local and multicast routes do not count.
fn any_v6(table: &str) -> bool {
    table.lines().any(|line| {
        let destination = line.split_whitespace().next().unwrap_or_default();
        let interface = line.split_whitespace().next_back().unwrap_or_default();
        interface != "lo" && !destination.starts_with("fe80") && !destination.starts_with("ff")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_link_local_routes_are_no_ipv6() {
        let lo = "00000000000000000000000000000001 80 00000000000000000000000000000000 00 \
                  00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo\n";
        let link = "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 \
                    00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n";
        let default = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                       fe800000000000000000000000000001 00000400 00000002 00000000 00000003     eth0\n";
        assert!(!any_v6(&format!("{lo}{link}")));
        assert!(any_v6(&format!("{lo}{link}{default}")));
    }

    #[test]
    fn a_table_with_nothing_but_its_heading_is_no_ipv4() {
        let heading = "Iface\tDestination\tGateway \tFlags\n";
        assert!(!any_v4(heading));
        assert!(any_v4(&format!("{heading}eth0\t00000000\t0100000A\t0003\n")));
    }
}
