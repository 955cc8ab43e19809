//! The address that a client connects to.

use std::{fmt, net::SocketAddr, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::channel::label_enum;

label_enum! {
    /// Transport protocol of a front.
    Transport {
        /// TCP.
        Tcp = "tcp",
        /// UDP.
        Udp = "udp",
    }
}

/// Address, port and protocol. Many targets share one front, for example all hosts of one load balancer.
///
/// Written `203.0.113.10:80`, with the suffix `/udp` for UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Front {
    /// The address and port that the client connects to.
    pub address: SocketAddr,
    /// The transport protocol.
    pub transport: Transport,
}

impl Front {
    /// Creates a TCP front.
    #[must_use]
    pub const fn tcp(address: SocketAddr) -> Self {
        Self {
            address,
            transport: Transport::Tcp,
        }
    }
}

/// The string is not a front.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected ADDRESS:PORT or ADDRESS:PORT/udp, got {0:?}")]
pub struct InvalidFront(String);

impl FromStr for Front {
    type Err = InvalidFront;

    fn from_str(value: &str) -> Result<Self, InvalidFront> {
        let (address, transport) = match value.strip_suffix("/udp") {
            Some(address) => (address, Transport::Udp),
            None => (value, Transport::Tcp),
        };
        let address = address.parse().map_err(|_| InvalidFront(value.to_owned()))?;
        Ok(Self { address, transport })
    }
}

impl TryFrom<String> for Front {
    type Error = InvalidFront;
    fn try_from(value: String) -> Result<Self, InvalidFront> {
        value.parse()
    }
}

impl From<Front> for String {
    fn from(front: Front) -> Self {
        front.to_string()
    }
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Tcp => write!(f, "{}", self.address),
            Transport::Udp => write!(f, "{}/udp", self.address),
        }
    }
}
