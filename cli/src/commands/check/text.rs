//! A report for people. Everything that others wrote goes through [`shown`].

use std::fmt::Write as _;

use parallax_model::{Micros, Outcome, TtlEvidence};
use parallax_prober::{Resolution, TlsFacts, Validation};

use super::{
    escape::shown,
    judge::{Finding, Level, Verdict},
    names::{Answer, Lookup, Source},
    report::{Report, Seen},
    round::{Reached, Round},
    subject::What,
    tally::{self, PARTS, Tally},
    walk::Leg,
    when,
    words::names,
};

/// Whether the terminal understands colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    fn sign(self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Works => self.paint("32", "✓"),
            Verdict::Warned => self.paint("33", "✓"),
            Verdict::Unknown => self.paint("90", "?"),
            Verdict::Fails => self.paint("1;31", "✗"),
        }
    }

    fn mark(self, level: Level) -> String {
        match level {
            Level::Note => self.paint("90", "i"),
            Level::Warning => self.paint("33", "!"),
            Level::Unknown => self.paint("90", "?"),
            Level::Failure => self.paint("1;31", "✗"),
        }
    }
}

/// A headline, what was seen, what was found.
pub(super) fn report(report: &Report<'_>, style: Style) -> String {
    let mut text = format!(
        "{} {}{}\n",
        style.sign(report.judgement.verdict),
        report.subject.url,
        headline(report)
    );
    for said in &report.subject.said {
        line(&mut text, "", said);
    }
    match &report.seen {
        Seen::Addresses(rounds) => seen(rounds, report, style, &mut text),
        Seen::Fetches { manners, fetched, .. } => {
            for said in manners {
                line(&mut text, "", said);
            }
            if let Some(last) = fetched.last() {
                fetch(last, &mut text);
            }
        }
    }
    for (n, found) in report.judgement.findings.iter().enumerate() {
        if n > 0 || !told_by_headline(report, found) {
            finding(found, report.judgement.looks, style, &mut text);
        }
        reasons(found, &mut text);
    }
    text
}

/// Whether the headline has said all of the gravest finding, addresses included.
fn told_by_headline(report: &Report<'_>, found: &Finding) -> bool {
    let all = match &report.seen {
        Seen::Addresses(rounds) => rounds.last().map_or(0, |round| round.reached.len()),
        Seen::Fetches { .. } => 0,
    };
    report.planned == 1
        && report.judgement.verdict >= Verdict::Unknown
        && (found.addresses.is_empty() || found.addresses.len() == all)
}

/// The verdict in words.
fn headline(report: &Report<'_>) -> String {
    let judged = &report.judgement;
    if judged.looks == 0 {
        return ": stopped before it was asked".to_owned();
    }
    if report.planned > 1 {
        let stopped = if judged.looks < report.planned {
            format!(", stopped before the other {}", report.planned - judged.looks)
        } else {
            String::new()
        };
        return format!(" worked {} of {} times{stopped}", judged.good, judged.looks);
    }
    let gravest = || {
        judged
            .findings
            .first()
            .map_or_else(|| "failed".to_owned(), |found| found.said.what.clone())
    };
    match judged.verdict {
        Verdict::Fails => format!(": {}", gravest()),
        Verdict::Unknown => format!(" could not be told: {}", gravest()),
        Verdict::Works | Verdict::Warned => format!(" {}", works(report)),
    }
}

