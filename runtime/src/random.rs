//! Numbers that nobody can guess, without a dependency: the standard library seeds its hashers from the system's.

use std::hash::{BuildHasher, RandomState};

/// A number nobody can guess.
#[must_use]
pub fn random() -> u64 {
    RandomState::new().hash_one(0_u64)
}
