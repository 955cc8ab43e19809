//! Lookups, as the prober makes them.
//!
//! A client with glibc sends the questions A and AAAA at once, from two ports, and kube-proxy selects a resolver Pod for
//! each. The timeout of a question is longer than a probe, so the client does not ask again: without an answer to A
//! (the names here have no IPv6 address) the lookup fails. After half of the time the prober asks again, from another port
//! and over TCP; these two repeats say why a question was lost and change nothing.

use parallax_model::UnansweredQuestions;

use super::{
    super::rng::Rng,
    hops::{Hop, ScheduledProbe},
    layout::NodeIx,
    simulate::Conditions,
};

/// A completed lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// The fault that failed it.
    pub failed: Option<LookupFailure>,
    /// How long it took, in microseconds.
    pub took: i64,
}

/// A failed lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupFailure {
    /// The fault; `None` for a random loss.
    pub fault: Option<usize>,
    /// Whether the question would be lost without that fault too, because of another one.
    pub is_hidden: bool,
    /// The questions without an answer.
    pub unanswered: UnansweredQuestions,
}

/// Makes a lookup at a time. `both` asks for both families; otherwise A alone, as on channel `dns`.
pub fn run(conditions: Conditions<'_>, client: NodeIx, at: i64, both: bool, rng: &mut Rng) -> Lookup {
    let hops = ScheduledProbe::questions(&conditions.plan.cluster, client);
    let question = |at: i64, rng: &mut Rng| {
        let hop: Hop = *rng.pick(&hops);
        conditions.broken(&hop, at, rng)
    };
    let names = if both { conditions.plan.names } else { 1 };
    let mut lost = None;
    for name in 1..=names {
        let a = question(at, rng);
        let aaaa = both.then(|| question(at, rng));
        let needed = aaaa.flatten().filter(|_| name < names);
        if let Some(broken) = a.or(needed) {
            lost = Some((broken, a.is_some(), aaaa.map(|aaaa| aaaa.is_some())));
            break;
        }
    }
    let Some((broken, a, aaaa)) = lost else {
        return Lookup {
            failed: None,
            took: 2_000 + random_us(rng, 4_000),
        };
    };
    let half = at + super::simulate::TIMEOUT_US / 2;
    let unanswered = UnansweredQuestions {
        a,
        aaaa: aaaa == Some(true),
        other_answered: aaaa.map(|lost| !(a && lost)),
        retry_answered: Some(question(half, rng).is_none()),
        tcp_answered: Some(question(half, rng).is_none()),
    };
    Lookup {
        failed: Some(LookupFailure {
            fault: Some(broken.fault),
            is_hidden: broken.is_hidden,
            unanswered,
        }),
        took: super::simulate::TIMEOUT_US,
    }
}

/// A lookup whose question to A was lost without any fault.
#[must_use]
pub const fn random_loss(both: bool) -> Lookup {
    Lookup {
        failed: Some(LookupFailure {
            fault: None,
            is_hidden: false,
            unanswered: UnansweredQuestions {
                a: true,
                aaaa: false,
                other_answered: if both { Some(true) } else { None },
                retry_answered: Some(true),
                tcp_answered: Some(true),
            },
        }),
        took: super::simulate::TIMEOUT_US,
    }
}

/// Uniform in 0..bound.
pub(super) fn random_us(rng: &mut Rng, bound: i64) -> i64 {
    i64::try_from(rng.below(usize::try_from(bound).unwrap_or(0))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            draw,
            fault::{BrokenPart, FailureMode, Fault, SECOND_US},
            sets::WholeSet,
        },
        *,
    };

    fn failures(part: impl Fn(&super::super::layout::Cluster) -> BrokenPart) -> Vec<Lookup> {
        let rng = &mut Rng::from_words(&[2]);
        let mut plan = draw::plan(WholeSet::named("healthy-whole").unwrap(), 0, rng);
        plan.faults.push(Fault {
            part: part(&plan.cluster),
            theta: 1.0,
            mode: FailureMode::Loss,
            active: vec![(0, SECOND_US)],
        });
        let conditions = Conditions { plan: &plan };
        (0..2000).map(|_| run(conditions, 3, 0, true, rng)).collect()
    }

    #[test]
    fn a_hung_resolver_fails_every_second_lookup_and_repeats_tell() {
        let lookups = failures(|cluster| BrokenPart::Resolver(cluster.resolvers[0]));
        let failed: Vec<_> = lookups.iter().filter_map(|lookup| lookup.failed).collect();
        assert!((900..1100).contains(&failed.len()), "{}", failed.len());
        let other = failed
            .iter()
            .filter(|one| one.unanswered.other_answered == Some(true))
            .count();
        assert!((400..600).contains(&other), "{other}");
    }

    #[test]
    fn a_search_list_fails_nearly_every_lookup_if_one_resolver_hangs() {
        let rng = &mut Rng::from_words(&[3]);
        let mut plan = draw::plan(WholeSet::named("search-list").unwrap(), 0, rng);
        plan.faults = vec![Fault {
            part: BrokenPart::Resolver(plan.cluster.resolvers[0]),
            theta: 1.0,
            mode: FailureMode::Loss,
            active: vec![(0, SECOND_US)],
        }];
        let conditions = Conditions { plan: &plan };
        let failed = (0..2000).filter(|_| run(conditions, 3, 0, true, rng).failed.is_some());
        // Seven questions, each answered with probability one half.
        assert!((1970..2000).contains(&failed.count()));
    }

    #[test]
    fn without_any_resolver_every_question_is_lost() {
        for lookup in failures(|_| BrokenPart::Resolvers) {
            let unanswered = lookup.failed.unwrap().unanswered;
            assert!(unanswered.a && unanswered.aaaa);
            assert_eq!(unanswered.other_answered, Some(false));
        }
    }
}
