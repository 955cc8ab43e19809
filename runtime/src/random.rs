//! Random numbers of the operating system.

/// An unpredictable number, for secrets and identifiers.
///
/// # Panics
/// If the operating system has no random numbers: nothing that needs a secret may go on without.
#[must_use]
pub fn random() -> u64 {
    match getrandom::u64() {
        Ok(number) => number,
        Err(error) => panic!("cannot read random numbers of the operating system: {error}"),
    }
}

/// An unpredictable number from 0 to 1, for jitter.
#[must_use]
pub fn random_fraction() -> f64 {
    f64::from(u32::try_from(random() >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}
