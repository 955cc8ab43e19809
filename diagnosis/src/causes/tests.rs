use std::collections::BTreeSet;

use super::*;

fn situation<'a>(topology: &'a Topology, members: &[&str]) -> Situation<'a> {
    Situation {
        topology,
        info: None,
        service: None,
        members: members.iter().map(|m| (*m).to_owned()).collect(),
        kinds: [1.0; 10],
        own_node_answers: false,
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
        assert!(!(cause.mechanism)(&s).is_empty(), "{}", cause.id);
        let remedies = (cause.remedies)(&s);
        assert!(!remedies.is_empty(), "{} has no remedy", cause.id);
        for remedy in remedies {
            assert!(
                !remedy.action.is_empty() && !remedy.price.is_empty(),
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
