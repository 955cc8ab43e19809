//! Host names of the cluster: the servers of each, and the addresses they resolve to.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4},
};

use parallax_model::{HostName, PodName};

use super::{Cluster, Service, addresses};
use crate::incident::{ServedHosts, ServerSpec};

impl Cluster {
    /// Returns the hosts that a Service's Pods serve; empty means any.
    #[must_use]
    pub fn served_hosts(&self, service: &Service, server: &ServerSpec) -> Vec<&HostName> {
        match server.serves {
            ServedHosts::Everything => Vec::new(),
            ServedHosts::OwnClass => self
                .ingresses
                .iter()
                .filter(|ingress| ingress.class == service.class)
                .flat_map(|ingress| ingress.hosts.names())
                .collect(),
        }
    }

    /// Returns the hosts that a controller forwards, with their destinations.
    pub fn forwarded_hosts(&self, controller: &Service) -> impl Iterator<Item = (&HostName, SocketAddrV4)> {
        let ingresses = self.ingresses.iter();
        let own = ingresses.filter(move |ingress| ingress.service == controller.key);
        own.filter_map(|ingress| {
            let origin = self.service(ingress.origin.as_ref()?)?;
            let to = SocketAddrV4::new(origin.cluster_ip?, origin.ports.first()?.port);
            Some(ingress.hosts.names().iter().map(move |host| (host, to)))
        })
        .flatten()
    }

    /// Returns what every resolver answers unless it deviates: each Ingress host has its balancer's address.
    pub fn names(&self) -> impl Iterator<Item = (&HostName, IpAddr)> {
        let hosts = self.ingresses.iter().flat_map(|ingress| {
            let address = self
                .service(&ingress.service)
                .and_then(|service| service.load_balancer_ip);
            let six = address
                .filter(|_| self.is_dual_stack())
                .map(|ip| IpAddr::V6(addresses::ipv6_counterpart(ip)));
            ingress.hosts.names().iter().flat_map(move |host| {
                let both = [address.map(IpAddr::V4), six];
                both.into_iter().flatten().map(move |address| (host, address))
            })
        });
        hosts.chain(self.records.iter().map(|record| (&record.host, record.address)))
    }

    /// Returns the names of Services with their addresses: the ClusterIP, or the ready Pods of a headless Service. As
    /// with CoreDNS, a name without an address does not exist.
    #[must_use]
    pub fn service_names(&self) -> BTreeMap<String, Vec<IpAddr>> {
        let name = |service: &Service| {
            format!(
                "{}.{}.{}",
                service.key.name,
                service.key.namespace,
                addresses::SERVICE_DOMAIN
            )
        };
        let six = |ip: &Ipv4Addr| {
            self.is_dual_stack()
                .then(|| IpAddr::V6(addresses::ipv6_counterpart(*ip)))
        };
        self.services
            .iter()
            .map(|service| {
                let own = service.cluster_ip.map(|ip| vec![ip]);
                let four = own.unwrap_or_else(|| service.ready_pods().map(|pod| pod.address).collect());
                let all = four
                    .iter()
                    .flat_map(|ip| [Some(IpAddr::V4(*ip)), six(ip)].into_iter().flatten());
                (name(service), all.collect())
            })
            .collect()
    }

    /// Returns what one resolver answers.
    #[must_use]
    pub fn answers(&self, resolver: &PodName) -> BTreeMap<&HostName, NameAddresses> {
        let mut answers: BTreeMap<&HostName, NameAddresses> = BTreeMap::new();
        for (host, address) in self.names() {
            answers.entry(host).or_default().set(address);
        }
        if self.resolvers.iter().any(|known| known.pod.name == *resolver) {
            for record in &self.overrides {
                answers.entry(&record.host).or_default().set(record.address);
            }
        }
        for ((_, host), address) in self.deviations.iter().filter(|((pod, _), _)| pod == resolver) {
            match address {
                Some(address) => answers.entry(host).or_default().set(*address),
                None => {
                    answers.remove(host);
                }
            }
        }
        answers
    }
}

/// Addresses of a name, by family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameAddresses {
    /// The A record.
    pub v4: Option<Ipv4Addr>,
    /// The AAAA record.
    pub v6: Option<Ipv6Addr>,
}

impl NameAddresses {
    fn set(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.v4 = Some(address),
            IpAddr::V6(address) => self.v6 = Some(address),
        }
    }

    /// Iterates over the existing ones.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> {
        let both = [self.v4.map(IpAddr::V4), self.v6.map(IpAddr::V6)];
        both.into_iter().flatten()
    }
}
