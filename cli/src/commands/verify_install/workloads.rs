//! Workloads and Pods, reduced to whether they run.

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ContainerStatus, Pod},
};
use kube::ResourceExt as _;

use crate::commands::server_text::replace_control_characters;

/// Label with the component that an object belongs to.
const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// Maximum length of a message of kubelet or scheduler.
const MAX_MESSAGE_LENGTH: usize = 160;

/// Kind of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkloadKind {
    Deployment,
    DaemonSet,
}

/// A Deployment or DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) kind: WorkloadKind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) component: String,
    /// Number of Pods that there should be; `None` until its controller has observed it.
    pub(super) desired: Option<i32>,
    pub(super) ready: i32,
}

impl Workload {
    /// Names it as `kubectl` does.
    pub(super) fn describe(&self) -> String {
        let kind = match self.kind {
            WorkloadKind::Deployment => "Deployment",
            WorkloadKind::DaemonSet => "DaemonSet",
        };
        format!("{kind} {}/{}", self.namespace, self.name)
    }
}

impl From<&Deployment> for Workload {
    fn from(deployment: &Deployment) -> Self {
        let spec = deployment.spec.as_ref();
        let status = deployment.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        Self {
            kind: WorkloadKind::Deployment,
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            component: component(deployment.labels()),
            desired: (observed >= deployment.metadata.generation)
                .then(|| spec.and_then(|spec| spec.replicas).unwrap_or(1)),
            ready: status.and_then(|status| status.ready_replicas).unwrap_or(0),
        }
    }
}

impl From<&DaemonSet> for Workload {
    fn from(set: &DaemonSet) -> Self {
        let status = set.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        let status = status.filter(|_| observed >= set.metadata.generation);
        Self {
            kind: WorkloadKind::DaemonSet,
            namespace: set.namespace().unwrap_or_default(),
            name: set.name_any(),
            component: component(set.labels()),
            desired: status.map(|status| status.desired_number_scheduled),
            ready: status.map_or(0, |status| status.number_ready),
        }
    }
}

fn component(labels: &std::collections::BTreeMap<String, String>) -> String {
    labels.get(COMPONENT_LABEL).cloned().unwrap_or_default()
}

/// A Pod that is not being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) component: String,
    /// The node that it runs on or is meant for.
    pub(super) node: Option<String>,
    /// Why it is not ready; `None` if it is.
    pub(super) problem: Option<String>,
}

impl PodFacts {
    /// Reads a Pod; `None` if it is being deleted.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        pod.metadata.deletion_timestamp.is_none().then(|| Self {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            component: component(pod.labels()),
            node: pod
                .spec
                .as_ref()
                .and_then(|spec| spec.node_name.clone())
                .or_else(|| wanted_node(pod)),
            problem: problem(pod),
        })
    }
}

/// Returns the node that a Pod of a DaemonSet is meant for, before the scheduler has bound it.
fn wanted_node(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
    let named = fields.iter().find(|field| field.key == "metadata.name")?;
    named.values.as_ref()?.first().cloned()
}

/// Describes why a Pod is not ready.
fn problem(pod: &Pod) -> Option<String> {
    let Some(status) = &pod.status else {
        return Some("Pending".to_owned());
    };
    let condition = |name: &str| {
        let conditions = status.conditions.iter().flatten();
        conditions.into_iter().find(|condition| condition.type_ == name)
    };
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return None;
    }
    let phase = status.phase.as_deref().unwrap_or("Pending");
    let containers = status.container_statuses.iter().flatten();
    if let Some(reason) = containers.into_iter().find_map(container_problem) {
        return Some(format!("{phase}: {reason}"));
    }
    let unscheduled = condition("PodScheduled").filter(|scheduled| scheduled.status == "False");
    Some(match unscheduled {
        Some(scheduled) => format!(
            "{phase}: {}",
            with_message(
                scheduled.reason.as_deref().unwrap_or("Unschedulable"),
                scheduled.message.as_deref()
            )
        ),
        None if phase == "Running" => "not ready".to_owned(),
        None => phase.to_owned(),
    })
}

