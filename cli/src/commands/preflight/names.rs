//! The text report of a host's DNS facts.

use std::{collections::BTreeMap, net::IpAddr};

use parallax_api::names::{CaaState, NameFacts, ObservedAnswer, ResolverSide};
use parallax_model::dns::{CaaAnswer, RecordAnswer, ServerOwner};
use parallax_preflight::NameAnswer;

use crate::commands::{query::TextTable, server_text::replace_control_characters};

/// Returns the state of the CAA records, and a table if the views differ.
pub(super) fn render(names: &NameAnswer) -> String {
    let Some(found) = names.facts() else {
        return String::new();
    };
    let mut text = String::new();
    if found.verdict.caa != CaaState::NotQueried {
        text = format!(
            "\nCAA: {}\n",
            replace_control_characters(&found.verdict.caa_description)
        );
    }
    if !found.facts.differences.is_empty() {
        text.push('\n');
        text.push_str(&strip_control_lines(&view_table(&found.facts)));
    }
    text
}

/// Equal views share one line.
fn view_table(facts: &NameFacts) -> String {
    type ViewKey = (ResolverSide, String, String, String, String);
    let mut lines: BTreeMap<ViewKey, Vec<&ObservedAnswer>> = BTreeMap::new();
    for seen in &facts.views {
        let key = (
            seen.side,
            format_records(&seen.view.a),
            format_records(&seen.view.aaaa),
            seen.view.aliases.first().cloned().unwrap_or_default(),
            format_caa(&seen.view.caa),
        );
        lines.entry(key).or_default().push(seen);
    }
    let mut table = TextTable::new(&["VIEW", "SERVERS", "A", "AAAA", "ALIAS OF", "CAA"]);
    for ((side, a, aaaa, alias, caa), seen) in &lines {
        let mut servers: Vec<String> = seen.iter().map(|seen| server_name(seen)).collect();
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
    table.render()
}

fn server_name(seen: &ObservedAnswer) -> String {
    match &seen.view.owner {
        ServerOwner::Authority { server, .. } => server.clone(),
        // For machines outside, the report names the one that queried.
        ServerOwner::Local if seen.side != ResolverSide::Inside => {
            format!("{} of {}", seen.view.server.ip(), seen.vantage)
        }
        ServerOwner::Local | ServerOwner::Public => seen.view.server.ip().to_string(),
    }
}

fn format_records(answer: &RecordAnswer) -> String {
    match answer {
        RecordAnswer::Addresses(addresses) => {
            let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            texts.join(", ")
        }
        RecordAnswer::None => "-".to_owned(),
        RecordAnswer::NoSuchName => "no such name".to_owned(),
        RecordAnswer::Failed(kind) => format!("? {}", kind.description()),
    }
}

fn format_caa(answer: &CaaAnswer) -> String {
    match answer {
        CaaAnswer::Records(records) => {
            let texts: Vec<String> = records.iter().map(ToString::to_string).collect();
            texts.join("; ")
        }
        CaaAnswer::None => "-".to_owned(),
        CaaAnswer::Failed(kind) => format!("? {}", kind.description()),
    }
}

fn strip_control_lines(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => format!("{}\n", replace_control_characters(line)),
            None => replace_control_characters(line),
        })
        .collect()
}
