//! Findings in addition to failed addresses: answers that differ, certificates that expire soon, lost packets.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{FailureKind, Outcome};
use parallax_prober::{DialOutcome, FamilyAnswer, ValidationResult};
use parallax_terminal::escape;

use super::{
    dates,
    explanation::{Explanation, explain},
    facts::FailureFacts,
    finding::{Finding, FindingLevel},
    names::{AnswerSource, NameAnswer, NameLookup},
    outcome::{in_words, of_reached},
    round::{AddressResult, CheckRound},
    subject::{CheckAction, CheckSubject},
};

/// One address fails while another one works.
pub(super) const DEAD_ADDRESS: &str = "dead_address";
/// Two of the given resolvers return different addresses.
pub(super) const RESOLVERS_DIFFER: &str = "resolvers_differ";
/// One of the given resolvers returns no address, another one does.
pub(super) const RESOLVER_FAILS: &str = "resolver_fails";
/// The query for one address family fails although the other family has addresses.
pub(super) const FAMILY_FAILS: &str = "family_fails";
/// The addresses of one name respond with different statuses.
pub(super) const ANSWERS_DIFFER: &str = "answers_differ";
const HOSTS_FILE_DIFFERS: &str = "hosts_file_differs";
const NOT_IN_DNS: &str = "not_in_dns";
const LIBC_DIFFER: &str = "libc_differ";
const EXPIRES_SOON: &str = "expires_soon";
const NOT_VERIFIED: &str = "not_verified";
const PACKETS_LOST: &str = "packets_lost";
const STATUS: &str = "status";
const ADDRESSES_LEFT_OUT: &str = "addresses_left_out";

/// The number of remaining days below which a certificate is reported: 14, by when automatic renewal has happened or
/// failed, but at most a third of the lifetime, because short-lived certificates are renewed in their last third.
fn expiry_warning_days(not_before: i64, not_after: i64) -> i64 {
    dates::days((not_after - not_before) / 3).min(14)
}

/// The findings of one pass.
#[derive(Debug, Default)]
pub(super) struct PassFindings(Vec<Finding>);

impl PassFindings {
    /// Adds a finding, merged with an equal one about other addresses.
    pub(super) fn add(
        &mut self,
        level: FindingLevel,
        id: &str,
        addresses: Vec<SocketAddr>,
        said: Explanation,
    ) {
        let same = self
            .0
            .iter_mut()
            .find(|known| known.level == level && known.id == id && known.said == said);
        match same {
            Some(known) => known.addresses.extend(addresses),
            None => self.0.push(Finding {
                level,
                id: id.to_owned(),
                addresses,
                said,
                times: 1,
            }),
        }
    }

    /// Adds an unsuccessful outcome as a finding whose id is the failure kind.
    pub(super) fn add_outcome(
        &mut self,
        outcome: &Outcome,
        facts: FailureFacts<'_>,
        addresses: Vec<SocketAddr>,
        level: FindingLevel,
    ) {
        let (level, id) = match outcome {
            Outcome::Ok { .. } => return,
            Outcome::Failed { kind, .. } => (level, kind.label().to_owned()),
            // A fault of this machine is at most `Unknown`.
            Outcome::NotProbed { fault: own } => (level.min(FindingLevel::Unknown), own.label().to_owned()),
        };
        self.add(level, &id, addresses, in_words(outcome, facts));
    }

    fn add_about_name(&mut self, level: FindingLevel, id: &str, what: String, likely: &[&str]) {
        let likely = likely.iter().map(|reason| (*reason).to_owned()).collect();
        self.add(
            level,
            id,
            Vec::new(),
            Explanation {
                summary: what,
                likely_reasons: likely,
            },
        );
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.0
    }
}

