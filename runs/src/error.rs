//! Why a run is not made, in words that say what would help.

use parallax_api::runs::RunVantages;
use parallax_model::{InvalidTarget, Micros};

use super::{MOST_PROBES, challenge, names, scope::RunScopeError};

/// A run that is not made.
#[derive(Debug, thiserror::Error)]
pub enum RunRefusedError {
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    #[error("{field}: expected {low} to {high}, found {found}")]
    Value {
        field: &'static str,
        low: u64,
        high: u64,
        found: u64,
    },
    #[error(transparent)]
    Forbidden(#[from] RunScopeError),
    #[error(transparent)]
    Challenge(#[from] challenge::InvalidChallenge),
    #[error(transparent)]
    Names(#[from] names::InvalidNames),
    #[error(
        "no vantage of {0} reports at present, so nobody could make the run; `parallax status` shows who does"
    )]
    Nobody(RunVantages),
    #[error("from {from} nobody can ask for {target}: cluster addresses are reached from inside only")]
    NotFromThere { from: RunVantages, target: String },
    #[error(
        "a run of the mesh asks from every node's prober for the others', so it takes probers on two nodes at least, and one of those that are meant must report: there {}; `parallax status` shows who reports",
        match .0 { 0 => "is none".to_owned(), 1 => "is one".to_owned(), n => format!("are {n}") }
    )]
    NoMesh(usize),
    #[error(
        "this run would make {0} probes, at most {MOST_PROBES} are made; ask from zones, or for fewer rounds"
    )]
    TooLarge(u64),
    #[error("the leading aggregator changes at present; ask again")]
    StandsBy,
    #[error("too many runs; ask again in {} s", .0.0.div_ceil(1_000_000))]
    TooMany(Micros),
}
