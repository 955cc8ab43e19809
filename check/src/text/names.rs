//! Name lookups and the fetch of a client profile as text.

use std::net::IpAddr;

use parallax_model::Micros;
use parallax_prober::{Resolution, ValidationResult};
use parallax_terminal::escape;

use super::{
    super::{
        findings::failure_text,
        json::dial_label,
        names::{AnswerSource, NameAnswer, NameLookup},
    },
    write_line,
};

/// Writes the answers of each source. Literal and forced addresses are written only if `wholly` is set, for a URL that
/// is resolved and nothing more.
pub(super) fn write_lookup(lookup: &NameLookup, wholly: bool, text: &mut String) {
    for (n, answer) in lookup.answers.iter().enumerate() {
        let word = if n == 0 { "name" } else { "" };
        let found = match &answer.source {
            AnswerSource::Literal | AnswerSource::Forced if !wholly => continue,
            AnswerSource::Literal | AnswerSource::Forced => {
                format!("{}, without a query", addresses_text(answer))
            }
            AnswerSource::Hosts => format!("{}, from the hosts file of this machine", addresses_text(answer)),
            AnswerSource::NameService => {
                format!("{}, from this machine's name service", addresses_text(answer))
            }
            AnswerSource::ResolvConf | AnswerSource::Resolver(_) => answer
                .dns
                .as_ref()
                .map_or_else(String::new, |dns| resolution_text(dns, Some(answer.duration))),
        };
        write_line(text, word, &found);
        if let Some(path) = answer.dns.as_ref().and_then(search_path) {
            write_line(text, "", &path);
        }
    }
}

fn addresses_text(answer: &NameAnswer) -> String {
    answer
        .addresses
        .iter()
        .map(IpAddr::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn resolution_text(dns: &Resolution, took: Option<Micros>) -> String {
    let Some(last) = dns.tried.last() else {
        return "no resolver was queried".to_owned();
    };
    let by = format!(
        "via {}{}",
        last.resolver,
        took.map_or_else(String::new, |took| format!(" in {took}"))
    );
    if dns.addresses.is_empty() {
        let reason = dns.failure().map_or("it has no address", failure_text);
        return format!("{reason}, {by}");
    }
    let mut parts = Vec::new();
    for (record, v4) in [("A", true), ("AAAA", false)] {
        let of: Vec<_> = dns
            .addresses
            .iter()
            .filter(|found| found.address.is_ipv4() == v4)
            .collect();
        let Some(first) = of.first() else {
            parts.push(format!("no {record}"));
            continue;
        };
        let addresses: Vec<String> = of.iter().map(|found| found.address.to_string()).collect();
        let ttl = first
            .ttl_s
            .map_or_else(String::new, |ttl| format!(" (TTL {ttl} s)"));
        let tcp = if first.over_tcp { " over TCP" } else { "" };
        parts.push(format!("{record} {}{ttl}{tcp}", addresses.join(", ")));
    }
    format!("{}, {by}", parts.join("; "))
}

/// The names tried along the search list, if there was more than one.
fn search_path(dns: &Resolution) -> Option<String> {
    let mut names: Vec<String> = dns.tried.iter().map(|tried| escape(&tried.name)).collect();
    names.dedup();
    (names.len() > 1).then(|| format!("searched as {}", names.join(", then ")))
}

/// Writes a fetch by the rules of a client profile.
pub(super) fn write_fetch(fetched: &ValidationResult, text: &mut String) {
    if let Some(dns) = &fetched.resolution {
        let all = &dns.tried;
        if !all.is_empty() {
            write_line(text, "name", &resolution_text(dns, None));
        }
    }
    for (n, dialled) in fetched.dials.iter().enumerate() {
        let word = if n == 0 { "dialled" } else { "" };
        write_line(
            text,
            word,
            &format!("{}  {}", dialled.address, dial_label(&dialled.outcome)),
        );
    }
    for (n, hop) in fetched.hops.iter().enumerate() {
        let word = if n == 0 { "redirects" } else { "" };
        write_line(text, word, &format!("{}  {}", escape(&hop.url), hop.status));
    }
    if let Some(problem) = &fetched.problem {
        let message = format!("{}: {}", problem.class.label(), escape(&problem.detail));
        write_line(text, "it says", &message);
    }
}
