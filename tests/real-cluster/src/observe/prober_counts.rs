//! What each vantage has probed, according to the metrics of its prober Pods. A report that the aggregator does not get is no
//! missed round, so the prober is asked itself.

use std::cell::RefCell;

use super::{Clock, PROBERS, Timeline};
use crate::{
    cluster::{Cluster, PodView},
    install::NAMESPACE,
};

/// Name of the port that serves the metrics of a prober.
const PORT: &str = "echo";

/// The probers of one vantage at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProberCounts {
    /// The Pod.
    pub pod: String,
    /// Probes made.
    pub made: u64,
    /// Probes that the prober could not make, because of a fault of its own.
    pub not_made: u64,
    /// Observations that it dropped.
    pub dropped: u64,
    /// Observations that no aggregator has acknowledged.
    pub unacknowledged: u64,
}

/// One vantage at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct VantageSample {
    /// The time.
    pub at: f64,
    /// The vantage.
    pub vantage: String,
    /// The Pods that answered: two while one replaces the other. Absent if there are Pods, and none answered.
    pub pods: Option<Vec<ProberCounts>>,
}

/// Asks every prober in the Pod network once.
pub(super) async fn sample_all(cluster: &Cluster, clock: Clock, timeline: &RefCell<Timeline>) {
    let probers = cluster.pods.in_namespace(NAMESPACE, PROBERS);
    for node in &cluster.nodes {
        let running = probers
            .iter()
            .filter(|pod| &pod.node == node && pod.address.is_some());
        let running: Vec<&PodView> = running.collect();
        let mut answered = Vec::new();
        for pod in &running {
            answered.extend(ask(cluster, pod).await);
        }
        let sample = VantageSample {
            at: clock.now(),
            vantage: format!("{node}/pod"),
            pods: (running.is_empty() || !answered.is_empty()).then_some(answered),
        };
        timeline.borrow_mut().vantages.push(sample);
    }
}

async fn ask(cluster: &Cluster, pod: &PodView) -> Option<ProberCounts> {
    let port = pod.ports.iter().find(|port| port.name == PORT)?;
    let port = u16::try_from(port.number).ok()?;
    let answer = cluster.pod_access.get(pod, port, "/metrics", &[]).await.ok()?;
    if !answer.status.is_success() {
        return None;
    }
    read(&pod.name, &String::from_utf8_lossy(&answer.body))
}

/// Reads the counters from text of `OpenMetrics`; `None` if they are not all there.
fn read(pod: &str, text: &str) -> Option<ProberCounts> {
    let samples = |metric: &str, part: &str| {
        let lines = text.lines().filter(|line| {
            let name = line.split(['{', ' ']).next();
            name == Some(metric) && line.contains(part)
        });
        let values: Vec<u64> = lines
            .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<u64>())
    };
    let probes = "parallax_prober_probes_total";
    Some(ProberCounts {
        pod: pod.to_owned(),
        made: samples(probes, "result=\"ok\"")? + samples(probes, "result=\"failed\"")?,
        not_made: samples(probes, "result=\"not_asked\"")?,
        dropped: samples("parallax_prober_spool_dropped_total", "")?,
        unacknowledged: samples("parallax_prober_spool_reports", "")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
# TYPE parallax_prober_probes counter
parallax_prober_probes_total{kind=\"http\",result=\"ok\"} 40
parallax_prober_probes_total{kind=\"http\",result=\"failed\"} 2
parallax_prober_probes_total{kind=\"dns\",result=\"ok\"} 5
parallax_prober_probes_total{kind=\"dns\",result=\"not_asked\"} 3
parallax_prober_spool_reports 6
parallax_prober_spool_dropped_total 1
# EOF
";

    #[test]
    fn the_counters_of_a_prober_are_summed_over_its_kinds_of_probes() {
        let expected = ProberCounts {
            pod: "p".to_owned(),
            made: 47,
            not_made: 3,
            dropped: 1,
            unacknowledged: 6,
        };
        assert_eq!(read("p", METRICS), Some(expected));
    }

    #[test]
    fn a_page_without_a_counter_is_no_answer() {
        assert_eq!(read("p", "not found"), None);
        let renamed = METRICS.replace("parallax_prober_probes_total", "prober_probes_total");
        assert_eq!(read("p", &renamed), None);
    }

    #[test]
    fn the_metrics_are_those_of_the_reference() {
        let page = include_str!("../../../../docs/reference/prober-metrics.md");
        for metric in [
            "parallax_prober_probes_total",
            "parallax_prober_spool_dropped_total",
            "parallax_prober_spool_reports",
        ] {
            assert!(page.contains(&format!("| `{metric}` |")), "{metric}");
        }
    }
}
