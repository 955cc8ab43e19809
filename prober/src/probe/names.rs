//! Collects the DNS records of a name for a run, from all selected servers concurrently.

use parallax_model::{
    FailureKind, OwnFault, Phase,
    dns::{NameSight, NamesProbe, RecordAnswer},
};

use super::{EndedProbe, Probe};
use crate::{
    failure::EarlyEnd,
    names::{NameServerSet, collect_until},
};

/// Maximum number of resolvers of one kind that are queried: a resolv.conf has at most three, and more public ones add
/// nothing.
const MAX_RESOLVERS: usize = 4;

impl Probe<'_> {
    pub(super) async fn names(&mut self, spec: &NamesProbe) -> Result<Option<u16>, EndedProbe> {
        self.timer.restart_before_first_phase();
        let own = self.context.resolver.conf().servers.clone();
        let viewers = NameServerSet {
            machine: own.into_iter().take(MAX_RESOLVERS).collect(),
            public: spec
                .public_resolvers
                .iter()
                .copied()
                .take(MAX_RESOLVERS)
                .collect(),
            authorities: spec.query_authorities,
            scope: spec.scope.clone(),
        };
        if viewers.machine.is_empty() && viewers.public.is_empty() {
            let stop = EarlyEnd::new(Phase::Resolve, OwnFault::NoResolver);
            return Err(stop
                .with_detail("resolv.conf contains no nameserver, and no public resolver is configured")
                .into());
        }
        let sight = collect_until(spec.name.as_str(), &viewers, self.deadline).await;
        self.timer.record(Phase::Resolve);
        let silent = common_failure(&sight);
        self.result.names = Some(Box::new(sight));
        match silent {
            Some(kind) => Err(EarlyEnd::new(Phase::Resolve, kind).into()),
            None => Ok(None),
        }
    }
}

/// Returns the first failure if every query failed. An answer that the name does not exist is not a failure.
fn common_failure(sight: &NameSight) -> Option<FailureKind> {
    let mut answers = sight.views.iter().flat_map(|view| [&view.a, &view.aaaa]);
    let failed = |answer: &RecordAnswer| match answer {
        RecordAnswer::Failed(kind) => Some(kind.clone()),
        RecordAnswer::Addresses(_) | RecordAnswer::None | RecordAnswer::NoSuchName => None,
    };
    let first = failed(answers.next()?)?;
    answers.all(|answer| failed(answer).is_some()).then_some(first)
}
