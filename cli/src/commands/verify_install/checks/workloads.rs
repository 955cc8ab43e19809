//! Whether the Pods of Deployments and DaemonSets run, with an image that could be pulled.

use super::{Answer, Finding, count};
use crate::commands::verify_install::{
    facts::Facts,
    workloads::{PodFacts, Workload, WorkloadKind},
};

/// The Deployment of the aggregator and the DaemonSet of the probers: every installation has both.
const REQUIRED: [&str; 2] = ["aggregator", "prober"];
/// The controller of Preflight objects, with a check of its own.
const PREFLIGHT: &str = "preflight";

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    if facts.is_standalone() {
        return Ok(Finding::not_installed("the aggregator watches no cluster"));
    }
    let workloads = facts.cluster.workloads.as_ref().map_err(Clone::clone)?;
    let workloads: Vec<&Workload> = workloads
        .iter()
        .filter(|workload| workload.component != PREFLIGHT)
        .collect();
    let mut problems: Vec<String> = REQUIRED
        .iter()
        .filter(|component| !workloads.iter().any(|workload| workload.component == **component))
        .map(|component| {
            format!(
                "no workload of the component {component} in the namespace {}",
                facts.namespace
            )
        })
        .collect();
    let missing = problems.len();
    problems.extend(workloads.iter().filter_map(|workload| workload_problem(workload)));
    let desired: i32 = workloads.iter().filter_map(|workload| workload.desired).sum();
    let ready: i32 = workloads.iter().map(|workload| workload.ready).sum();
    let text = format!(
        "{ready} of {desired} Pods of {} are ready",
        count(workloads.len(), "workload")
    );
    if problems.is_empty() {
        return Ok(Finding::ok(text));
    }
    let unready: Vec<_> = facts
        .cluster
        .unready_pods()
        .filter(|(pod, _)| pod.component != PREFLIGHT)
        .collect();
    problems.extend(unready.iter().map(|(pod, problem)| describe_pod(pod, problem)));
    let action = match unready.first() {
        Some((pod, problem)) => pod_action(pod, problem),
        None if missing > 0 => format!(
            "give the namespace of Parallax with -n, or install it: helm install parallax deploy/chart -n {}",
            facts.namespace
        ),
        None => format!(
            "see: kubectl -n {} describe deployments,daemonsets",
            facts.namespace
        ),
    };
    Ok(Finding::not_ok(text).with_details(problems).with_action(action))
}

/// Checks the controller of Preflight objects.
pub(super) fn check_preflight(facts: &Facts) -> Answer<Finding> {
    if facts.is_standalone() {
        return Ok(Finding::not_installed("the aggregator watches no cluster"));
    }
    let Some(controller) = facts.cluster.workload(PREFLIGHT)? else {
        return Ok(Finding::not_installed(
            "no controller of Preflight objects; the value preflight installs it",
        ));
    };
    let Some(problem) = workload_problem(controller) else {
        return Ok(Finding::ok(format!(
            "{} of 1 Pod of the {} is ready",
            controller.ready,
            controller.describe()
        )));
    };
    let unready = facts
        .cluster
        .unready_pods()
        .find(|(pod, _)| pod.component == PREFLIGHT);
    let details = unready.map(|(pod, problem)| describe_pod(pod, problem));
    let action = unready.map_or_else(
        || {
            format!(
                "see: kubectl -n {} describe deployment {}",
                controller.namespace, controller.name
            )
        },
        |(pod, problem)| pod_action(pod, problem),
    );
    Ok(Finding::not_ok(problem)
        .with_details(details.into_iter().collect())
        .with_action(action))
}

fn workload_problem(workload: &Workload) -> Option<String> {
    let name = workload.describe();
    match workload.desired {
        None => Some(format!("{name}: its controller has not observed it yet")),
        Some(0) if workload.kind == WorkloadKind::DaemonSet => Some(format!("{name}: selects no node")),
        Some(desired) if workload.ready < desired => {
            Some(format!("{name}: {} of {desired} Pods are ready", workload.ready))
        }
        Some(_) => None,
    }
}