fn works(report: &Report<'_>) -> String {
    let rounds = match &report.seen {
        Seen::Addresses(rounds) => rounds,
        Seen::Fetches { fetched, .. } => {
            let took = fetched.last().map_or_else(Micros::default, |one| one.took);
            return format!("is fetched in {took}");
        }
    };
    let Some(round) = rounds.last() else {
        return String::new();
    };
    let Some(best) = round
        .reached
        .iter()
        .find(|one| matches!(one.outcome, Outcome::Ok { .. }))
    else {
        let count = round.lookup.addresses().len();
        return format!(
            "resolves to {count} {}",
            if count == 1 { "address" } else { "addresses" }
        );
    };
    let total = Micros(
        best.legs
            .iter()
            .filter_map(|leg| leg.result.times.total)
            .map(|time| time.0)
            .sum(),
    );
    match (&best.outcome, &report.subject.what) {
        (Outcome::Ok { status: Some(status) }, _) => {
            let after = match best.legs.len() {
                0 | 1 => String::new(),
                2 => " after a redirect".to_owned(),
                more => format!(" after {} redirects", more - 1),
            };
            format!("answers {status}{after} in {total}")
        }
        (_, What::Stream(probe)) if probe.tls => format!("shakes hands over TLS in {total}"),
        _ => format!("accepts connections, in {total}"),
    }
}

fn seen(rounds: &[Round], report: &Report<'_>, style: Style, text: &mut String) {
    let Some(last) = rounds.last() else { return };
    lookup(&last.lookup, matches!(report.subject.what, What::Name(_)), text);
    if rounds.len() > 1 {
        tallies(&tally::of(rounds), text);
    } else {
        table(&last.reached, style, text);
    }
    // Who answers is asked in the first look.
    let first = rounds.first().unwrap_or(last);
    for one in &first.reached {
        // Of loopback everybody knows who answers.
        if !one.address.ip().is_loopback()
            && let Some(who) = next_door(one)
        {
            line(text, "answered", &format!("{}: {who}", one.address));
        }
    }
    for (tls, addresses) in certificates(&last.reached) {
        certificate(tls, &addresses, last.reached.len(), report.now, text);
    }
    for one in &last.reached {
        redirects(one, text);
    }
    if let Some(answer) = last
        .reached
        .iter()
        .find_map(|one| one.legs.last()?.result.answer.as_ref())
    {
        let mut words = vec![shown(&answer.version)];
        words.extend(answer.server.as_deref().map(shown));
        words.extend(answer.content_type.as_deref().map(shown));
        words.push(format!("{} bytes", answer.read));
        words.extend(
            answer
                .location
                .as_deref()
                .filter(|_| (300..400).contains(&answer.status))
                .map(|location| format!("Location: {}", shown(location))),
        );
        line(text, "answer", &words.join(", "));
    }
}

/// One fact, under its word.
fn line(text: &mut String, word: &str, said: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {word:<11} {said}");
}

/// Who said what of the name. What needs nobody to say it is shown only where the name is all that was asked for.
fn lookup(lookup: &Lookup, wholly: bool, text: &mut String) {
    for (n, answer) in lookup.answers.iter().enumerate() {
        let word = if n == 0 { "name" } else { "" };
        let found = match &answer.source {
            Source::Literal | Source::Forced if !wholly => continue,
            Source::Literal | Source::Forced => format!("{}, without asking anybody", addresses(answer)),
            Source::Hosts => format!("{}, by the hosts file of this machine", addresses(answer)),
            Source::NameService => format!("{}, by this machine's name service", addresses(answer)),
            Source::ResolvConf | Source::Resolver(_) => answer
                .dns
                .as_ref()
                .map_or_else(String::new, |dns| resolution(dns, answer.took)),
        };
        line(text, word, &found);
        if let Some(path) = answer.dns.as_ref().and_then(searched) {
            line(text, "", &path);
        }
    }
}

