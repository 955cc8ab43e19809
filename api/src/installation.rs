//! The installation as its aggregator knows it, in the API.

use parallax_model::{EventTime, Micros, Vantage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::notifications::ReceiverStatusList;

/// Response to `GET /v1/installation`: the facts from which `parallax verify-install` derives its checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallationFacts {
    /// Time of the response.
    #[schemars(with = "i64")]
    pub at: EventTime,
    /// Version of the aggregator.
    pub version: String,
    /// Part of the replica that responds: `starting`, `alone`, `leads` or `stands_by`. A replica on standby responds only if
    /// it cannot reach the leader.
    pub role: String,
    /// Length of a round.
    #[serde(rename = "interval_us")]
    #[schemars(with = "u64")]
    pub interval: Micros,
    /// End of the last judged round; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub last_round_end: Option<EventTime>,
    /// Whether the aggregator has just started and does not have the evidence of all probers yet.
    pub catching_up: bool,
    /// Whether the topology comes from an API server.
    pub in_cluster: bool,
    /// Namespaces of the prober Pods.
    pub prober_namespaces: Vec<String>,
    /// Whether the topology is up to date.
    pub topology: TopologyFreshness,
    /// The aggregator's permissions at the API server.
    pub permissions: PermissionReview,
    /// All nodes of the topology.
    pub nodes: Vec<InstalledNode>,
    /// All vantages that are expected to report.
    pub probers: Vec<InstalledProber>,
    /// Whether the CA of the aggregator is published for the probers.
    pub ca_publication: CaPublication,
    /// Echo probes between zones, one entry for each planned pair.
    pub zone_echoes: Vec<ZoneEcho>,
    /// Receivers of notifications.
    pub notifications: ReceiverStatusList,
    /// The last request for the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scrape: Option<MetricsScrape>,
}

/// Whether the topology is up to date.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyFreshness {
    /// Why the source cannot be read; absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time since the topology was last known to be current.
    #[serde(rename = "age_us")]
    #[schemars(with = "u64")]
    pub age: Micros,
    /// The watches, by resource.
    pub watches: Vec<WatchStatus>,
}

/// State of the watches of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchStatus {
    /// The plural of the resource.
    pub resource: String,
    /// Its state.
    pub state: WatchProgress,
    /// Why the last list or watch failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Progress of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WatchProgress {
    /// Not listed yet.
    Starting,
    /// Listed and watching.
    Live,
    /// The API server does not know the resource.
    Absent,
    /// The API server denies access.
    Forbidden,
    /// The last list or watch failed for another reason.
    Failing,
}

/// The aggregator's permissions, as reviewed by the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionReview {
    /// Number of permissions that the configuration requires besides those of the watches.
    pub required: usize,
    /// Those that are not granted, such as `create tokenreviews.authentication.k8s.io`.
    pub missing: Vec<String>,
    /// Why the review failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_because: Option<String>,
}

/// A node of the topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstalledNode {
    /// Its name.
    pub name: String,
    /// Its zone, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether its condition `Ready` is true; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_ready: Option<bool>,
    /// The prober Pod in the Pod network that runs on it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prober_pod: Option<String>,
}

/// A vantage that is expected to report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstalledProber {
    /// The vantage.
    #[schemars(with = "String")]
    pub vantage: Vantage,
    /// Whether it reports.
    pub state: ReportState,
    /// When its latest report arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub last_report: Option<EventTime>,
    /// Number of assignments that it reports to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignments: Option<u64>,
    /// The plan that it was sent; absent without a plan stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<DeliveredPlan>,
}

/// Whether a vantage reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportState {
    /// No report yet.
    Waiting,
    /// Reports arrive.
    Reporting,
    /// The last report is too old to be evidence.
    Silent,
}

/// The plan that a prober was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveredPlan {
    /// Whether it is the current one.
    pub is_current: bool,
    /// Number of its assignments.
    pub assignments: u64,
}

/// Whether the CA of the aggregator is published for the probers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CaPublication {
    /// The configuration names no ConfigMap for the CA.
    #[default]
    Disabled,
    /// Not published yet.
    Pending,
    /// Published in all ConfigMaps.
    Published {
        /// The ConfigMaps, as `NAMESPACE/NAME`.
        config_maps: Vec<String>,
    },
    /// Publishing fails.
    Failing {
        /// The ConfigMap, as `NAMESPACE/NAME`.
        config_map: String,
        /// The error.
        reason: String,
    },
}

/// Echo probes from one zone to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneEcho {
    /// Zone of the probers; absent for nodes without a zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Zone of the echoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Start of the last probe that reached an echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub last_reached: Option<EventTime>,
    /// Start of the last probe that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub last_failed: Option<EventTime>,
}

/// A request for the metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricsScrape {
    /// When it arrived.
    #[schemars(with = "i64")]
    pub at: EventTime,
    /// The client's `User-Agent`, printable and bounded; empty if it sent none.
    pub client: String,
}