/// Adds the differences between the sources of a name: hosts file, name service, resolvers, libc and address families.
pub(super) fn check_names(lookup: &NameLookup, found: &mut PassFindings) {
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
        let said = if addresses.is_empty() {
            "no address".to_owned()
        } else {
            join_addresses(&addresses)
        };
        found.add_about_name(
            FindingLevel::Note,
            LIBC_DIFFER,
            format!("images with musl (Alpine) get {said}"),
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
            let why = answer
                .dns
                .as_ref()
                .and_then(|dns| dns.failure())
                .map_or("no address", failure_text);
            found.add_about_name(
                FindingLevel::Warning,
                RESOLVER_FAILS,
                format!("{resolver} returns no address ({why}), but {by} does"),
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
        for (family, said) in [("A", &dns.a), ("AAAA", &dns.aaaa)] {
            let FamilyAnswer::Failed { kind, .. } = said else {
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
pub(super) fn failure_text(answer: &FamilyAnswer) -> &str {
    match answer {
        FamilyAnswer::Failed { kind, .. } => kind.description(),
        FamilyAnswer::NotQueried { own, .. } => own.label(),
        FamilyAnswer::Addresses(_) | FamilyAnswer::NotNeeded => "no address",
    }
}

/// Adds findings about the addresses that were reached: certificates, lost packets, statuses and their differences.
pub(super) fn check_addresses(
    subject: &CheckSubject,
    round: &CheckRound,
    now: i64,
    found: &mut PassFindings,
) {
    for one in &round.reached {
        check_certificate(one, now, found);
        if let Some(again) = one
            .requests
            .first()
            .and_then(|leg| leg.result.times.syn_retransmits)
            && again > 0
            && matches!(one.outcome, Outcome::Ok { .. })
        {
            found.add(
                FindingLevel::Warning,
                PACKETS_LOST,
                vec![one.address],
                Explanation {
                    summary: format!("the first packet of the connection was sent {} times", again + 1),
                    likely_reasons: vec![
                        "packets are lost on the path, or the server's accept queue is full".to_owned(),
                    ],
                },
            );
        }
        note_client_error(subject, one, now, found);
    }
    let mut answers: Vec<(u16, SocketAddr)> = round
        .reached
        .iter()
        .filter_map(|one| match one.outcome {
            Outcome::Ok { status: Some(status) } => Some((status, one.address)),
            _ => None,
        })
        .collect();
    answers.sort_unstable();
    if let (Some(first), Some(last)) = (answers.first(), answers.last())
        && first.0 != last.0
    {
        let each: Vec<String> = answers
            .iter()
            .map(|(status, address)| format!("{status} at {address}"))
            .collect();
        found.add_about_name(
            FindingLevel::Warning,
            ANSWERS_DIFFER,
            format!("the addresses answer differently: {}", each.join(", ")),
            &["they are different servers, or they do not all have the same version or configuration"],
        );
    }
    if round.left_out > 0 {
        found.add_about_name(
            FindingLevel::Note,
            ADDRESSES_LEFT_OUT,
            format!("{} more addresses were not probed", round.left_out),
            &[],
        );
    }
}

/// Adds a note for a 4xx status, which is a success unless `--expect-status` is given.
fn note_client_error(subject: &CheckSubject, one: &AddressResult, now: i64, found: &mut PassFindings) {
    let Outcome::Ok { status: Some(status) } = one.outcome else {
        return;
    };
    let asked_for = matches!(&subject.action, CheckAction::Http(probe) if probe.expect_status != parallax_model::ExpectedStatus::Below500);
    if status < 400 || asked_for {
        return;
    }
    let facts = FailureFacts {
        status: Some(status),
        ..of_reached(subject, one, now)
    };
    let mut said = explain(&FailureKind::Status, &facts);
    said.summary = format!(
        "{}; every status below 500 is a success, --expect-status 200 is stricter",
        said.summary
    );
    found.add(FindingLevel::Note, STATUS, vec![one.address], said);
}

fn check_certificate(one: &AddressResult, now: i64, found: &mut PassFindings) {
    let Some(tls) = one.requests.last().and_then(|leg| leg.result.tls.as_ref()) else {
        return;
    };
    if !matches!(one.outcome, Outcome::Ok { .. }) {
        return;
    }
    if let Some(refused) = &tls.rejected {
        let facts = FailureFacts {
            host: &tls.server_name,
            tls: Some(tls),
            now,
            ..FailureFacts::default()
        };
        let said = explain(refused, &facts);
        found.add(
            FindingLevel::Warning,
            NOT_VERIFIED,
            vec![one.address],
            Explanation {
                summary: format!("accepted because of --insecure, although {}", said.summary),
                likely_reasons: said.likely_reasons,
            },
        );
        return;
    }
    let Some(first) = tls.chain.iter().min_by_key(|certificate| certificate.not_after) else {
        return;
    };
    let left = dates::days(first.not_after - now);
    if left < expiry_warning_days(first.not_before, first.not_after) {
        found.add(
            FindingLevel::Warning,
            EXPIRES_SOON,
            vec![one.address],
            Explanation {
                summary: format!(
                    "{} expires on {}, in {left} days",
                    escape(&first.subject),
                    dates::date(first.not_after)
                ),
                likely_reasons: vec!["its renewal is late or failing".to_owned()],
            },
        );
    }
}

/// Adds the addresses that the profile's client dialled but did not use for a successful fetch.
pub(super) fn check_dials(fetched: &ValidationResult, found: &mut PassFindings) {
    if !matches!(fetched.outcome, Outcome::Ok { .. }) {
        return;
    }
    for dial in &fetched.dials {
        let why = match &dial.outcome {
            DialOutcome::Connected => continue,
            DialOutcome::Failed(kind) => kind.description().to_owned(),
            DialOutcome::Overtaken => "an address of the other family connected first".to_owned(),
        };
        found.add(
            FindingLevel::Warning,
            DEAD_ADDRESS,
            vec![dial.address],
            Explanation {
                summary: format!("this client did not use the address: {why}"),
                likely_reasons: vec![
                    "clients with other rules fail here; try --profile ca and --profile pebble".to_owned(),
                ],
            },
        );
    }
}

fn join_addresses(addresses: &[IpAddr]) -> String {
    addresses
        .iter()
        .map(IpAddr::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_lived_certificate_is_not_always_about_to_expire() {
        const DAY: i64 = 24 * 60 * 60;
        for (life, days) in [(398, 14), (90, 14), (6, 2), (1, 0)] {
            assert_eq!(expiry_warning_days(0, life * DAY), days, "{life} days");
        }
    }
}
