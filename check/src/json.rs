//! The report as JSON: one document per URL. Existing fields and values are stable; new ones may be added.
//!
//! Durations are whole microseconds (`…_us`), points in time are seconds since the Unix epoch. Text received from the
//! network is bounded, and escaped as for terminals.

use parallax_model::{Outcome, PhaseTimes};
use parallax_prober::{
    AnswerFacts, CertificateFacts, ClientProfile, DialOutcome, FamilyAnswer, Resolution, TlsFacts,
    ValidationResult,
};
use parallax_terminal::escape;
use serde_json::{Map, Value, json};

use super::{
    caa,
    finding::Finding,
    names::{AnswerSource, NameAnswer},
    report::{CheckResult, Report},
    request_chain::RedirectLeg,
    round::{AddressResult, CheckRound},
    tally::{self, AddressTally, PHASES},
};

/// Incremented when a reader of the previous format would misread the new one.
const VERSION: u32 = 1;

/// Returns the report as a JSON document.
pub(super) fn document(report: &Report<'_>) -> Value {
    let judged = &report.judgement;
    let mut document = json!({
        "version": VERSION,
        "url": report.subject.url,
        "given": escape(&report.subject.given),
        "assumed": report.subject.assumptions,
        "result": judged.verdict.label(),
        "looks": {"planned": report.planned_passes, "made": judged.looks, "good": judged.successful_passes},
        "findings": judged.findings.iter().map(finding).collect::<Vec<_>>(),
    });
    match &report.result {
        CheckResult::Addresses(rounds) => {
            document["names"] = rounds.last().map_or(Value::Null, names);
            document["addresses"] = addresses(rounds);
        }
        CheckResult::Fetches {
            profile,
            client_rules: manners,
            results: fetched,
            caa,
        } => {
            document["profile"] = json!({
                "client": client_label(profile.client),
                "manners": manners,
                "fetches": fetched.iter().map(fetch).collect::<Vec<_>>(),
            });
            if let Some(caa) = caa {
                document["profile"]["caa"] = caa.json();
            }
        }
    }
    document
}

fn finding(found: &Finding) -> Value {
    json!({
        "level": found.level.label(),
        "id": found.id,
        "addresses": found.addresses,
        "said": found.said.summary,
        "likely": found.said.likely_reasons,
        "times": found.times,
    })
}

fn names(round: &CheckRound) -> Value {
    round.lookup.answers.iter().map(answer).collect()
}

fn answer(answer: &NameAnswer) -> Value {
    let (by, resolver) = match &answer.source {
        AnswerSource::Literal => ("literal", None),
        AnswerSource::Forced => ("connect_to", None),
        AnswerSource::Hosts => ("hosts_file", None),
        AnswerSource::ResolvConf => ("resolv_conf", None),
        AnswerSource::Resolver(resolver) => ("resolver", Some(*resolver)),
        AnswerSource::NameService => ("name_service", None),
    };
    let mut value = json!({"by": by, "addresses": answer.addresses, "took_us": answer.duration.0});
    if let Some(resolver) = resolver {
        value["resolver"] = json!(resolver);
    }
    if let Some(dns) = answer.dns.as_ref().filter(|dns| !dns.tried.is_empty()) {
        value["dns"] = resolution(dns);
    }
    value
}

fn resolution(dns: &Resolution) -> Value {
    json!({
        "a": family(&dns.a),
        "aaaa": family(&dns.aaaa),
        "found": dns.addresses.iter().map(|found| json!({
            "address": found.address,
            "resolver": found.resolver,
            "name": escape(&found.name),
            "ttl_s": found.ttl_s,
            "tcp": found.over_tcp,
        })).collect::<Vec<_>>(),
        "tried": dns.tried.iter().map(|tried| json!({
            "name": escape(&tried.name),
            "resolver": tried.resolver,
            "a": family(&tried.a),
            "aaaa": family(&tried.aaaa),
        })).collect::<Vec<_>>(),
    })
}

fn family(answer: &FamilyAnswer) -> String {
    match answer {
        FamilyAnswer::Addresses(_) => "addresses".to_owned(),
        FamilyAnswer::Failed { kind, .. } => kind.label().to_owned(),
        FamilyAnswer::NotQueried { own, .. } => own.label().to_owned(),
        FamilyAnswer::NotNeeded => "not_asked".to_owned(),
    }
}

fn addresses(rounds: &[CheckRound]) -> Value {
    tally::tally_addresses(rounds)
        .iter()
        .map(|tally| address(tally, rounds))
        .collect()
}

