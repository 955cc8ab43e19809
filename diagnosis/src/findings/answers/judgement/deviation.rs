//! Compares one resolver's answers with those of other resolvers, of other names and of public DNS.

use std::{collections::BTreeSet, net::IpAddr};

use super::{ClassifiedAnswers, NameCase, STABLE_ROUNDS, addresses, siblings::SiblingAnswers};
use crate::{
    findings::{FindingKind, answers::address_kind::AddressKind},
    topology::is_private,
};

/// Number of changes of kind within the window that are more than a move from one place to another.
const MIN_CHANGES: usize = 3;
/// Number of rounds with answers that both sides need if their difference is the only evidence.
const MIN_ROUNDS: usize = 4;

impl NameCase<'_> {
    /// Returns what is wrong with one resolver's answers at one vantage, with the additional evidence.
    pub(super) fn deviation(
        &self,
        read: &ClassifiedAnswers<'_>,
        habits: &SiblingAnswers<'_, '_>,
    ) -> Option<(FindingKind, Vec<String>)> {
        if read.cached {
            return None;
        }
        if read.changes >= MIN_CHANGES {
            return Some((FindingKind::FlappingAnswer, Vec::new()));
        }
        if read.stable_rounds < STABLE_ROUNDS {
            return None;
        }
        match &*read.kind {
            AddressKind::Former(..) => return Some((FindingKind::StaleAnswer, Vec::new())),
            AddressKind::UnknownPrivate(_) if self.services.is_known() && !self.in_public(read) => {
                return Some((FindingKind::StaleAnswer, Vec::new()));
            }
            AddressKind::OtherService(service) if self.services.is_known() => {
                return Some((
                    FindingKind::ShadowedName,
                    vec![format!(
                        "{} belongs to {}, not to Service {service}",
                        self.name,
                        self.stands_for()
                    )],
                ));
            }
            _ => {}
        }
        self.missing_internal(read, habits)
            .or_else(|| self.shadowed(read))
            .or_else(|| self.disjoint(read))
    }

    /// Other vantages get an internal address; this one gets the public answer or none.
    fn missing_internal(
        &self,
        read: &ClassifiedAnswers<'_>,
        habits: &SiblingAnswers<'_, '_>,
    ) -> Option<(FindingKind, Vec<String>)> {
        if !self.as_from_outside(read) {
            return None;
        }
        let insiders: Vec<&ClassifiedAnswers<'_>> = self
            .internal_only
            .iter()
            .map(|i| &self.internal[*i])
            .filter(|other| other.union.is_disjoint(&read.union))
            .collect();
        if !insiders.is_empty() {
            return Some((
                FindingKind::MissingOverride,
                insiders.iter().map(|other| other.evidence_line()).collect(),
            ));
        }
        if *read.kind == AddressKind::NoAddress {
            return None;
        }
        let siblings = habits.siblings(self, read)?;
        Some((
            FindingKind::MissingOverride,
            vec![format!(
                "this resolver returns internal addresses for the other names of {}: {}",
                self.stands_for(),
                crate::wording::join_names(&siblings)
            )],
        ))
    }

    /// Public DNS or other resolvers return the cluster's fronts, but this resolver returns something else.
    fn shadowed(&self, read: &ClassifiedAnswers<'_>) -> Option<(FindingKind, Vec<String>)> {
        if *read.kind != AddressKind::Global || !self.services.is_known() {
            return None;
        }
        let own = |union: &BTreeSet<IpAddr>| self.services.all().any(|address| union.contains(address));
        if own(&read.union) || !self.public.is_disjoint(&read.union) {
            return None;
        }
        let mut evidence: Vec<String> = self
            .internal
            .iter()
            .filter(|other| other.stable_rounds >= STABLE_ROUNDS && own(&other.union))
            .map(ClassifiedAnswers::evidence_line)
            .collect();
        if own(&self.public) {
            evidence.push(format!("the public answer is {}", addresses(&self.public)));
        }
        (!evidence.is_empty()).then_some((FindingKind::ShadowedName, evidence))
    }

    /// Two internal answers are disjoint, and nothing shows which is right.
    fn disjoint(&self, read: &ClassifiedAnswers<'_>) -> Option<(FindingKind, Vec<String>)> {
        let private = |read: &ClassifiedAnswers<'_>| {
            matches!(
                &*read.kind,
                AddressKind::UnknownPrivate(_) | AddressKind::OtherService(_) | AddressKind::Node(_)
            )
        };
        if self.services.is_known() || !private(read) || read.rounds.len() < MIN_ROUNDS {
            return None;
        }
        let own = read.rounds.union();
        let others: Vec<String> = self
            .internal
            .iter()
            .filter(|other| {
                private(other) && other.rounds.len() >= MIN_ROUNDS && other.rounds.union().is_disjoint(&own)
            })
            .map(ClassifiedAnswers::evidence_line)
            .collect();
        (!others.is_empty()).then_some((FindingKind::DifferingAnswers, others))
    }

    fn in_public(&self, read: &ClassifiedAnswers<'_>) -> bool {
        !self.public.is_disjoint(&read.union)
    }

    /// Reports whether the answer is the public one, or could be.
    fn as_from_outside(&self, read: &ClassifiedAnswers<'_>) -> bool {
        *read.kind == AddressKind::NoAddress
            || self.in_public(read)
            || (!read.union.is_empty() && read.union.iter().all(|a| !is_private(*a)))
    }

    /// Reports whether a stable, non-empty answer only makes sense inside the cluster.
    pub(super) fn is_override(&self, read: &ClassifiedAnswers<'_>) -> bool {
        read.stable_rounds >= STABLE_ROUNDS
            && !read.union.is_empty()
            && !self.in_public(read)
            && !matches!(&*read.kind, AddressKind::Former(..))
            && (!self.services.is_known() || read.kind.is_own())
            && read.union.iter().all(|a| is_private(*a))
    }

    pub(in crate::findings::answers) fn stands_for(&self) -> String {
        let names: Vec<String> = self
            .services
            .services
            .iter()
            .map(|service| format!("Service {service}"))
            .collect();
        crate::wording::join_names(&names)
    }
}
