//! Random numbers from the operating system.

/// Returns an unpredictable number, for secrets and identifiers.
///
/// # Panics
/// Panics if the operating system provides no random numbers, because no secret may be created without them.
#[must_use]
pub fn random() -> u64 {
    match getrandom::u64() {
        Ok(number) => number,
        Err(error) => panic!("cannot read random numbers from the operating system: {error}"),
    }
}

/// Returns an unpredictable number from 0 to 1, for jitter.
#[must_use]
pub fn random_fraction() -> f64 {
    f64::from(u32::try_from(random() >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}
