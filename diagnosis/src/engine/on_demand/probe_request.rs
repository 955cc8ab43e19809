//! Turns a wanted probe into a request: its vantage, assignment, target and reason.

use std::net::SocketAddr;

use parallax_model::{AssignmentId, Channel, EventTime, Front, TargetId};

use crate::{
    engine::Engine,
    evidence::cells::Destination,
    inference::judgement_unit::JudgementUnit,
    regions::Region,
    requests::{ProbeRequest, ProbeRoute, ProbeVariant, RequestDestination, SEPARATE_MARKER, WantedProbe},
};

impl Engine {
    pub(super) fn describe_probe(&self, unit: &JudgementUnit, want: &WantedProbe) -> String {
        self.build_request(unit, want, EventTime(0))
            .map_or_else(|| want.key.channel.to_string(), |(ask, _)| ask.to_string())
    }

    /// Converts a wanted probe to a request with names instead of ids; `None` if the topology lacks a name.
    pub(super) fn build_request(
        &self,
        unit: &JudgementUnit,
        want: &WantedProbe,
        at: EventTime,
    ) -> Option<(ProbeRequest, ProbeRoute)> {
        let key = &want.key;
        let vantage = self.registry.vantages.name(key.client).clone();
        let front = self.front_of_unit(unit);
        let (target, to) = match (key.channel, key.dest) {
            (Channel::Mesh, Destination::Peer(node)) => {
                let node = self.registry.nodes.name(node).clone();
                (
                    TargetId::new(format!("echo://{node}")).ok()?,
                    RequestDestination::Peer(node),
                )
            }
            (Channel::Dns, Destination::Name(name)) => {
                let name = self.registry.names.name(name).clone();
                (self.target_resolving(&name)?, RequestDestination::Name(name))
            }
            (Channel::Direct, Destination::Entry(pod)) => (
                self.host_for(unit)?,
                RequestDestination::Entry(self.registry.pods.name(pod).clone()),
            ),
            (Channel::Vip | Channel::Proxied, _) => (self.host_for(unit)?, RequestDestination::Front(front?)),
            (Channel::NodePort, _) => {
                let info = self.cluster.topology.front(&front?)?;
                let service = self.cluster.topology.service(&info.service)?;
                let port = service.ports.iter().find(|p| p.port == info.port)?.node_port?;
                let address = *self
                    .cluster
                    .topology
                    .nodes()
                    .get(vantage.node()?)?
                    .addresses
                    .first()?;
                let node_port = Front::tcp(SocketAddr::new(address, port));
                (self.host_for(unit)?, RequestDestination::NodePort(node_port))
            }
            _ => return None,
        };
        let aside = match want.variant {
            ProbeVariant::Plain => String::new(),
            ProbeVariant::Size(bytes) => format!("|{SEPARATE_MARKER}size={bytes}"),
            ProbeVariant::DnsOverTcp => format!("|{SEPARATE_MARKER}tcp"),
        };
        let (prefix, channel) = (AssignmentId::REQUESTED_PREFIX, key.channel);
        let describe = |region: Region| region.describe(&self.registry);
        let reason = want.reason.clone().unwrap_or_else(|| match want.separates {
            Some((Region::Healthy, b)) => format!("separates {} from chance", describe(b)),
            Some((a, Region::Healthy)) => format!("separates {} from chance", describe(a)),
            Some((a, b)) => format!("separates {} from {}", describe(a), describe(b)),
            None => "repeats a failed probe".to_owned(),
        });
        let ask = ProbeRequest {
            id: AssignmentId::new(format!("{prefix}{channel}|{target}|{to}{aside}")).ok()?,
            subject: Self::subject_of(unit),
            vantage,
            channel,
            target,
            destination: to,
            variant: want.variant,
            separated_regions: want
                .separates
                .map(|(a, b)| vec![describe(a), describe(b)])
                .unwrap_or_default(),
            reason,
            gain_bits: libm::round(want.bits * 1e4) / 1e4,
            requested_at: at,
        };
        Some((ask, ProbeRoute::from_cell(key, front)))
    }

    /// Returns a host for requests on a subject's paths: one whose entry is the subject's endpoints, preferably one
    /// with a name.
    fn host_for(&self, unit: &JudgementUnit) -> Option<TargetId> {
        let info = match unit {
            JudgementUnit::Front(front) => self.cluster.topology.front(front),
            _ => None,
        };
        let mut hosts: Vec<(bool, TargetId)> =
            self.targets_of(unit)
                .into_iter()
                .filter_map(|id| {
                    let placed = self.cluster.topology.targets().get(&id)?;
                    let enters = info.is_none_or(|info| {
                        placed.entry.as_ref().is_some_and(|(service, port)| {
                            *service == info.service && *port == info.target_port
                        })
                    });
                    enters.then_some((placed.dial_address.is_some(), id))
                })
                .collect();
        hosts.sort();
        hosts.into_iter().next().map(|(_, id)| id)
    }

    /// Returns a target whose probe resolves a name.
    fn target_resolving(&self, name: &str) -> Option<TargetId> {
        let targets = self.cluster.topology.targets().iter();
        targets
            .filter_map(|(id, placed)| {
                let probe = &placed.target.probe;
                // A target that only resolves the name is preferred to one that also connects.
                let same = probe.resolved_host()?.as_str() == name;
                same.then_some((probe.port().is_some(), id))
            })
            .min()
            .map(|(_, id)| id.clone())
    }
}
