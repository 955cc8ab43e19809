//! Runs as the API says them: what is asked for, what comes back.

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
    /// All that report.
    #[default]
    All,
    /// Every node of the cluster that reports.
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
    /// What should be reachable, as a target's URL.
    pub url: String,
    /// From where.
    #[serde(default)]
    pub from: RunVantages,
    /// How often, 1 to 20; 3 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Deadline of one probe in milliseconds, 50 to 60000; the target's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Fetch the URL as an ACME HTTP-01 challenge, by the rules of one of its clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<ChallengeRequest>,
    /// Ask what everybody says of the name of a `dns://` URL, and what its CAA records mean for an authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NameFactsRequest>,
}

/// The facts of a name. A few vantages are asked, whatever their number: some nodes, and everybody on the internet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameFactsRequest {
    /// The names the authority goes by in CAA records, as `letsencrypt.org`; where there are none, the answer says only
    /// who may issue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
    /// The account that would ask, where records are bound to one (RFC 8657).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_uri: Option<String>,
}

/// What was said of a name, and what that means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameFactsResult {
    /// What everybody said.
    pub facts: NameFacts,
    /// What it means for the authority.
    pub judged: NameVerdict,
    /// By which names the authority goes, as it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
}

/// How a challenge is fetched. A run has one client: what cert-manager sees and what the CA sees are never one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChallengeRequest {
    /// Whose rules hold.
    #[schemars(with = "String")]
    pub client: ChallengeClient,
    /// The key authorization, which must be the answer. Without it any answer below 500 is one: nobody serves the
    /// token yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Fetches in a row that must all succeed, 1 to 5; one where absent. cert-manager's are two seconds apart; an
    /// authority's follow each other, and only vantages outside make more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    /// Resolvers to ask in place of each machine's own: public ones that the configuration knows, or any where runs may
    /// ask for any target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub nameservers: Vec<SocketAddr>,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every probe that asked as a user would succeeded, from every vantage that takes part.
    Passed,
    /// At least one did not.
    Failed,
    /// None failed, and not all of them answered: nothing is proved.
    Unknown,
}

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Probes are under way.
    Running,
    /// It is judged.
    Done,
}

/// One vantage's part, as a user would ask (the channels vip and dns).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VantageResult {
    /// The vantage.
    #[schemars(with = "String")]
    pub vantage: Vantage,
    /// Where it sits against the entries, once a front was reached.
    #[schemars(with = "String")]
    pub placement: Placement,
    /// Probes that were asked for.
    pub planned: u64,
    /// Probes that came back.
    pub probes: u64,
    /// Failures among them.
    pub failures: u64,
    /// Those that the prober did not make, for a reason of its own.
    pub not_asked: u64,
    /// The newest failure, or why it was not made, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The shortest probe that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "quickest_us")]
    #[schemars(with = "Option<u64>")]
    pub quickest: Option<Micros>,
}

/// A run, under way or judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreflightRun {
    /// Its id.
    #[schemars(with = "String")]
    pub id: RunId,
    /// What is asked for.
    #[schemars(with = "String")]
    pub target: TargetId,
    /// By whose rules it is fetched as a challenge, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub challenge: Option<ChallengeClient>,
    /// Who is asked for the challenge's name in place of each machine's own resolvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub nameservers: Vec<SocketAddr>,
    /// What was said of the name, where that was asked for, once it is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub names: Option<Box<NameFactsResult>>,
    /// From where.
    pub from: RunVantages,
    /// How often.
    pub rounds: u32,
    /// Time between two rounds.
    #[serde(rename = "interval_us")]
    #[schemars(with = "u64")]
    pub interval: Micros,
    /// Deadline of one probe.
    #[serde(rename = "timeout_us")]
    #[schemars(with = "u64")]
    pub timeout: Micros,
    /// Who asked for it.
    pub by: String,
    /// When.
    #[schemars(with = "i64")]
    pub asked: EventTime,
    /// It will be judged by then, whatever is missing.
    #[schemars(with = "i64")]
    pub deadline: EventTime,
    /// Whether it goes on.
    pub state: RunState,
    /// From the request to the start of the first probe that reported.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "first_probe_us")]
    #[schemars(with = "Option<u64>")]
    pub first_probe: Option<Micros>,
    /// Probes asked for over all channels.
    pub expected: u64,
    /// Probes that came back.
    pub answered: u64,
    /// One entry a vantage, failing ones first.
    pub vantages: Vec<VantageResult>,
    /// When it was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub ended: Option<EventTime>,
    /// What it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// The same in one sentence.
    #[serde(default)]
    pub sentence: String,
    /// The cause with its evidence, where one is named. Its times are those of the run's own rounds.
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
        /// The run as it was asked for.
        run: Box<PreflightRun>,
    },
    /// One probe came back.
    Result {
        /// From where.
        #[schemars(with = "String")]
        vantage: Vantage,
        /// How the target was approached.
        #[schemars(with = "String")]
        channel: Channel,
        /// Which round, from 1.
        round: u32,
        /// Start of the probe.
        #[serde(rename = "t_us")]
        #[schemars(with = "i64")]
        at: EventTime,
        /// What was asked for; a control's own name on the channel mesh.
        #[schemars(with = "String")]
        target: TargetId,
        /// What became of it.
        #[serde(flatten)]
        #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
        outcome: Outcome,
        /// The whole probe.
        #[serde(default, skip_serializing_if = "Option::is_none", rename = "total_us")]
        #[schemars(with = "Option<u64>")]
        total: Option<Micros>,
        /// What the client of a challenge saw on its way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
        challenge: Option<Box<ChallengeSight>>,
        /// How the vantage sits to the entry of what it connected to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        placement: Option<Placement>,
    },
    /// The last line.
    Done {
        /// The run, judged.
        run: Box<PreflightRun>,
    },
    /// A line of a newer aggregator.
    #[serde(other)]
    Unknown,
}
