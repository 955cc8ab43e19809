//! Where the servers do not agree. Pure.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::Serialize;

use super::{
    caa::CaaAnswer,
    view::{RecordAnswer, View, Who},
};

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Record {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    #[serde(rename = "AAAA")]
    Aaaa,
    /// The aliases that lead there.
    #[serde(rename = "CNAME")]
    Cname,
    /// Who may issue certificates.
    #[serde(rename = "CAA")]
    Caa,
}

/// Servers that say different things of one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Of what.
    pub record: Record,
    /// What is said, and by whom; two at least.
    pub opinions: Vec<Opinion>,
}

/// One of several answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opinion {
    /// Whose servers say so.
    pub who: Vec<Who>,
    /// Which these are.
    pub servers: Vec<SocketAddr>,
    /// What they say, in words.
    pub says: String,
}

/// What a view says of a record; nothing where it is not asked.
type Says = fn(&View) -> Option<String>;

/// Where the views do not agree. A zone's own server that knows of an alias into another zone is not asked for the
/// addresses behind it, and what came with a failure is its own opinion.
#[must_use]
pub fn differences(views: &[View]) -> Vec<Difference> {
    let records: [(Record, Says); 4] = [
        (Record::A, |view| of_addresses(view, &view.a)),
        (Record::Aaaa, |view| of_addresses(view, &view.aaaa)),
        (Record::Cname, aliases),
        (Record::Caa, |view| Some(of_caa(&view.caa))),
    ];
    records
        .into_iter()
        .filter_map(|(record, says)| {
            let mut opinions: BTreeMap<String, Opinion> = BTreeMap::new();
            for view in views {
                let Some(says) = says(view) else { continue };
                let opinion = opinions.entry(says.clone()).or_insert_with(|| Opinion {
                    who: Vec::new(),
                    servers: Vec::new(),
                    says,
                });
                if !opinion.who.contains(&view.who) {
                    opinion.who.push(view.who.clone());
                }
                opinion.servers.push(view.server);
            }
            (opinions.len() > 1).then(|| Difference {
                record,
                opinions: opinions.into_values().collect(),
            })
        })
        .collect()
}

fn of_addresses(view: &View, answer: &RecordAnswer) -> Option<String> {
    let only_alias = matches!(view.who, Who::Authority { .. }) && !view.aliases.is_empty();
    match answer {
        RecordAnswer::None | RecordAnswer::NoName if only_alias => None,
        RecordAnswer::Addresses(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            Some(addresses.join(", "))
        }
        RecordAnswer::None => Some("none".to_owned()),
        RecordAnswer::NoName => Some("no such name".to_owned()),
        RecordAnswer::Failed(kind) => Some(format!("no answer ({})", kind.label())),
    }
}

/// The first alias: a zone's own server says nothing of those behind it.
fn aliases(view: &View) -> Option<String> {
    let silent = |answer: &RecordAnswer| matches!(answer, RecordAnswer::Failed(_));
    if silent(&view.a) && silent(&view.aaaa) {
        return None;
    }
    Some(view.aliases.first().cloned().unwrap_or_else(|| "none".to_owned()))
}

fn of_caa(answer: &CaaAnswer) -> String {
    match answer {
        CaaAnswer::None => "none".to_owned(),
        CaaAnswer::Failed(kind) => format!("no answer ({})", kind.label()),
        CaaAnswer::Records(records) => {
            let mut said: Vec<String> = records.iter().map(ToString::to_string).collect();
            said.sort_unstable();
            said.dedup();
            said.join(", ")
        }
    }
}
