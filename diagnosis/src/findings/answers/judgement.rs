//! Derives findings from answer sets: which resolver's answer is wrong, for which vantages, and how.
//!
//! One round or rotation is never enough for a finding: an answer must keep its kind for two rounds, and sets must be
//! disjoint over the whole window. Public addresses outside the cluster are never compared with each other, because a
//! name may be served from anywhere (geographic DNS, a CDN).

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use parallax_model::{EventTime, Micros, Round, ServiceKey, Vantage};

use super::{
    AnswerSource, FormerAnswer, NameAnswers,
    address_kind::{self, AddressKind, KnownAddresses, NamedServices},
    resolver_answers::{RecentRounds, RoundAnswers},
    windows::ChangeWindows,
    wording::DeviatingResolver,
};
use crate::{
    findings::{Finding, FindingKind, Severity},
    ids::NameRegistry,
    topology::{Topology, is_private},
};

/// Number of rounds for which an answer must have kept its kind.
const STABLE_ROUNDS: usize = 2;

/// Number of changes of kind within the window that are more than a move from one place to another.
const MIN_CHANGES: usize = 3;

/// Number of rounds with answers that both sides need if their difference is the only evidence.
const MIN_ROUNDS: usize = 4;

/// Number of hosts of the same Service that make an internal answer the norm.
const MIN_SIBLINGS: usize = 2;

/// Maximum number of distinct answers per name whose kind is cached.
const MAX_CACHED_KINDS: usize = 16;

/// Upper limit of the TTL that excuses an old answer.
const MAX_TTL: Micros = Micros::from_secs(3600);

/// TTL of an answer without one; the longest that `CoreDNS` caches an answer (`cache 30`, the default of most
/// distributions).
const DEFAULT_TTL: u32 = 30;

/// How long after a change a cache may serve answers from before it. The margin of two rounds covers resolvers that
/// learn of the change later than this process, and answers from any moment of a round.
pub(super) fn cache_allowance(ttl: Option<u32>, interval: Micros) -> Micros {
    let ttl = Micros::from_secs(ttl.unwrap_or(DEFAULT_TTL).into()).min(MAX_TTL);
    Micros(ttl.0.saturating_add(interval.0.saturating_mul(2)))
}

