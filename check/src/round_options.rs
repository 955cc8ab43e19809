//! The options of a pass.

use std::{net::IpAddr, time::Duration};

use super::{args::Endpoint, names::NameSources};

/// The options of a pass.
#[derive(Debug, Clone)]
pub(super) struct RoundOptions {
    pub(super) whom: NameSources,
    pub(super) connect_to: Vec<Endpoint>,
    pub(super) family: Option<AddressFamily>,
    pub(super) follow: bool,
    /// Timeout of one request.
    pub(super) timeout: Duration,
}

/// The address family that `--ipv4` or `--ipv6` selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressFamily {
    V4,
    V6,
}

impl AddressFamily {
    pub(super) const fn holds(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}
