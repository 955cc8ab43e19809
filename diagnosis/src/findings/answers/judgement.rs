//! Derives findings from answer sets: which resolver's answer is wrong, for which vantages, and how.
//!
//! One round or rotation is never enough for a finding: an answer must keep its kind for two rounds, and sets must be
//! disjoint over the whole window. Public addresses outside the cluster are never compared with each other, because a
//! name may be served from anywhere (geographic DNS, a CDN).

mod classification;
mod deviation;
mod siblings;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use parallax_model::{Micros, Round, Vantage};

use super::{
    AnswerSource, NameAnswers,
    address_kind::{AddressKind, KnownAddresses, NamedServices},
    resolver_answers::RecentRounds,
    windows::ChangeWindows,
    wording::DeviatingResolver,
};
use crate::{
    findings::{Finding, FindingKind, Severity},
    ids::NameRegistry,
    topology::{Topology, is_private},
};
use classification::{AnswerKinds, classify};
use siblings::SiblingAnswers;

/// Number of rounds for which an answer must have kept its kind.
const STABLE_ROUNDS: usize = 2;

/// One resolver's answers at one vantage, classified.
#[derive(Debug)]
pub(super) struct ClassifiedAnswers<'a> {
    pub(super) source: &'a AnswerSource,
    pub(super) vantage: &'a Vantage,
    rounds: &'a RecentRounds,
    pub(super) kind: Arc<AddressKind>,
    /// All addresses of the rounds since the answer has this kind.
    pub(super) union: Cow<'a, BTreeSet<IpAddr>>,
    /// Whether it is a former address whose TTL has not expired, or an unknown one that may be.
    pub(super) cached: bool,
    changes: usize,
    stable_rounds: usize,
    since: Round,
}

/// A wrong answer with the additional evidence.
pub(super) type AnswerDeviation<'a> = (&'a ClassifiedAnswers<'a>, Vec<String>);

/// The classified answers for one name.
#[derive(Debug)]
pub(super) struct NameCase<'a> {
    pub(super) name: &'a str,
    pub(super) services: NamedServices,
    /// Answers of resolvers inside the cluster.
    pub(super) internal: Vec<ClassifiedAnswers<'a>>,
    /// Indexes of inside answers that only make sense inside the cluster.
    internal_only: Vec<usize>,
    /// Addresses in public DNS.
    pub(super) public: BTreeSet<IpAddr>,
    outside: Vec<ClassifiedAnswers<'a>>,
}

impl NameAnswers {
    pub(in crate::findings) fn findings(
        &mut self,
        round: Round,
        topology: &Topology,
        world: &NameRegistry,
        interval: Micros,
    ) -> Vec<Finding> {
        let end = round.end(interval);
        let mut windows = std::mem::take(&mut self.windows);
        let found = self.judge(round, topology, world, interval, &mut windows);
        windows.prune(end);
        self.windows = windows;
        let windows = self.windows.findings(topology);
        found.into_iter().chain(windows).collect()
    }

    fn judge(
        &self,
        round: Round,
        topology: &Topology,
        world: &NameRegistry,
        interval: Micros,
        windows: &mut ChangeWindows,
    ) -> Vec<Finding> {
        let (known, owners) = (&self.known, &self.owners);
        let cases: Vec<NameCase<'_>> = self
            .by_name(world)
            .into_iter()
            .map(|(name, askings)| {
                let own = owners.services_of(topology, name);
                self.case((name, askings), own, topology, (world, known), interval)
            })
            .collect();
        let habits = SiblingAnswers::of(&cases);
        for case in &cases {
            windows.add(case, round, interval);
        }
        let mut found = Vec::new();
        for case in &cases {
            let mut accused: BTreeMap<(SocketAddr, FindingKind), Vec<AnswerDeviation<'_>>> = BTreeMap::new();
            for read in &case.internal {
                if let Some((kind, evidence)) = case.deviation(read, &habits) {
                    accused
                        .entry((read.source.resolver, kind))
                        .or_default()
                        .push((read, evidence));
                }
            }
            for read in &case.outside {
                if read.stable_rounds >= STABLE_ROUNDS
                    && !read.union.is_empty()
                    && read.union.iter().all(|a| is_private(*a))
                {
                    accused
                        .entry((read.source.resolver, FindingKind::PrivatePublished))
                        .or_default()
                        .push((read, Vec::new()));
                }
            }
            for ((resolver, kind), reads) in accused {
                let since = reads.iter().map(|(read, _)| read.since).min().unwrap_or(round);
                let accused = DeviatingResolver {
                    case,
                    resolver,
                    kind,
                    severity: Severity::Warning,
                    deviations: &reads,
                    since: since.start(interval),
                };
                found.push(accused.finding(topology));
            }
        }
        found
    }

    fn case<'a>(
        &'a self,
        (name, askings): (&'a str, &'a BTreeMap<AnswerSource, RecentRounds>),
        own: NamedServices,
        topology: &Topology,
        (world, known): (&'a NameRegistry, &KnownAddresses),
        interval: Micros,
    ) -> NameCase<'a> {
        let mut natures = AnswerKinds {
            own: &own,
            known,
            former: &self.former,
            changes_known_since: self.first_round.map(|round| round.start(interval)),
            seen: Vec::new(),
        };
        let (outside, inside): (Vec<_>, Vec<_>) = askings
            .iter()
            .filter_map(|(asking, recent)| {
                let vantage = world.vantages.name(asking.vantage);
                classify(asking, vantage, recent, interval, &mut natures)
            })
            .partition(|read| topology.public_resolvers().contains(&read.source.resolver.ip()));
        let public = outside
            .iter()
            .filter(|read| read.stable_rounds >= STABLE_ROUNDS)
            .flat_map(|read| read.rounds.union())
            .collect();
        let mut case = NameCase {
            name,
            services: own,
            internal: inside,
            internal_only: Vec::new(),
            public,
            outside,
        };
        let read = 0..case.internal.len();
        case.internal_only = read.filter(|i| case.is_override(&case.internal[*i])).collect();
        case
    }
}

impl ClassifiedAnswers<'_> {
    /// The largest observed TTL, in seconds.
    pub(super) fn ttl(&self) -> Option<u32> {
        self.rounds.cache_lifetime.largest_ttl()
    }

    /// "10.96.0.10:53 answers n1/pod with 10.96.0.50".
    pub(super) fn evidence_line(&self) -> String {
        let answer_text = if self.union.is_empty() {
            "no address".to_owned()
        } else {
            addresses(&self.union)
        };
        let as_name = self
            .rounds
            .newest()
            .and_then(|answers| answers.asked_as.as_ref())
            .map(|name| format!(" (for {name}, from the search list)"))
            .unwrap_or_default();
        format!(
            "{} answers {} with {answer_text}{as_name}",
            self.source.resolver, self.vantage
        )
    }
}

pub(super) fn addresses(set: &BTreeSet<IpAddr>) -> String {
    let words: Vec<String> = set.iter().map(ToString::to_string).collect();
    crate::wording::join_names(&words)
}
