//! Runs in the API: requests, state and results.

use std::{fmt, net::SocketAddr};

use parallax_diagnosis::verdict::Incident;
use parallax_model::{
    ChallengeClient, ChallengeSight, Channel, EventTime, Micros, Outcome, Placement, RunId, TargetId, Vantage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{NameFacts, NameVerdict};

/// Which vantages take part in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunVantages {
    /// All reporting vantages.
    #[default]
    All,
    /// Every reporting node of the cluster.
    Nodes,
    /// One node of each zone.
    Zones,
    /// The vantages outside the cluster.
    Outside,
}

impl fmt::Display for RunVantages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Nodes => "nodes",
            Self::Zones => "zones",
            Self::Outside => "outside",
        })
    }
}

/// Body of `POST /v1/runs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The target's URL.
    pub url: String,
    /// The vantages.
    #[serde(default)]
    pub from: RunVantages,
    /// Number of rounds, 1 to 20; 3 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Deadline of one probe in milliseconds, 50 to 60000; the target's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Fetch the URL as an ACME HTTP-01 challenge, by the rules of one ACME client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<ChallengeRequest>,
    /// Query the servers of the name of a `dns://` URL and evaluate its CAA records for an authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NameFactsRequest>,
}

/// A request for the DNS facts of a name. Only a few vantages query them: some nodes, and all vantages on the
/// internet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameFactsRequest {
    /// The authority's issuer domain names in CAA records, such as `letsencrypt.org`. If empty, the result
    /// only lists who may issue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
    /// The ACME account that would request the certificate, for records bound to an account (RFC 8657).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_uri: Option<String>,
}

/// The DNS facts of a name and their evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameFactsResult {
    /// The answers of the servers.
    pub facts: NameFacts,
    /// What they mean for the authority.
    pub verdict: NameVerdict,
    /// The authority's issuer domain names, as requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
}

/// How a challenge is fetched. A run has one client, because the result of cert-manager and that of the CA
/// are kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChallengeRequest {
    /// The client whose rules apply.
    #[schemars(with = "String")]
    pub client: ChallengeClient,
    /// The expected key authorization. If absent, any response below 500 passes, because no solver serves the
    /// token yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Number of fetches that must all succeed; one if absent. By cert-manager's rules, 1 to 5 consecutive fetches of
    /// each vantage, two seconds apart. By a CA's rules, 1 to 44 fetches without a pause, which the vantages on the
    /// internet share; other vantages make one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    /// Resolvers to use instead of each machine's own: public resolvers from the configuration, or any
    /// resolver if runs may probe any target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub nameservers: Vec<SocketAddr>,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every probe on a user's channels succeeded, from every participating vantage.
    Passed,
    /// At least one probe on a user's channels failed.
    Failed,
    /// No probe failed, but not all of them were answered, so nothing is proven.
    Unknown,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Probes are in progress.
    Running,
    /// The run has been judged.
    Done,
}

/// The results of one vantage on the channels that a user uses (vip and dns).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VantageResult {
    /// The vantage.
    #[schemars(with = "String")]
    pub vantage: Vantage,
    /// Placement relative to the entries, once a front was reached.
    #[schemars(with = "String")]
    pub placement: Placement,
    /// Planned probes.
    pub planned: u64,
    /// Completed probes.
    pub probes: u64,
    /// Failed probes.
    pub failures: u64,
    /// Probes that the prober could not make, because of a fault of its own.
    pub not_made: u64,
    /// Description of the latest failure, or of the reason why the probe was not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Duration of the fastest successful probe.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "quickest_us")]
    #[schemars(with = "Option<u64>")]
    pub fastest: Option<Micros>,
}

/// A run, in progress or judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreflightRun {
    /// The run's id.
    #[schemars(with = "String")]
    pub id: RunId,
    /// The target.
    #[schemars(with = "String")]
    pub target: TargetId,
    /// The client whose rules apply, if the target is fetched as a challenge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub challenge: Option<ChallengeClient>,
    /// Resolvers for the challenge's name, instead of each machine's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub nameservers: Vec<SocketAddr>,
    /// The DNS facts of the name, if requested, once the run is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub names: Option<Box<NameFactsResult>>,
    /// The vantages.
    pub from: RunVantages,
    /// Number of rounds.
    pub rounds: u32,
    /// Time between two rounds.
    #[serde(rename = "interval_us")]
    #[schemars(with = "u64")]
    pub interval: Micros,
    /// Deadline of one probe.
    #[serde(rename = "timeout_us")]
    #[schemars(with = "u64")]
    pub timeout: Micros,
    /// The account that requested the run.
    pub requested_by: String,
    /// Time of the request.
    #[schemars(with = "i64")]
    pub requested_at: EventTime,
    /// The run is judged by this time, even if results are missing. It is extended for a vantage whose first probe starts
    /// late.
    #[schemars(with = "i64")]
    pub deadline: EventTime,
    /// Progress of the run.
    pub state: RunState,
    /// Time from the request to the start of the first probe that was reported.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "first_probe_us")]
    #[schemars(with = "Option<u64>")]
    pub first_probe: Option<Micros>,
    /// Planned probes over all channels.
    pub expected: u64,
    /// Completed probes.
    pub completed: u64,
    /// One entry per vantage, failing ones first.
    pub vantages: Vec<VantageResult>,
    /// When the run was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub ended: Option<EventTime>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// The result in one sentence.
    #[serde(default)]
    pub sentence: String,
    /// Incidents on the path from the internet to the challenge's host when the challenge was requested, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_failures: Vec<String>,
    /// The named cause with its evidence, if there is one. Its times are those of the run's own rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub verdict: Option<Box<Incident>>,
}

/// One line of a run's stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The first line.
    Started {
        /// The run as requested.
        run: Box<PreflightRun>,
    },
    /// A completed probe.
    Result {
        /// The vantage.
        #[schemars(with = "String")]
        vantage: Vantage,
        /// The channel.
        #[schemars(with = "String")]
        channel: Channel,
        /// The round, counted from 1.
        round: u32,
        /// Start of the probe.
        #[serde(rename = "t_us")]
        #[schemars(with = "i64")]
        started: EventTime,
        /// The target; on the channel mesh, the name of the control.
        #[schemars(with = "String")]
        target: TargetId,
        /// The outcome.
        #[serde(flatten)]
        #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
        outcome: Outcome,
        /// Duration of the whole probe.
        #[serde(default, skip_serializing_if = "Option::is_none", rename = "total_us")]
        #[schemars(with = "Option<u64>")]
        total: Option<Micros>,
        /// What the ACME client observed while fetching a challenge.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
        challenge: Option<Box<ChallengeSight>>,
        /// Placement relative to the entry that the probe connected to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        placement: Option<Placement>,
    },
    /// The last line.
    Done {
        /// The run, judged.
        run: Box<PreflightRun>,
    },
    /// A line from a newer aggregator.
    #[serde(other)]
    Unknown,
}
