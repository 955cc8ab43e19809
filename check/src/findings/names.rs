//! Findings about names: resolvers that fail or differ, and address families.

use std::net::{IpAddr, SocketAddr};

use parallax_model::FailureKind;
use parallax_prober::FamilyAnswer;

use super::{
    FAMILY_FAILS, HOSTS_FILE_DIFFERS, LIBC_DIFFER, NOT_IN_DNS, PassFindings, RESOLVER_FAILS,
    RESOLVERS_DIFFER, join_addresses,
};
use crate::{
    finding::FindingLevel,
    names::{AnswerSource, NameAnswer, NameLookup},
};

/// Adds the differences between the sources of a name: hosts file, name service, resolvers, libc and address families.
pub(crate) fn check_names(lookup: &NameLookup, found: &mut PassFindings) {
    let of = |source: &AnswerSource| lookup.answers.iter().find(|answer| answer.source == *source);
    if let (Some(hosts), Some(dns)) = (of(&AnswerSource::Hosts), of(&AnswerSource::ResolvConf))
        && hosts.sorted_addresses() != dns.sorted_addresses()
    {
        let other = match dns.addresses.as_slice() {
            [] => "DNS has no address for it".to_owned(),
            some => format!("DNS has {}", join_addresses(some)),
        };
        found.add_about_name(
            FindingLevel::Warning,
            HOSTS_FILE_DIFFERS,
            format!(
                "the hosts file of this machine has {}; {other}",
                join_addresses(&hosts.addresses)
            ),
            &["programs on this machine use the hosts file; other machines use DNS"],
        );
    }
    if of(&AnswerSource::NameService).is_some() {
        found.add_about_name(
            FindingLevel::Warning,
            NOT_IN_DNS,
            "the name is known to this machine's name service (nsswitch.conf) but not to DNS".to_owned(),
            &["other machines cannot resolve it"],
        );
    }
    if let Some(musl) = &lookup.musl_answer {
        let addresses: Vec<IpAddr> = musl.addresses.iter().map(|found| found.address).collect();
        let addresses_text = if addresses.is_empty() {
            "no address".to_owned()
        } else {
            join_addresses(&addresses)
        };
        found.add_about_name(
            FindingLevel::Note,
            LIBC_DIFFER,
            format!("images with musl (Alpine) get {addresses_text}"),
            &["glibc and musl apply the search list differently; a trailing dot makes them agree"],
        );
    }
    compare_resolvers(lookup, found);
    check_families(lookup, found);
}

fn compare_resolvers(lookup: &NameLookup, found: &mut PassFindings) {
    let named: Vec<(&NameAnswer, SocketAddr)> = lookup
        .answers
        .iter()
        .filter_map(|answer| match answer.source {
            AnswerSource::Resolver(resolver) => Some((answer, resolver)),
            _ => None,
        })
        .collect();
    let Some((first, by)) = named.iter().find(|(answer, _)| !answer.addresses.is_empty()) else {
        return;
    };
    for (answer, resolver) in &named {
        if answer.addresses.is_empty() {
            let reason = answer
                .dns
                .as_ref()
                .and_then(|dns| dns.failure())
                .map_or("no address", failure_text);
            found.add_about_name(
                FindingLevel::Warning,
                RESOLVER_FAILS,
                format!("{resolver} returns no address ({reason}), but {by} does"),
                &["clients that use one resolver work, clients that use the other do not"],
            );
        } else if answer.sorted_addresses() != first.sorted_addresses() {
            found.add_about_name(
                FindingLevel::Warning,
                RESOLVERS_DIFFER,
                format!(
                    "{resolver} returns {}, {by} returns {}",
                    join_addresses(&answer.addresses),
                    join_addresses(&first.addresses)
                ),
                &["split-horizon DNS, a change that has not propagated everywhere, or rotating answers"],
            );
        }
    }
}

/// Adds failed queries for one address family: they delay clients, and make lookups with musl fail, although the other
/// family has addresses.
fn check_families(lookup: &NameLookup, found: &mut PassFindings) {
    for answer in lookup
        .answers
        .iter()
        .filter(|answer| !answer.addresses.is_empty())
    {
        let Some(dns) = &answer.dns else { continue };
        for (family, family_answer) in [("A", &dns.a), ("AAAA", &dns.aaaa)] {
            let FamilyAnswer::Failed { kind, .. } = family_answer else {
                continue;
            };
            // A name with addresses of only one family is normal.
            if *kind == FailureKind::NoAddress {
                continue;
            }
            let by = dns
                .tried
                .last()
                .map_or_else(String::new, |tried| format!(" at {}", tried.resolver));
            found.add_about_name(
                FindingLevel::Warning,
                FAMILY_FAILS,
                format!("the {family} query fails{by}: {}", kind.description()),
                &[
                    "clients wait for it; images with musl (Alpine) fail although the other family has addresses",
                ],
            );
        }
    }
}

/// Why a query returned no address, in a few words.
pub(crate) fn failure_text(answer: &FamilyAnswer) -> &str {
    match answer {
        FamilyAnswer::Failed { kind, .. } => kind.description(),
        FamilyAnswer::NotQueried { own, .. } => own.label(),
        FamilyAnswer::Addresses(_) | FamilyAnswer::NotNeeded => "no address",
    }
}
