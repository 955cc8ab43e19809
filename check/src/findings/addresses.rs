//! Findings about the addresses that were reached or dialled.

use std::net::SocketAddr;

use parallax_model::{FailureKind, Outcome};
use parallax_prober::{DialOutcome, ValidationResult};
use parallax_terminal::escape;

use super::{
    ADDRESSES_LEFT_OUT, ANSWERS_DIFFER, DEAD_ADDRESS, EXPIRES_SOON, NOT_VERIFIED, PACKETS_LOST, PassFindings,
    STATUS,
};
use crate::{
    dates,
    explanation::{Explanation, explain},
    facts::FailureFacts,
    finding::FindingLevel,
    outcome::of_reached,
    round::{AddressResult, CheckRound},
    subject::{CheckAction, CheckSubject},
};

/// The number of remaining days below which a certificate is reported: 14, by when automatic renewal has happened or
/// failed, but at most a third of the lifetime, because short-lived certificates are renewed in their last third.
fn expiry_warning_days(not_before: i64, not_after: i64) -> i64 {
    dates::days((not_after - not_before) / 3).min(14)
}

/// Adds findings about the addresses that were reached: certificates, lost packets, statuses and their differences.
pub(crate) fn check_addresses(
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
    let mut explanation = explain(&FailureKind::Status, &facts);
    explanation.summary = format!(
        "{}; every status below 500 is a success, --expect-status 200 is stricter",
        explanation.summary
    );
    found.add(FindingLevel::Note, STATUS, vec![one.address], explanation);
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
        let explanation = explain(refused, &facts);
        found.add(
            FindingLevel::Warning,
            NOT_VERIFIED,
            vec![one.address],
            Explanation {
                summary: format!("accepted because of --insecure, although {}", explanation.summary),
                likely_reasons: explanation.likely_reasons,
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
pub(crate) fn check_dials(fetched: &ValidationResult, found: &mut PassFindings) {
    if !matches!(fetched.outcome, Outcome::Ok { .. }) {
        return;
    }
    for dial in &fetched.dials {
        let reason = match &dial.outcome {
            DialOutcome::Connected => continue,
            DialOutcome::Failed(kind) => kind.description().to_owned(),
            DialOutcome::Overtaken => "an address of the other family connected first".to_owned(),
        };
        found.add(
            FindingLevel::Warning,
            DEAD_ADDRESS,
            vec![dial.address],
            Explanation {
                summary: format!("this client did not use the address: {reason}"),
                likely_reasons: vec![
                    "clients with other rules fail here; try --profile ca and --profile pebble".to_owned(),
                ],
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_lived_certificate_is_not_always_about_to_expire() {
        const DAY: i64 = 24 * 60 * 60;
        for (lifetime, days) in [(398, 14), (90, 14), (6, 2), (1, 0)] {
            assert_eq!(expiry_warning_days(0, lifetime * DAY), days, "{lifetime} days");
        }
    }
}
