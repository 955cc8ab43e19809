//! The faults of the soak, and which incidents each round may show.

use std::ops::Range;

use parallax_simulated_cluster::Fault;

/// Rounds from one fault to the next.
const ROUNDS_PER_FAULT: u64 = 60;
/// Those of them in which something fails.
const FAULT_ROUNDS: Range<u64> = 20..32;
/// Rounds until a fault is named.
const ROUNDS_TO_NAME: u64 = 4;
/// Rounds after the repair until the incident is closed.
const ROUNDS_TO_CLOSE: u64 = 12;

/// A round of the soak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SoakRound(pub(super) u64);

impl SoakRound {
    /// Returns the fault of the round: a front, a node, a front, and so on.
    pub(super) fn fault(self) -> Fault {
        match (
            FAULT_ROUNDS.contains(&(self.0 % ROUNDS_PER_FAULT)),
            self.0 / ROUNDS_PER_FAULT % 2,
        ) {
            (false, _) => Fault::Nothing,
            (true, 0) => Fault::Front,
            (true, _) => Fault::Node,
        }
    }

    /// Returns how many incidents may be open at the beginning of the round.
    fn allowed(self) -> Range<usize> {
        let phase = self.0 % ROUNDS_PER_FAULT;
        if (FAULT_ROUNDS.start + ROUNDS_TO_NAME..FAULT_ROUNDS.end).contains(&phase) {
            1..2
        } else if (FAULT_ROUNDS.start..FAULT_ROUNDS.end + ROUNDS_TO_CLOSE).contains(&phase) {
            0..2
        } else {
            0..1
        }
    }
}

/// Returns what is wrong with the open incidents of a round, if anything is.
pub(super) fn judge(round: SoakRound, sentences: &[String]) -> Option<String> {
    let allowed = round.allowed();
    (!allowed.contains(&sentences.len())).then(|| {
        format!(
            "round {}: {} open incidents, expected {} to {}: {sentences:?}",
            round.0,
            sentences.len(),
            allowed.start,
            allowed.end - 1
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_alternate_and_each_must_be_named_and_closed() {
        assert_eq!(SoakRound(19).fault(), Fault::Nothing);
        assert_eq!(SoakRound(20).fault(), Fault::Front);
        assert_eq!(SoakRound(80).fault(), Fault::Node);
        assert_eq!(SoakRound(140).fault(), Fault::Front);
        let one = ["the address of a balancer".to_owned()];
        assert!(judge(SoakRound(19), &one).is_some());
        assert!(judge(SoakRound(21), &one).is_none() && judge(SoakRound(21), &[]).is_none());
        assert!(judge(SoakRound(24), &[]).is_some() && judge(SoakRound(31), &one).is_none());
        assert!(judge(SoakRound(43), &one).is_none() && judge(SoakRound(44), &one).is_some());
        let two = [one[0].clone(), one[0].clone()];
        assert!(judge(SoakRound(24), &two).is_some());
    }
}
