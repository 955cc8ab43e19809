//! The lab's ground truth: derives requests from what an incident file expects of an ordinary client, and reports which
//! results differ. Pure.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use parallax_model::NodeName;

use crate::{
    client::{ClientResult, Request},
    cluster::{Cluster, Service, addresses},
    incident::{ClientFamily, ClientSight, PacketLine, ServiceApproach},
};

/// One request with its expected result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketCheck {
    /// Client: the prober Pod of this node.
    pub from: NodeName,
    /// Destination address.
    pub approach: ServiceApproach,
    /// Request.
    pub request: Request,
    /// Expected result.
    pub expected: ClientSight,
    /// Requests with the same number are repeated connections of one kind.
    pub group: usize,
}

/// A request and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketResult {
    /// The request.
    pub check: PacketCheck,
    /// The result.
    pub result: ClientResult,
}

impl PacketResult {
    /// Reports whether the result is as the incident file expects.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.result.matches(self.check.expected, self.check.approach)
    }
}

/// Describes results that differ from the incident file, each with what was expected.
#[must_use]
pub fn describe_failures(seen: &[PacketResult]) -> Vec<String> {
    let mut wrong: Vec<String> = seen
        .iter()
        .filter(|seen| !seen.as_expected())
        .map(ToString::to_string)
        .collect();
    let mixed = seen
        .iter()
        .filter(|seen| seen.check.expected == ClientSight::Mixed);
    let mut sorts: BTreeMap<usize, Vec<&PacketResult>> = BTreeMap::new();
    for seen in mixed {
        sorts.entry(seen.check.group).or_default().push(seen);
    }
    for seen in sorts.values() {
        let answered =
            |seen: &&&PacketResult| seen.result.matches(ClientSight::Answered, seen.check.approach);
        let answered = seen.iter().filter(answered).count();
        if let Some(first) = seen.first().filter(|_| answered == 0 || answered == seen.len()) {
            wrong.push(format!(
                "{first}: {answered} of {} connections succeeded  (expected some, not all)",
                seen.len()
            ));
        }
    }
    wrong
}

/// Number of connections if some must succeed and some fail: with a quarter failing, all forty pass once in a hundred
/// thousand runs.
const MIXED_CONNECTIONS: usize = 40;

/// Returns the requests for a list of expectations, for the current cluster.
#[must_use]
pub fn packet_checks(cluster: &Cluster, looks: &[PacketLine]) -> Vec<PacketCheck> {
    let mut questions = Vec::new();
    let mut sort = 0;
    for look in looks {
        let Some(service) = cluster.service(&look.service) else {
            continue;
        };
        let host = look
            .host
            .as_ref()
            .map_or_else(|| host_of(cluster, service), ToString::to_string);
        let times = if look.sees == ClientSight::Mixed {
            MIXED_CONNECTIONS
        } else {
            1
        };
        for from in &look.from {
            for ask in asks(service, look, &host) {
                sort += 1;
                questions.extend((0..times).map(|_| PacketCheck {
                    from: from.clone(),
                    approach: look.to,
                    request: ask.clone(),
                    expected: look.sees,
                    group: sort,
                }));
            }
        }
    }
    questions
}

/// Returns a host whose entry is the Service, or the Service's own name.
fn host_of(cluster: &Cluster, service: &Service) -> String {
    cluster
        .ingresses
        .iter()
        .find(|ingress| ingress.service == service.key)
        .and_then(|ingress| ingress.hosts.names().first())
        .map_or_else(|| service.key.name.to_string(), ToString::to_string)
}

/// Returns the requests of an expectation. The client does not speak TLS; TLS servers are left to the prober.
fn asks(service: &Service, look: &PacketLine, host: &str) -> Vec<Request> {
    let http = |ip: Ipv4Addr, port| Request::Http {
        to: match look.family {
            ClientFamily::V4 => SocketAddr::new(IpAddr::V4(ip), port),
            ClientFamily::V6 => SocketAddr::new(IpAddr::V6(addresses::ipv6_counterpart(ip)), port),
        },
        host: host.to_owned(),
    };
    let ports = service.ports.iter().filter(|port| {
        let wanted = look.port.is_none_or(|wanted| wanted == port.port);
        wanted && !port.is_tls()
    });
    match look.to {
        ServiceApproach::Vip => ports
            .filter_map(|port| Some(http(service.load_balancer_ip?, port.port)))
            .collect(),
        ServiceApproach::ClusterIp => ports
            .filter_map(|port| Some(http(service.cluster_ip?, port.port)))
            .collect(),
        ServiceApproach::Direct => ports
            .flat_map(|port| {
                service
                    .usable_pods()
                    .into_iter()
                    .map(|pod| http(pod.address, port.target_port))
            })
            .collect(),
        ServiceApproach::Ping => service
            .load_balancer_ip
            .into_iter()
            .map(|to| Request::Ping { to })
            .collect(),
    }
}

