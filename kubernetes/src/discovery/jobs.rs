//! Services whose Pods belong to Jobs: the Pods end, but the Service stays.
//!
//! `EndpointSlices` alone do not show this. A Pod that ends becomes unready and stays in them with
//! `ready: false` and without `terminating`, because the EndpointSlice controller reacts to a change of a
//! Pod's readiness but not of its phase (measured with Kubernetes 1.36). A Pod whose readiness probe fails
//! looks the same.

use std::collections::{BTreeMap, BTreeSet};

use parallax_diagnosis::topology::EndpointSpec;
use parallax_model::ServiceKey;

use super::services::{ConvertedService, ServiceIndex};
use crate::{cluster::ClusterState, objects::Job};

/// Maximum length of a Pod's name without the five random characters (`maxGeneratedNameLength` in the API
/// server's `pkg/storage/names`).
const MAX_BASE_LENGTH: usize = 58;
/// Number of random characters at the end of a Pod's name.
const SUFFIX_LENGTH: usize = 5;

/// Services whose Pods all belonged to Jobs when they last had any.
#[derive(Debug, Default)]
pub struct JobServices(BTreeSet<ServiceKey>);

impl JobServices {
    /// Updates the set from the current Pods of each Service, and marks the Services that are between two
    /// Jobs.
    ///
    /// A Service without Pods keeps its state: a Deployment that is scaled to zero may share its labels with
    /// a Job that ran once, and its outage must be reported. The Pods of a failed Job do not excuse a Service
    /// either.
    pub(super) fn update(&mut self, cluster: &ClusterState, services: &mut ServiceIndex<'_>) {
        let mut jobs: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
        for job in cluster.jobs.values() {
            jobs.entry(job.metadata.namespace.as_str()).or_default().push(job);
        }
        self.0.retain(|key| services.all.contains_key(key));
        for (key, found) in &mut services.all {
            let jobs = jobs.get(key.namespace.as_str()).map_or(&[][..], Vec::as_slice);
            let endpoints = &found.spec.endpoints;
            if !endpoints.is_empty() {
                let of_job = |endpoint| owning_job(endpoint, found, jobs).is_some_and(|job| !has_failed(job));
                if endpoints.iter().all(of_job) {
                    self.0.insert(key.clone());
                } else {
                    self.0.remove(key);
                }
            }
            found.between_jobs = self.0.contains(key) && !found.has_endpoints();
        }
    }
}

/// The Job that an endpoint's Pod belongs to.
fn owning_job<'j>(
    endpoint: &EndpointSpec,
    found: &ConvertedService<'_>,
    jobs: &[&'j Job],
) -> Option<&'j Job> {
    let selector = &found.object.spec.selector;
    jobs.iter().copied().find(|job| {
        let labels = &job.spec.template.metadata.labels;
        let selects = |(name, value)| labels.get(name) == Some(value);
        is_pod_of(endpoint.pod.as_str(), &job.metadata.name) && selector.iter().all(selects)
    })
}

/// Whether a Job creates Pods with this name: `JOB-RANDOM`, or `JOB-INDEX-RANDOM` for an indexed Job.
fn is_pod_of(pod: &str, job: &str) -> bool {
    let Some((base, random)) = pod
        .len()
        .checked_sub(SUFFIX_LENGTH)
        .and_then(|at| pod.split_at_checked(at))
    else {
        return false;
    };
    if !random.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
    if base == truncate(&format!("{job}-"), MAX_BASE_LENGTH) {
        return true;
    }
    let indexed = base.strip_suffix('-').and_then(|base| base.rsplit_once('-'));
    indexed.is_some_and(|(name, index)| {
        index.parse::<u32>().is_ok() && name == truncate(job, MAX_BASE_LENGTH.saturating_sub(index.len() + 2))
    })
}

/// Truncates a name to a number of bytes. Kubernetes names are ASCII.
fn truncate(name: &str, max_len: usize) -> &str {
    name.get(..max_len).unwrap_or(name)
}