/// Describes why a container does not run.
fn container_problem(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or("waiting");
        return Some(with_message(reason, waiting.message.as_deref()));
    }
    let terminated = state.terminated.as_ref()?;
    Some(format!("exited with code {}", terminated.exit_code))
}

/// Appends a message, on one line and of bounded length.
fn with_message(reason: &str, message: Option<&str>) -> String {
    let message = replace_control_characters(message.unwrap_or_default());
    let message: String = message.chars().take(MAX_MESSAGE_LENGTH).collect();
    if message.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason} ({message})")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value, status: &Value) -> PodFacts {
        let labels = json!({"app.kubernetes.io/component": "prober"});
        let metadata = json!({"name": "parallax-prober-x", "namespace": "parallax", "labels": labels});
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        PodFacts::of(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn problem_of(status: &Value) -> Option<String> {
        pod(&json!({"containers": []}), status).problem
    }

    #[test]
    fn a_pod_says_why_it_is_not_ready() {
        let waiting = json!({"name": "prober", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off\npulling image"}}});
        let ended = json!({"name": "prober", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 3}}});
        let condition = |name: &str, status: &str| json!({"type": name, "status": status});
        let unschedulable = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available"});
        for (status, expected) in [
            (
                json!({"phase": "Running", "conditions": [condition("Ready", "True")]}),
                None,
            ),
            (
                json!({"phase": "Running", "conditions": [condition("Ready", "False")]}),
                Some("not ready"),
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [waiting]}),
                Some("Pending: ImagePullBackOff (Back-off pulling image)"),
            ),
            (
                json!({"phase": "Running", "containerStatuses": [ended]}),
                Some("Running: exited with code 3"),
            ),
            (
                json!({"phase": "Pending", "conditions": [unschedulable]}),
                Some("Pending: Unschedulable (0/1 nodes are available)"),
            ),
            (json!({}), Some("Pending")),
        ] {
            assert_eq!(problem_of(&status).as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn a_pod_of_a_daemon_set_is_meant_for_a_node_before_it_is_bound_to_it() {
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["n4"]});
        let term = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        let waiting = json!({"containers": [], "affinity": affinity});
        assert_eq!(pod(&waiting, &json!({})).node.as_deref(), Some("n4"));
        let mut bound = waiting;
        bound["nodeName"] = json!("n5");
        assert_eq!(pod(&bound, &json!({})).node.as_deref(), Some("n5"));
        assert_eq!(pod(&json!({"containers": []}), &json!({})).node, None);
    }

    #[test]
    fn a_workload_counts_once_its_controller_has_observed_it() {
        let labels = json!({"app.kubernetes.io/component": "prober"});
        let metadata = json!({"name": "p", "namespace": "parallax", "generation": 2, "labels": labels});
        let status = |generation: i64| {
            json!({"observedGeneration": generation, "desiredNumberScheduled": 3, "numberReady": 2,
                "currentNumberScheduled": 3, "numberMisscheduled": 0})
        };
        let set = |status: Value| {
            let set: DaemonSet =
                serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
            let workload = Workload::from(&set);
            (workload.desired, workload.ready)
        };
        assert_eq!(set(status(2)), (Some(3), 2));
        assert_eq!(set(status(1)), (None, 0));
        assert_eq!(set(Value::Null), (None, 0));
        let template = json!({"metadata": {}, "spec": {"containers": []}});
        let spec = json!({"replicas": 2, "selector": {}, "template": template});
        let deployment = json!({"metadata": metadata, "spec": spec,
            "status": {"observedGeneration": 2, "readyReplicas": 1}});
        let deployment: Deployment = serde_json::from_value(deployment).unwrap();
        let workload = Workload::from(&deployment);
        assert_eq!((workload.desired, workload.ready), (Some(2), 1));
        assert_eq!(workload.describe(), "Deployment parallax/p");
        assert_eq!(workload.component, "prober");
    }
}
