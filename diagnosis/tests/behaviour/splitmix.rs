//! A platform-independent random number generator (splitmix64).
#![expect(clippy::unwrap_used, reason = "the numbers of a test fit any integer")]

pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    /// Returns true with probability `p`.
    pub(crate) fn happens(&mut self, p: f64) -> bool {
        #[expect(
            clippy::cast_precision_loss,
            reason = "53 random bits are a float between 0 and 1"
        )]
        let x = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        x < p
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
