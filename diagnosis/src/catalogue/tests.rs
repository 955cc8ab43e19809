mod situations;

use std::collections::BTreeSet;

use parallax_model::FailureKind;

use super::*;
use crate::topology::FrontInfo;

/// Returns the text of the mechanism.
fn mechanism_text(cause: &Cause, situation: &CauseContext<'_>) -> String {
    let clauses = (cause.mechanism)(situation);
    clauses.iter().map(|clause| clause.text.as_str()).collect()
}

/// Returns the situation with only these failures.
fn with_failures<'a>(
    situation: &CauseContext<'a>,
    failures: &[(FailureKind, Option<u16>, f64)],
) -> CauseContext<'a> {
    let mut situation = CauseContext {
        failures_by_class: KindProfile::default(),
        failures_by_kind: FailureCounts::new(),
        ..situation.clone()
    };
    for (kind, status, count) in failures {
        situation.failures_by_class[crate::ids::class_index(kind.class(*status))] += count;
        situation.failures_by_kind.insert((kind.clone(), *status), *count);
    }
    situation
}

fn likeliest(region: RegionKind, situation: &CauseContext<'_>) -> &'static str {
    rank(region, situation)[0].0.id
}

fn situation<'a>(topology: &'a Topology, members: &[&str]) -> CauseContext<'a> {
    CauseContext {
        members: members.iter().map(|m| (*m).to_owned()).collect(),
        failures_by_class: [1.0; 10],
        ..CauseContext::new(topology)
    }
}

#[test]
fn ids_are_unique_and_say_where_they_come_from() {
    let ids: BTreeSet<_> = all().map(|cause| cause.id).collect();
    assert_eq!(ids.len(), all().count());
    for id in ids {
        assert!(
            id.starts_with(['F', 'P']) && id[1..].starts_with(|c: char| c.is_ascii_digit()),
            "{id}"
        );
    }
}

#[test]
fn every_cause_has_words_regions_and_a_remedy_with_a_price() {
    let topology = Topology::default();
    for cause in all() {
        let s = situation(&topology, &["n1", "n2"]);
        assert!(
            !cause.title.is_empty() && !cause.regions.is_empty(),
            "{}",
            cause.id
        );
        // These describe observed facts only and have no text without them.
        let known = ["P11", "F18", "F26"].contains(&cause.id);
        assert!(known || !mechanism_text(cause, &s).is_empty(), "{}", cause.id);
        let remedies = (cause.remedies)(&s);
        assert!(!remedies.is_empty(), "{} has no remedy", cause.id);
        for remedy in remedies {
            assert!(
                !remedy.action.is_empty() && !remedy.trade_off.is_empty(),
                "{}",
                cause.id
            );
        }
    }
}

#[test]
fn every_region_that_can_be_named_has_a_cause() {
    use RegionKind as K;
    for region in [
        K::Target,
        K::Vip,
        K::Backend,
        K::Bnode,
        K::BnodeRemote,
        K::Client,
        K::ClientVip,
        K::Pair,
        K::NoLocal,
        K::Cross,
        K::Same,
        K::SameVip,
        K::SelfPod,
        K::SelfVip,
        K::Zone,
        K::ProtoVip,
        K::DnsClient,
        K::DnsAll,
        K::DnsName,
        K::OutsideAll,
        K::LbOwnNode,
        K::OutsideFrontNode,
    ] {
        assert!(all().any(|cause| cause.regions.contains(&region)), "{region}");
    }
}

#[test]
fn every_profile_is_a_set_of_positive_pseudo_counts() {
    let topology = Topology::default();
    for cause in all() {
        let profile = (cause.profile)(&situation(&topology, &[]));
        assert!(profile.iter().all(|a| *a > 0.0), "{}", cause.id);
    }
}

/// `F13a` is a part of F13.
fn base(id: &str) -> &str {
    id.trim_end_matches(|c: char| c.is_ascii_lowercase())
}

#[test]
fn every_entry_of_the_failure_catalogue_is_a_cause_a_finding_a_hazard_or_declared_unobservable_and_only_one_of_them()
 {
    let mut places: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    let causes: Vec<&str> = all().map(|cause| cause.id).collect();
    let hazards = crate::findings::HazardKind::ALL
        .iter()
        .map(|kind| kind.catalogue());
    let findings = crate::findings::FindingKind::ALL
        .iter()
        .map(|kind| kind.catalogue());
    // A hazard may predict a cause.
    let hazards: BTreeSet<&str> = hazards.filter(|id| !causes.contains(id)).collect();
    for (place, ids) in [
        ("cause", causes.clone()),
        ("finding", findings.collect::<BTreeSet<_>>().into_iter().collect()),
        ("hazard", hazards.into_iter().collect()),
        (
            "unobservable",
            unobservable::NOT_OBSERVABLE.iter().map(|u| u.id).collect(),
        ),
    ] {
        for id in ids
            .into_iter()
            .filter(|id| id.starts_with('F') && base(id) == *id)
        {
            places.entry(id).or_default().push(place);
        }
    }
    let wanted: Vec<String> = (1..=32).map(|n| format!("F{n}")).collect();
    for id in &wanted {
        assert_eq!(
            places.get(id.as_str()).map(Vec::len),
            Some(1),
            "{id}: {:?}",
            places.get(id.as_str())
        );
    }
    assert_eq!(places.len(), wanted.len(), "{places:?}");
    let parts = causes
        .iter()
        .copied()
        .chain(unobservable::NOT_OBSERVABLE.iter().map(|u| u.id));
    for part in parts.filter(|id| base(id) != *id) {
        assert!(places.contains_key(base(part)), "{part} is a part of nothing");
    }
}

#[test]
fn what_cannot_be_observed_says_what_would_be_needed() {
    for unseen in unobservable::NOT_OBSERVABLE {
        assert!(
            !unseen.title.is_empty() && !unseen.requirement.is_empty(),
            "{}",
            unseen.id
        );
    }
}

#[test]
fn the_page_of_causes_is_what_the_catalogue_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/causes.md");
    let wanted = causes_page::render();
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted);
}
