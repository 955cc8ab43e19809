//! Problems of cluster objects, noted once per object and reason.

use std::{collections::BTreeSet, fmt};

use parallax_model::TargetId;

use crate::topology_state::{PublisherKind, SourceNote, TargetPublisher, TargetPublishers};

/// Maximum number of notes; the rest is only counted.
const MAX_NOTES: usize = 200;

/// Maximum length in characters of text quoted from an object.
const MAX_QUOTE_LENGTH: usize = 80;

/// Collects notes in order, without duplicates.
#[derive(Debug, Default)]
pub struct NoteCollector {
    notes: BTreeSet<SourceNote>,
    /// The object that publishes each target.
    publishers: TargetPublishers,
}

impl NoteCollector {
    /// Adds a note. `object` is the object's display name, such as `Ingress shop/web`; `text` is a sentence
    /// without a full stop.
    pub(crate) fn add(&mut self, object: impl fmt::Display, text: impl fmt::Display) {
        self.notes.insert(SourceNote {
            object: sanitize(&object),
            text: sanitize(&text),
        });
    }

    /// Records that `owner` publishes a target: `Ingress shop/web` or `HTTPRoute shop/web`.
    pub(super) fn add_publisher(&mut self, owner: &str, target: TargetId) {
        let publisher = owner.split_once(' ').and_then(|(sort, key)| {
            let (namespace, name) = key.split_once('/')?;
            let sort = match sort {
                "Ingress" => PublisherKind::Ingress,
                "HTTPRoute" => PublisherKind::HttpRoute,
                _ => return None,
            };
            Some(TargetPublisher {
                kind: sort,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        });
        self.publishers
            .extend(publisher.map(|publisher| (target, publisher)));
    }

    /// Takes the recorded publishers of targets.
    pub fn take_publishers(&mut self) -> TargetPublishers {
        std::mem::take(&mut self.publishers)
    }

    /// Returns the notes in order.
    #[must_use]
    pub fn finish(self) -> Vec<SourceNote> {
        let more = self.notes.len().saturating_sub(MAX_NOTES);
        let mut notes: Vec<SourceNote> = self.notes.into_iter().take(MAX_NOTES).collect();
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
fn sanitize(text: &impl fmt::Display) -> String {
    text.to_string().replace(char::is_control, "\u{fffd}")
}

/// Quotes text from an object, shortened and without control characters.
pub(super) fn quote(text: &str) -> String {
    let short: String = text.chars().take(MAX_QUOTE_LENGTH).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{dots}")
}
