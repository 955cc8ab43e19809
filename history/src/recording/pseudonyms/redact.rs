//! Pseudonymization of each recorded type. Every field is destructured by name, so that a new field does not compile
//! until its treatment is decided.

use std::{borrow::Cow, collections::BTreeMap};

use parallax_diagnosis::topology::{
    BalancerSpec, EndpointSpec, IngressSpec, LoadBalancerSpec, NodeFacts, NodeSpec, PortSpec, ProberSpec,
    PublishedSpec, ResolversSpec, ServiceProbe, ServiceSpec, TopologyHints, TopologySpec,
};
use parallax_model::{
    DnsAnswer, EchoIdentity, FailureKind, Front, HostName, InvalidName, ObjectName, Observation, Outcome,
    Recorded, RedirectPolicy, ServerProduct, ServiceKey, TargetId, TargetSpec, TlsExpectation, TtlEvidence,
    Vantage,
};

use super::Pseudonymizer;

impl Pseudonymizer {
    /// The pseudonym of a name of any type.
    fn typed_name<T>(&mut self, name: T) -> T
    where
        T: Into<String> + TryFrom<String, Error = InvalidName> + Clone,
    {
        let text: String = name.clone().into();
        let pseudonym = self.name(&text);
        // A pseudonym contains only letters, digits and dots, and does not exceed the maximum length of a name.
        T::try_from(pseudonym).unwrap_or_else(|_| {
            let word = self.word(&text);
            T::try_from(word).unwrap_or(name)
        })
    }

    pub(in crate::recording) fn target(&mut self, target: &TargetId) -> TargetId {
        let id = self.target_id(target.as_str());
        TargetId::new(id).unwrap_or_else(|_| {
            let word = self.word(target.as_str());
            TargetId::new(word).unwrap_or_else(|_| target.clone())
        })
    }

    fn front(&mut self, front: Front) -> Front {
        let Front { address, transport } = front;
        Front {
            address: self.socket(address),
            transport,
        }
    }

    fn service_key(&mut self, key: ServiceKey) -> ServiceKey {
        let ServiceKey { namespace, name } = key;
        ServiceKey {
            namespace: self.typed_name(namespace),
            name: self.typed_name(name),
        }
    }

    /// Pseudonymizes a vantage.
    pub(in crate::recording) fn vantage(&mut self, vantage: &Vantage) -> Vantage {
        match vantage.clone() {
            Vantage::Cluster { node, network } => Vantage::Cluster {
                node: self.typed_name(node),
                network,
            },
            Vantage::Outside { reach, name } => Vantage::Outside {
                reach,
                name: self.typed_name(name),
            },
        }
    }

    /// Pseudonymizes an observation.
    pub(in crate::recording) fn recorded_observation(&mut self, recorded: &Recorded) -> Recorded {
        let Recorded {
            vantage,
            incarnation,
            observation,
        } = recorded;
        Recorded {
            vantage: self.vantage(vantage),
            incarnation: self.typed_name(incarnation.clone()),
            observation: self.observation(observation.clone()),
        }
    }

    fn observation(&mut self, observation: Observation) -> Observation {
        let Observation {
            seq,
            started: at,
            assignment: _,
            target,
            channel,
            front,
            entry,
            dst_node,
            outcome,
            times,
            dns,
            echo,
            ttl,
            server,
            // The fingerprint of a page or certificate identifies its owner.
            fingerprint: _,
            // Only observations of runs have these, and runs are not recorded.
            challenge: _,
            names: _,
        } = observation;
        Observation {
            seq,
            started: at,
            assignment: None,
            target: self.target(&target),
            channel,
            front: front.map(|front| self.front(front)),
            entry: entry.map(|pod| self.typed_name(pod)),
            dst_node: dst_node.map(|node| self.typed_name(node)),
            outcome: self.outcome(outcome),
            times,
            dns: dns.map(|answer| self.dns(answer)),
            echo: echo.map(|echo| self.echo(echo)),
            ttl: ttl.map(|ttl| self.ttl(ttl)),
            server: server.map(|server| ServerProduct::from(self.word(server.as_str()))),
            fingerprint: None,
            challenge: None,
            names: None,
        }
    }

