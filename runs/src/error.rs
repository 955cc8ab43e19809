//! Why a run is not made, in words that say what would help.

use parallax_api::runs::RunVantages;
use parallax_model::{InvalidTarget, Micros};

use super::{MOST_PROBES, challenge, names, scope::RunScopeError};

/// A run that is not made.
#[derive(Debug, thiserror::Error)]
pub enum RunRefusedError {
    /// The URL is not a target.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// A number in the request is out of range.
    #[error("{field}: expected {low} to {high}, found {found}")]
    Value {
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
    Forbidden(#[from] RunScopeError),
    /// The challenge in the request is not valid.
    #[error(transparent)]
    Challenge(#[from] challenge::InvalidChallenge),
    /// The names in the request are not valid.
    #[error(transparent)]
    Names(#[from] names::InvalidNames),
    /// No vantage of this group reports.
    #[error(
        "no vantage of {0} reports at present, so nobody could make the run; `parallax status` shows who does"
    )]
    Nobody(RunVantages),
    /// No vantage of this group can reach the target.
    /// No vantage of this group can reach the target.
    #[error("from {from} nobody can ask for {target}: cluster addresses are reached from inside only")]
    NotFromThere {
        /// The group in the request.
        from: RunVantages,
        /// The target's URL.
        target: String,
    },
    /// The mesh has too few probers; the number found.
    #[error(
        "a run of the mesh asks from every node's prober for the others', so it takes probers on two nodes at least, and one of those that are meant must report: there {}; `parallax status` shows who reports",
        match .0 { 0 => "is none".to_owned(), 1 => "is one".to_owned(), n => format!("are {n}") }
    )]
    NoMesh(usize),
    /// The run would make this many probes, more than the limit.
    #[error(
        "this run would make {0} probes, at most {MOST_PROBES} are made; ask from zones, or for fewer rounds"
    )]
    TooLarge(u64),
    /// This replica does not lead.
    #[error("the leading aggregator changes at present; ask again")]
    StandsBy,
    /// The rate limit is reached; the time until the next run is accepted.
    #[error("too many runs; ask again in {} s", .0.0.div_ceil(1_000_000))]
    TooMany(Micros),
}
