//! All actions, as a value: merged with those of other replicas, and bounded in size.

use std::collections::BTreeMap;

use parallax_api::incident_actions::{IncidentActions, MaintenanceWindow};
use parallax_model::{EventTime, Micros};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Maximum number of incidents with actions; beyond it, those that changed longest ago are dropped.
pub(super) const MAX_INCIDENTS: usize = 2_000;
/// Maximum size of the shared document, in bytes: the API server limits a `ConfigMap` to 1 MiB.
const MAX_SHARED_BYTES: usize = 768 << 10;
/// How long a maintenance window is kept after its end.
const ENDED_WINDOW_RETENTION: Micros = Micros::from_secs(3_600);

const INCIDENT_KEY_PREFIX: &str = "handled.";
const WINDOW_KEY_PREFIX: &str = "window.";

/// An action and the time of its last change. Of two versions the later one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionedAction<T> {
    #[serde(rename = "changed_us")]
    pub(super) changed_at: EventTime,
    pub(super) value: T,
}

/// The actions on incidents by incident id, and the maintenance windows by id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ActionDocument {
    pub(super) incidents: BTreeMap<String, VersionedAction<IncidentActions>>,
    pub(super) windows: BTreeMap<String, VersionedAction<MaintenanceWindow>>,
}

impl ActionDocument {
    /// Parses what [`Self::lines`] wrote, and skips lines that this version cannot read.
    pub(super) fn parse(lines: &BTreeMap<String, String>) -> Self {
        Self {
            incidents: parse_section(lines, INCIDENT_KEY_PREFIX, |handling: &mut IncidentActions| {
                handling.persisted = true;
            }),
            windows: parse_section(lines, WINDOW_KEY_PREFIX, |window: &mut MaintenanceWindow| {
                window.persisted = true;
            }),
        }
    }

    /// One line per entry, by its key. Generated ids contain only letters, digits and dashes, which are valid in keys.
    pub(super) fn to_lines(&self) -> BTreeMap<String, String> {
        let handled = self
            .incidents
            .iter()
            .map(|(id, entry)| (INCIDENT_KEY_PREFIX, id, to_line(entry)));
        let windows = self
            .windows
            .iter()
            .map(|(id, entry)| (WINDOW_KEY_PREFIX, id, to_line(entry)));
        handled
            .chain(windows)
            .filter_map(|(section, id, line)| Some((format!("{section}{id}"), line?)))
            .collect()
    }

    /// Whether this version can read the line under this key.
    pub(super) fn can_parse(key: &str, line: &str) -> bool {
        let readable = BTreeMap::from([(key.to_owned(), line.to_owned())]);
        Self::parse(&readable) != Self::default()
    }

    /// Merges newer entries of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        merge(&mut self.incidents, other.incidents);
        merge(&mut self.windows, other.windows);
    }

    /// Whether both contain the same versions of all entries.
    pub(super) fn has_same_versions(&self, other: &Self) -> bool {
        entry_versions(&self.incidents).eq(entry_versions(&other.incidents))
            && entry_versions(&self.windows).eq(entry_versions(&other.windows))
    }

    /// Removes windows that ended long ago and, beyond the limits, the incidents that changed longest ago.
    pub(super) fn prune(&mut self, now: EventTime) {
        self.windows
            .retain(|_, entry| now < entry.value.until.plus(ENDED_WINDOW_RETENTION));
        let size = |key: &str, line: Option<String>| {
            key.len()
                + INCIDENT_KEY_PREFIX.len().max(WINDOW_KEY_PREFIX.len())
                + line.map_or(0, |line| line.len())
        };
        let mut bytes: usize = self
            .windows
            .iter()
            .map(|(id, entry)| size(id, to_line(entry)))
            .sum();
        let mut kept: Vec<(bool, EventTime, usize, String)> = self
            .incidents
            .iter()
            .map(|(id, entry)| {
                let silenced = entry
                    .value
                    .silenced
                    .as_ref()
                    .is_some_and(|silence| now < silence.until);
                (silenced, entry.changed_at, size(id, to_line(entry)), id.clone())
            })
            .collect();
        // Active silences last, then the latest changes.
        kept.sort();
        bytes += kept.iter().map(|(_, _, size, _)| size).sum::<usize>();
        let mut count = kept.len();
        for (_, _, size, id) in kept {
            if count <= MAX_INCIDENTS && bytes <= MAX_SHARED_BYTES {
                return;
            }
            self.incidents.remove(&id);
            count -= 1;
            bytes -= size;
        }
    }
}

