//! Which aggregator: the key of its spool, its connection and its series.

use std::{fmt, net::SocketAddr};

/// One aggregator.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicaKey {
    /// Which of the URLs that were given.
    pub(crate) url: usize,
    /// Where; whatever the name leads to at the time where absent.
    address: Option<SocketAddr>,
}

impl ReplicaKey {
    pub(crate) const fn at(url: usize, address: SocketAddr) -> Self {
        Self {
            url,
            address: Some(address),
        }
    }

    pub(crate) const fn by_name(url: usize) -> Self {
        Self { url, address: None }
    }
}

impl fmt::Display for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => write!(f, "aggregator {}", self.url),
        }
    }
}
