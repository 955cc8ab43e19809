//! An installation that is in order, for tests.

use parallax_api::{
    installation::{
        CaPublication, DeliveredPlan, InstallationFacts, InstalledNode, InstalledProber, MetricsScrape,
        PermissionReview, ReportState, TopologyFreshness, WatchProgress, WatchStatus, ZoneEcho,
    },
    notifications::{ReceiverState, ReceiverStatusList, ReceiverView},
};
use parallax_model::{EventTime, Micros};

use super::{CheckFunction, CheckState, Finding};
use crate::commands::verify_install::{
    facts::{ClusterFacts, Facts},
    workloads::{PodFacts, Workload, WorkloadKind},
};

const NOW: EventTime = EventTime(1_800_000_000_000_000);

pub(super) fn ago(seconds: u64) -> EventTime {
    NOW.minus(Micros::from_secs(seconds))
}

/// Returns the state of a check; missing facts make it unknown.
pub(super) fn state(check: CheckFunction, facts: &Facts) -> CheckState {
    check(facts).unwrap_or_else(Finding::unknown).state
}

pub(super) fn installed(facts: &mut Facts) -> &mut InstallationFacts {
    facts.aggregator.as_mut().unwrap()
}

pub(super) fn workloads(facts: &mut Facts) -> &mut Vec<Workload> {
    facts.cluster.workloads.as_mut().unwrap()
}

pub(super) fn workload<'a>(facts: &'a mut Facts, component: &str) -> &'a mut Workload {
    let all = workloads(facts).iter_mut();
    all.into_iter()
        .find(|workload| workload.component == component)
        .unwrap()
}

pub(super) fn watch(resource: &str, state: WatchProgress) -> WatchStatus {
    WatchStatus {
        resource: resource.to_owned(),
        state,
        reason: matches!(state, WatchProgress::Forbidden | WatchProgress::Failing)
            .then(|| "because the test says so".to_owned()),
    }
}

pub(super) fn node(name: &str, zone: Option<&str>, prober: bool) -> InstalledNode {
    InstalledNode {
        name: name.to_owned(),
        zone: zone.map(ToOwned::to_owned),
        is_ready: Some(true),
        prober_pod: prober.then(|| format!("prober-{name}")),
    }
}

pub(super) fn prober(vantage: &str) -> InstalledProber {
    InstalledProber {
        vantage: vantage.parse().unwrap(),
        state: ReportState::Reporting,
        last_report: Some(ago(1)),
        assignments: Some(7),
        plan: Some(DeliveredPlan {
            is_current: true,
            assignments: 7,
        }),
    }
}

fn echo(from: Option<&str>, to: Option<&str>) -> ZoneEcho {
    ZoneEcho {
        from: from.map(ToOwned::to_owned),
        to: to.map(ToOwned::to_owned),
        last_reached: Some(ago(4)),
        last_failed: None,
    }
}

fn pod(number: u32) -> PodFacts {
    PodFacts {
        namespace: "parallax".to_owned(),
        name: format!("parallax-prober-{number}"),
        component: "prober".to_owned(),
        node: Some(format!("n{number}")),
        problem: None,
    }
}

fn deployed(kind: WorkloadKind, component: &str, pods: i32) -> Workload {
    Workload {
        kind,
        namespace: "parallax".to_owned(),
        name: format!("parallax-{component}"),
        component: component.to_owned(),
        desired: Some(pods),
        ready: pods,
    }
}

/// Three nodes, two of them in a zone, with everything that can be installed.
pub(super) fn facts() -> Facts {
    let zone = Some("a");
    Facts {
        namespace: "parallax".to_owned(),
        aggregator: Ok(InstallationFacts {
            at: NOW,
            version: "1.2.3".to_owned(),
            role: "alone".to_owned(),
            interval: Micros::from_secs(5),
            last_round_end: Some(ago(7)),
            catching_up: false,
            in_cluster: true,
            prober_namespaces: vec!["parallax".to_owned()],
            topology: TopologyFreshness {
                error: None,
                age: Micros(0),
                watches: vec![
                    watch("nodes", WatchProgress::Live),
                    watch("gateways", WatchProgress::Absent),
                    watch("services", WatchProgress::Live),
                ],
            },
            permissions: PermissionReview {
                required: 9,
                ..PermissionReview::default()
            },
            nodes: vec![
                node("n1", zone, true),
                node("n2", zone, true),
                node("n3", None, true),
            ],
            probers: ["n1/pod", "n2/pod", "n3/pod"].map(prober).into(),
            ca_publication: CaPublication::Published {
                config_maps: vec!["parallax/parallax-ca".to_owned()],
            },
            zone_echoes: vec![
                echo(zone, zone),
                echo(zone, None),
                echo(None, zone),
                echo(None, None),
            ],
            notifications: ReceiverStatusList {
                receivers: vec![ReceiverView {
                    name: "oncall".to_owned(),
                    kind: "webhook".to_owned(),
                    state: ReceiverState::Healthy,
                    pending: 0,
                    oldest_pending: None,
                    last_delivered: None,
                    last_rejected: None,
                    rejected_because: None,
                }],
                persisted: true,
                not_persisted_because: None,
            },
            last_scrape: Some(MetricsScrape {
                at: ago(12),
                client: "Prometheus/3.1.0".to_owned(),
            }),
        }),
        cluster: ClusterFacts {
            workloads: Ok(vec![
                deployed(WorkloadKind::Deployment, "aggregator", 1),
                deployed(WorkloadKind::DaemonSet, "prober", 3),
                deployed(WorkloadKind::Deployment, "preflight", 1),
            ]),
            pods: Ok(vec![pod(1), pod(2), pod(3)]),
            monitors: Ok(1),
        },
    }
}
