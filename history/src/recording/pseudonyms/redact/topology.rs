//! Replaces names in topologies.

use parallax_diagnosis::topology::{
    BalancerSpec, EndpointSpec, IngressSpec, LoadBalancerSpec, NodeFacts, NodeSpec, PortSpec, ProberSpec,
    PublishedSpec, ResolversSpec, ServiceProbe, ServiceSpec, TopologyHints, TopologySpec,
};
use parallax_model::{HostName, ObjectName};

use crate::recording::pseudonyms::Pseudonymizer;

impl Pseudonymizer {
    /// Pseudonymizes a topology.
    pub(in crate::recording) fn topology_spec(&mut self, spec: &TopologySpec) -> TopologySpec {
        let TopologySpec {
            platform,
            proxy_mode,
            nodes,
            services,
            ingresses,
            targets,
            published,
            vantages,
            aggregator,
            resolvers: ResolversSpec {
                public,
                authoritative,
            },
            balancers,
        } = spec.clone();
        TopologySpec {
            platform,
            proxy_mode,
            nodes: nodes.into_iter().map(|node| self.node(node)).collect(),
            services: services
                .into_iter()
                .map(|service| self.service(service))
                .collect(),
            ingresses: ingresses
                .into_iter()
                .map(|ingress| self.ingress(ingress))
                .collect(),
            targets: targets
                .into_iter()
                .map(|target| self.target_spec(target))
                .collect(),
            published: published
                .into_iter()
                .map(|published| self.published(published))
                .collect(),
            vantages: vantages.iter().map(|vantage| self.vantage(vantage)).collect(),
            aggregator: aggregator.map(|node| self.typed_name(node)),
            resolvers: ResolversSpec {
                public: public.into_iter().map(|address| self.ip(address)).collect(),
                authoritative,
            },
            balancers: balancers
                .into_iter()
                .map(|balancer| self.balancer(balancer))
                .collect(),
        }
    }

    fn balancer(&mut self, balancer: BalancerSpec) -> BalancerSpec {
        let BalancerSpec {
            name,
            services,
            quota,
            preserves_client_address,
        } = balancer;
        BalancerSpec {
            name: self.typed_name(name),
            services: services
                .into_iter()
                .map(|service| self.service_key(service))
                .collect(),
            quota,
            preserves_client_address,
        }
    }

    fn node(&mut self, node: NodeSpec) -> NodeSpec {
        let NodeSpec {
            name,
            zone,
            addresses,
            prober,
            readiness,
            cordoned,
            facts,
        } = node;
        NodeSpec {
            name: self.typed_name(name),
            zone: zone.map(|zone| self.typed_name(zone)),
            addresses: addresses.into_iter().map(|address| self.ip(address)).collect(),
            prober: prober.map(|ProberSpec { pod, address }| ProberSpec {
                pod: self.typed_name(pod),
                address: self.socket(address),
            }),
            readiness,
            cordoned,
            facts: self.facts(facts),
        }
    }

    fn facts(&mut self, facts: NodeFacts) -> NodeFacts {
        let NodeFacts {
            hairpin,
            bridge_nf_call_iptables,
            kube_proxy_version,
            proxy_mode,
            ipvs_addresses,
            strict_rp_filter,
            conntrack_percent,
            drops_own_source_addresses: drops_own_sources,
            proxy_healthy,
            local_endpoints,
        } = facts;
        NodeFacts {
            hairpin,
            bridge_nf_call_iptables,
            kube_proxy_version,
            proxy_mode,
            ipvs_addresses: ipvs_addresses
                .map(|addresses| addresses.into_iter().map(|address| self.ip(address)).collect()),
            strict_rp_filter,
            conntrack_percent,
            drops_own_source_addresses: drops_own_sources,
            proxy_healthy,
            local_endpoints: local_endpoints
                .into_iter()
                .map(|(key, n)| (self.service_key(key), n))
                .collect(),
        }
    }

