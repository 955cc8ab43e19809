//! How sure one of many subjects must be that something is wrong with it.

/// The most that "nothing is wrong" may keep of a verdict.
const MAX_HEALTHY: f64 = 0.01;
/// So many subjects are judged at that doubt; with more of them, each must be the surer.
const SUBJECTS: usize = 20;

/// The doubt that may be left to a subject.
///
/// Whoever looks at two thousand healthy subjects for a month sees odds of a hundred to one somewhere. A posterior knows
/// of its own subject's look-elsewhere only, so the doubt is shared among the subjects: among all that are asked the same
/// question, whatever region the answer is. That a bad node would concern every front makes one front's bad luck no
/// better witness of it; other fronts that agree are part of the posterior already. The network and the resolvers are
/// one subject each, and asked once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidualDoubt {
    subjects: usize,
}

impl ResidualDoubt {
    pub(crate) const fn among(subjects: usize) -> Self {
        Self { subjects }
    }

    /// Whether so probable a "nothing is wrong" leaves room for a verdict.
    pub(crate) fn allows(self, healthy: f64) -> bool {
        let of = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        healthy <= MAX_HEALTHY * of(SUBJECTS) / of(self.subjects.max(SUBJECTS))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parallax_model::{Micros, TargetSpec};

    use super::*;
    use crate::{
        engine::Engine,
        inference::unit::JudgementUnit,
        settings::Settings,
        topology::{Topology, TopologySpec},
    };

    #[test]
    fn a_hundredth_is_shared_among_the_subjects_beyond_the_first_twenty() {
        assert!(ResidualDoubt::among(1).allows(0.01) && ResidualDoubt::among(20).allows(0.01));
        assert!(!ResidualDoubt::among(1).allows(0.011));
        assert!(ResidualDoubt::among(2_000).allows(1e-4) && !ResidualDoubt::among(2_000).allows(1.1e-4));
    }

    #[test]
    fn every_target_is_a_question_of_its_own_and_the_network_is_one() {
        let host = |i| TargetSpec::of(format!("http://h{i}.example.test/"));
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
        let allows = |unit: JudgementUnit| engine.doubt(&unit).allows(0.005);
        assert!(
            allows(JudgementUnit::Mesh) && allows(JudgementUnit::Dns) && allows(JudgementUnit::Mesh.slow())
        );
        assert!(
            !allows(JudgementUnit::Target(target.clone())) && !allows(JudgementUnit::Target(target).slow())
        );
    }
}