fn addresses(answer: &Answer) -> String {
    answer
        .addresses
        .iter()
        .map(std::net::IpAddr::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn resolution(dns: &Resolution, took: Micros) -> String {
    let Some(last) = dns.tried.last() else {
        return "no resolver was asked".to_owned();
    };
    let by = format!("by {} in {took}", last.resolver);
    if dns.addresses.is_empty() {
        return format!("no address, {by}");
    }
    let mut said = Vec::new();
    for (record, v4) in [("A", true), ("AAAA", false)] {
        let of: Vec<_> = dns
            .addresses
            .iter()
            .filter(|found| found.address.is_ipv4() == v4)
            .collect();
        let Some(first) = of.first() else {
            said.push(format!("no {record}"));
            continue;
        };
        let list: Vec<String> = of.iter().map(|found| found.address.to_string()).collect();
        let ttl = first
            .ttl_s
            .map_or_else(String::new, |ttl| format!(" (TTL {ttl} s)"));
        let tcp = if first.tcp { " over TCP" } else { "" };
        said.push(format!("{record} {}{ttl}{tcp}", list.join(", ")));
    }
    format!("{}, {by}", said.join("; "))
}

/// The way through the search list, where there was one.
fn searched(dns: &Resolution) -> Option<String> {
    let mut names: Vec<String> = dns.tried.iter().map(|tried| shown(&tried.name)).collect();
    names.dedup();
    (names.len() > 1).then(|| format!("searched as {}", names.join(", then ")))
}

/// One row an address, one column a phase that any of them has.
fn table(reached: &[Reached], style: Style, text: &mut String) {
    if reached.is_empty() {
        return;
    }
    let times = |one: &Reached| one.legs.first().map(|leg| leg.result.times).unwrap_or_default();
    let parts: Vec<_> = PARTS
        .iter()
        .filter(|part| reached.iter().any(|one| (part.of)(&times(one)).is_some()))
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
            let time = (part.of)(&times(one)).map_or_else(|| "–".to_owned(), |time| time.to_string());
            let _ = write!(row, "  {time:>10}");
        }
        let _ = writeln!(text, "{row}  {}", ending(one, style));
    }
}

fn ending(one: &Reached, style: Style) -> String {
    match &one.outcome {
        Outcome::Ok { status } => {
            let status = status.map_or_else(|| "ok".to_owned(), |status| status.to_string());
            format!("{} {status}", style.sign(Verdict::Works))
        }
        Outcome::Failed { kind, status, .. } => {
            let status = status.map_or_else(String::new, |status| format!("{status}, "));
            format!("{} {status}{}", style.sign(Verdict::Fails), kind.words())
        }
        Outcome::NotAsked { own } => format!("{} {own}", style.sign(Verdict::Unknown)),
    }
}

