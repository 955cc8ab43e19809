//! Judges what the DNS facts of a name mean for the CA.

use std::net::IpAddr;

use parallax_api::{
    names::{CaaState, NameCause, NameFacts, NameProblem, NameVerdict, ResolverSide},
    preflight::Finding,
};
use parallax_model::{
    FailureKind,
    dns::{
        CaaAnswer, CaaAsk, CaaAt, CaaRefusal, CaaVerdict, RecordAnswer, caa_names, evaluate_caa,
        lookup_problem,
    },
};

/// Judges the facts for the CA with these identities in CAA records (empty if unknown) and this account (if known).
#[must_use]
pub fn judge_names(facts: &NameFacts, identities: &[String], account: Option<&str>) -> NameVerdict {
    let mut judged = NameVerdict {
        caa: CaaState::NotQueried,
        caa_description: "the public CAA records were not queried".to_owned(),
        problems: Vec::new(),
        unknown: Vec::new(),
        findings: resolution_findings(facts),
    };
    judge_addresses(facts, &mut judged);
    judge_caa_chains(facts, identities, account, &mut judged);
    judged
}

/// Only facts on which all public servers agree are problems; a single different response leaves the result open.
fn judge_addresses(facts: &NameFacts, judged: &mut NameVerdict) {
    let name = &facts.name;
    let answers: Vec<(&RecordAnswer, &RecordAnswer)> = facts
        .on_side(ResolverSide::Public)
        .map(|seen| (&seen.view.a, &seen.view.aaaa))
        .collect();
    if answers.is_empty() {
        return;
    }
    let all = |is: &dyn Fn(&RecordAnswer) -> bool| answers.iter().all(|(a, aaaa)| is(a) && is(aaaa));
    let gone = all(&|answer| *answer == RecordAnswer::NoSuchName);
    let empty = all(&|answer| matches!(answer, RecordAnswer::NoSuchName | RecordAnswer::None));
    let failing = all(&|answer| *answer == RecordAnswer::Failed(FailureKind::ServFail));
    let problem = if gone {
        NameProblem {
            cause: NameCause::Nxdomain,
            description: format!("no public server knows the name {name}"),
            ca_error: format!("dns: {}", lookup_problem(&FailureKind::NxDomain, "A", name)),
            remedy: "publish the name in its public zone".to_owned(),
        }
    } else if empty {
        NameProblem {
            cause: NameCause::NoAddress,
            description: format!("{name} has neither an A nor an AAAA record in public DNS"),
            ca_error: format!(
                "dns: no valid A records found for {name}; no valid AAAA records found for {name}"
            ),
            remedy: "publish an address for the name in its public zone".to_owned(),
        }
    } else if failing {
        NameProblem {
            cause: NameCause::Servfail,
            description: format!("every public server returns SERVFAIL for {name}"),
            ca_error: format!("dns: {}", lookup_problem(&FailureKind::ServFail, "A", name)),
            remedy:
                "check the zone's servers and its DNSSEC: resolvers return SERVFAIL if signatures are invalid"
                    .to_owned(),
        }
    } else {
        return;
    };
    judged.problems.push(problem);
}

/// Findings on names that resolve differently inside the cluster and in public DNS.
fn resolution_findings(facts: &NameFacts) -> Vec<Finding> {
    let (inside, public) = (
        facts.addresses(ResolverSide::Inside),
        facts.addresses(ResolverSide::Public),
    );
    let both_sides = facts.on_side(ResolverSide::Inside).next().is_some()
        && facts.on_side(ResolverSide::Public).next().is_some();
    if !both_sides || inside == public || (inside.is_empty() && public.is_empty()) {
        return Vec::new();
    }
    let list = |addresses: &[IpAddr]| {
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        if texts.is_empty() {
            "no address".to_owned()
        } else {
            texts.join(", ")
        }
    };
    let mut findings = vec![Finding {
        id: "F15".into(),
        text: format!(
            "the name resolves to {} inside and to {} in public DNS: the self check and the CA do not connect to the same server",
            list(&inside),
            list(&public)
        ),
    }];
    let only: Vec<IpAddr> = public
        .iter()
        .filter(|address| address.is_ipv6() && !inside.contains(address))
        .copied()
        .collect();
    if !only.is_empty() {
        findings.push(Finding {
            id: "F17".into(),
            text: format!(
                "{} is published but not visible inside: the CA tries it first, the self check never does",
                list(&only)
            ),
        });
    }
    findings
}

/// Evaluates the CAA chain that one vantage saw; without an identity, only whether any CA may issue. A parent
/// domain that was not queried may have records, so it is treated as unknown.
fn judge_chain(name: &str, chain: &[CaaAt], identities: &[String], account: Option<&str>) -> CaaVerdict {
    let names: Vec<CaaAt> = caa_names(name)
        .into_iter()
        .map(|name| {
            let at = chain.iter().find(|at| at.name == name);
            let unknown = || CaaAnswer::Failed(FailureKind::ResolverUnreachable);
            CaaAt {
                answer: at.map_or_else(unknown, |at| at.answer.clone()),
                name,
            }
        })
        .collect();
    let ask = |issuer| CaaAsk {
        issuer,
        wildcard: false,
        method: "http-01",
        account_uri: account,
    };
    let rank = |verdict: &CaaVerdict| match verdict {
        CaaVerdict::Unrestricted => 0,
        CaaVerdict::Allowed { accounts, .. } if accounts.is_empty() => 1,
        CaaVerdict::Allowed { .. } => 2,
        CaaVerdict::Forbidden { .. } => 3,
        CaaVerdict::Unknown { .. } => 4,
    };
    identities
        .iter()
        .map(|issuer| evaluate_caa(&names, ask(issuer)))
        .min_by_key(rank)
        // No record can name this identity, so what remains applies to every CA.
        .unwrap_or_else(|| evaluate_caa(&names, ask("\0")))
}

