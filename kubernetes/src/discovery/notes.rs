//! Problems of cluster objects, noted once per object and reason.

use std::{collections::BTreeSet, fmt};

use parallax_model::TargetId;

use crate::topology_state::{PublisherKind, SourceNote, TargetPublisher, TargetPublishers};

/// Maximum number of notes; the rest is only counted.
const MOST: usize = 200;

/// Maximum length in characters of text quoted from an object.
const LONGEST: usize = 80;

/// Collects notes in order, without duplicates.
#[derive(Debug, Default)]
pub struct NoteCollector {
    said: BTreeSet<SourceNote>,
    /// The object that publishes each target.
    publishers: TargetPublishers,
}

impl NoteCollector {
    /// Adds a note. `object` is the object's display name, such as `Ingress shop/web`; `text` is a sentence
    /// without a full stop.
    pub(crate) fn say(&mut self, object: impl fmt::Display, text: impl fmt::Display) {
        self.said.insert(SourceNote {
            object: plain(&object),
            text: plain(&text),
        });
    }

    /// Records that `owner` publishes a target: `Ingress shop/web` or `HTTPRoute shop/web`.
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

    /// Takes the recorded publishers of targets.
    pub fn publishers(&mut self) -> TargetPublishers {
        std::mem::take(&mut self.publishers)
    }

    /// Returns the notes in order.
    #[must_use]
    pub fn finish(self) -> Vec<SourceNote> {
        let more = self.said.len().saturating_sub(MOST);
        let mut notes: Vec<SourceNote> = self.said.into_iter().take(MOST).collect();
        if more > 0 {
            notes.push(SourceNote {
                object: "notes".to_owned(),
                text: format!("{more} more notes are omitted"),
            });
        }
        notes
    }
}

/// Names from the API server are valid, but whatever reaches a page or terminal is sanitized in any case.
fn plain(text: &impl fmt::Display) -> String {
    text.to_string().replace(char::is_control, "\u{fffd}")
}

/// Quotes text from an object, shortened and without control characters.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(LONGEST).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{dots}")
}
