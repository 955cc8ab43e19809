//! Addresses to which certificate authorities do not connect (the IANA special-purpose registries).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is private, local or otherwise not part of the public internet.
pub(crate) fn reserved(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => reserved_v4(v4),
        IpAddr::V6(v6) => reserved_v6(v6),
    }
}

fn reserved_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    match a {
        // This network, private, loopback; multicast and above.
        0 | 10 | 127 | 224.. => true,
        // Carrier-grade NAT.
        100 => (64..=127).contains(&b),
        // Link-local.
        169 => b == 254,
        // Private.
        172 => (16..=31).contains(&b),
        // Private, protocol assignments, documentation, AS112, AMT, 6to4 relay.
        192 => {
            b == 168
                || (b == 0 && matches!(c, 0 | 2))
                || matches!((b, c), (31, 196) | (52, 193) | (88, 99) | (175, 48))
        }
        // Benchmarks, documentation.
        198 => matches!(b, 18 | 19) || (b, c) == (51, 100),
        // Documentation.
        203 => (b, c) == (0, 113),
        _ => false,
    }
}

fn reserved_v6(v6: Ipv6Addr) -> bool {
    let [a, b, c, ..] = v6.segments();
    // Only 2000::/3 is global unicast, except protocol assignments, documentation, 6to4 and AS112.
    !(0x2000..=0x3fff).contains(&a)
        || matches!(
            (a, b),
            (0x2001, 0..=0x01ff | 0x0db8) | (0x2002, _) | (0x3fff, ..=0x0fff)
        )
        || (a, b, c) == (0x2620, 0x004f, 0x8000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_not_reserved() {
        for (address, is) in [
            ("10.1.2.3", true),
            ("127.0.0.1", true),
            ("100.64.0.1", true),
            ("169.254.169.254", true),
            ("172.32.0.1", false),
            ("203.0.113.10", true),
            ("255.255.255.255", true),
            ("192.31.196.1", true),
            ("192.52.193.1", true),
            ("192.175.48.1", true),
            ("192.0.1.1", false),
            ("8.8.8.8", false),
            ("::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2001:db8::1", true),
            ("::ffff:10.0.0.1", true),
            ("64:ff9b::808:808", true),
            ("2620:4f:8000::1", true),
            ("2606:4700::1111", false),
        ] {
            assert_eq!(reserved(address.parse().unwrap()), is, "{address}");
        }
    }
}
