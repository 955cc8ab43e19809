//! The text report of a host's DNS facts.

use std::{collections::BTreeMap, net::IpAddr};

use parallax_api::names::{CaaState, NameFacts, ObservedAnswer, ResolverSide};
use parallax_model::dns::{CaaAnswer, RecordAnswer, ServerOwner};
use parallax_preflight::NameAnswer;

use crate::commands::query::TextTable;

/// Returns the state of the CAA records, and a table if the views differ.
pub(super) fn text(names: &NameAnswer) -> String {
    let Some(found) = names.found() else {
        return String::new();
    };
    let mut text = String::new();
    if found.judged.caa != CaaState::NotAsked {
        text = format!("\nCAA: {}\n", plain(&found.judged.caa_words));
    }
    if !found.facts.differences.is_empty() {
        text.push('\n');
        text.push_str(&plain_lines(&table(&found.facts)));
    }
    text
}

/// Equal views share one line.
fn table(facts: &NameFacts) -> String {
    type Said = (ResolverSide, String, String, String, String);
    let mut lines: BTreeMap<Said, Vec<&ObservedAnswer>> = BTreeMap::new();
    for seen in &facts.views {
        let key = (
            seen.side,
            records(&seen.view.a),
            records(&seen.view.aaaa),
            seen.view.aliases.first().cloned().unwrap_or_default(),
            caa(&seen.view.caa),
        );
        lines.entry(key).or_default().push(seen);
    }
    let mut table = TextTable::new(&["VIEW", "SERVERS", "A", "AAAA", "ALIAS OF", "CAA"]);
    for ((side, a, aaaa, alias, caa), seen) in &lines {
        let mut servers: Vec<String> = seen.iter().map(|seen| server(seen)).collect();
        servers.sort_unstable();
        servers.dedup();
        let servers = servers.join(", ");
        let side = match side {
            ResolverSide::Inside => "inside",
            ResolverSide::Near => "nearby",
            ResolverSide::Public => "public",
            ResolverSide::Zone => "zone",
        };
        table.row([
            (side, None),
            (servers.as_str(), None),
            (a.as_str(), None),
            (aaaa.as_str(), None),
            (alias.as_str(), None),
            (caa.as_str(), None),
        ]);
    }
    table.text()
}

fn server(seen: &ObservedAnswer) -> String {
    match &seen.view.by {
        ServerOwner::Authority { server, .. } => server.clone(),
        // For machines outside, the report names the one that queried.
        ServerOwner::Own if seen.side != ResolverSide::Inside => {
            format!("{} of {}", seen.view.server.ip(), seen.vantage)
        }
        ServerOwner::Own | ServerOwner::Public => seen.view.server.ip().to_string(),
    }
}

fn records(answer: &RecordAnswer) -> String {
    match answer {
        RecordAnswer::Addresses(addresses) => {
            let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            texts.join(", ")
        }
        RecordAnswer::None => "-".to_owned(),
        RecordAnswer::NoName => "no such name".to_owned(),
        RecordAnswer::Failed(kind) => format!("? {}", kind.words()),
    }
}

fn caa(answer: &CaaAnswer) -> String {
    match answer {
        CaaAnswer::Records(records) => {
            let texts: Vec<String> = records.iter().map(ToString::to_string).collect();
            texts.join("; ")
        }
        CaaAnswer::None => "-".to_owned(),
        CaaAnswer::Failed(kind) => format!("? {}", kind.words()),
    }
}

/// Replaces control characters: zone owners choose some of this text.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn plain_lines(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => format!("{}\n", plain(line)),
            None => plain(line),
        })
        .collect()
}
