//! What is worth saying besides that an address failed: answers that differ, certificates that end soon, lost packets.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{FailureKind, Outcome};
use parallax_prober::{DialOutcome, FamilyAnswer, ValidationResult};
use parallax_terminal::escape;

use super::{
    duration_text,
    facts::FailureFacts,
    judge::{Finding, FindingLevel, in_words, of_reached},
    names::{AnswerSource, NameAnswer, NameLookup},
    round::{AddressResult, CheckRound},
    subject::{CheckAction, CheckSubject},
    wording::{Explanation, explain},
};

/// An address that fails beside one that serves.
pub(super) const DEAD_ADDRESS: &str = "dead_address";
/// Two resolvers that were named give different addresses.
pub(super) const RESOLVERS_DIFFER: &str = "resolvers_differ";
/// One of the resolvers that were named gives no address where another one does.
pub(super) const RESOLVER_FAILS: &str = "resolver_fails";
/// The question for one family fails though the other has addresses.
pub(super) const FAMILY_FAILS: &str = "family_fails";
/// Addresses of one name answer with different statuses.
pub(super) const ANSWERS_DIFFER: &str = "answers_differ";
const HOSTS_DIFFER: &str = "hosts_file_differs";
const NAME_SERVICE: &str = "not_in_dns";
const LIBC_DIFFER: &str = "libc_differ";
const EXPIRES_SOON: &str = "expires_soon";
const NOT_VERIFIED: &str = "not_verified";
const PACKETS_LOST: &str = "packets_lost";
const STATUS: &str = "status";
const LEFT_OUT: &str = "addresses_left_out";

/// Days before its end at which a certificate is worth a word: automatic renewal has happened by then, or failed. One of
/// short life is renewed in its last third.
fn soon(not_before: i64, not_after: i64) -> i64 {
    duration_text::days((not_after - not_before) / 3).min(14)
}

/// What one look showed.
#[derive(Debug, Default)]
pub(super) struct LookFindings(Vec<Finding>);

impl LookFindings {
    /// Findings that say the same of several addresses are one.
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

    /// An outcome that is no success, as a finding of its kind.
    pub(super) fn outcome(
        &mut self,
        outcome: &Outcome,
        facts: FailureFacts<'_>,
        addresses: Vec<SocketAddr>,
        level: FindingLevel,
    ) {
        let (level, id) = match outcome {
            Outcome::Ok { .. } => return,
            Outcome::Failed { kind, .. } => (level, kind.label().to_owned()),
            // A fault of our own is never more than unknown.
            Outcome::NotAsked { own } => (level.min(FindingLevel::Unknown), own.label().to_owned()),
        };
        self.add(level, &id, addresses, in_words(outcome, facts));
    }

    fn say(&mut self, level: FindingLevel, id: &str, what: String, likely: &[&str]) {
        let likely = likely.iter().map(|reason| (*reason).to_owned()).collect();
        self.add(level, id, Vec::new(), Explanation { what, likely });
    }

    pub(super) fn into_list(self) -> Vec<Finding> {
        self.0
    }
}

/// Where those who say what a name leads to do not agree.
pub(super) fn of_names(lookup: &NameLookup, found: &mut LookFindings) {
    let of = |source: &AnswerSource| lookup.answers.iter().find(|answer| answer.source == *source);
    if let (Some(hosts), Some(dns)) = (of(&AnswerSource::Hosts), of(&AnswerSource::ResolvConf))
        && hosts.sorted() != dns.sorted()
    {
        let other = match dns.addresses.as_slice() {
            [] => "DNS has no address for it".to_owned(),
            some => format!("DNS says {}", list(some)),
        };
        found.say(
            FindingLevel::Warning,
            HOSTS_DIFFER,
            format!(
                "the hosts file of this machine says {}; {other}",
                list(&hosts.addresses)
            ),
            &["programs of this machine follow the hosts file; others see what DNS says"],
        );
    }
    if of(&AnswerSource::NameService).is_some() {
        found.say(
            FindingLevel::Warning,
            NAME_SERVICE,
            "the name is known to this machine's name service (nsswitch.conf) and not to DNS".to_owned(),
            &["other machines do not know it"],
        );
    }
    if let Some(musl) = &lookup.musl {
        let addresses: Vec<IpAddr> = musl.addresses.iter().map(|found| found.address).collect();
        let said = if addresses.is_empty() {
            "no address".to_owned()
        } else {
            list(&addresses)
        };
        found.say(
            FindingLevel::Note,
            LIBC_DIFFER,
            format!("images with musl (Alpine) get {said}"),
            &["the two C libraries walk the search list differently; a trailing dot makes them agree"],
        );
    }
    resolvers(lookup, found);
    families(lookup, found);
}

fn resolvers(lookup: &NameLookup, found: &mut LookFindings) {
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
                .map_or("no address", failure_words);
            found.say(
                FindingLevel::Warning,
                RESOLVER_FAILS,
                format!("{resolver} gives no address ({why}) where {by} does"),
                &["clients of the one resolver work, those of the other do not"],
            );
        } else if answer.sorted() != first.sorted() {
            found.say(
                FindingLevel::Warning,
                RESOLVERS_DIFFER,
                format!(
                    "{resolver} says {}, {by} says {}",
                    list(&answer.addresses),
                    list(&first.addresses)
                ),
                &["split horizon, a change that has not arrived everywhere, or answers that rotate"],
            );
        }
    }
}

