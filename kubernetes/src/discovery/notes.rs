//! What was found odd in the cluster's objects, said once per object and reason.

use std::{collections::BTreeSet, fmt};

use parallax_model::TargetId;

use crate::topology_state::{PublisherKind, SourceNote, TargetPublisher, TargetPublishers};

/// More notes than this help nobody; the rest is counted.
const MOST: usize = 200;

/// Longest text quoted from an object, in characters.
const LONGEST: usize = 80;

/// Collects notes in order, each once.
#[derive(Debug, Default)]
pub struct NoteCollector {
    said: BTreeSet<SourceNote>,
    /// Which object publishes which target.
    publishers: TargetPublishers,
}

impl NoteCollector {
    /// `object` as `Ingress shop/web`; the text as a sentence without its full stop.
    pub(crate) fn say(&mut self, object: impl fmt::Display, text: impl fmt::Display) {
        self.said.insert(SourceNote {
            object: plain(&object),
            text: plain(&text),
        });
    }

    /// `owner` publishes a target: `Ingress shop/web` or `HTTPRoute shop/web`.
    pub(super) fn publishes(&mut self, owner: &str, target: TargetId) {
        let publisher = owner.split_once(' ').and_then(|(sort, key)| {
            let (namespace, name) = key.split_once('/')?;
            let sort = match sort {
                "Ingress" => PublisherKind::Ingress,
                "HTTPRoute" => PublisherKind::HttpRoute,
                _ => return None,
            };
            Some(TargetPublisher {
                sort,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        });
        self.publishers
            .extend(publisher.map(|publisher| (target, publisher)));
    }

    /// Which object publishes which target.
    pub fn publishers(&mut self) -> TargetPublishers {
        std::mem::take(&mut self.publishers)
    }

    /// The notes in the order in which they were found.
    #[must_use]
    pub fn finish(self) -> Vec<SourceNote> {
        let more = self.said.len().saturating_sub(MOST);
        let mut notes: Vec<SourceNote> = self.said.into_iter().take(MOST).collect();
        if more > 0 {
            notes.push(SourceNote {
                object: "notes".to_owned(),
                text: format!("{more} more are not listed"),
            });
        }
        notes
    }
}

/// Names come from the API server and are sound there; what reaches a page or a terminal must be so whatever comes.
fn plain(text: &impl fmt::Display) -> String {
    text.to_string().replace(char::is_control, "\u{fffd}")
}

/// Text of an object, short and without control characters, in quotes.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(LONGEST).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{dots}")
}