impl fmt::Display for PacketResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PacketCheck {
            from,
            request: ask,
            expected,
            ..
        } = &self.check;
        match ask {
            Request::Http { to, .. } => write!(f, "{from} -> {to}: ")?,
            Request::Ping { to } => write!(f, "{from} -> ping {to}: ")?,
        }
        match &self.result {
            ClientResult::Http {
                status,
                pod: Some(pod),
            } => write!(f, "{status} from {}", sanitize(pod))?,
            ClientResult::Http { status, pod: None } => write!(f, "{status} from an unknown server")?,
            ClientResult::Refused => f.write_str("refused")?,
            ClientResult::TimedOut => f.write_str("timed out")?,
            ClientResult::Echo { ttl } => write!(f, "echo reply, ttl {ttl}")?,
            ClientResult::Other { what } => write!(f, "{}", sanitize(what))?,
        }
        if !self.as_expected() {
            let expected = match expected {
                ClientSight::Answered => "a response",
                ClientSight::Refused => "a refusal",
                ClientSight::TimedOut => "silence",
                ClientSight::NotConnected => "a refusal or a timeout",
                ClientSight::OwnNode => "an echo reply of its own node (ttl 64)",
                ClientSight::Mixed => "some successes and some failures",
                ClientSight::CutOff => "a connection without a response",
                ClientSight::NotFound => "a 404",
                ClientSight::Unavailable => "a 503",
                ClientSight::GatewayTimeout => "a 504",
            };
            write!(f, "  (expected {expected})")?;
        }
        Ok(())
    }
}

/// Returns text from inside, limited in length and without control characters.
#[must_use]
pub fn sanitize(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_node_asks_each_port_and_direct_asks_each_endpoint() {
        let text = include_str!("../incidents/i1.yaml");
        let incident = crate::incident_file::parse(Path::new("i1.yaml"), text).unwrap();
        let cluster = Cluster::derive(&incident).unwrap();
        let questions = packet_checks(&cluster, &incident.expected.packets.healthy);
        let count = |way| {
            questions
                .iter()
                .filter(|question| question.approach == way)
                .count()
        };
        assert_eq!(
            (
                count(ServiceApproach::Vip),
                count(ServiceApproach::ClusterIp),
                count(ServiceApproach::Direct),
                count(ServiceApproach::Ping)
            ),
            (4, 4, 16, 4)
        );
        let Request::Http { host, .. } = &questions[0].request else {
            panic!("the first is HTTP")
        };
        assert_eq!(host, "shop.example.test");
    }

    #[test]
    fn a_line_that_is_not_as_expected_says_what_was_expected() {
        let seen = PacketResult {
            check: PacketCheck {
                from: "n3".parse().unwrap(),
                approach: ServiceApproach::Vip,
                request: Request::Http {
                    to: "203.0.113.10:80".parse().unwrap(),
                    host: "a".into(),
                },
                expected: ClientSight::Answered,
                group: 1,
            },
            result: ClientResult::Refused,
        };
        assert_eq!(
            seen.to_string(),
            "n3 -> 203.0.113.10:80: refused  (expected a response)"
        );
    }

    #[test]
    fn where_some_must_be_answered_and_some_not_neither_all_nor_none_will_do() {
        let seen = |answer: &ClientResult| PacketResult {
            check: PacketCheck {
                from: "n1".parse().unwrap(),
                approach: ServiceApproach::ClusterIp,
                request: Request::Http {
                    to: "10.96.0.50:80".parse().unwrap(),
                    host: "a".into(),
                },
                expected: ClientSight::Mixed,
                group: 1,
            },
            result: answer.clone(),
        };
        let answered = ClientResult::Http {
            status: 200,
            pod: Some("a".into()),
        };
        assert!(describe_failures(&[seen(&answered), seen(&ClientResult::TimedOut)]).is_empty());
        for same in [answered, ClientResult::TimedOut] {
            assert_eq!(describe_failures(&[seen(&same), seen(&same)]).len(), 1);
        }
    }
}
