//! Lifecycles of Pods, probers, nodes and Services, step by step, with what the API server shows of each step.

use parallax_model::{NodeName, PodName, ServiceKey};

use super::{
    ChangeEffect, Cluster, Node, OpError, PodState, ProberChange, Service, addresses, change::position,
};
use crate::incident::{BackendPods, FaultOperation};

impl Cluster {
    /// Applies one lifecycle step of an object.
    pub(super) fn lifecycle(&mut self, op: &FaultOperation) -> Result<ChangeEffect, OpError> {
        match op {
            FaultOperation::StartPod { service, pod, node } => {
                let started = self.add(service, pod, node)?;
                self.set_state(service, pod, Some(PodState::Starting))?;
                match started {
                    ChangeEffect::Started(pod) => Ok(ChangeEffect::Placed(pod)),
                    other => Ok(other),
                }
            }
            FaultOperation::ReadyPod { service, pod } => {
                self.in_state(service, pod, Some(PodState::Starting))?;
                self.set_state(service, pod, None)?;
                Ok(ChangeEffect::Served(vec![pod.clone()]))
            }
            FaultOperation::TerminatePod { service, pod } => {
                self.in_state(service, pod, None)?;
                self.set_state(service, pod, Some(PodState::Terminating))?;
                Ok(ChangeEffect::Rules)
            }
            FaultOperation::CreateService { service } => self.create_service(service),
            FaultOperation::DeleteService { service } => self.delete_service(service),
            FaultOperation::StopProber { node } => {
                self.prober_runs(node, true)?;
                self.set_prober_ready(node, false)?;
                Ok(ChangeEffect::Prober(node.clone(), ProberChange::Stop))
            }
            FaultOperation::StartProber { node } => {
                self.prober_runs(node, false)?;
                self.set_prober_ready(node, true)?;
                Ok(ChangeEffect::Prober(node.clone(), ProberChange::Start))
            }
            FaultOperation::DeleteProber { node } => self.delete_prober(node),
            FaultOperation::CreateProber { node } => self.create_prober(node),
            FaultOperation::CordonNode { node, on } => {
                self.node_mut(node)?.cordoned = *on;
                Ok(ChangeEffect::Outside)
            }
            FaultOperation::CrashNode { node } => self.set_wire(node, false),
            FaultOperation::RecoverNode { node } => {
                let effect = self.set_wire(node, true)?;
                self.set_heard(node, true)?;
                Ok(effect)
            }
            _ => Ok(ChangeEffect::Rules),
        }
    }

    /// Sets whether the node controller hears from a node: the conditions of the node and its Pods.
    pub fn set_heard(&mut self, name: &NodeName, heard: bool) -> Result<(), OpError> {
        self.node_mut(name)?.ready = heard;
        for service in self.services.iter_mut().chain([&mut self.resolver_service]) {
            let on_node = service.endpoints.iter().filter(|pod| pod.node == *name);
            let on_node: Vec<PodName> = on_node.map(|pod| pod.name.clone()).collect();
            for pod in on_node {
                if !heard {
                    service.states.insert(pod, PodState::Unheard);
                } else if service.states.get(&pod) == Some(&PodState::Unheard) {
                    service.states.remove(&pod);
                }
            }
        }
        Ok(())
    }

    pub(super) fn node_mut(&mut self, name: &NodeName) -> Result<&mut Node, OpError> {
        let node = self.nodes.iter_mut().find(|node| node.name == *name);
        node.ok_or_else(|| OpError::NoNode(name.clone()))
    }

    fn set_wire(&mut self, name: &NodeName, whole: bool) -> Result<ChangeEffect, OpError> {
        let node = self.node_mut(name)?;
        if !node.present || node.connected == whole {
            return Err(OpError::Presence {
                node: name.clone(),
                state: if whole {
                    "not disconnected"
                } else {
                    "disconnected already"
                },
            });
        }
        node.connected = whole;
        let (number, verb) = (node.number, if whole { "up" } else { "down" });
        // Its kube-proxy gets no updates either.
        if whole {
            self.frozen_nodes.remove(name);
        } else {
            self.frozen_nodes.insert(name.clone());
        }
        Ok(ChangeEffect::Run(
            None,
            format!("ip link set node{number} {verb}"),
        ))
    }

    fn state_of(&self, key: &ServiceKey, pod: &PodName) -> Result<Option<PodState>, OpError> {
        let service = self.service(key).ok_or_else(|| OpError::NoService(key.clone()))?;
        position(service, pod)?;
        Ok(service.states.get(pod).copied())
    }

