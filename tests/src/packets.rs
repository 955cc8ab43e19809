//! The lab's ground truth: derives requests from what an incident file expects of an ordinary client, and reports which
//! results differ. Pure.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use parallax_model::NodeName;

use crate::{
    client::{ClientAnswer, ClientRequest},
    cluster::{Cluster, Service, addresses},
    incident::{ClientFamily, ClientSight, PacketLine, ServiceApproach},
};

/// One request with its expected result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketCheck {
    /// Client: the prober Pod of this node.
    pub from: NodeName,
    /// Destination address.
    pub way: ServiceApproach,
    /// Request.
    pub ask: ClientRequest,
    /// Expected result.
    pub expected: ClientSight,
    /// Requests with the same number are repeated connections of one kind.
    pub sort: usize,
}

/// A request and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketResult {
    /// The request.
    pub question: PacketCheck,
    /// The result.
    pub answer: ClientAnswer,
}

impl PacketResult {
    /// Reports whether the result is as the incident file expects.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.answer.is(self.question.expected, self.question.way)
    }
}

/// Describes results that differ from the incident file, each with what was expected.
#[must_use]
pub fn wrong(seen: &[PacketResult]) -> Vec<String> {
    let mut wrong: Vec<String> = seen
        .iter()
        .filter(|seen| !seen.as_expected())
        .map(ToString::to_string)
        .collect();
    let mixed = seen
        .iter()
        .filter(|seen| seen.question.expected == ClientSight::Mixed);
    let mut sorts: BTreeMap<usize, Vec<&PacketResult>> = BTreeMap::new();
    for seen in mixed {
        sorts.entry(seen.question.sort).or_default().push(seen);
    }
    for seen in sorts.values() {
        let answered = |seen: &&&PacketResult| seen.answer.is(ClientSight::Answered, seen.question.way);
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
const SEVERAL: usize = 40;

/// Returns the requests for a list of expectations, for the current cluster.
#[must_use]
pub fn questions(cluster: &Cluster, looks: &[PacketLine]) -> Vec<PacketCheck> {
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
            SEVERAL
        } else {
            1
        };
        for from in &look.from {
            for ask in asks(service, look, &host) {
                sort += 1;
                questions.extend((0..times).map(|_| PacketCheck {
                    from: from.clone(),
                    way: look.to,
                    ask: ask.clone(),
                    expected: look.sees,
                    sort,
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
fn asks(service: &Service, look: &PacketLine, host: &str) -> Vec<ClientRequest> {
    let http = |ip: Ipv4Addr, port| ClientRequest::Http {
        to: match look.family {
            ClientFamily::V4 => SocketAddr::new(IpAddr::V4(ip), port),
            ClientFamily::V6 => SocketAddr::new(IpAddr::V6(addresses::six(ip)), port),
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
                    .usable()
                    .into_iter()
                    .map(|pod| http(pod.address, port.target_port))
            })
            .collect(),
        ServiceApproach::Ping => service
            .load_balancer_ip
            .into_iter()
            .map(|to| ClientRequest::Ping { to })
            .collect(),
    }
}

impl fmt::Display for PacketResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PacketCheck {
            from, ask, expected, ..
        } = &self.question;
        match ask {
            ClientRequest::Http { to, .. } => write!(f, "{from} -> {to}: ")?,
            ClientRequest::Ping { to } => write!(f, "{from} -> ping {to}: ")?,
        }
        match &self.answer {
            ClientAnswer::Http {
                status,
                pod: Some(pod),
            } => write!(f, "{status} from {}", printable(pod))?,
            ClientAnswer::Http { status, pod: None } => write!(f, "{status} from an unknown server")?,
            ClientAnswer::Refused => f.write_str("refused")?,
            ClientAnswer::TimedOut => f.write_str("timed out")?,
            ClientAnswer::Echo { ttl } => write!(f, "echo reply, ttl {ttl}")?,
            ClientAnswer::Other { what } => write!(f, "{}", printable(what))?,
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
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_node_asks_each_port_and_direct_asks_each_endpoint() {
        let text = include_str!("../incidents/i1.yaml");
        let incident = crate::incident::parse(Path::new("i1.yaml"), text).unwrap();
        let cluster = Cluster::derive(&incident).unwrap();
        let questions = questions(&cluster, &incident.expected.packets.healthy);
        let count = |way| questions.iter().filter(|question| question.way == way).count();
        assert_eq!(
            (
                count(ServiceApproach::Vip),
                count(ServiceApproach::ClusterIp),
                count(ServiceApproach::Direct),
                count(ServiceApproach::Ping)
            ),
            (4, 4, 16, 4)
        );
        let ClientRequest::Http { host, .. } = &questions[0].ask else {
            panic!("the first is HTTP")
        };
        assert_eq!(host, "shop.example.test");
    }

    #[test]
    fn a_line_that_is_not_as_expected_says_what_was_expected() {
        let seen = PacketResult {
            question: PacketCheck {
                from: "n3".parse().unwrap(),
                way: ServiceApproach::Vip,
                ask: ClientRequest::Http {
                    to: "203.0.113.10:80".parse().unwrap(),
                    host: "a".into(),
                },
                expected: ClientSight::Answered,
                sort: 1,
            },
            answer: ClientAnswer::Refused,
        };
        assert_eq!(
            seen.to_string(),
            "n3 -> 203.0.113.10:80: refused  (expected a response)"
        );
    }

    #[test]
    fn where_some_must_be_answered_and_some_not_neither_all_nor_none_will_do() {
        let seen = |answer: &ClientAnswer| PacketResult {
            question: PacketCheck {
                from: "n1".parse().unwrap(),
                way: ServiceApproach::ClusterIp,
                ask: ClientRequest::Http {
                    to: "10.96.0.50:80".parse().unwrap(),
                    host: "a".into(),
                },
                expected: ClientSight::Mixed,
                sort: 1,
            },
            answer: answer.clone(),
        };
        let answered = ClientAnswer::Http {
            status: 200,
            pod: Some("a".into()),
        };
        assert!(wrong(&[seen(&answered), seen(&ClientAnswer::TimedOut)]).is_empty());
        for same in [answered, ClientAnswer::TimedOut] {
            assert_eq!(wrong(&[seen(&same), seen(&same)]).len(), 1);
        }
    }
}
