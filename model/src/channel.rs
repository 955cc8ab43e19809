//! Channels (how a target is approached) and placements (where the client is relative to the entry
//! endpoints).

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! label_enum {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $label:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $label)] $variant),+
        }

        impl $type {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The label on the wire, in metrics and in tables.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.label())
            }
        }
    };
}
pub(crate) use label_enum;

label_enum! {
    /// How the target is approached.
    Channel {
        /// Name resolution only.
        Dns = "dns",
        /// As a user connects: host name, load balancer address or ClusterIP.
        Vip = "vip",
        /// One endpoint's own address, with the same Host and SNI.
        Direct = "direct",
        /// Another prober's echo; the control group.
        Mesh = "mesh",
        /// Like `vip`, with a PROXY v1 header before the first byte.
        Proxied = "proxied",
        /// A node's address and the Service's nodePort.
        NodePort = "nodeport",
    }
}

label_enum! {
    /// The client's position relative to the **entry** endpoints of the front, never relative to the origin.
    Placement {
        /// The client is the endpoint.
        SelfPod = "self",
        /// The endpoint that answered, or the only one that can answer, is on the client's node.
        SameNode = "same-node",
        /// The endpoint is on another node, and the client's node has an endpoint too.
        CrossNode = "cross-node",
        /// The client's node has no endpoint. This can be known even if the answering endpoint is not.
        NoLocal = "no-local",
        /// The vantage is outside the cluster.
        Outside = "outside",
        /// Nothing is known about the endpoints, or the client's node has one and the chosen endpoint is
        /// unknown.
        Unknown = "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_words_of_the_wire() {
        for channel in Channel::ALL {
            assert_eq!(serde_json::to_value(channel).unwrap(), channel.label());
        }
        for placement in Placement::ALL {
            assert_eq!(serde_json::to_value(placement).unwrap(), placement.label());
        }
    }
}
