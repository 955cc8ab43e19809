//! The lab's own ground truth: from what an incident file expects of an ordinary client to questions, and back from
//! the answers to what is not as expected. Pure.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use parallax_model::NodeName;

use crate::{
    client::{Answer, Ask},
    cluster::{Cluster, Service, addresses},
    incident::{Family, Look, Sight, Way},
};

/// One question with what it must bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// From the prober pod of this node.
    pub from: NodeName,
    /// How.
    pub way: Way,
    /// What.
    pub ask: Ask,
    /// What must be seen.
    pub expected: Sight,
    /// Questions of one number are one connection after the other of the same sort.
    pub sort: usize,
}

/// A question and what it brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The question.
    pub question: Question,
    /// The answer.
    pub answer: Answer,
}

impl Seen {
    /// Whether it is as the incident file says.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.answer.is(self.question.expected, self.question.way)
    }
}

/// What is not as the incident file says, each with what was expected.
#[must_use]
pub fn wrong(seen: &[Seen]) -> Vec<String> {
    let mut wrong: Vec<String> = seen
        .iter()
        .filter(|seen| !seen.as_expected())
        .map(ToString::to_string)
        .collect();
    let mixed = seen.iter().filter(|seen| seen.question.expected == Sight::Mixed);
    let mut sorts: BTreeMap<usize, Vec<&Seen>> = BTreeMap::new();
    for seen in mixed {
        sorts.entry(seen.question.sort).or_default().push(seen);
    }
    for seen in sorts.values() {
        let answered = |seen: &&&Seen| seen.answer.is(Sight::Answered, seen.question.way);
        let answered = seen.iter().filter(answered).count();
        if let Some(first) = seen.first().filter(|_| answered == 0 || answered == seen.len()) {
            wrong.push(format!(
                "{first}: {answered} of {} connections were answered  (expected some, not all)",
                seen.len()
            ));
        }
    }
    wrong
}

/// Connections that are made where some must be answered and some not: of forty at a quarter of failures all pass once in
/// a hundred thousand times.
const SEVERAL: usize = 40;

/// The questions of a list of expectations, for the cluster as it is now.
#[must_use]
pub fn questions(cluster: &Cluster, looks: &[Look]) -> Vec<Question> {
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
        let times = if look.sees == Sight::Mixed { SEVERAL } else { 1 };
        for from in &look.from {
            for ask in asks(service, look, &host) {
                sort += 1;
                questions.extend((0..times).map(|_| Question {
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

/// A host the Service is the entry of; its own name where there is none.
fn host_of(cluster: &Cluster, service: &Service) -> String {
    cluster
        .ingresses
        .iter()
        .find(|ingress| ingress.service == service.key)
        .and_then(|ingress| ingress.hosts.names().first())
        .map_or_else(|| service.key.name.to_string(), ToString::to_string)
}

/// The client speaks in the clear only; what is served with a certificate is left to the prober.
fn asks(service: &Service, look: &Look, host: &str) -> Vec<Ask> {
    let http = |ip: Ipv4Addr, port| Ask::Http {
        to: match look.family {
            Family::V4 => SocketAddr::new(IpAddr::V4(ip), port),
            Family::V6 => SocketAddr::new(IpAddr::V6(addresses::six(ip)), port),
        },
        host: host.to_owned(),
    };
    let ports = service.ports.iter().filter(|port| {
        let wanted = look.port.is_none_or(|wanted| wanted == port.port);
        wanted && !port.is_tls()
    });
    match look.to {
        Way::Vip => ports
            .filter_map(|port| Some(http(service.load_balancer_ip?, port.port)))
            .collect(),
        Way::ClusterIp => ports
            .filter_map(|port| Some(http(service.cluster_ip?, port.port)))
            .collect(),
        Way::Direct => ports
            .flat_map(|port| {
                service
                    .usable()
                    .into_iter()
                    .map(|pod| http(pod.address, port.target_port))
            })
            .collect(),
        Way::Ping => service
            .load_balancer_ip
            .into_iter()
            .map(|to| Ask::Ping { to })
            .collect(),
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question {
            from, ask, expected, ..
        } = &self.question;
        match ask {
            Ask::Http { to, .. } => write!(f, "{from} -> {to}: ")?,
            Ask::Ping { to } => write!(f, "{from} -> ping {to}: ")?,
        }
        match &self.answer {
            Answer::Http {
                status,
                pod: Some(pod),
            } => write!(f, "{status} from {}", printable(pod))?,
            Answer::Http { status, pod: None } => write!(f, "{status} from nobody known")?,
            Answer::Refused => f.write_str("refused")?,
            Answer::TimedOut => f.write_str("timed out")?,
            Answer::Echo { ttl } => write!(f, "echo reply, ttl {ttl}")?,
            Answer::Other { what } => write!(f, "{}", printable(what))?,
        }
        if !self.as_expected() {
            let expected = match expected {
                Sight::Answered => "an answer",
                Sight::Refused => "a refusal",
                Sight::TimedOut => "silence",
                Sight::NotConnected => "a refusal or silence",
                Sight::OwnNode => "an echo reply of the own node (ttl 64)",
                Sight::Mixed => "some answers and some failures",
                Sight::CutOff => "a connection without an answer",
                Sight::NotFound => "a 404",
                Sight::Unavailable => "a 503",
                Sight::GatewayTimeout => "a 504",
            };
            write!(f, "  (expected {expected})")?;
        }
        Ok(())
    }
}

/// Text from inside, bounded and without control characters.
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
                count(Way::Vip),
                count(Way::ClusterIp),
                count(Way::Direct),
                count(Way::Ping)
            ),
            (4, 4, 16, 4)
        );
        let Ask::Http { host, .. } = &questions[0].ask else {
            panic!("the first is HTTP")
        };
        assert_eq!(host, "shop.example.test");
    }

    #[test]
    fn a_line_that_is_not_as_expected_says_what_was_expected() {
        let seen = Seen {
            question: Question {
                from: "n3".parse().unwrap(),
                way: Way::Vip,
                ask: Ask::Http {
                    to: "203.0.113.10:80".parse().unwrap(),
                    host: "a".into(),
                },
                expected: Sight::Answered,
                sort: 1,
            },
            answer: Answer::Refused,
        };
        assert_eq!(
            seen.to_string(),
            "n3 -> 203.0.113.10:80: refused  (expected an answer)"
        );
    }

    #[test]
    fn where_some_must_be_answered_and_some_not_neither_all_nor_none_will_do() {
        let seen = |answer: &Answer| Seen {
            question: Question {
                from: "n1".parse().unwrap(),
                way: Way::ClusterIp,
                ask: Ask::Http {
                    to: "10.96.0.50:80".parse().unwrap(),
                    host: "a".into(),
                },
                expected: Sight::Mixed,
                sort: 1,
            },
            answer: answer.clone(),
        };
        let answered = Answer::Http {
            status: 200,
            pod: Some("a".into()),
        };
        assert!(wrong(&[seen(&answered), seen(&Answer::TimedOut)]).is_empty());
        for same in [answered, Answer::TimedOut] {
            assert_eq!(wrong(&[seen(&same), seen(&same)]).len(), 1);
        }
    }
}
