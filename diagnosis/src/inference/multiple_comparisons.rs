//! Multiple comparisons: the evidence a verdict needs, by the number of subjects judged.

/// Maximum posterior probability of "healthy" for a verdict.
const MAX_HEALTHY_PROBABILITY: f64 = 0.01;
/// Number of subjects up to which [`MAX_HEALTHY_PROBABILITY`] applies; beyond it the bound is divided among the subjects.
const UNCORRECTED_SUBJECTS: usize = 20;

/// Bound on the posterior probability of "healthy" for a verdict on one subject.
///
/// Among 2 000 healthy subjects watched for a month, odds of 100 to 1 occur somewhere by chance. A prior corrects
/// only for the hypotheses about its own subject, so the bound is divided among all subjects of the same
/// comparison, whatever region is found. A region shared by all fronts (a broken node) gets no wider bound: a
/// chance failure at one front is no better evidence for it, and the agreement of other fronts is already part of
/// the posterior. The mesh and the resolvers are one subject each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidualDoubt {
    subjects: usize,
}

impl ResidualDoubt {
    pub(crate) const fn for_subjects(subjects: usize) -> Self {
        Self { subjects }
    }

    /// Reports whether this posterior probability of "healthy" permits a verdict.
    pub(crate) fn permits_verdict(self, healthy: f64) -> bool {
        let of = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        healthy
            <= MAX_HEALTHY_PROBABILITY * of(UNCORRECTED_SUBJECTS)
                / of(self.subjects.max(UNCORRECTED_SUBJECTS))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parallax_model::{Micros, TargetSpec};

    use super::*;
    use crate::{
        engine::Engine,
        inference::judgement_unit::JudgementUnit,
        settings::Settings,
        topology::{Topology, TopologySpec},
    };

    #[test]
    fn a_hundredth_is_shared_among_the_subjects_beyond_the_first_twenty() {
        assert!(
            ResidualDoubt::for_subjects(1).permits_verdict(0.01)
                && ResidualDoubt::for_subjects(20).permits_verdict(0.01)
        );
        assert!(!ResidualDoubt::for_subjects(1).permits_verdict(0.011));
        assert!(
            ResidualDoubt::for_subjects(2_000).permits_verdict(1e-4)
                && !ResidualDoubt::for_subjects(2_000).permits_verdict(1.1e-4)
        );
    }

    #[test]
    fn every_target_is_a_question_of_its_own_and_the_network_is_one() {
        let host = |i| TargetSpec::new(format!("http://h{i}.example.test/"));
        let spec = TopologySpec {
            targets: (0..200).map(host).collect(),
            ..TopologySpec::default()
        };
        let topology = Arc::new(Topology::try_from(spec).unwrap());
        let settings = Settings {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
        };
        let target = topology.targets().keys().next().unwrap().clone();
        let engine = Engine::new(settings, topology);
        let allows = |unit: JudgementUnit| engine.residual_doubt(&unit).permits_verdict(0.005);
        assert!(
            allows(JudgementUnit::Mesh)
                && allows(JudgementUnit::Dns)
                && allows(JudgementUnit::Mesh.into_latency())
        );
        assert!(
            !allows(JudgementUnit::Target(target.clone()))
                && !allows(JudgementUnit::Target(target).into_latency())
        );
    }
}
