//! What is said of the host's name, and by whom: asked along with the two checks.

use std::{collections::BTreeMap, net::IpAddr};

use parallax_aggregator::{
    preflight::{CaaStanding, NameFacts, SeenName, Side},
    runs::api::{NamesAsk, NamesFound, RunFrom, RunRequest},
};
use parallax_model::{
    HostName,
    dns::{CaaAnswer, RecordAnswer, Viewer},
};

use crate::commands::ask::Table;

/// What became of the question.
#[derive(Debug)]
pub(super) enum Names {
    /// It was answered.
    Found(Box<NamesFound>),
    /// It was not, and why.
    NotAsked(String),
}

/// What is asked of the name, for whom.
#[derive(Debug, Clone, Default)]
pub(super) struct For {
    /// By which names the authority goes in CAA records; none where it is not known.
    pub(super) identities: Vec<String>,
    /// The account that would ask.
    pub(super) account_uri: Option<String>,
}

impl For {
    pub(super) fn request(&self, host: &HostName) -> RunRequest {
        RunRequest {
            url: format!("dns://{host}"),
            from: RunFrom::All,
            names: Some(NamesAsk {
                identities: self.identities.clone(),
                account_uri: self.account_uri.clone(),
            }),
            ..RunRequest::default()
        }
    }
}

impl Names {
    pub(super) fn found(&self) -> Option<&NamesFound> {
        match self {
            Self::Found(found) => Some(found),
            Self::NotAsked(_) => None,
        }
    }

    /// What nobody looked at, of what could be looked at here.
    pub(super) fn not_checked(&self) -> Vec<String> {
        match self {
            Self::NotAsked(why) => vec![format!(
                "CAA records, and what others than the asking nodes say of the name: {why}"
            )],
            Self::Found(found) => {
                let mut all = Vec::new();
                if found.judged.caa == CaaStanding::NotAsked {
                    all.push(found.judged.caa_words.clone());
                }
                all.extend(found.facts.not_asked.iter().cloned());
                if let Some(kind) = &found.facts.no_authority {
                    all.push(format!("the zone's own servers: {}", kind.words()));
                }
                all
            }
        }
    }

    /// For people: how the CAA records stand, and a table where the views are not one.
    pub(super) fn text(&self) -> String {
        let Some(found) = self.found() else {
            return String::new();
        };
        let mut text = String::new();
        if found.judged.caa != CaaStanding::NotAsked {
            text = format!("\nCAA: {}\n", plain(&found.judged.caa_words));
        }
        if !found.facts.differences.is_empty() {
            text.push('\n');
            text.push_str(&plain_lines(&table(&found.facts)));
        }
        text
    }
}

/// Views that say the same are one line.
fn table(facts: &NameFacts) -> String {
    type Said = (Side, String, String, String, String);
    let mut lines: BTreeMap<Said, Vec<&SeenName>> = BTreeMap::new();
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
    let mut table = Table::new(&["SEEN", "SERVERS", "A", "AAAA", "ALIAS OF", "CAA"]);
    for ((side, a, aaaa, alias, caa), seen) in &lines {
        let mut servers: Vec<String> = seen.iter().map(|seen| server(seen)).collect();
        servers.sort_unstable();
        servers.dedup();
        let servers = servers.join(", ");
        let side = match side {
            Side::Inside => "inside",
            Side::Near => "nearby",
            Side::Public => "in public",
            Side::Zone => "by the zone",
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

fn server(seen: &SeenName) -> String {
    match &seen.view.by {
        Viewer::Authority { server, .. } => server.clone(),
        // Of a machine outside it is of interest which one asked.
        Viewer::Own if seen.side != Side::Inside => format!("{} of {}", seen.view.server.ip(), seen.vantage),
        Viewer::Own | Viewer::Public => seen.view.server.ip().to_string(),
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

/// Whoever owns a zone chooses what some of these words say.
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