/// A family whose question fails slows clients down, and stops those of musl, though the other one has addresses.
fn families(lookup: &NameLookup, found: &mut LookFindings) {
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
            // Having no address of one family is nothing to be said.
            if *kind == FailureKind::NoAddress {
                continue;
            }
            let by = dns
                .tried
                .last()
                .map_or_else(String::new, |tried| format!(" by {}", tried.resolver));
            found.say(
                FindingLevel::Warning,
                FAMILY_FAILS,
                format!("the {family} question fails{by}: {}", kind.words()),
                &["clients wait for it; images with musl (Alpine) fail though the other family has addresses"],
            );
        }
    }
}

/// Why a question gave no address, in a few words.
pub(super) fn failure_words(answer: &FamilyAnswer) -> &str {
    match answer {
        FamilyAnswer::Failed { kind, .. } => kind.words(),
        FamilyAnswer::NotAsked { own, .. } => own.label(),
        FamilyAnswer::Addresses(_) | FamilyAnswer::Unneeded => "no address",
    }
}

/// What the addresses that answered showed.
pub(super) fn of_answers(subject: &CheckSubject, round: &CheckRound, now: i64, found: &mut LookFindings) {
    for one in &round.reached {
        certificate(one, now, found);
        if let Some(again) = one.legs.first().and_then(|leg| leg.result.times.syn_retransmits)
            && again > 0
            && matches!(one.outcome, Outcome::Ok { .. })
        {
            found.add(
                FindingLevel::Warning,
                PACKETS_LOST,
                vec![one.address],
                Explanation {
                    what: format!("the first packet of the connection was sent {} times", again + 1),
                    likely: vec![
                        "packets are lost on the way, or the server's queue of connections is full"
                            .to_owned(),
                    ],
                },
            );
        }
        status(subject, one, now, found);
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
        found.say(
            FindingLevel::Warning,
            ANSWERS_DIFFER,
            format!("the addresses answer differently: {}", each.join(", ")),
            &["they are different servers, or not all of them have the same version or configuration"],
        );
    }
    if round.left_out > 0 {
        found.say(
            FindingLevel::Note,
            LEFT_OUT,
            format!("{} more addresses were not asked", round.left_out),
            &[],
        );
    }
}

/// By default any answer below 500 is one; what most people would call an error is said all the same.
fn status(subject: &CheckSubject, one: &AddressResult, now: i64, found: &mut LookFindings) {
    let Outcome::Ok { status: Some(status) } = one.outcome else {
        return;
    };
    let asked_for = matches!(&subject.what, CheckAction::Http(probe) if probe.expect_status != parallax_model::ExpectedStatus::Below500);
    if status < 400 || asked_for {
        return;
    }
    let facts = FailureFacts {
        status: Some(status),
        ..of_reached(subject, one, now)
    };
    let mut said = explain(&FailureKind::Status, &facts);
    said.what = format!(
        "{}; any answer below 500 counts as one, --expect-status 200 is stricter",
        said.what
    );
    found.add(FindingLevel::Note, STATUS, vec![one.address], said);
}

fn certificate(one: &AddressResult, now: i64, found: &mut LookFindings) {
    let Some(tls) = one.legs.last().and_then(|leg| leg.result.tls.as_ref()) else {
        return;
    };
    if !matches!(one.outcome, Outcome::Ok { .. }) {
        return;
    }
    if let Some(refused) = &tls.refused {
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
                what: format!("accepted as asked, though {}", said.what),
                likely: said.likely,
            },
        );
        return;
    }
    let Some(first) = tls.chain.iter().min_by_key(|certificate| certificate.not_after) else {
        return;
    };
    let left = duration_text::days(first.not_after - now);
    if left < soon(first.not_before, first.not_after) {
        found.add(
            FindingLevel::Warning,
            EXPIRES_SOON,
            vec![one.address],
            Explanation {
                what: format!(
                    "{} expires on {}, in {left} days",
                    escape(&first.subject),
                    duration_text::date(first.not_after)
                ),
                likely: vec!["its renewal is late or fails".to_owned()],
            },
        );
    }
}

/// Addresses that another client's rules passed over.
pub(super) fn of_dials(fetched: &ValidationResult, found: &mut LookFindings) {
    if !matches!(fetched.outcome, Outcome::Ok { .. }) {
        return;
    }
    for dial in &fetched.dials {
        let why = match &dial.outcome {
            DialOutcome::Connected => continue,
            DialOutcome::Failed(kind) => kind.words().to_owned(),
            DialOutcome::Overtaken => "it had not answered when the other family's was there".to_owned(),
        };
        found.add(
            FindingLevel::Warning,
            DEAD_ADDRESS,
            vec![dial.address],
            Explanation {
                what: format!("this client passed it over: {why}"),
                likely: vec![
                    "clients with other rules fail here; see --profile ca and --profile pebble".to_owned(),
                ],
            },
        );
    }
}

fn list(addresses: &[IpAddr]) -> String {
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
            assert_eq!(soon(0, life * DAY), days, "{life} days");
        }
    }
}