/// Describes a Pod that is not ready, with its node.
fn describe_pod(pod: &PodFacts, problem: &str) -> String {
    let node = pod
        .node
        .as_ref()
        .map_or_else(String::new, |node| format!(" on {node}"));
    format!("Pod {}{node} is {problem}", pod.name)
}

/// Says what to do about a Pod that is not ready.
pub(super) fn pod_action(pod: &PodFacts, problem: &str) -> String {
    let describe = format!("kubectl -n {} describe pod {}", pod.namespace, pod.name);
    if problem.contains("ImagePull") || problem.contains("ErrImage") || problem.contains("InvalidImageName") {
        format!(
            "set image.registry, image.repository and image.tag to an image that the nodes can pull, and imagePullSecrets if the registry requires them; see: {describe}"
        )
    } else {
        format!("see: {describe}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{facts, installed, state, workload, workloads},
    };

    #[test]
    fn workloads_whose_pods_are_ready_are_ok() {
        let facts = facts();
        assert_eq!(
            check(&facts).unwrap(),
            Finding::ok("4 of 4 Pods of 2 workloads are ready")
        );
        assert_eq!(
            check_preflight(&facts).unwrap(),
            Finding::ok("1 of 1 Pod of the Deployment parallax/parallax-preflight is ready")
        );
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_named_with_its_pod_and_remedy() {
        let mut facts = facts();
        workload(&mut facts, "prober").ready = 2;
        let pod = &mut facts.cluster.pods.as_mut().unwrap()[2];
        pod.problem = Some("Pending: ImagePullBackOff".to_owned());
        let finding = check(&facts).unwrap();
        assert_eq!(finding.state, CheckState::NotOk);
        assert_eq!(
            finding.details,
            [
                "DaemonSet parallax/parallax-prober: 2 of 3 Pods are ready",
                "Pod parallax-prober-3 on n3 is Pending: ImagePullBackOff"
            ]
        );
        assert!(finding.action.unwrap().contains("image.registry"));
        facts.cluster.pods = Err("forbidden".to_owned());
        let finding = check(&facts).unwrap();
        assert_eq!((finding.state, finding.details.len()), (CheckState::NotOk, 1));
    }

    #[test]
    fn a_workload_that_is_missing_idle_or_not_observed_is_not_ok() {
        let mut facts = facts();
        workload(&mut facts, "prober").desired = None;
        assert_eq!(state(check, &facts), CheckState::NotOk);
        workload(&mut facts, "prober").desired = Some(0);
        let finding = check(&facts).unwrap();
        assert_eq!(
            finding.details,
            ["DaemonSet parallax/parallax-prober: selects no node"]
        );
        workloads(&mut facts).retain(|workload| workload.component == "aggregator");
        let finding = check(&facts).unwrap();
        assert_eq!(
            finding.details,
            ["no workload of the component prober in the namespace parallax"]
        );
        assert_eq!(state(check_preflight, &facts), CheckState::NotInstalled);
    }

    #[test]
    fn the_controller_of_preflights_has_its_own_check() {
        let mut facts = facts();
        workload(&mut facts, "preflight").ready = 0;
        assert_eq!(state(check, &facts), CheckState::Ok);
        let finding = check_preflight(&facts).unwrap();
        assert_eq!(finding.state, CheckState::NotOk);
        assert_eq!(
            finding.evidence,
            "Deployment parallax/parallax-preflight: 0 of 1 Pods are ready"
        );
    }

    #[test]
    fn what_cannot_be_listed_is_unknown_and_without_a_cluster_there_is_nothing() {
        let mut facts = facts();
        facts.cluster.workloads = Err("forbidden".to_owned());
        for check in [check, check_preflight] {
            assert_eq!(check(&facts), Err("forbidden".to_owned()));
        }
        installed(&mut facts).in_cluster = false;
        for check in [check, check_preflight] {
            assert_eq!(state(check, &facts), CheckState::NotInstalled);
        }
    }
}