    fn service(&mut self, service: ServiceSpec) -> ServiceSpec {
        let ServiceSpec {
            namespace,
            name,
            service_type,
            cluster_ips,
            load_balancer,
            external_traffic_policy,
            internal_traffic_policy,
            ports,
            endpoints,
            health_check_node_port,
            mut annotations,
            ingress_class,
            network_policies: guarded_by,
            selector,
            echo,
            probe,
        } = service;
        // The meaning of other annotations is unknown.
        annotations.retain(|key, value| key.contains("proxy-protocol") && value.len() <= 5);
        ServiceSpec {
            namespace: self.typed_name(namespace),
            name: self.typed_name(name),
            service_type,
            cluster_ips: cluster_ips.into_iter().map(|address| self.ip(address)).collect(),
            load_balancer: load_balancer
                .into_iter()
                .map(|LoadBalancerSpec { ip, ip_mode }| LoadBalancerSpec {
                    ip: self.ip(ip),
                    ip_mode,
                })
                .collect(),
            external_traffic_policy,
            internal_traffic_policy,
            ports: ports.into_iter().map(|port| self.port_spec(port)).collect(),
            endpoints: endpoints.into_iter().map(|e| self.endpoint(e)).collect(),
            health_check_node_port,
            annotations,
            ingress_class: ingress_class.map(|class| self.typed_name(class)),
            network_policies: guarded_by
                .map(|names| names.into_iter().map(|name| self.typed_name(name)).collect()),
            selector: selector
                .iter()
                .map(|(label, value)| (self.word(label), self.word(value)))
                .collect(),
            echo,
            probe: self.service_probe(probe),
        }
    }

    /// The path gets the same pseudonym as in the target's id.
    fn service_probe(&mut self, probe: ServiceProbe) -> ServiceProbe {
        let ServiceProbe {
            enabled: wanted,
            path,
            expect_status,
            interval_ms,
            pending,
        } = probe;
        ServiceProbe {
            enabled: wanted,
            path: path.map(|path| {
                let id = self.target_id(&format!("http://x{path}"));
                id.splitn(4, '/')
                    .last()
                    .map_or_else(|| path.clone(), |veiled| format!("/{veiled}"))
            }),
            expect_status,
            interval_ms,
            pending,
        }
    }

    fn published(&mut self, published: PublishedSpec) -> PublishedSpec {
        let PublishedSpec {
            target,
            service,
            port,
            class,
            origin,
        } = published;
        PublishedSpec {
            target: self.target_spec(target),
            service: self.service_key(service),
            port,
            class: class.map(|class| self.typed_name(class)),
            origin: origin.map(|origin| self.service_key(origin)),
        }
    }

    fn port_spec(&mut self, port: PortSpec) -> PortSpec {
        let PortSpec {
            name,
            app_protocol,
            port,
            target_port,
            node_port,
        } = port;
        PortSpec {
            name: name.map(|name| self.port_name(name)),
            app_protocol: app_protocol.map(|name| self.port_name(name)),
            port,
            target_port,
            node_port,
        }
    }

    /// Keeps the protocol prefix of a port name, because it decides which probes are made.
    fn port_name(&mut self, name: ObjectName) -> ObjectName {
        for known in ["http", "https"] {
            if name.as_str() == known {
                return name;
            }
            if let Some(rest) = name
                .as_str()
                .strip_prefix(known)
                .and_then(|r| r.strip_prefix('-'))
            {
                let word = format!("{known}-{}", self.word(rest));
                return ObjectName::new(word).unwrap_or(name);
            }
        }
        self.typed_name(name)
    }

    fn endpoint(&mut self, endpoint: EndpointSpec) -> EndpointSpec {
        let EndpointSpec {
            pod,
            address,
            node,
            ready,
            serving,
            terminating,
            hints: TopologyHints { for_zones, for_nodes },
        } = endpoint;
        EndpointSpec {
            pod: self.typed_name(pod),
            address: self.ip(address),
            node: node.map(|node| self.typed_name(node)),
            ready,
            serving,
            terminating,
            hints: TopologyHints {
                for_zones: for_zones.into_iter().map(|zone| self.typed_name(zone)).collect(),
                for_nodes: for_nodes.into_iter().map(|node| self.typed_name(node)).collect(),
            },
        }
    }

    fn ingress(&mut self, ingress: IngressSpec) -> IngressSpec {
        let IngressSpec {
            namespace,
            name,
            service,
            hosts,
            tls,
            class,
        } = ingress;
        IngressSpec {
            namespace: self.typed_name(namespace),
            name: self.typed_name(name),
            service: self.service_key(service),
            hosts: hosts
                .into_iter()
                .map(|host| HostName::new(self.host(host.as_str())).unwrap_or(host))
                .collect(),
            tls,
            class: class.map(|class| self.typed_name(class)),
        }
    }
}
