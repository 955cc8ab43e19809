//! The reasons for which a run is rejected, with what to do.

use parallax_api::runs::RunVantages;
use parallax_model::{InvalidTarget, Micros};

use super::{MAX_PROBES, challenge_request, name_request, scope::RunScopeError};

/// Why a run is rejected.
#[derive(Debug, thiserror::Error)]
pub enum RunRefusedError {
    /// The URL is not a target.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// A number in the request is out of range.
    #[error("{field}: expected {low} to {high}, found {found}")]
    OutOfRange {
        /// The field of the request.
        field: &'static str,
        /// The smallest value allowed.
        low: u64,
        /// The largest value allowed.
        high: u64,
        /// The value in the request.
        found: u64,
    },
    /// The target is outside the scope of runs.
    #[error(transparent)]
    OutOfScope(#[from] RunScopeError),
    /// The challenge in the request is not valid.
    #[error(transparent)]
    Challenge(#[from] challenge_request::InvalidChallenge),
    /// The names in the request are not valid.
    #[error(transparent)]
    Names(#[from] name_request::InvalidNames),
    /// No vantage of this group reports.
    #[error(
        "no vantage of {0} reports, so the run cannot be made; `parallax status` lists the reporting vantages"
    )]
    NoReportingVantage(RunVantages),
    /// No vantage of this group can reach the target.
    #[error(
        "no vantage of {from} can reach {target}: cluster addresses are reachable from inside the cluster only"
    )]
    Unreachable {
        /// The group in the request.
        from: RunVantages,
        /// The target's URL.
        target: String,
    },
    /// The mesh has too few probers; the number found.
    #[error(
        "a mesh run probes from the prober of each node to the probers of other nodes; it requires probers on at least two nodes, and at least one selected prober must report; there {} in the topology; `parallax status` lists the reporting vantages",
        match .0 { 0 => "is none".to_owned(), 1 => "is one".to_owned(), n => format!("are {n}") }
    )]
    MeshTooSmall(usize),
    /// The run would make this many probes, more than the limit.
    #[error(
        "this run would make {0} probes, but the maximum is {MAX_PROBES}; limit it to zones (--from zones) or request fewer rounds"
    )]
    TooLarge(u64),
    /// This replica is not the leader.
    #[error("the aggregator is changing its leader; retry in a few seconds")]
    NotLeader,
    /// The rate limit or the limit of concurrent runs is reached; the time to wait.
    #[error("too many runs; retry in {} s", .0.0.div_ceil(1_000_000))]
    RateLimited(Micros),
}