    fn in_state(&self, key: &ServiceKey, pod: &PodName, wanted: Option<PodState>) -> Result<(), OpError> {
        if self.state_of(key, pod)? == wanted {
            return Ok(());
        }
        Err(OpError::State {
            pod: pod.clone(),
            wanted: if wanted.is_none() { "ready" } else { "starting" },
        })
    }

    fn set_state(&mut self, key: &ServiceKey, pod: &PodName, state: Option<PodState>) -> Result<(), OpError> {
        let states = &mut self.service_mut(key)?.states;
        match state {
            Some(state) => states.insert(pod.clone(), state),
            None => states.remove(pod),
        };
        Ok(())
    }

    fn create_service(&mut self, key: &ServiceKey) -> Result<ChangeEffect, OpError> {
        let at = self.absent.iter().position(|service| service.key == *key);
        let at = at.ok_or_else(|| OpError::NoAbsentService(key.clone()))?;
        let service = self.absent.remove(at);
        self.services.push(service);
        Ok(ChangeEffect::Rules)
    }

    fn delete_service(&mut self, key: &ServiceKey) -> Result<ChangeEffect, OpError> {
        let at = self.services.iter().position(|service| service.key == *key);
        let at = at.ok_or_else(|| OpError::NoService(key.clone()))?;
        if !self.services[at].endpoints.is_empty() {
            return Err(OpError::StillServed(key.clone()));
        }
        let service = self.services.remove(at);
        self.absent.push(service);
        Ok(ChangeEffect::Rules)
    }

    fn prober_runs(&self, name: &NodeName, wanted: bool) -> Result<(), OpError> {
        let node = self.node(name).ok_or_else(|| OpError::NoNode(name.clone()))?;
        if node.present && node.probes && node.prober_ready == wanted {
            return Ok(());
        }
        Err(OpError::Presence {
            node: name.clone(),
            state: if wanted {
                "without a running prober"
            } else {
                "without a prober to start"
            },
        })
    }

    /// Returns the Services that select every prober.
    fn prober_services(&mut self) -> impl Iterator<Item = &mut Service> {
        let all = self.services.iter_mut();
        all.filter(|service| service.backend_pods == Some(BackendPods::Probers))
    }

    fn set_prober_ready(&mut self, name: &NodeName, ready: bool) -> Result<(), OpError> {
        let node = self.node_mut(name)?;
        node.prober_ready = ready;
        let pod = node.prober.name.clone();
        for service in self.prober_services() {
            if ready {
                service.states.remove(&pod);
            } else {
                service.states.insert(pod.clone(), PodState::Starting);
            }
        }
        Ok(())
    }

    fn delete_prober(&mut self, name: &NodeName) -> Result<ChangeEffect, OpError> {
        self.prober_runs(name, true)?;
        let node = self.node_mut(name)?;
        node.probes = false;
        let pod = node.prober.clone();
        for service in self.prober_services() {
            service.endpoints.retain(|endpoint| endpoint.name != pod.name);
            service.states.remove(&pod.name);
        }
        Ok(ChangeEffect::Stopped(pod))
    }

    fn create_prober(&mut self, name: &NodeName) -> Result<ChangeEffect, OpError> {
        let node = self.node(name).ok_or_else(|| OpError::NoNode(name.clone()))?;
        if !node.present || node.probes {
            return Err(OpError::Presence {
                node: name.clone(),
                state: "running a prober already",
            });
        }
        let successor = self.next_prober_pod(name)?;
        let pod = self.new_pod(&successor, name)?;
        let node = self.node_mut(name)?;
        let former = std::mem::replace(&mut node.prober, pod.clone());
        node.probes = true;
        self.deleted_pods.insert(former.name);
        for service in self.prober_services() {
            service.endpoints.push(pod.clone());
        }
        self.set_prober_ready(name, false)?;
        Ok(ChangeEffect::Placed(pod))
    }

    /// Returns the name of a node's next prober Pod: `prober-n1-2` follows `prober-n1`.
    fn next_prober_pod(&self, node: &NodeName) -> Result<PodName, OpError> {
        let first = addresses::prober_pod(node);
        let names = (2..=u8::MAX).filter_map(|number| PodName::new(format!("{first}-{number}")).ok());
        let mut free = names
            .filter(|name| !self.deleted_pods.contains(name) && self.pods().all(|pod| pod.name != *name));
        free.next().ok_or_else(|| OpError::Full(node.clone()))
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
