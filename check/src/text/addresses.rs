//! The results of each address as text: phase times, statistics over passes, redirects and the distance of the
//! responder.

use std::fmt::Write as _;

use parallax_model::{Outcome, TtlEvidence};
use parallax_terminal::{ColorMode, escape};

use super::{
    super::{
        explanation::explain_own_fault,
        request_chain::RedirectLeg,
        round::AddressResult,
        tally::{AddressTally, PHASES},
        verdict::Verdict,
    },
    verdict_symbol, write_line,
};

/// Writes a table with a row per address and a column per measured phase.
pub(super) fn write_table(reached: &[AddressResult], style: ColorMode, text: &mut String) {
    if reached.is_empty() {
        return;
    }
    let times = |one: &AddressResult| {
        one.requests
            .first()
            .map(|leg| leg.result.times)
            .unwrap_or_default()
    };
    let parts: Vec<_> = PHASES
        .iter()
        .filter(|part| reached.iter().any(|one| (part.duration)(&times(one)).is_some()))
        .collect();
    let lengths = reached.iter().map(|one| one.address.to_string().len());
    let width = lengths.max().unwrap_or(0).max("certificate".len());
    let mut head = format!("  {:<width$}", "address");
    for part in &parts {
        let _ = write!(head, "  {:>10}", part.heading);
    }
    let _ = writeln!(text, "{head}");
    for one in reached {
        let mut row = format!("  {:<width$}", one.address.to_string());
        for part in &parts {
            let time = (part.duration)(&times(one)).map_or_else(|| "–".to_owned(), |time| time.to_string());
            let _ = write!(row, "  {time:>10}");
        }
        let _ = writeln!(text, "{row}  {}", outcome_cell(one, style));
    }
}

fn outcome_cell(one: &AddressResult, style: ColorMode) -> String {
    match &one.outcome {
        Outcome::Ok { status } => {
            let status = status.map_or_else(|| "ok".to_owned(), |status| status.to_string());
            format!("{} {status}", verdict_symbol(style, Verdict::Works))
        }
        Outcome::Failed { kind, status, .. } => {
            let status = status.map_or_else(String::new, |status| format!("{status}, "));
            format!(
                "{} {status}{}",
                verdict_symbol(style, Verdict::Fails),
                kind.description()
            )
        }
        Outcome::NotProbed { fault: own } => {
            format!(
                "{} {}",
                verdict_symbol(style, Verdict::Unknown),
                explain_own_fault(*own, None).summary
            )
        }
    }
}

pub(super) fn write_tallies(tallies: &[AddressTally], text: &mut String) {
    for tally in tallies {
        let mut counts = format!("{} ok", tally.ok);
        for (count, word) in [(tally.failed, "failed"), (tally.unknown, "could not be probed")] {
            if count > 0 {
                let _ = write!(counts, ", {count} {word}");
            }
        }
        write_line(text, "address", &format!("{}  {counts}", tally.address));
        if tally.phase_percentiles.iter().all(Option::is_none) {
            continue;
        }
        let _ = writeln!(
            text,
            "  {:<11} {:<12}{:>10}{:>10}{:>10}{:>10}",
            "", "", "min", "median", "90 %", "max"
        );
        for (part, spread) in PHASES.iter().zip(&tally.phase_percentiles) {
            let Some(spread) = spread else { continue };
            let [min, median, p90, max] =
                [spread.min, spread.median, spread.p90, spread.max].map(|time| time.to_string());
            let _ = writeln!(
                text,
                "  {:<11} {:<12}{min:>10}{median:>10}{p90:>10}{max:>10}",
                "", part.heading
            );
        }
    }
}

/// Describes who answers for the address and how far away it is; `None` without an attempt to find out.
pub(super) fn responder_text(one: &AddressResult) -> Option<String> {
    Some(match (one.ttl.as_ref()?, one.is_local) {
        (_, true) => "by this machine itself".to_owned(),
        (Ok(evidence), false) => distance(evidence),
        (Err(reason), false) => format!("distance unknown: {reason}"),
    })
}

fn distance(evidence: &TtlEvidence) -> String {
    let by = match evidence.sender {
        Some(from) if from != evidence.address => format!(" (by {from} in its place)"),
        _ => String::new(),
    };
    if evidence.crossed_no_router() {
        return format!(
            "without a router in between, by this machine's own node or a neighbour{by}; TTL {} untouched",
            evidence.ttl
        );
    }
    let initial = [64_u8, 128, 255]
        .into_iter()
        .find(|initial| *initial >= evidence.ttl)
        .unwrap_or(255);
    let hops = initial - evidence.ttl;
    let hops = if hops == 1 {
        "1 router".to_owned()
    } else {
        format!("about {hops} routers")
    };
    format!("{hops} away{by}; TTL {} of {initial}", evidence.ttl)
}

/// Writes the redirects that one address led to.
pub(super) fn write_redirects(one: &AddressResult, text: &mut String) {
    if one.requests.len() < 2 && one.requests.last().is_none_or(|leg| leg.url == one.final_url) {
        return;
    }
    for (n, leg) in one.requests.iter().enumerate() {
        let word = if n == 0 { "redirects" } else { "" };
        write_line(
            text,
            word,
            &format!("{}  {}", escape(&leg.url), request_text(leg)),
        );
    }
    if one.requests.last().is_some_and(|leg| leg.url != one.final_url) {
        write_line(text, "", &format!("{}  not requested", escape(&one.final_url)));
    }
}

fn request_text(leg: &RedirectLeg) -> String {
    let status = match (&leg.result.answer, &leg.result.outcome) {
        (Some(answer), _) => answer.status.to_string(),
        (None, Outcome::Failed { kind, .. }) => kind.description().to_owned(),
        (None, _) => "no response".to_owned(),
    };
    let at = leg
        .result
        .front
        .map_or_else(String::new, |front| format!(" at {front}"));
    let total = leg.result.times.total.unwrap_or_default();
    format!("{status}{at} in {total}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_claimed_as_far_as_the_ttl_goes() {
        let describe = |ttl, from: Option<[u8; 4]>| {
            distance(&TtlEvidence {
                address: [192, 0, 2, 1].into(),
                sender: from.map(Into::into),
                ttl,
                rtt: None,
            })
        };
        assert!(describe(64, None).contains("without a router in between"));
        assert!(describe(63, None).starts_with("1 router away"));
        assert!(describe(119, None).starts_with("about 9 routers away; TTL 119 of 128"));
        assert!(describe(64, Some([10, 0, 0, 1])).contains("by 10.0.0.1 in its place"));
    }
}
