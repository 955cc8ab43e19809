//! The key of an aggregator's spool, connection and metric series.

use std::{fmt, net::SocketAddr};

/// The identity of one aggregator.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicaKey {
    /// Index of its URL in the configuration.
    pub(crate) url_index: usize,
    /// Its address; `None` if the name is resolved at each connection.
    address: Option<SocketAddr>,
}

impl ReplicaKey {
    pub(crate) const fn at(url: usize, address: SocketAddr) -> Self {
        Self {
            url_index: url,
            address: Some(address),
        }
    }

    pub(crate) const fn by_name(url: usize) -> Self {
        Self {
            url_index: url,
            address: None,
        }
    }
}

impl fmt::Display for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => write!(f, "aggregator {}", self.url_index),
        }
    }
}
