//! Limits on the addresses that a probe may connect to when someone other than the mesh's operator requested
//! it.
//!
//! A user who may start a run or write a `Target` must not gain access to addresses that only the prober's
//! machine can reach. The scope is part of the probe and is enforced where the connection is made, so it also
//! covers names and redirects.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// Addresses in CIDR notation (`10.0.0.0/8`, `fd00::/8`); a bare address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    address: IpAddr,
    prefix_len: u8,
}

/// The string is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an address or a range like 10.0.0.0/8 or fd00::/8, got {0:?}")]
pub struct InvalidRange(String);

impl AddressRange {
    /// Creates the range of a single address.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self {
            address,
            prefix_len: address_bits(address),
        }
    }

    /// Whether the range contains the address. An IPv4-mapped IPv6 address is treated as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address_bits(self.address) == address_bits(address)
            && (address_to_u128(self.address) ^ address_to_u128(address))
                .checked_shr(u32::from(address_bits(address) - self.prefix_len))
                .unwrap_or(0)
                == 0
    }
}

const fn address_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn address_to_u128(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

impl FromStr for AddressRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let wrong = || InvalidRange(text.to_owned());
        let Some((address, bits)) = text.split_once('/') else {
            return text.parse().map(Self::from_address).map_err(|_| wrong());
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        if bits > address_bits(address) {
            return Err(wrong());
        }
        Ok(Self {
            address,
            prefix_len: bits,
        })
    }
}

impl TryFrom<String> for AddressRange {
    type Error = InvalidRange;

    fn try_from(text: String) -> Result<Self, InvalidRange> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

/// Addresses that a probe may connect to. Addresses local to a machine ([`ReservedRange`]) are always refused
/// unless `allow` lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Additional refused addresses, such as those of the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refuse: Vec<AddressRange>,
    /// Allowed addresses; takes precedence over every refusal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<AddressRange>,
}

/// Why a probe must not connect to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedRange {
    /// 127.0.0.0/8, `::1`: the prober's own machine or pod.
    Loopback,
    /// 169.254.0.0/16, `fe80::/10`: neighbours, and the metadata service of nearly every cloud.
    LinkLocal,
    /// `fd00:ec2::/32`, `fd20:ce::254`, 100.100.100.200, 168.63.129.16: metadata services outside the link-local range.
    Metadata,
    /// 0.0.0.0/8, `::`: the kernel treats them as the local machine.
    Unspecified,
    /// Multicast and reserved addresses, which are not addresses of one machine.
    Multicast,
    /// An address of the API server, or another one that the configuration refuses.
    Listed,
}

impl ReservedRange {
    /// A description for error messages.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a cloud's metadata service",
            Self::Unspecified => "the unspecified address",
            Self::Multicast => "a multicast address",
            Self::Listed => "an address of the API server or one that runs.refuse lists",
        }
    }
}

impl Scope {
    /// Returns why the address is out of scope, or `None` if it is allowed.
    #[must_use]
    pub fn refusal(&self, address: IpAddr) -> Option<ReservedRange> {
        let address = address.to_canonical();
        if self.allow.iter().any(|range| range.contains(address)) {
            return None;
        }
        let embedded = match address {
            IpAddr::V6(v6) => embedded_ipv4(v6),
            IpAddr::V4(_) => None,
        };
        [Some(address), embedded]
            .into_iter()
            .flatten()
            .find_map(|address| {
                if self.refuse.iter().any(|range| range.contains(address)) {
                    return Some(ReservedRange::Listed);
                }
                match address {
                    IpAddr::V4(v4) => reserved_v4(v4),
                    IpAddr::V6(v6) => reserved_v6(v6),
                }
            })
    }
}

/// The IPv4 address that a translator or tunnel reaches through this IPv6 address: NAT64 (RFC 6052's
/// well-known prefix and RFC 8215's local one) and 6to4.
fn embedded_ipv4(v6: Ipv6Addr) -> Option<IpAddr> {
    let s = v6.segments();
    let of = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => Some(of(high, low)),
        // Deprecated "IPv4-compatible" addresses; `::` and `::1` are classified as themselves.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(of(high, low)),
        _ => None,
    }
}

fn reserved_v4(v4: Ipv4Addr) -> Option<ReservedRange> {
    match v4.octets() {
        [127, ..] => Some(ReservedRange::Loopback),
        [169, 254, ..] => Some(ReservedRange::LinkLocal),
        [100, 100, 100, 200] | [168, 63, 129, 16] => Some(ReservedRange::Metadata),
        [0, ..] => Some(ReservedRange::Unspecified),
        [224..=255, ..] => Some(ReservedRange::Multicast),
        _ => None,
    }
}