fn judge_caa_chains(
    facts: &NameFacts,
    identities: &[String],
    account: Option<&str>,
    judged: &mut NameVerdict,
) {
    let verdicts = |public: bool| {
        let climbs = facts.caa.iter().filter(move |chain| chain.public == public);
        let mut all: Vec<CaaVerdict> = Vec::new();
        for chain in climbs {
            let verdict = judge_chain(&facts.name, &chain.names, identities, account);
            if !all.contains(&verdict) {
                all.push(verdict);
            }
        }
        all
    };
    let issuer = identities.first().map_or("", String::as_str);
    let (public, own) = (verdicts(true), verdicts(false));
    match (public.as_slice(), own.as_slice()) {
        ([], []) => {}
        ([], own) => judge_inside_only(own, issuer, judged),
        ([verdict], _) => apply_verdict(&facts.name, verdict, issuer, judged),
        (several, _) => {
            judged.caa = CaaState::Unknown;
            let descriptions: Vec<String> = several
                .iter()
                .map(|verdict| describe(verdict, issuer).0)
                .collect();
            judged.caa_description = format!(
                "public servers disagree on the CAA records: {}",
                descriptions.join("; or ")
            );
            judged.unknown.push(judged.caa_description.clone());
        }
    }
}

/// The cluster's own resolver may return other records than the CA gets. Its response proves nothing, but records
/// that restrict issuance are not ignored.
fn judge_inside_only(own: &[CaaVerdict], issuer: &str, judged: &mut NameVerdict) {
    let harmless = |verdict: &CaaVerdict| match verdict {
        CaaVerdict::Unrestricted => true,
        CaaVerdict::Allowed { accounts, .. } => accounts.is_empty(),
        CaaVerdict::Forbidden { .. } | CaaVerdict::Unknown { .. } => false,
    };
    let descriptions: Vec<String> = own.iter().map(|verdict| describe(verdict, issuer).0).collect();
    let descriptions = descriptions.join("; or ");
    judged.caa_description = format!(
        "according to the probing machines' own resolvers (no public view was queried): {descriptions}"
    );
    if !own.iter().all(harmless) {
        judged.caa = CaaState::Unknown;
        judged.unknown.push(format!(
            "{descriptions}, according to the probing machines' own resolvers; the public CAA records are unknown (set resolvers.public in the aggregator's configuration)"
        ));
    }
}

fn apply_verdict(name: &str, verdict: &CaaVerdict, issuer: &str, judged: &mut NameVerdict) {
    let (description, remedy) = describe(verdict, issuer);
    judged.caa_description.clone_from(&description);
    let problem = |cause| {
        let ca_problem = verdict.problem(name);
        NameProblem {
            cause,
            description: description.clone(),
            ca_error: ca_problem.map_or_else(String::new, |(class, detail)| format!("{class}: {detail}")),
            remedy,
        }
    };
    judged.caa = match verdict {
        CaaVerdict::Unrestricted => CaaState::Unrestricted,
        CaaVerdict::Allowed { accounts, .. } if accounts.is_empty() => CaaState::Allowed,
        CaaVerdict::Allowed { .. } => {
            judged.unknown.push(description);
            CaaState::Unknown
        }
        CaaVerdict::Forbidden { reason, .. } => {
            let forbids_every_issuer = match reason {
                CaaRefusal::CriticalTag(_) => true,
                CaaRefusal::OtherIssuers(others) => others.is_empty(),
                CaaRefusal::OtherAccount(_) | CaaRefusal::OtherMethod(_) => false,
            };
            if issuer.is_empty() && !forbids_every_issuer {
                judged.unknown.push(description);
                CaaState::Unknown
            } else {
                judged.problems.push(problem(NameCause::Caa));
                CaaState::Forbidden
            }
        }
        CaaVerdict::Unknown { kind, .. } => {
            // Boulder issues nothing if the lookup returns SERVFAIL. Other failures may affect only this resolver,
            // and not Boulder's.
            if *kind == FailureKind::ServFail {
                judged.problems.push(problem(NameCause::CaaLookup));
            } else {
                judged.unknown.push(description);
            }
            CaaState::Unknown
        }
    };
}

/// Returns the description and the remedy.
fn describe(verdict: &CaaVerdict, issuer: &str) -> (String, String) {
    let known = !issuer.is_empty();
    let ca = if known { issuer } else { "the CA" };
    let none = String::new;
    match verdict {
        CaaVerdict::Unrestricted => ("no CAA records, so any CA may issue".to_owned(), none()),
        CaaVerdict::Allowed { name: at, accounts } if accounts.is_empty() => {
            (format!("the CAA records of {at} allow {ca} to issue"), none())
        }
        CaaVerdict::Allowed { name: at, accounts } => (
            format!(
                "the CAA records of {at} allow {ca} only for the account {}, and the requesting account is unknown",
                accounts.join(", ")
            ),
            none(),
        ),
        CaaVerdict::Forbidden {
            name: at,
            reason: CaaRefusal::OtherIssuers(others),
        } if !known && !others.is_empty() => (
            format!(
                "the CAA records of {at} allow only {} to issue; whether that is your CA is unknown (give --caa-identity)",
                others.join(", ")
            ),
            none(),
        ),
        CaaVerdict::Forbidden { name: at, reason } => reason.explain(at, ca),
        CaaVerdict::Unknown { name: at, kind } => (
            format!(
                "the CAA records of {at} cannot be looked up ({}), and CAs do not issue without this lookup",
                kind.description()
            ),
            "check the zone's servers: they fail for CAA records, or the zone's DNSSEC is broken".to_owned(),
        ),
    }
}
