//! Reads the probes that the engine requests.

use super::{
    super::next_probe::NextProbe,
    hops::ScheduledProbe,
    layout::{Cluster, NodeIx},
};

/// A probe that the engine requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedProbe {
    /// The node of the prober that makes it.
    pub client: NodeIx,
    /// The probe.
    pub probe: ScheduledProbe,
    /// The assignment that its result states.
    pub assignment: String,
}

impl RequestedProbe {
    /// Parses a `next_probe` line. Returns `None` for other lines, and for an echo of another size or a name over TCP: their results
    /// are not evidence.
    #[must_use]
    pub fn parse(line: &str, cluster: &Cluster) -> Option<Self> {
        let requested = NextProbe::parse(line).filter(NextProbe::is_evidence)?;
        let node = |name: &str| (0..cluster.nodes()).find(|node| cluster.node_name(*node) == name);
        let target = || {
            let mut targets = cluster.targets().into_iter();
            let id = requested.target()?;
            targets.find(|target| target.id() == id)
        };
        let probe = match requested.channel.as_str() {
            "vip" => ScheduledProbe::Vip(target()?),
            "direct" => {
                let pod = requested.backend.as_ref()?;
                let pod = cluster.pods.iter().position(|placed| placed.name == *pod)?;
                ScheduledProbe::Direct(target()?, pod)
            }
            "mesh" => ScheduledProbe::Mesh(node(requested.dst_node.as_ref()?)?),
            "dns" => ScheduledProbe::Name,
            _ => return None,
        };
        Some(Self {
            client: node(&requested.node)?,
            probe,
            assignment: requested.assignment,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{super::rng::Rng, layout::ClusterTarget},
        *,
    };

    #[test]
    fn requests_become_probes_of_this_cluster() {
        let cluster = Cluster::draw(12, &mut Rng::from_words(&[3]));
        let parse = |line: &serde_json::Value| RequestedProbe::parse(&line.to_string(), &cluster);
        let host = ClusterTarget::Host(0);
        let entry = cluster.entries[0];
        let name = &cluster.pods[entry].name;
        let direct = json!({"type": "next_probe", "channel": "direct", "node": "n03", "backend": name,
            "assignment": format!("ask|direct|{}|{name}", host.id())});
        let expected = ScheduledProbe::Direct(host, entry);
        assert_eq!(
            parse(&direct).map(|request| (request.client, request.probe)),
            Some((3, expected))
        );
        let mut echo = json!({"type": "next_probe", "channel": "mesh", "node": "n01", "dst_node": "n02",
            "assignment": "ask|mesh|echo://n02|n02"});
        assert_eq!(
            parse(&echo).map(|request| request.probe),
            Some(ScheduledProbe::Mesh(2))
        );
        echo["size"] = json!(1400);
        assert_eq!(parse(&echo), None);
    }
}
