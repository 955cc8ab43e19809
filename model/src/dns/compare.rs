//! Compares the answers of several servers for one name. Pure.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};

use super::{CaaAnswer, NameView, RecordAnswer, ServerOwner};

/// The record that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ComparedRecord {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    #[serde(rename = "AAAA")]
    Aaaa,
    /// The alias of the name.
    #[serde(rename = "CNAME")]
    Cname,
    /// The authorities that may issue certificates.
    #[serde(rename = "CAA")]
    Caa,
}

/// A record for which servers give different answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameDifference {
    /// The record.
    pub record: ComparedRecord,
    /// The different answers with their servers; at least two.
    #[serde(rename = "opinions")]
    pub answers: Vec<DnsOpinion>,
}

/// One of several answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsOpinion {
    /// The owners of the servers that give this answer.
    #[serde(rename = "who")]
    pub owners: Vec<ServerOwner>,
    /// The servers that give this answer.
    pub servers: Vec<SocketAddr>,
    /// The answer as text.
    #[serde(rename = "says")]
    pub answer: String,
}

/// Returns a view's answer for a record as text, or `None` if the view does not count for the record.
type RecordOpinion = fn(&NameView) -> Option<String>;

/// Returns the records for which the views differ. An authoritative server whose answer is an alias into
/// another zone does not count for the addresses behind the alias. A failure is an answer of its own.
#[must_use]
pub fn name_differences(views: &[NameView]) -> Vec<NameDifference> {
    let records: [(ComparedRecord, RecordOpinion); 4] = [
        (ComparedRecord::A, |view| address_text(view, &view.a)),
        (ComparedRecord::Aaaa, |view| address_text(view, &view.aaaa)),
        (ComparedRecord::Cname, alias_text),
        (ComparedRecord::Caa, |view| Some(caa_text(&view.caa))),
    ];
    records
        .into_iter()
        .filter_map(|(record, format)| {
            let mut opinions: BTreeMap<String, DnsOpinion> = BTreeMap::new();
            for view in views {
                let Some(text) = format(view) else { continue };
                let opinion = opinions.entry(text.clone()).or_insert_with(|| DnsOpinion {
                    owners: Vec::new(),
                    servers: Vec::new(),
                    answer: text,
                });
                if !opinion.owners.contains(&view.owner) {
                    opinion.owners.push(view.owner.clone());
                }
                opinion.servers.push(view.server);
            }
            (opinions.len() > 1).then(|| NameDifference {
                record,
                answers: opinions.into_values().collect(),
            })
        })
        .collect()
}

fn address_text(view: &NameView, answer: &RecordAnswer) -> Option<String> {
    let only_alias = matches!(view.owner, ServerOwner::Authority { .. }) && !view.aliases.is_empty();
    match answer {
        RecordAnswer::None | RecordAnswer::NoSuchName if only_alias => None,
        RecordAnswer::Addresses(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            Some(addresses.join(", "))
        }
        RecordAnswer::None => Some("none".to_owned()),
        RecordAnswer::NoSuchName => Some("no such name".to_owned()),
        RecordAnswer::Failed(kind) => Some(format!("no answer ({})", kind.label())),
    }
}

/// Only the first alias: an authoritative server does not return those behind it.
fn alias_text(view: &NameView) -> Option<String> {
    let silent = |answer: &RecordAnswer| matches!(answer, RecordAnswer::Failed(_));
    if silent(&view.a) && silent(&view.aaaa) {
        return None;
    }
    Some(view.aliases.first().cloned().unwrap_or_else(|| "none".to_owned()))
}

fn caa_text(answer: &CaaAnswer) -> String {
    match answer {
        CaaAnswer::None => "none".to_owned(),
        CaaAnswer::Failed(kind) => format!("no answer ({})", kind.label()),
        CaaAnswer::Records(records) => {
            let mut texts: Vec<String> = records.iter().map(ToString::to_string).collect();
            texts.sort_unstable();
            texts.dedup();
            texts.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;

    fn view(by: ServerOwner, last: u8, a: &[&str], aliases: &[&str]) -> NameView {
        NameView {
            owner: by,
            server: SocketAddr::from(([192, 0, 2, last], 53)),
            a: match a {
                [] => RecordAnswer::None,
                some => {
                    RecordAnswer::Addresses(some.iter().map(|address| address.parse().unwrap()).collect())
                }
            },
            aaaa: RecordAnswer::None,
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            caa: CaaAnswer::None,
        }
    }

    fn own() -> ServerOwner {
        ServerOwner::Authority {
            zone: "example.org".to_owned(),
            server: "ns.example.org".to_owned(),
        }
    }

    #[test]
    fn servers_that_say_the_same_differ_in_nothing() {
        let views = [
            view(ServerOwner::Local, 1, &["9.0.0.1"], &[]),
            view(ServerOwner::Public, 2, &["9.0.0.1"], &[]),
            view(own(), 3, &["9.0.0.1"], &[]),
        ];
        assert_eq!(name_differences(&views), []);
    }

    #[test]
    fn a_cluster_that_sees_another_address_is_a_difference_with_both_opinions() {
        let views = [
            view(ServerOwner::Local, 1, &["10.0.0.1"], &[]),
            view(ServerOwner::Public, 2, &["9.0.0.1"], &[]),
            view(own(), 3, &["9.0.0.1"], &[]),
        ];
        let [difference] = name_differences(&views).try_into().unwrap();
        assert_eq!(difference.record, ComparedRecord::A);
        let opinions: Vec<_> = difference
            .answers
            .iter()
            .map(|one| (one.answer.as_str(), one.servers.len()))
            .collect();
        assert_eq!(opinions, [("10.0.0.1", 1), ("9.0.0.1", 2)]);
    }

    #[test]
    fn a_zones_server_is_not_asked_for_addresses_behind_an_alias_that_leads_away() {
        let views = [
            view(ServerOwner::Public, 2, &["9.0.0.1"], &["lb.example.net"]),
            view(own(), 3, &[], &["lb.example.net"]),
        ];
        assert_eq!(name_differences(&views), []);
    }

    #[test]
    fn a_server_that_does_not_answer_is_an_opinion_of_its_own() {
        let mut silent = view(ServerOwner::Public, 2, &[], &[]);
        silent.a = RecordAnswer::Failed(FailureKind::ServFail);
        let views = [view(ServerOwner::Local, 1, &["9.0.0.1"], &[]), silent];
        let [difference] = name_differences(&views).try_into().unwrap();
        assert!(
            difference
                .answers
                .iter()
                .any(|one| one.answer == "no answer (servfail)")
        );
    }
}