fn parse_section<T: DeserializeOwned>(
    lines: &BTreeMap<String, String>,
    section: &str,
    mark: impl Fn(&mut T),
) -> BTreeMap<String, VersionedAction<T>> {
    let of_it = lines
        .iter()
        .filter_map(|(key, line)| Some((key.strip_prefix(section)?, line)));
    of_it
        .filter_map(|(id, line)| {
            let mut entry: VersionedAction<T> = serde_json::from_str(line).ok()?;
            mark(&mut entry.value);
            Some((id.to_owned(), entry))
        })
        .collect()
}

fn to_line<T: Serialize>(entry: &VersionedAction<T>) -> Option<String> {
    // Strings, numbers and string keys only: serialization cannot fail.
    serde_json::to_string(entry).ok()
}

fn merge<T>(own: &mut BTreeMap<String, VersionedAction<T>>, other: BTreeMap<String, VersionedAction<T>>) {
    for (id, entry) in other {
        match own.get(&id) {
            Some(known) if known.changed_at > entry.changed_at => {}
            _ => drop(own.insert(id, entry)),
        }
    }
}

fn entry_versions<T>(
    section: &BTreeMap<String, VersionedAction<T>>,
) -> impl Iterator<Item = (&String, EventTime)> {
    section.iter().map(|(id, entry)| (id, entry.changed_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_api::incident_actions::{Acknowledgement, IncidentSilence};

    fn mark(by: &str, at: i64) -> Acknowledgement {
        Acknowledgement {
            by: by.to_owned(),
            at: EventTime(at),
            note: None,
        }
    }

    fn acknowledged(by: &str, at: i64) -> VersionedAction<IncidentActions> {
        VersionedAction {
            changed_at: EventTime(at),
            value: IncidentActions {
                acknowledged: Some(mark(by, at)),
                ..IncidentActions::default()
            },
        }
    }

    fn sheet(
        entries: impl IntoIterator<Item = (&'static str, VersionedAction<IncidentActions>)>,
    ) -> ActionDocument {
        ActionDocument {
            incidents: entries
                .into_iter()
                .map(|(id, entry)| (id.to_owned(), entry))
                .collect(),
            windows: BTreeMap::new(),
        }
    }

    #[test]
    fn of_two_versions_the_later_one_wins_in_either_merge_order() {
        let older = sheet([("i-1", acknowledged("ann", 5)), ("i-2", acknowledged("ann", 9))]);
        let newer = sheet([("i-1", acknowledged("ben", 7))]);
        let (mut one, mut other) = (older.clone(), newer.clone());
        one.merge(newer);
        other.merge(older);
        assert!(one.has_same_versions(&other));
        assert_eq!(one.incidents["i-1"].value.acknowledged, Some(mark("ben", 7)));
        assert_eq!(one.incidents.len(), 2);
    }

    #[test]
    fn what_is_written_is_read_again_and_lines_of_another_version_are_nobodys_of_ours() {
        let sheet = sheet([("i-1", acknowledged("ann", 5))]);
        let mut lines = sheet.to_lines();
        lines.insert("handled.i-9".to_owned(), "{\"from\": \"the future\"}".to_owned());
        lines.insert("README".to_owned(), "hands off".to_owned());
        let read = ActionDocument::parse(&lines);
        assert!(read.has_same_versions(&sheet) && read.incidents["i-1"].value.persisted);
        let own_lines: Vec<_> = lines
            .iter()
            .filter(|(key, line)| ActionDocument::can_parse(key, line))
            .collect();
        assert_eq!(own_lines.len(), 1);
    }

    #[test]
    fn beyond_the_bounds_what_nobody_touched_for_longest_goes_first_and_a_silence_that_holds_last() {
        let note = Some("x".repeat(500));
        let many = |i: i64| {
            let mut entry = acknowledged("ann", i);
            entry.value.acknowledged.as_mut().unwrap().note.clone_from(&note);
            (format!("i-{i:05}"), entry)
        };
        let mut sheet = ActionDocument {
            incidents: (1..=3_000).map(many).collect(),
            windows: BTreeMap::new(),
        };
        let silenced = &mut sheet.incidents.get_mut("i-00001").unwrap().value;
        silenced.silenced = Some(IncidentSilence {
            author: mark("ben", 1),
            until: EventTime(1_000_000),
        });
        sheet.prune(EventTime(10));
        let bytes: usize = sheet
            .to_lines()
            .iter()
            .map(|(key, line)| key.len() + line.len())
            .sum();
        assert!(
            sheet.incidents.len() <= MAX_INCIDENTS && bytes <= MAX_SHARED_BYTES,
            "{} {bytes}",
            sheet.incidents.len()
        );
        assert!(
            bytes > MAX_SHARED_BYTES / 2,
            "no more is dropped than necessary: {bytes}"
        );
        assert!(sheet.incidents.contains_key("i-00001") && sheet.incidents.contains_key("i-03000"));
        assert!(!sheet.incidents.contains_key("i-00002"));
    }
}