fn reserved_v6(v6: Ipv6Addr) -> Option<ReservedRange> {
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(ReservedRange::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(ReservedRange::Loopback),
        [0xfe80..=0xfebf, ..] => Some(ReservedRange::LinkLocal),
        [0xfd00, 0x0ec2, ..] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => Some(ReservedRange::Metadata),
        [0xff00..=0xffff, ..] => Some(ReservedRange::Multicast),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(scope: &Scope, address: &str) -> Option<ReservedRange> {
        scope.refusal(address.parse().unwrap())
    }

    #[test]
    fn what_is_local_to_a_machine_is_refused_in_every_way_of_writing_it() {
        let scope = Scope::default();
        for (address, range) in [
            ("127.0.0.1", ReservedRange::Loopback),
            ("127.255.0.9", ReservedRange::Loopback),
            ("::1", ReservedRange::Loopback),
            ("::ffff:127.0.0.1", ReservedRange::Loopback),
            ("64:ff9b::127.0.0.1", ReservedRange::Loopback),
            ("64:ff9b:1::a9fe:a9fe", ReservedRange::LinkLocal),
            ("2002:7f00:1::", ReservedRange::Loopback),
            ("::127.0.0.1", ReservedRange::Loopback),
            ("169.254.169.254", ReservedRange::LinkLocal),
            ("::ffff:169.254.169.254", ReservedRange::LinkLocal),
            ("fe80::1", ReservedRange::LinkLocal),
            ("febf::1", ReservedRange::LinkLocal),
            ("fd00:ec2::254", ReservedRange::Metadata),
            ("fd20:ce::254", ReservedRange::Metadata),
            ("100.100.100.200", ReservedRange::Metadata),
            ("0.0.0.0", ReservedRange::Unspecified),
            ("0.1.2.3", ReservedRange::Unspecified),
            ("::", ReservedRange::Unspecified),
            ("224.0.0.1", ReservedRange::Multicast),
            ("255.255.255.255", ReservedRange::Multicast),
            ("ff02::1", ReservedRange::Multicast),
        ] {
            assert_eq!(refused(&scope, address), Some(range), "{address}");
        }
        for address in [
            "10.96.0.10",
            "203.0.113.10",
            "192.168.1.1",
            "fd00::1",
            "2001:db8::1",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(refused(&scope, address), None, "{address}");
        }
    }

    #[test]
    fn the_api_servers_addresses_are_refused_and_what_is_allowed_is_allowed_whatever_else_says_no() {
        let scope = Scope {
            refuse: vec!["10.96.0.1".parse().unwrap(), "192.0.2.0/28".parse().unwrap()],
            allow: vec!["127.0.0.0/8".parse().unwrap(), "192.0.2.3".parse().unwrap()],
        };
        assert_eq!(refused(&scope, "10.96.0.1"), Some(ReservedRange::Listed));
        assert_eq!(refused(&scope, "::ffff:10.96.0.1"), Some(ReservedRange::Listed));
        assert_eq!(refused(&scope, "192.0.2.9"), Some(ReservedRange::Listed));
        assert_eq!(refused(&scope, "192.0.2.3"), None);
        assert_eq!(refused(&scope, "127.0.0.1"), None);
        assert_eq!(refused(&scope, "169.254.1.1"), Some(ReservedRange::LinkLocal));
    }

    #[test]
    fn a_range_reads_and_writes_as_people_write_it() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<AddressRange>().unwrap().to_string(), written);
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "fd00::/129",
            "a.example.test",
            "10.0.0.1/-1",
        ] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
        assert!(
            "0.0.0.0/0"
                .parse::<AddressRange>()
                .unwrap()
                .contains("9.9.9.9".parse().unwrap())
        );
        assert!(
            !"0.0.0.0/0"
                .parse::<AddressRange>()
                .unwrap()
                .contains("::9".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn a_range_holds_exactly_the_addresses_that_share_its_first_bits(base: u32, other: u32, bits in 0_u8..=32) {
            let range: AddressRange = format!("{}/{bits}", Ipv4Addr::from(base)).parse().unwrap();
            let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
            prop_assert_eq!(range.contains(Ipv4Addr::from(other).into()), base & mask == other & mask);
        }
    }
}
