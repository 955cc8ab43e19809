//! Changes of the cluster, and their effects on the lab.

use std::net::IpAddr;

use parallax_model::{NodeName, PodName, ServiceKey};

use super::{Cluster, Node, OpError, Pod, PodState, Service, addresses};
use crate::incident::{BackendPods, FaultOperation, ServedHosts};

/// Effect of a change on processes and links, in addition to new rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeEffect {
    /// A pod starts.
    Started(Pod),
    /// A Pod exists, and nothing runs in it yet.
    Placed(Pod),
    /// A Pod is deleted.
    Stopped(Pod),
    /// A Pod's process is killed, and the control plane does not notice.
    Crashed(PodName),
    /// Only forwarding changes.
    Rules,
    /// Servers are restarted.
    Served(Vec<PodName>),
    /// A resolver is restarted.
    Resolver(PodName),
    /// A change of a node's prober.
    Prober(NodeName, ProberChange),
    /// A command in a network namespace, or in the machine's own if none is given.
    Run(Option<String>, String),
    /// No effect inside: the host applies it.
    Outside,
}

/// A change of a prober.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProberChange {
    /// It starts.
    Start,
    /// It ends.
    Stop,
    /// Stops and starts it.
    Restart,
    /// Stops it with SIGSTOP.
    Stall,
    /// Resumes it with SIGCONT.
    Resume,
}

impl Cluster {
    /// Applies one change. On an error, the cluster is unchanged.
    pub fn apply(&mut self, op: &FaultOperation) -> Result<ChangeEffect, OpError> {
        match op {
            FaultOperation::RemoveEndpoint { service, pod } => self.remove(service, pod),
            FaultOperation::AddEndpoint { service, pod, node } => self.add(service, pod, node),
            FaultOperation::SetPolicy {
                service,
                external_traffic_policy,
            } => {
                self.service_mut(service)?.policy = *external_traffic_policy;
                Ok(ChangeEffect::Rules)
            }
            FaultOperation::SetIpMode { service, ip_mode } => {
                let written = self.service_mut(service)?;
                written
                    .load_balancer_ip
                    .ok_or_else(|| OpError::NoBalancer(service.clone()))?;
                written.ip_mode = *ip_mode;
                Ok(ChangeEffect::Rules)
            }
            FaultOperation::SetInternalPolicy {
                service,
                internal_traffic_policy,
            } => {
                self.service_mut(service)?.internal_policy = *internal_traffic_policy;
                Ok(ChangeEffect::Rules)
            }
            FaultOperation::SetServer { service, pod, server } => {
                let written = self.service_mut(service)?;
                let Some(pod) = pod else {
                    written.server = server.clone();
                    written.other_servers.clear();
                    return Ok(ChangeEffect::Served(pods_of(written)));
                };
                position(written, pod)?;
                written.other_servers.insert(pod.clone(), server.clone());
                Ok(ChangeEffect::Served(vec![pod.clone()]))
            }
            FaultOperation::CrashPod { pod } => {
                let known = self.workloads().any(|(_, workload)| workload.name == *pod);
                known
                    .then(|| ChangeEffect::Crashed(pod.clone()))
                    .ok_or_else(|| OpError::NoWorkload(pod.clone()))
            }
            FaultOperation::SetClass { ingress, class } => {
                let found = self.ingresses.iter_mut().find(|known| known.ingress == *ingress);
                found.ok_or_else(|| OpError::NoIngress(ingress.clone()))?.class = Some(class.clone());
                let watching = |service: &&Service| service.server.serves == ServedHosts::OwnClass;
                let pods = self.services.iter().filter(watching).flat_map(pods_of);
                Ok(ChangeEffect::Served(pods.collect()))
            }
            FaultOperation::NetworkPolicy {
                service,
                name,
                admits,
            } => {
                for admitted in admits {
                    self.service_mut(admitted)?;
                }
                self.service_mut(service)?.network_policy = Some((name.clone(), admits.clone()));
                Ok(ChangeEffect::Rules)
            }
            FaultOperation::SetHealthChecks {
                service,
                health_checks,
            } => {
                self.service_mut(service)?.health_checks = *health_checks;
                Ok(ChangeEffect::Rules)
            }
            FaultOperation::SetRecord {
                resolver,
                host,
                address,
            } => self.set_record(resolver, host, *address),
            FaultOperation::FreezeNode { node } => {
                self.known(node)?;
                self.frozen_nodes.insert(node.clone());
                Ok(ChangeEffect::Rules)
            }
            FaultOperation::RestartProber { node } => self.prober(node, ProberChange::Restart),
            FaultOperation::StallProber { node } => self.prober(node, ProberChange::Stall),
            FaultOperation::ResumeProber { node } => self.prober(node, ProberChange::Resume),
            FaultOperation::JoinNode { node } => self.set_present(node, true),
            FaultOperation::LeaveNode { node } => self.set_present(node, false),
            FaultOperation::RestartAggregator { .. }
            | FaultOperation::ApiServerAway {}
            | FaultOperation::ApiServerBack {} => Ok(ChangeEffect::Outside),
            FaultOperation::CutLink { between } => self.cut_link(between),
            FaultOperation::RestoreLink { between } => self.restore_link(between),
            FaultOperation::Hairpin { .. }
            | FaultOperation::BridgeNf { .. }
            | FaultOperation::BreakNode { .. }
            | FaultOperation::BreakPair { .. }
            | FaultOperation::Loss { .. }
            | FaultOperation::DropLargerThan { .. }
            | FaultOperation::SecurityGroup { .. }
            | FaultOperation::StepClock { .. }
            | FaultOperation::Command { .. } => self.apply_network_fault(op),
            _ => self.lifecycle(op),
        }
    }