fn tallies(tallies: &[Tally], text: &mut String) {
    for tally in tallies {
        let mut counts = format!("{} ok", tally.ok);
        for (count, word) in [(tally.failed, "failed"), (tally.unknown, "could not be asked")] {
            if count > 0 {
                let _ = write!(counts, ", {count} {word}");
            }
        }
        line(text, "address", &format!("{}  {counts}", tally.address));
        if tally.spreads.iter().all(Option::is_none) {
            continue;
        }
        let _ = writeln!(
            text,
            "  {:<11} {:<12}{:>10}{:>10}{:>10}{:>10}",
            "", "", "min", "median", "90 %", "max"
        );
        for (part, spread) in PARTS.iter().zip(&tally.spreads) {
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

/// Who answers for the address, as far as there is evidence.
pub(super) fn next_door(one: &Reached) -> Option<String> {
    Some(match (one.ttl.as_ref()?, one.local) {
        (_, true) => "by this machine itself".to_owned(),
        (Ok(evidence), false) => distance(evidence),
        (Err(why), false) => format!("unknown how far away: {why}"),
    })
}

fn distance(evidence: &TtlEvidence) -> String {
    let by = match evidence.from {
        Some(from) if from != evidence.address => format!(" (by {from} in its place)"),
        _ => String::new(),
    };
    if evidence.untouched() {
        return format!(
            "without a router between, by this machine's own node or a neighbour{by}; TTL {} untouched",
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

/// The certificates that were shown, each with the addresses that showed it.
fn certificates(reached: &[Reached]) -> Vec<(&TlsFacts, Vec<String>)> {
    let mut all: Vec<(&TlsFacts, Vec<String>)> = Vec::new();
    for one in reached {
        let Some(tls) = one.legs.iter().rev().find_map(|leg| leg.result.tls.as_ref()) else {
            continue;
        };
        match all.iter_mut().find(|(known, _)| *known == tls) {
            Some((_, addresses)) => addresses.push(one.address.to_string()),
            None => all.push((tls, vec![one.address.to_string()])),
        }
    }
    all
}

fn certificate(tls: &TlsFacts, addresses: &[String], of: usize, now: i64, text: &mut String) {
    let only = if addresses.len() == of {
        String::new()
    } else {
        format!(" at {}", addresses.join(", "))
    };
    let Some(leaf) = tls.chain.first() else {
        return;
    };
    let name = leaf.name_for(&tls.server_name).map_or_else(
        || format!("for {}", names(&leaf.names, leaf.names_left_out)),
        |name| {
            let others = leaf.names.len() - 1 + leaf.names_left_out;
            let others = if others == 0 {
                String::new()
            } else {
                format!(" and {others} more")
            };
            format!("for {}{others}", shown(name))
        },
    );
    let left = when::days(leaf.not_after - now);
    let until = when::date(leaf.not_after);
    let until = if leaf.not_after < now {
        format!("until {until}, which is over")
    } else {
        format!("until {until}, {left} days left")
    };
    let subject = if leaf.subject.is_empty() {
        String::new()
    } else {
        format!("{}, ", shown(&leaf.subject))
    };
    line(text, "certificate", &format!("{subject}{name}; {until}{only}"));
    let by = if leaf.self_signed {
        "itself".to_owned()
    } else {
        shown(&leaf.issuer)
    };
    let mut facts = vec![
        format!("signed by {by}"),
        format!("chain of {}", tls.chain.len() + tls.left_out),
        shown(&leaf.key),
    ];
    facts.extend(tls.version.map(|version| format!("TLS {version}")));
    facts.extend(tls.alpn.as_deref().map(|alpn| format!("ALPN {}", shown(alpn))));
    line(text, "", &facts.join(", "));
}

fn redirects(one: &Reached, text: &mut String) {
    if one.legs.len() < 2 && one.legs.last().is_none_or(|leg| leg.url == one.at) {
        return;
    }
    for (n, leg) in one.legs.iter().enumerate() {
        let word = if n == 0 { "redirects" } else { "" };
        line(text, word, &format!("{}  {}", shown(&leg.url), of_leg(leg)));
    }
    if one.legs.last().is_some_and(|leg| leg.url != one.at) {
        line(text, "", &format!("{}  not asked", shown(&one.at)));
    }
}

fn of_leg(leg: &Leg) -> String {
    let status = match (&leg.result.answer, &leg.result.outcome) {
        (Some(answer), _) => answer.status.to_string(),
        (None, Outcome::Failed { kind, .. }) => kind.words().to_owned(),
        (None, _) => "no answer".to_owned(),
    };
    let at = leg
        .result
        .front
        .map_or_else(String::new, |front| format!(" at {front}"));
    let total = leg.result.times.total.unwrap_or_default();
    format!("{status}{at} in {total}")
}

fn fetch(fetched: &Validation, text: &mut String) {
    if let Some(dns) = &fetched.resolution {
        let all = &dns.tried;
        if !all.is_empty() {
            line(text, "name", &resolution(dns, fetched.took));
        }
    }
    for (n, dial) in fetched.dials.iter().enumerate() {
        let word = if n == 0 { "dialled" } else { "" };
        line(
            text,
            word,
            &format!("{}  {}", dial.address, super::json::dial(&dial.outcome)),
        );
    }
    for (n, hop) in fetched.hops.iter().enumerate() {
        let word = if n == 0 { "redirects" } else { "" };
        line(text, word, &format!("{}  {}", shown(&hop.url), hop.status));
    }
}

fn finding(found: &Finding, looks: u32, style: Style, text: &mut String) {
    let at: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
    let at = if at.is_empty() {
        String::new()
    } else {
        format!("{}: ", at.join(", "))
    };
    let often = if looks > 1 {
        format!(" ({} of {looks} times)", found.times)
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "  {} {at}{}{often}",
        style.mark(found.level),
        found.said.what
    );
}

fn reasons(found: &Finding, text: &mut String) {
    for (n, reason) in found.said.likely.iter().enumerate() {
        line(text, if n == 0 { "  likely" } else { "  or" }, reason);
    }
}
