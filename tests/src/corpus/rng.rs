//! A pseudorandom number generator of this crate: the same seed must give the same recording on every machine and with
//! any version of any library.
//!
//! xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018), seeded by splitmix64
//! (Steele, Lea and Flood, 2014), as its authors advise. Only integer arithmetic and exact float operations are used.

/// One stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng([u64; 4]);

const fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    /// Creates a separate stream per list of words, so that a trial's numbers do not depend on the trials before it.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let mut state = 0;
        for word in words {
            state ^= *word;
            state = splitmix64(&mut state);
        }
        let mut next = || splitmix64(&mut state);
        Self([next(), next(), next(), next()])
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), with 52 random bits: the mantissa of a number in [1, 2).
    pub fn next_unit(&mut self) -> f64 {
        f64::from_bits(0x3FF0_0000_0000_0000 | (self.next_u64() >> 12)) - 1.0
    }

    /// Uniform in [low, high).
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.next_unit()
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.next_unit() < probability
    }

    /// Uniform in 0..n; 0 if n is 0. The bias is below n/2⁶⁴.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.next_u64()) * (n as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Uniform in low..=high.
    pub fn in_range(&mut self, (low, high): (usize, usize)) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns a random item.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a random item, with probabilities proportional to the weights.
    ///
    /// # Panics
    /// If there are none.
    pub fn weighted<T: Copy>(&mut self, items: &[(T, f64)]) -> T {
        let total: f64 = items.iter().map(|(_, weight)| weight).sum();
        let mut rest = self.next_unit() * total;
        for (item, weight) in items {
            rest -= weight;
            if rest < 0.0 {
                return *item;
            }
        }
        items[items.len() - 1].0
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_sequence_for_seed_1234567() {
        let mut state = 1_234_567;
        let got: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn xoshiro_gives_the_sequence_of_the_reference_implementation_from_state_1_2_3_4() {
        let mut rng = Rng([1, 2, 3, 4]);
        let got: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(got, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_use_all_of_it() {
        let mut rng = Rng::from_words(&[1]);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[rng.in_range((3, 7)) - 3] += 1;
            assert!((0.0..1.0).contains(&rng.next_unit()));
        }
        assert!(seen.iter().all(|n| (120..280).contains(n)), "{seen:?}");
    }
}
