//! Describes each row of the table in words.

use parallax_model::{Channel, Placement};

use super::VerdictContext;
use crate::{
    catalogue::table::{PredictedFailure, RowKey, TablePart},
    regions::Region,
    topology::FrontKind,
};

impl VerdictContext<'_> {
    pub(super) fn row_description(&self, key: &RowKey, region: Region) -> String {
        let (way, part) = (self.path_description(key), self.member_relation(key, region));
        let endpoint = self.endpoint_word();
        let place = match key.placement {
            Some(Placement::NoLocal) => format!(" from nodes without {endpoint}"),
            Some(Placement::SameNode) => format!(" from nodes with {endpoint}, answered on the same node"),
            Some(Placement::CrossNode) => format!(" from nodes with {endpoint}, answered on another node"),
            Some(Placement::Unknown) => format!(" from nodes with {endpoint}"),
            Some(Placement::Outside) => " from outside the cluster".to_owned(),
            Some(Placement::SelfPod) | None => String::new(),
        };
        format!("{way}{part}{place}")
    }

    fn path_description(&self, key: &RowKey) -> String {
        let front = match key.part {
            TablePart::Sibling(front) => Some(front),
            TablePart::Own => self.front,
            TablePart::Everywhere => None,
        };
        match (key.channel, front) {
            (Channel::Vip | Channel::NodePort, Some(front)) => {
                let kind = self.topology.front(&front).map(|i| i.kind);
                match (kind, self.topology.node_serving(&front)) {
                    (Some(FrontKind::ClusterIp), _) => format!("through the ClusterIP {front}"),
                    (_, Some(node)) => format!("through {front} of node {node}"),
                    _ => format!("through {front}"),
                }
            }
            (Channel::Vip | Channel::NodePort, None) => "through the fronts".to_owned(),
            (Channel::Proxied, _) => "through the front with a PROXY header".to_owned(),
            (Channel::Direct, _) => "direct connections".to_owned(),
            (Channel::Mesh, _) => "mesh probes".to_owned(),
            (Channel::Dns, _) => "lookups".to_owned(),
        }
    }

    /// The relation of a row to the region's member.
    fn member_relation(&self, key: &RowKey, region: Region) -> String {
        let members = region.describe(self.registry).members;
        let (from, to) = (key.from_member, key.to_member);
        match (region, members.as_slice()) {
            (Region::Client(_) | Region::ClientVip(_) | Region::DnsClient(_), [node]) => match from {
                Some(true) => format!(" from node {node}"),
                // The placement already says it.
                _ if key.placement == Some(Placement::Outside) => String::new(),
                _ => format!(" from nodes other than {node}"),
            },
            (Region::Backend(_), [pod]) => match to {
                Some(true) => format!(" to {pod}"),
                Some(false) => format!(" to endpoints other than {pod}"),
                None => String::new(),
            },
            (Region::Bnode(_) | Region::BnodeRemote(_), [node]) => match (to, from) {
                (Some(true), Some(true)) => format!(" to node {node} from itself"),
                (Some(true), _) => format!(" to node {node}"),
                (Some(false), _) => format!(" to nodes other than {node}"),
                (None, _) => String::new(),
            },
            (Region::ZoneVip(_), [zone]) => match key.prediction {
                PredictedFailure::Outside => " from other zones".to_owned(),
                _ => format!(" from zone {zone}"),
            },
            (Region::Pair(..) | Region::Zone(..) | Region::Link(..) | Region::ZoneLink(..), [from, to]) => {
                match key.prediction {
                    PredictedFailure::Certain
                        if matches!(region, Region::Link(..) | Region::ZoneLink(..)) =>
                    {
                        format!(" between {from} and {to}")
                    }
                    PredictedFailure::Certain => format!(" from {from} to {to}"),
                    PredictedFailure::Possible => String::new(),
                    PredictedFailure::Outside if matches!(key.part, TablePart::Sibling(_)) => String::new(),
                    PredictedFailure::Outside => " on other paths".to_owned(),
                }
            }
            (Region::DnsName(_), [name]) => match to {
                Some(true) => format!(" of {name}"),
                _ => format!(" of names other than {name}"),
            },
            (Region::Cross | Region::Same | Region::SameVip, _) if key.placement.is_none() => {
                match key.within_node {
                    Some(true) => " within the client's node".to_owned(),
                    Some(false) if key.channel == Channel::Direct => " to other nodes".to_owned(),
                    _ => String::new(),
                }
            }
            _ => String::new(),
        }
    }

    /// "an ingress Pod" if the targets show that the Service belongs to an ingress controller, otherwise "an endpoint".
    pub(super) fn endpoint_word(&self) -> &'static str {
        let service = self
            .front
            .as_ref()
            .and_then(|f| self.topology.front(f))
            .map(|i| &i.service);
        let routed = |target: &parallax_model::TargetId| {
            let placed = self.topology.targets().get(target);
            placed.is_some_and(|placed| placed.routed && placed.entry.as_ref().map(|(key, _)| key) == service)
        };
        if self.targets.iter().any(routed) {
            "an ingress Pod"
        } else {
            "an endpoint"
        }
    }
}