/// One resolver's answers at one vantage, classified.
#[derive(Debug)]
pub(super) struct ClassifiedAnswers<'a> {
    pub(super) source: &'a AnswerSource,
    pub(super) vantage: &'a Vantage,
    rounds: &'a RecentRounds,
    pub(super) kind: Arc<AddressKind>,
    /// All addresses of the rounds since the answer has this kind.
    pub(super) union: Cow<'a, BTreeSet<IpAddr>>,
    /// Whether it is a former address whose TTL has not expired.
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
        let end = round.end(interval);
        for case in &cases {
            windows.add(case, round, interval);
        }
        let mut found = Vec::new();
        for case in &cases {
            let mut accused: BTreeMap<(SocketAddr, FindingKind), Vec<AnswerDeviation<'_>>> = BTreeMap::new();
            for read in &case.internal {
                if let Some((kind, evidence)) = case.deviation(read, &habits, end, interval) {
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
            seen: Vec::new(),
        };
        let (outside, inside): (Vec<_>, Vec<_>) = askings
            .iter()
            .filter_map(|(asking, told)| {
                let vantage = world.vantages.name(asking.vantage);
                classify(asking, vantage, told, interval, &mut natures)
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

/// Cache of the kinds of answers for one name; most vantages get the same answer.
struct AnswerKinds<'n, 'a> {
    own: &'n NamedServices,
    known: &'n KnownAddresses,
    former: &'n BTreeMap<IpAddr, FormerAnswer>,
    seen: Vec<(&'a Arc<RoundAnswers>, Arc<AddressKind>)>,
}

impl<'a> AnswerKinds<'_, 'a> {
    fn of(&mut self, said: &'a Arc<RoundAnswers>) -> Arc<AddressKind> {
        if let Some((_, nature)) = self.seen.iter().find(|(seen, _)| Arc::ptr_eq(seen, said)) {
            return Arc::clone(nature);
        }
        let nature = Arc::new(address_kind::of(said, self.own, self.known, self.former));
        if self.seen.len() < MAX_CACHED_KINDS {
            self.seen.push((said, Arc::clone(&nature)));
        }
        nature
    }
}

fn classify<'a>(
    asking: &'a AnswerSource,
    vantage: &'a Vantage,
    told: &'a RecentRounds,
    interval: Micros,
    natures: &mut AnswerKinds<'_, 'a>,
) -> Option<ClassifiedAnswers<'a>> {
    let excused = cache_allowance(told.ttl(), interval);
    // A cached answer from before a change is not a change of kind.
    let cached = |nature: &AddressKind, round: Option<Round>| match (nature, round) {
        (AddressKind::Former(_, _, until), Some(round)) => round.start(interval) <= until.plus(excused),
        _ => false,
    };
    let sort = |nature: &AddressKind, round| {
        if cached(nature, round) {
            AddressKind::INSIDE
        } else {
            nature.group()
        }
    };
    let mut runs = told.runs();
    let newest = runs.next()?;
    let last = told.last();
    let mut nature = natures.of(&newest.answer);
    let is_cached = cached(&nature, last);
    let first_sort = sort(&nature, last);
    let mut union = Cow::Borrowed(&newest.answer.addresses);
    let (mut changes, mut kept, mut broken) = (0, newest.rounds, false);
    let (mut later, mut older) = (first_sort, newest.rounds);
    for run in runs {
        let this = natures.of(&run.answer);
        let this_sort = sort(&this, told.round_before(older));
        older += run.rounds;
        changes += usize::from(later != this_sort);
        later = this_sort;
        broken |= first_sort != this_sort;
        if !broken {
            union.to_mut().extend(run.answer.addresses.iter().copied());
            kept += run.rounds;
            // A former address, seen before the change, must not become the worst kind of the window.
            if !matches!(*this, AddressKind::Former(..)) || matches!(*nature, AddressKind::Former(..)) {
                nature = nature.max(this);
            }
        }
    }
    Some(ClassifiedAnswers {
        source: asking,
        vantage,
        rounds: told,
        kind: nature,
        union,
        cached: is_cached,
        changes,
        stable_rounds: kept,
        since: told.round_before(kept - 1)?,
    })
}

impl NameCase<'_> {
    /// Returns what is wrong with one resolver's answers at one vantage, with the additional evidence.
    fn deviation(
        &self,
        read: &ClassifiedAnswers<'_>,
        habits: &SiblingAnswers<'_, '_>,
        end: EventTime,
        interval: Micros,
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
            AddressKind::Former(_, _, until) => {
                // A cache may serve the old answer until its TTL has expired.
                let excused = cache_allowance(read.rounds.ttl(), interval);
                return (end > until.plus(excused)).then(|| (FindingKind::StaleAnswer, Vec::new()));
            }
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
    fn is_override(&self, read: &ClassifiedAnswers<'_>) -> bool {
        read.stable_rounds >= STABLE_ROUNDS
            && !read.union.is_empty()
            && !self.in_public(read)
            && !matches!(&*read.kind, AddressKind::Former(..))
            && (!self.services.is_known() || read.kind.is_own())
            && read.union.iter().all(|a| is_private(*a))
    }

    pub(super) fn stands_for(&self) -> String {
        let names: Vec<String> = self
            .services
            .services
            .iter()
            .map(|service| format!("Service {service}"))
            .collect();
        crate::wording::join_names(&names)
    }
}

impl ClassifiedAnswers<'_> {
    /// The largest observed TTL, in seconds.
    pub(super) fn ttl(&self) -> Option<u32> {
        self.rounds.ttl()
    }

    /// "10.96.0.10:53 answers n1/pod with 10.96.0.50".
    pub(super) fn evidence_line(&self) -> String {
        let what = if self.union.is_empty() {
            "no address".to_owned()
        } else {
            addresses(&self.union)
        };
        let as_name = self
            .rounds
            .newest()
            .and_then(|said| said.asked_as.as_ref())
            .map(|name| format!(" (for {name}, from the search list)"))
            .unwrap_or_default();
        format!(
            "{} answers {} with {what}{as_name}",
            self.source.resolver, self.vantage
        )
    }
}

pub(super) fn addresses(set: &BTreeSet<IpAddr>) -> String {
    let words: Vec<String> = set.iter().map(ToString::to_string).collect();
    crate::wording::join_names(&words)
}

/// Answers for the other names of each Service.
#[derive(Debug)]
struct SiblingAnswers<'a, 'n> {
    /// Only Services for which at least one name has an answer that only makes sense inside the cluster.
    services: BTreeMap<&'a ServiceKey, Vec<&'a NameCase<'n>>>,
}

impl<'a, 'n> SiblingAnswers<'a, 'n> {
    fn of(cases: &'a [NameCase<'n>]) -> Self {
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
    /// them and there are at least [`SIBLINGS`].
    fn siblings(&self, case: &NameCase<'_>, read: &ClassifiedAnswers<'_>) -> Option<Vec<String>> {
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
