//! Where a probe starts.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{InvalidName, NodeName, VantageName, channel::label_enum};

label_enum! {
    /// The network namespace of a prober inside the cluster.
    Network {
        /// The Pod network, like ordinary workloads.
        Pod = "pod",
        /// The node's own network (`hostNetwork: true`).
        Host = "host",
    }
}

label_enum! {
    /// Location of a vantage outside the cluster.
    Reach {
        /// A machine in the same network.
        Vpc = "vpc",
        /// A machine on the internet.
        Internet = "internet",
    }
}

/// Where a probe starts. Written `n1/pod`, `n1/host`, `vpc:bastion`, `internet:laptop`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Vantage {
    /// A prober on a node.
    Cluster {
        /// The node.
        node: NodeName,
        /// Its network.
        network: Network,
    },
    /// A prober outside the cluster. It belongs to no in-cluster region, and in-cluster vantages belong to no
    /// outside region.
    Outside {
        /// Its location.
        reach: Reach,
        /// Its enrolled name.
        name: VantageName,
    },
}

impl Vantage {
    /// Reports whether the vantage is on the internet.
    #[must_use]
    pub const fn is_on_internet(&self) -> bool {
        matches!(
            self,
            Self::Outside {
                reach: Reach::Internet,
                ..
            }
        )
    }

    /// Creates the vantage of a prober in the Pod network of a node.
    #[must_use]
    pub const fn pod(node: NodeName) -> Self {
        Self::Cluster {
            node,
            network: Network::Pod,
        }
    }

    /// The node; `None` outside the cluster.
    #[must_use]
    pub const fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Cluster { node, .. } => Some(node),
            Self::Outside { .. } => None,
        }
    }
}

/// Why a string is not a vantage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVantage {
    /// The string has none of the four forms.
    #[error("expected NODE/pod, NODE/host, vpc:NAME or internet:NAME, got {0:?}")]
    Form(String),
    /// The name part is not a valid name.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl FromStr for Vantage {
    type Err = InvalidVantage;

    fn from_str(value: &str) -> Result<Self, InvalidVantage> {
        if let Some((reach, name)) = value.split_once(':') {
            let reach = Reach::ALL
                .iter()
                .find(|r| r.label() == reach)
                .ok_or_else(|| InvalidVantage::Form(value.to_owned()))?;
            return Ok(Self::Outside {
                reach: *reach,
                name: name.parse()?,
            });
        }
        let form = || InvalidVantage::Form(value.to_owned());
        let (node, network) = value.rsplit_once('/').ok_or_else(form)?;
        let network = Network::ALL
            .iter()
            .find(|n| n.label() == network)
            .ok_or_else(form)?;
        Ok(Self::Cluster {
            node: node.parse()?,
            network: *network,
        })
    }
}

impl TryFrom<String> for Vantage {
    type Error = InvalidVantage;
    fn try_from(value: String) -> Result<Self, InvalidVantage> {
        value.parse()
    }
}

impl From<Vantage> for String {
    fn from(vantage: Vantage) -> Self {
        vantage.to_string()
    }
}

impl fmt::Display for Vantage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster { node, network } => write!(f, "{node}/{network}"),
            Self::Outside { reach, name } => write!(f, "{reach}:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_written_forms_read_back_as_themselves() {
        for text in ["n1/pod", "n1/host", "vpc:bastion", "internet:laptop"] {
            assert_eq!(text.parse::<Vantage>().unwrap().to_string(), text);
        }
        for text in ["", "n1", "n1/moon", "mars:rover", "/pod", "vpc:"] {
            assert!(
                text.parse::<Vantage>().is_err(),
                "{text:?} should not name a vantage"
            );
        }
    }
}
