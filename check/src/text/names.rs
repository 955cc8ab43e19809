//! Name lookups and the fetch of a client profile as text.

use std::net::IpAddr;

use parallax_model::Micros;
use parallax_prober::{Resolution, ValidationResult};
use parallax_terminal::escape;

use super::{
    super::{
        findings::failure_words,
        json::dial,
        names::{AnswerSource, NameAnswer, NameLookup},
    },
    line,
};

/// Writes the answers of each source. Literal and forced addresses are written only if `wholly` is set, for a URL that
/// is resolved and nothing more.
pub(super) fn lookup(lookup: &NameLookup, wholly: bool, text: &mut String) {
    for (n, answer) in lookup.answers.iter().enumerate() {
        let word = if n == 0 { "name" } else { "" };
        let found = match &answer.source {
            AnswerSource::Literal | AnswerSource::Forced if !wholly => continue,
            AnswerSource::Literal | AnswerSource::Forced => {
                format!("{}, without a query", addresses(answer))
            }
            AnswerSource::Hosts => format!("{}, from the hosts file of this machine", addresses(answer)),
            AnswerSource::NameService => format!("{}, from this machine's name service", addresses(answer)),
            AnswerSource::ResolvConf | AnswerSource::Resolver(_) => answer
                .dns
                .as_ref()
                .map_or_else(String::new, |dns| resolution(dns, Some(answer.took))),
        };
        line(text, word, &found);
        if let Some(path) = answer.dns.as_ref().and_then(searched) {
            line(text, "", &path);
        }
    }
}

fn addresses(answer: &NameAnswer) -> String {
    answer
        .addresses
        .iter()
        .map(IpAddr::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn resolution(dns: &Resolution, took: Option<Micros>) -> String {
    let Some(last) = dns.tried.last() else {
        return "no resolver was queried".to_owned();
    };
    let by = format!(
        "via {}{}",
        last.resolver,
        took.map_or_else(String::new, |took| format!(" in {took}"))
    );
    if dns.addresses.is_empty() {
        let why = dns.failure().map_or("it has no address", failure_words);
        return format!("{why}, {by}");
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
        let addresses: Vec<String> = of.iter().map(|found| found.address.to_string()).collect();
        let ttl = first
            .ttl_s
            .map_or_else(String::new, |ttl| format!(" (TTL {ttl} s)"));
        let tcp = if first.tcp { " over TCP" } else { "" };
        said.push(format!("{record} {}{ttl}{tcp}", addresses.join(", ")));
    }
    format!("{}, {by}", said.join("; "))
}

/// The names tried along the search list, if there was more than one.
fn searched(dns: &Resolution) -> Option<String> {
    let mut names: Vec<String> = dns.tried.iter().map(|tried| escape(&tried.name)).collect();
    names.dedup();
    (names.len() > 1).then(|| format!("searched as {}", names.join(", then ")))
}

/// Writes a fetch by the rules of a client profile.
pub(super) fn fetch(fetched: &ValidationResult, text: &mut String) {
    if let Some(dns) = &fetched.resolution {
        let all = &dns.tried;
        if !all.is_empty() {
            line(text, "name", &resolution(dns, None));
        }
    }
    for (n, dialled) in fetched.dials.iter().enumerate() {
        let word = if n == 0 { "dialled" } else { "" };
        line(
            text,
            word,
            &format!("{}  {}", dialled.address, dial(&dialled.outcome)),
        );
    }
    for (n, hop) in fetched.hops.iter().enumerate() {
        let word = if n == 0 { "redirects" } else { "" };
        line(text, word, &format!("{}  {}", escape(&hop.url), hop.status));
    }
    if let Some(problem) = &fetched.problem {
        let said = format!("{}: {}", problem.class.label(), escape(&problem.detail));
        line(text, "it says", &said);
    }
}
