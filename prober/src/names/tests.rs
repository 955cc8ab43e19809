//! How views are compared.

use super::*;

fn view(who: Who, last: u8, a: &[&str], aliases: &[&str]) -> View {
    View {
        who,
        server: SocketAddr::from(([192, 0, 2, last], 53)),
        a: match a {
            [] => RecordAnswer::None,
            some => RecordAnswer::Addresses(some.iter().map(|address| address.parse().unwrap()).collect()),
        },
        aaaa: RecordAnswer::None,
        aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        caa: CaaAnswer::None,
    }
}

fn own() -> Who {
    Who::Authority {
        zone: "example.org".to_owned(),
        server: "ns.example.org".to_owned(),
    }
}

#[test]
fn servers_that_say_the_same_differ_in_nothing() {
    let views = [
        view(Who::Cluster, 1, &["9.0.0.1"], &[]),
        view(Who::Public, 2, &["9.0.0.1"], &[]),
        view(own(), 3, &["9.0.0.1"], &[]),
    ];
    assert_eq!(differences(&views), []);
}

#[test]
fn a_cluster_that_sees_another_address_is_a_difference_with_both_opinions() {
    let views = [
        view(Who::Cluster, 1, &["10.0.0.1"], &[]),
        view(Who::Public, 2, &["9.0.0.1"], &[]),
        view(own(), 3, &["9.0.0.1"], &[]),
    ];
    let [difference] = differences(&views).try_into().unwrap();
    assert_eq!(difference.record, Record::A);
    let said: Vec<_> = difference
        .opinions
        .iter()
        .map(|one| (one.says.as_str(), one.servers.len()))
        .collect();
    assert_eq!(said, [("10.0.0.1", 1), ("9.0.0.1", 2)]);
}

#[test]
fn a_zones_server_is_not_asked_for_addresses_behind_an_alias_that_leads_away() {
    let views = [
        view(Who::Public, 2, &["9.0.0.1"], &["lb.example.net"]),
        view(own(), 3, &[], &["lb.example.net"]),
    ];
    assert_eq!(differences(&views), []);
}

#[test]
fn a_server_that_does_not_answer_is_an_opinion_of_its_own() {
    let mut silent = view(Who::Public, 2, &[], &[]);
    silent.a = RecordAnswer::Failed(FailureKind::ServFail);
    let views = [view(Who::Cluster, 1, &["9.0.0.1"], &[]), silent];
    let [difference] = differences(&views).try_into().unwrap();
    assert!(
        difference
            .opinions
            .iter()
            .any(|one| one.says == "no answer (servfail)")
    );
}

#[test]
fn a_wildcard_is_looked_up_below_its_asterisk() {
    assert_eq!(plain("*.Example.org."), "example.org");
    assert_eq!(plain("shop.example.org"), "shop.example.org");
}