    fn remove(&mut self, service: &ServiceKey, pod: &PodName) -> Result<ChangeEffect, OpError> {
        let service = self.service_mut(service)?;
        let at = position(service, pod)?;
        let pod = service.endpoints.remove(at);
        service.states.remove(&pod.name);
        self.deleted_pods.insert(pod.name.clone());
        Ok(ChangeEffect::Stopped(pod))
    }

    pub(super) fn add(
        &mut self,
        service: &ServiceKey,
        pod: &PodName,
        node: &NodeName,
    ) -> Result<ChangeEffect, OpError> {
        self.service_mut(service)?;
        if self.deleted_pods.contains(pod) || self.pods().any(|known| known.name == *pod) {
            return Err(OpError::Taken(pod.clone()));
        }
        let pod = self.new_pod(pod, node)?;
        self.service_mut(service)?.endpoints.push(pod.clone());
        Ok(ChangeEffect::Started(pod))
    }

    fn set_record(
        &mut self,
        resolver: &PodName,
        host: &parallax_model::HostName,
        address: Option<IpAddr>,
    ) -> Result<ChangeEffect, OpError> {
        let public = resolver.as_str() == addresses::PUBLIC_RESOLVER;
        if !public && !self.resolvers.iter().any(|known| known.pod.name == *resolver) {
            return Err(OpError::NoResolver(resolver.clone()));
        }
        self.deviations.insert((resolver.clone(), host.clone()), address);
        Ok(ChangeEffect::Resolver(resolver.clone()))
    }

    fn set_present(&mut self, name: &NodeName, present: bool) -> Result<ChangeEffect, OpError> {
        let node = self.node_mut(name)?;
        if node.present == present {
            return Err(OpError::Presence {
                node: name.clone(),
                state: if present {
                    "part of the cluster already"
                } else {
                    "not part of the cluster"
                },
            });
        }
        node.present = present;
        let (pod, joins) = (node.prober.clone(), present && node.probes);
        for service in &mut self.services {
            if service.backend_pods == Some(BackendPods::Probers) {
                service.endpoints.retain(|endpoint| endpoint.name != pod.name);
                service.endpoints.extend(joins.then(|| pod.clone()));
            }
        }
        Ok(ChangeEffect::Prober(
            name.clone(),
            if present {
                ProberChange::Start
            } else {
                ProberChange::Stop
            },
        ))
    }

    fn prober(&self, node: &NodeName, change: ProberChange) -> Result<ChangeEffect, OpError> {
        let known = self.known(node)?;
        if !known.present || !known.probes || !known.prober_ready {
            return Err(OpError::Presence {
                node: node.clone(),
                state: "without a prober",
            });
        }
        Ok(ChangeEffect::Prober(node.clone(), change))
    }

    pub(super) fn known(&self, node: &NodeName) -> Result<&Node, OpError> {
        self.node(node).ok_or_else(|| OpError::NoNode(node.clone()))
    }