    fn outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            // A kind from a newer prober; its meaning is unknown, so it may contain a name.
            Outcome::Failed {
                phase,
                kind: FailureKind::Other(word),
                status,
            } => Outcome::Failed {
                phase,
                kind: FailureKind::from(Cow::Owned(self.word(&word))),
                status,
            },
            known => known,
        }
    }

    fn dns(&mut self, answer: DnsAnswer) -> DnsAnswer {
        let DnsAnswer {
            resolver,
            name,
            addresses,
            ttl_s,
            tcp,
            unanswered,
        } = answer;
        let mut addresses: Vec<_> = addresses.into_iter().map(|address| self.ip(address)).collect();
        addresses.sort();
        DnsAnswer {
            resolver: self.socket(resolver),
            name: self.name(&name),
            addresses,
            ttl_s,
            tcp,
            unanswered,
        }
    }

    fn echo(&mut self, echo: EchoIdentity) -> EchoIdentity {
        let EchoIdentity {
            pod,
            node,
            instance,
            peer,
        } = echo;
        EchoIdentity {
            pod: self.typed_name(pod),
            node: self.typed_name(node),
            instance: self.name_part(&instance),
            peer: self.socket(peer),
        }
    }

    fn ttl(&mut self, evidence: TtlEvidence) -> TtlEvidence {
        let TtlEvidence {
            address,
            sender: from,
            ttl,
            rtt,
        } = evidence;
        TtlEvidence {
            address: self.ip(address),
            sender: from.map(|from| self.ip(from)),
            ttl,
            rtt,
        }
    }

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

    /// Expected content is free text and certificates name people; both are left out, since a replay never probes.
    fn target_spec(&mut self, target: TargetSpec) -> TargetSpec {
        let TargetSpec {
            url,
            expect_status,
            expect_body_contains: _,
            expect_body_equals: _,
            expect_body_matches: _,
            expect_headers: _,
            expect_tls,
            must_not_answer,
            must_not_answer_at,
            must_not_answer_from,
            max_body_bytes,
            method,
            body: _,
            content_type: _,
            http_version,
            redirects,
            tls_verify,
            extra_roots: _,
            keep_alive,
            proxy_header,
            send: _,
            expect: _,
            record,
            resolver,
            transport,
            search,
            interval_ms,
            timeout_ms,
            pending,
        } = target;
        TargetSpec {
            url: self.url(&url),
            expect_status,
            expect_body_contains: None,
            expect_body_equals: None,
            expect_body_matches: None,
            expect_headers: BTreeMap::new(),
            expect_tls: expect_tls.map(|expected| self.tls_expectation(expected)),
            must_not_answer,
            must_not_answer_at: must_not_answer_at
                .into_iter()
                .map(|address| self.ip(address))
                .collect(),
            must_not_answer_from,
            max_body_bytes,
            method,
            body: None,
            content_type: None,
            http_version,
            redirects: redirects.map(|policy| self.redirects(policy)),
            tls_verify,
            extra_roots: None,
            keep_alive,
            proxy_header,
            send: None,
            expect: None,
            record,
            resolver: resolver.map(|resolver| self.socket(resolver)),
            transport,
            search,
            interval_ms,
            timeout_ms,
            pending,
        }
    }

    fn tls_expectation(&mut self, expected: TlsExpectation) -> TlsExpectation {
        let TlsExpectation {
            min_version,
            name,
            days_left,
            issuer: _,
        } = expected;
        TlsExpectation {
            min_version,
            name: name.map(|name| self.typed_name(name)),
            days_left,
            issuer: None,
        }
    }

    fn redirects(&mut self, policy: RedirectPolicy) -> RedirectPolicy {
        let RedirectPolicy {
            max,
            schemes,
            hosts,
            ports,
        } = policy;
        RedirectPolicy {
            max,
            schemes,
            hosts: hosts.into_iter().map(|host| self.typed_name(host)).collect(),
            ports,
        }
    }
}