fn has_failed(job: &Job) -> bool {
    let mut conditions = job.status.conditions.iter();
    conditions.any(|condition| condition.kind == "Failed" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::cluster, *};
    use crate::{
        discovery::{NoteCollector, discover},
        watch::TargetDefaults,
    };

    const SERVICE: &str = "
- kind: Node
  metadata: {name: n1}
- kind: Service
  metadata: {namespace: night, name: import}
  spec: {clusterIP: 10.96.5.1, selector: {app: import}, ports: [{name: http, port: 80, targetPort: 8080}]}
";

    fn job(name: &str, condition: &str) -> String {
        format!(
            "
- kind: Job
  metadata: {{namespace: night, name: {name}}}
  spec: {{template: {{metadata: {{labels: {{app: import, job-name: {name}}}}}}}}}
  status: {{conditions: [{{type: {condition}, status: \"True\"}}]}}
"
        )
    }

    fn slice(pods: &[(&str, bool)]) -> String {
        let endpoints = pods.iter().enumerate().map(|(n, (pod, ready))| {
            format!(
                "{{addresses: [10.244.1.{n}], nodeName: n1, conditions: {{ready: {ready}, serving: {ready}, terminating: \
                 false}}, targetRef: {{kind: Pod, name: {pod}}}}}"
            )
        });
        format!(
            "
- kind: EndpointSlice
  metadata: {{namespace: night, name: import-1, labels: {{kubernetes.io/service-name: import}}}}
  addressType: IPv4
  ports: [{{name: http, port: 8080, protocol: TCP}}]
  endpoints: [{}]
",
            endpoints.collect::<Vec<_>>().join(", ")
        )
    }

    /// For each state of the cluster, whether the Service is a target.
    fn probed(times: &[String]) -> Vec<bool> {
        let mut job_services = JobServices::default();
        let mut at = |objects: &String| {
            let mut notes = NoteCollector::default();
            let cluster = cluster(&format!("{SERVICE}{objects}"));
            let spec = discover(&cluster, TargetDefaults::Published, &mut job_services, &mut notes);
            let probed = spec.services[0].probe.enabled != Some(false);
            let reported = notes
                .finish()
                .iter()
                .any(|note| note.text.contains("belong to a Job"));
            assert_eq!(reported, !probed);
            probed
        };
        times.iter().map(&mut at).collect()
    }

    #[test]
    fn a_service_is_probed_while_a_job_runs_and_not_between_two_of_them() {
        let (first, second) = ("import-29384", "import-29385");
        let (pod, next) = ("import-29384-x7k2p", "import-29385-0abcd");
        let times = [
            job(first, "") + &slice(&[(pod, true)]),
            job(first, "") + &slice(&[(pod, false)]),
            job(first, "Complete") + &slice(&[(pod, false)]),
            job(first, "Complete") + &slice(&[]),
            // The history limit keeps no Job, or the Job was deleted.
            slice(&[]),
            job(second, "") + &slice(&[(next, false)]),
            job(second, "") + &slice(&[(next, true)]),
        ];
        assert_eq!(probed(&times), [true, false, false, false, false, false, true]);
    }

    #[test]
    fn a_job_that_failed_and_a_job_beside_a_deployment_excuse_nothing() {
        let (migration, web) = ("migrate-1-x7k2p", "web-6c9d7f-p2v4m");
        let failed = [
            job("migrate-1", "") + &slice(&[(migration, true)]),
            job("migrate-1", "Failed") + &slice(&[(migration, false)]),
            job("migrate-1", "Failed") + &slice(&[]),
        ];
        assert_eq!(probed(&failed), [true; 3]);
        let complete = job("migrate-1", "Complete");
        let beside = [
            complete.clone() + &slice(&[(migration, false), (web, true)]),
            complete.clone() + &slice(&[(migration, false), (web, false)]),
            complete.clone() + &slice(&[(web, false)]),
            // The Deployment is scaled to zero.
            complete + &slice(&[]),
        ];
        assert_eq!(probed(&beside), [true; 4]);
    }

    #[test]
    fn pods_have_the_names_that_the_job_controller_gives_them() {
        let long = "a".repeat(60);
        for (pod, job, is) in [
            ("import-x7k2p", "import", true),
            ("import-3-x7k2p", "import", true),
            ("import-x7k2p", "impor", false),
            ("import-web-x7k2p", "import", false),
            ("import-0", "import", false),
            ("import-x7_2p", "import", false),
            ("x7k2p", "", false),
            (&format!("{}x7k2p", &long[..58]), &long, true),
            (&format!("{}-12-x7k2p", &long[..54]), &long, true),
            (&format!("{}-12-x7k2p", &long[..55]), &long, false),
        ] {
            assert_eq!(is_pod_of(pod, job), is, "{pod} of {job}");
        }
    }
}