    /// Applies changes that are invisible to the API server.
    fn apply_network_fault(&self, op: &FaultOperation) -> Result<ChangeEffect, OpError> {
        let at = |node: &NodeName, script: String| {
            self.known(node)?;
            Ok(ChangeEffect::Run(Some(node.to_string()), script))
        };
        match op {
            FaultOperation::Hairpin { node, on } => at(
                node,
                format!(
                    "ip -o link show master cbr0 | sed 's/^[0-9]*: \\([^@:]*\\).*/\\1/' | \
                     while read -r port; do ip link set \"$port\" type bridge_slave hairpin {}; done",
                    if *on { "on" } else { "off" }
                ),
            ),
            FaultOperation::BridgeNf { node, on } => at(
                node,
                format!(
                    "echo {} > /proc/sys/net/bridge/bridge-nf-call-iptables",
                    u8::from(*on)
                ),
            ),
            FaultOperation::BreakNode { node } => {
                let pods = addresses::pod_cidr(self.known(node)?.number);
                at(
                    node,
                    format!("{FILTER} -A FORWARD -i eth0 -d {pods} -m conntrack --ctstate NEW -j DROP"),
                )
            }
            FaultOperation::BreakPair { from, to } => {
                let pods = addresses::pod_cidr(self.known(to)?.number);
                // Not in `filter`: packets forwarded by IPVS pass OUTPUT there instead of FORWARD. Replies pass, or
                // the other direction would fail too.
                at(
                    from,
                    format!(
                        "{FILTER} -t mangle -A POSTROUTING -o eth0 -d {pods} -m conntrack --ctstate NEW -j DROP"
                    ),
                )
            }
            FaultOperation::Loss { node, percent } => {
                let number = self.known(node)?.number;
                let loss = format!("root netem loss {percent}%");
                // Both ends of the node's link, each for its outgoing packets.
                Ok(ChangeEffect::Run(
                    None,
                    format!(
                        "tc qdisc replace dev node{number} {loss} && \
                         nsenter --net=/run/netns/{node} tc qdisc replace dev eth0 {loss}"
                    ),
                ))
            }
            FaultOperation::DropLargerThan { node, bytes } => {
                let least = u32::from(*bytes) + 1;
                let rule = format!("-m length --length {least}:65535 -j DROP");
                at(
                    node,
                    format!("{FILTER} -A FORWARD -i eth0 {rule} && {FILTER} -A FORWARD -o eth0 {rule}"),
                )
            }
            FaultOperation::SecurityGroup { service, blocks } => {
                let known = self
                    .service(service)
                    .ok_or_else(|| OpError::NoService(service.clone()))?;
                let ip = known
                    .load_balancer_ip
                    .ok_or_else(|| OpError::NoBalancer(service.clone()))?;
                let verb = if *blocks { "-A" } else { "-D" };
                // Before the balancer's own NAT.
                Ok(ChangeEffect::Run(
                    None,
                    format!(
                        "{FILTER} -t raw {verb} PREROUTING -s {} -d {ip} -j DROP",
                        addresses::UNDERLAY_CIDR
                    ),
                ))
            }
            FaultOperation::StepClock { seconds } => Ok(ChangeEffect::Run(
                None,
                format!("date -s @$(($(date +%s) + {seconds})) > /dev/null"),
            )),
            FaultOperation::Command { namespace, run } => {
                Ok(ChangeEffect::Run(self.namespace(namespace)?, run.clone()))
            }
            _ => Ok(ChangeEffect::Rules),
        }
    }

    fn namespace(&self, name: &str) -> Result<Option<String>, OpError> {
        let known = self.nodes.iter().any(|node| node.name.as_str() == name)
            || self.pods().any(|pod| pod.name.as_str() == name)
            || self.outside.iter().any(|outside| outside.name.as_str() == name);
        match name {
            "cloud" => Ok(None),
            _ if known => Ok(Some(name.to_owned())),
            _ => Err(OpError::NoNamespace(name.to_owned())),
        }
    }
}

/// The variant that the machine's kernel supports.
const FILTER: &str = "iptables";

/// Returns the Pods in which a server runs.
fn pods_of(service: &Service) -> Vec<PodName> {
    let running = service.endpoints.iter();
    let running = running.filter(|pod| service.states.get(&pod.name) != Some(&PodState::Starting));
    running.map(|pod| pod.name.clone()).collect()
}

pub(super) fn position(service: &Service, pod: &PodName) -> Result<usize, OpError> {
    service
        .endpoints
        .iter()
        .position(|endpoint| endpoint.name == *pod)
        .ok_or_else(|| OpError::NoPod {
            service: service.key.clone(),
            pod: pod.clone(),
        })
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
