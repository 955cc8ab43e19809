//! Answers for the other names of the same Service.

use std::collections::BTreeMap;

use parallax_model::ServiceKey;

use super::{ClassifiedAnswers, NameCase};

/// Number of hosts of the same Service that make an internal answer the norm.
const MIN_SIBLINGS: usize = 2;

/// Answers for the other names of each Service.
#[derive(Debug)]
pub(super) struct SiblingAnswers<'a, 'n> {
    /// Only Services for which at least one name has an answer that only makes sense inside the cluster.
    services: BTreeMap<&'a ServiceKey, Vec<&'a NameCase<'n>>>,
}

impl<'a, 'n> SiblingAnswers<'a, 'n> {
    pub(super) fn of(cases: &'a [NameCase<'n>]) -> Self {
        let mut services: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for case in cases {
            for service in &case.services.services {
                services.entry(service).or_default().push(case);
            }
        }
        services.retain(|_, cases| cases.iter().any(|case| !case.internal_only.is_empty()));
        Self { services }
    }

    /// Returns the other names of the same Service if this resolver gives this vantage internal addresses for all of
    /// them and there are at least [`MIN_SIBLINGS`].
    pub(super) fn siblings(&self, case: &NameCase<'_>, read: &ClassifiedAnswers<'_>) -> Option<Vec<String>> {
        if self.services.is_empty() {
            return None;
        }
        let mut siblings = Vec::new();
        for other in self.services.get(case.services.services.first()?)? {
            let same = other
                .internal
                .binary_search_by_key(&read.source, |other| other.source);
            let Ok(at) = same else { continue };
            if other.name == case.name {
                continue;
            }
            if !other.internal_only.contains(&at) {
                return None;
            }
            siblings.push(other.name.to_owned());
        }
        (siblings.len() >= MIN_SIBLINGS).then_some(siblings)
    }
}
