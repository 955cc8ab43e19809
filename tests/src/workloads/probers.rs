//! Probers: in the Pod network, on the host network, and outside the cluster.

use crate::{
    cluster::{Cluster, Node, OutsideClient, addresses},
    command::GuestCommand,
};

use super::{WorkloadProcess, outside_resolv_conf, resolv_conf};

/// Settings of every prober.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProberSettings {
    /// Path of the binary.
    pub parallax: String,
    /// The aggregator's address as seen from inside.
    pub aggregator: String,
    /// The lab's CA, if there are certificates.
    pub ca: Option<String>,
}

/// Builds the prober of a node.
#[must_use]
pub fn prober(settings: &ProberSettings, cluster: &Cluster, node: &Node) -> WorkloadProcess {
    let echo = format!("{}:{}", node.prober.address, addresses::ECHO_PORT);
    let pod = node.prober.name.as_str();
    let conf = format!("/run/resolv-{}.conf", node.name);
    let vantage = format!("{}/pod", node.name);
    WorkloadProcess {
        command: GuestCommand::in_namespace(pod, settings.words(&vantage, pod, &echo, &conf)),
        files: vec![(conf, resolv_conf(cluster.resolver_address(&node.name)))],
    }
}

/// Builds the prober in a node's host network. It sees the node's devices only if `/sys` is the node's own.
#[must_use]
pub fn host_prober(settings: &ProberSettings, cluster: &Cluster, node: &Node) -> WorkloadProcess {
    let echo = format!(
        "{}:{}",
        addresses::underlay_address(node.number),
        addresses::ECHO_PORT
    );
    let conf = format!("/run/resolv-host-{}.conf", node.name);
    let vantage = format!("{}/host", node.name);
    let words = settings.words(&vantage, node.prober.name.as_str(), &echo, &conf);
    let argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        "mount -t sysfs sysfs /sys && exec \"$@\"",
        "sh",
    ];
    let argv = argv.into_iter().map(str::to_owned).chain(words);
    WorkloadProcess {
        command: GuestCommand::in_namespace(node.name.as_str(), argv),
        files: vec![(conf, resolv_conf(cluster.resolver_address(&node.name)))],
    }
}

/// Builds the prober of a client outside.
#[must_use]
pub fn outside_prober(settings: &ProberSettings, outside: &OutsideClient) -> WorkloadProcess {
    let name = outside.name.as_str();
    let echo = format!("127.0.0.1:{}", addresses::ECHO_PORT);
    let conf = format!("/run/resolv-outside-{name}.conf");
    let words = settings.words(&outside.vantage.to_string(), name, &echo, &conf);
    WorkloadProcess {
        command: GuestCommand::in_namespace(name, words),
        files: vec![(conf, outside_resolv_conf())],
    }
}

impl ProberSettings {
    fn words(&self, vantage: &str, pod: &str, echo: &str, resolv_conf: &str) -> Vec<String> {
        let mut words: Vec<String> = [
            &self.parallax,
            "prober",
            "--aggregator",
            &self.aggregator,
            "--vantage",
            vantage,
            "--pod",
            pod,
            "--echo-listen",
            echo,
            "--resolv-conf",
            resolv_conf,
        ]
        .map(str::to_owned)
        .to_vec();
        if let Some(authority) = &self.ca {
            words.extend(["--extra-roots".to_owned(), authority.clone()]);
        }
        words
    }
}
