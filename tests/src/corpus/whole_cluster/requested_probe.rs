//! Reads the probes that the engine requests.

use serde::Deserialize;

use super::{
    hops::ScheduledProbe,
    layout::{Cluster, ClusterTarget, NodeIx},
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

#[derive(Debug, Deserialize)]
struct NextProbeLine {
    r#type: String,
    channel: String,
    node: String,
    backend: Option<String>,
    dst_node: Option<String>,
    size: Option<u32>,
    #[serde(default)]
    tcp: bool,
    assignment: String,
}

impl RequestedProbe {
    /// Parses a `next_probe` line. Returns `None` for other lines, and for an echo of another size or a name over TCP: their results
    /// are not evidence.
    #[must_use]
    pub fn parse(line: &str, cluster: &Cluster) -> Option<Self> {
        let line: NextProbeLine = serde_json::from_str(line).ok()?;
        if line.r#type != "next_probe" || line.size.is_some() || line.tcp {
            return None;
        }
        let node = |name: &str| (0..cluster.nodes()).find(|node| cluster.node_name(*node) == name);
        // An assignment is "ask", the channel, the target and the destination.
        let id = line.assignment.split('|').nth(2)?;
        let target = || target_with_id(cluster, id);
        let probe = match line.channel.as_str() {
            "vip" => ScheduledProbe::Vip(target()?),
            "direct" => {
                let pod = line.backend?;
                let pod = cluster.pods.iter().position(|placed| placed.name == pod)?;
                ScheduledProbe::Direct(target()?, pod)
            }
            "mesh" => ScheduledProbe::Mesh(node(&line.dst_node?)?),
            "dns" => ScheduledProbe::Name,
            _ => return None,
        };
        Some(Self {
            client: node(&line.node)?,
            probe,
            assignment: line.assignment,
        })
    }
}

fn target_with_id(cluster: &Cluster, id: &str) -> Option<ClusterTarget> {
    cluster.targets().into_iter().find(|target| target.id() == id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::rng::Rng, *};

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