/// The results of one address over all passes, with the details of the last failed probe, or of the last one if none
/// failed.
fn address(tally: &AddressTally, rounds: &[CheckRound]) -> Value {
    let all = || {
        rounds
            .iter()
            .flat_map(|round| &round.reached)
            .filter(|one| one.address == tally.address)
    };
    let telling = all()
        .rfind(|one| one.outcome.is_failure())
        .or_else(|| all().next_back());
    let mut phases = Map::new();
    for (part, spread) in PHASES.iter().zip(&tally.phase_percentiles) {
        if let Some(spread) = spread {
            let spread = json!({
                "min_us": spread.min.0,
                "median_us": spread.median.0,
                "p90_us": spread.p90.0,
                "max_us": spread.max.0,
            });
            phases.insert(part.label.to_owned(), spread);
        }
    }
    let mut value = json!({
        "address": tally.address,
        "ok": tally.ok,
        "failed": tally.failed,
        "unknown": tally.unknown,
        "phases": phases,
        "probe": telling.map(probe),
    });
    if let Some(first) = all().next() {
        value["local"] = json!(first.is_local);
        match &first.ttl {
            Some(Ok(evidence)) => value["ttl"] = json!(evidence),
            Some(Err(reason)) => value["ttl_unknown"] = json!(reason.to_string()),
            None => {}
        }
    }
    value
}

fn probe(one: &AddressResult) -> Value {
    let mut value = outcome(&one.outcome);
    value["at"] = json!(escape(&one.final_url));
    if let Some(detail) = &one.detail {
        value["detail"] = json!(escape(detail));
    }
    value["requests"] = one.requests.iter().map(request).collect();
    value
}

fn outcome(outcome: &Outcome) -> Value {
    // The wire format; it contains no text received from the network.
    serde_json::to_value(outcome).unwrap_or(Value::Null)
}

fn request(leg: &RedirectLeg) -> Value {
    let mut value = json!({
        "url": escape(&leg.url),
        "front": leg.result.front,
        "times": times(&leg.result.times),
    });
    if let Some(tls) = &leg.result.tls {
        value["tls"] = handshake(tls);
    }
    if let Some(answer) = &leg.result.answer {
        value["answer"] = response_facts(answer);
    }
    value
}

fn times(times: &PhaseTimes) -> Value {
    serde_json::to_value(times).unwrap_or(Value::Null)
}

fn response_facts(answer: &AnswerFacts) -> Value {
    json!({
        "status": answer.status,
        "version": answer.version,
        "server": answer.server.as_deref().map(escape),
        "content_type": answer.content_type.as_deref().map(escape),
        "location": answer.location.as_deref().map(escape),
        "read": answer.bytes_read,
    })
}

fn handshake(tls: &TlsFacts) -> Value {
    json!({
        "server_name": tls.server_name,
        "version": tls.version,
        "alpn": tls.alpn.as_deref().map(escape),
        "refused": tls.rejected,
        "chain": tls.chain.iter().map(certificate).collect::<Vec<_>>(),
        "left_out": tls.left_out,
    })
}

fn certificate(one: &CertificateFacts) -> Value {
    json!({
        "subject": escape(&one.subject),
        "issuer": escape(&one.issuer),
        "names": one.names.iter().map(|name| escape(name)).collect::<Vec<_>>(),
        "names_left_out": one.names_left_out,
        "not_before": one.not_before,
        "not_after": one.not_after,
        "self_signed": one.self_signed,
        "key": escape(&one.key),
    })
}

const fn client_label(client: ClientProfile) -> &'static str {
    match client {
        ClientProfile::Generic => "generic",
        ClientProfile::CertManager => "cert-manager",
        ClientProfile::Boulder => "ca",
        ClientProfile::Pebble => "pebble",
    }
}

fn fetch(fetched: &ValidationResult) -> Value {
    let mut value = outcome(&fetched.outcome);
    if let Some(detail) = &fetched.detail {
        value["detail"] = json!(escape(detail));
    }
    if let Some(acme_problem) = &fetched.problem {
        value["problem"] = caa::problem(acme_problem);
    }
    value["took_us"] = json!(fetched.duration.0);
    value["dns"] = fetched.resolution.as_ref().map_or(Value::Null, resolution);
    value["dials"] = fetched
        .dials
        .iter()
        .map(|tried| json!({"address": tried.address, "outcome": dial_label(&tried.outcome)}))
        .collect();
    value["hops"] = fetched
        .hops
        .iter()
        .map(|hop| json!({"url": escape(&hop.url), "status": hop.status}))
        .collect();
    value
}

/// The outcome of one connection attempt, as a stable identifier.
pub(super) fn dial_label(outcome: &DialOutcome) -> &str {
    match outcome {
        DialOutcome::Connected => "connected",
        DialOutcome::Failed(kind) => kind.label(),
        DialOutcome::Overtaken => "overtaken",
    }
}
