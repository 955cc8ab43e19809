//! Which fault a verdict names: its region, members and subject compared with what was broken.

use super::{
    fault::BrokenPart,
    layout::{Cluster, ClusterTarget, ServiceFront},
};

/// A region that a verdict names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedRegion {
    /// Its label.
    pub region: String,
    /// Its members.
    pub members: Vec<String>,
}

impl NamedRegion {
    fn is(&self, label: &str, members: &[String]) -> bool {
        self.region == label && self.members == members
    }
}

/// Reports whether one of the regions is the fault. `subject` is the name of the verdict's subject: a front, a Service, a
/// target, or empty.
#[must_use]
pub fn names_fault(part: &BrokenPart, regions: &[NamedRegion], subject: &str, cluster: &Cluster) -> bool {
    regions.iter().any(|region| names(part, region, subject, cluster))
}

fn names(part: &BrokenPart, region: &NamedRegion, subject: &str, cluster: &Cluster) -> bool {
    let node = |node: &usize| vec![cluster.node_name(*node)];
    let both = |a: String, b: String| [vec![a.clone(), b.clone()], vec![b, a]];
    match part {
        BrokenPart::Node(n) => ["bnode", "bnode-remote", "node-link"]
            .iter()
            .any(|label| region.is(label, &node(n))),
        BrokenPart::Client(n) => region.is("client", &node(n)),
        BrokenPart::Pair(a, b) => both(cluster.node_name(*a), cluster.node_name(*b))
            .iter()
            .any(|members| region.is("pair", members) || region.is("link", members)),
        BrokenPart::Zones(a, b) => both(
            Cluster::zone_name(*a).to_owned(),
            Cluster::zone_name(*b).to_owned(),
        )
        .iter()
        .any(|members| region.is("zone", members) || region.is("zone-link", members)),
        BrokenPart::Pod(pod) | BrokenPart::Resolver(pod) => {
            region.is("backend", std::slice::from_ref(&cluster.pods[*pod].name))
        }
        BrokenPart::App(app) => {
            let headless = ClusterTarget::Headless(*app);
            let subjects = [
                ClusterTarget::Host(*app).id(),
                ClusterTarget::AppAddress(*app).id(),
                headless.id(),
                ServiceFront::App(*app).name(),
                headless.service().unwrap_or_default(),
            ];
            region.region == "target" && subjects.iter().any(|name| name == subject)
        }
        BrokenPart::Resolvers => region.region == "dns-all",
        BrokenPart::StaleProxy(n, _) => region.is("client-vip", &node(n)),
        BrokenPart::Front => region.region == "vip" && is_balancer(subject),
        BrokenPart::Cross => region.region == "cross",
        BrokenPart::ZoneBarred(zone) => {
            region.is("zone-vip", &[Cluster::zone_name(*zone).to_owned()]) && is_balancer(subject)
        }
    }
}

/// Reports whether probes of a subject connect to the load balancer.
fn is_balancer(subject: &str) -> bool {
    subject == ServiceFront::Balancer.name() || subject.ends_with(".example.test/")
}

#[cfg(test)]
mod tests {
    use super::{super::super::rng::Rng, *};

    #[test]
    fn a_region_is_the_fault_only_with_the_same_members_and_subject() {
        let cluster = Cluster::draw(12, &mut Rng::from_words(&[5]));
        let named = |region: &str, members: &[&str], subject: &str, part: &BrokenPart| {
            let region = NamedRegion {
                region: region.to_owned(),
                members: members.iter().map(|member| (*member).to_owned()).collect(),
            };
            names_fault(part, &[region], subject, &cluster)
        };
        let pair = BrokenPart::Pair(1, 2);
        assert!(named("pair", &["n02", "n01"], "", &pair));
        assert!(!named("pair", &["n01", "n03"], "", &pair));
        assert!(!named("bnode", &["n01"], "", &pair));
        let app = BrokenPart::App(0);
        assert!(named("target", &[], "http://shop.example.test/", &app));
        assert!(!named("target", &[], "http://api.example.test/", &app));
        assert!(!named("target", &[], "203.0.113.10:80", &app));
        assert!(named("vip", &[], "203.0.113.10:80", &BrokenPart::Front));
        assert!(!named("vip", &[], "10.96.1.5:80", &BrokenPart::Front));
    }
}
