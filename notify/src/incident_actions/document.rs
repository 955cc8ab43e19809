//! All actions, as a value: merged with those of other replicas, and bounded in size.

use std::collections::BTreeMap;

use parallax_api::incident_actions::{IncidentActions, MaintenanceWindow};
use parallax_model::{EventTime, Micros};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Maximum number of incidents with actions; beyond it, those that changed longest ago are dropped.
pub(super) const MOST: usize = 2_000;
/// Maximum size of the shared document, in bytes: the API server limits a `ConfigMap` to 1 MiB.
const SHARED: usize = 768 << 10;
/// How long a maintenance window is kept after its end.
const OVER: Micros = Micros::from_secs(3_600);

const HANDLED: &str = "handled.";
const WINDOW: &str = "window.";

/// An action and the time of its last change. Of two versions the later one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionedAction<T> {
    #[serde(rename = "changed_us")]
    pub(super) changed: EventTime,
    pub(super) value: T,
}

/// The actions on incidents by incident id, and the maintenance windows by id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ActionDocument {
    pub(super) handled: BTreeMap<String, VersionedAction<IncidentActions>>,
    pub(super) windows: BTreeMap<String, VersionedAction<MaintenanceWindow>>,
}

impl ActionDocument {
    /// Parses what [`Self::lines`] wrote, and skips lines that this version cannot read.
    pub(super) fn read(lines: &BTreeMap<String, String>) -> Self {
        Self {
            handled: section(lines, HANDLED, |handling: &mut IncidentActions| {
                handling.persisted = true;
            }),
            windows: section(lines, WINDOW, |window: &mut MaintenanceWindow| {
                window.persisted = true;
            }),
        }
    }

    /// One line per entry, by its key. Generated ids contain only letters, digits and dashes, which are valid in keys.
    pub(super) fn lines(&self) -> BTreeMap<String, String> {
        let handled = self.handled.iter().map(|(id, entry)| (HANDLED, id, line(entry)));
        let windows = self.windows.iter().map(|(id, entry)| (WINDOW, id, line(entry)));
        handled
            .chain(windows)
            .filter_map(|(section, id, line)| Some((format!("{section}{id}"), line?)))
            .collect()
    }

    /// Whether this version can read the line under this key.
    pub(super) fn owns(key: &str, line: &str) -> bool {
        let readable = BTreeMap::from([(key.to_owned(), line.to_owned())]);
        Self::read(&readable) != Self::default()
    }

    /// Merges newer entries of `other`.
    pub(super) fn join(&mut self, other: Self) {
        join(&mut self.handled, other.handled);
        join(&mut self.windows, other.windows);
    }

    /// Whether both contain the same versions of all entries.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        versions(&self.handled).eq(versions(&other.handled))
            && versions(&self.windows).eq(versions(&other.windows))
    }

    /// Removes windows that ended long ago and, beyond the limits, the incidents that changed longest ago.
    pub(super) fn tidy(&mut self, now: EventTime) {
        self.windows.retain(|_, entry| now < entry.value.until.plus(OVER));
        let size = |key: &str, line: Option<String>| {
            key.len() + HANDLED.len().max(WINDOW.len()) + line.map_or(0, |line| line.len())
        };
        let mut bytes: usize = self.windows.iter().map(|(id, entry)| size(id, line(entry))).sum();
        let mut kept: Vec<(bool, EventTime, usize, String)> = self
            .handled
            .iter()
            .map(|(id, entry)| {
                let silenced = entry
                    .value
                    .silenced
                    .as_ref()
                    .is_some_and(|silence| now < silence.until);
                (silenced, entry.changed, size(id, line(entry)), id.clone())
            })
            .collect();
        // Active silences last, then the latest changes.
        kept.sort();
        bytes += kept.iter().map(|(_, _, size, _)| size).sum::<usize>();
        let mut count = kept.len();
        for (_, _, size, id) in kept {
            if count <= MOST && bytes <= SHARED {
                return;
            }
            self.handled.remove(&id);
            count -= 1;
            bytes -= size;
        }
    }
}

fn section<T: DeserializeOwned>(
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

fn line<T: Serialize>(entry: &VersionedAction<T>) -> Option<String> {
    // Strings, numbers and string keys only: serialization cannot fail.
    serde_json::to_string(entry).ok()
}

fn join<T>(own: &mut BTreeMap<String, VersionedAction<T>>, other: BTreeMap<String, VersionedAction<T>>) {
    for (id, entry) in other {
        match own.get(&id) {
            Some(known) if known.changed > entry.changed => {}
            _ => drop(own.insert(id, entry)),
        }
    }
}

fn versions<T>(section: &BTreeMap<String, VersionedAction<T>>) -> impl Iterator<Item = (&String, EventTime)> {
    section.iter().map(|(id, entry)| (id, entry.changed))
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
            changed: EventTime(at),
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
            handled: entries
                .into_iter()
                .map(|(id, entry)| (id.to_owned(), entry))
                .collect(),
            windows: BTreeMap::new(),
        }
    }

    #[test]
    fn of_two_versions_the_later_one_holds_whoever_joins_whom() {
        let older = sheet([("i-1", acknowledged("ann", 5)), ("i-2", acknowledged("ann", 9))]);
        let newer = sheet([("i-1", acknowledged("ben", 7))]);
        let (mut one, mut other) = (older.clone(), newer.clone());
        one.join(newer);
        other.join(older);
        assert!(one.agrees(&other));
        assert_eq!(one.handled["i-1"].value.acknowledged, Some(mark("ben", 7)));
        assert_eq!(one.handled.len(), 2);
    }

    #[test]
    fn what_is_written_is_read_again_and_lines_of_another_version_are_nobodys_of_ours() {
        let sheet = sheet([("i-1", acknowledged("ann", 5))]);
        let mut lines = sheet.lines();
        lines.insert("handled.i-9".to_owned(), "{\"from\": \"the future\"}".to_owned());
        lines.insert("README".to_owned(), "hands off".to_owned());
        let read = ActionDocument::read(&lines);
        assert!(read.agrees(&sheet) && read.handled["i-1"].value.persisted);
        let ours: Vec<_> = lines
            .iter()
            .filter(|(key, line)| ActionDocument::owns(key, line))
            .collect();
        assert_eq!(ours.len(), 1);
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
            handled: (1..=3_000).map(many).collect(),
            windows: BTreeMap::new(),
        };
        let silenced = &mut sheet.handled.get_mut("i-00001").unwrap().value;
        silenced.silenced = Some(IncidentSilence {
            mark: mark("ben", 1),
            until: EventTime(1_000_000),
        });
        sheet.tidy(EventTime(10));
        let bytes: usize = sheet
            .lines()
            .iter()
            .map(|(key, line)| key.len() + line.len())
            .sum();
        assert!(
            sheet.handled.len() <= MOST && bytes <= SHARED,
            "{} {bytes}",
            sheet.handled.len()
        );
        assert!(bytes > SHARED / 2, "no more is dropped than necessary: {bytes}");
        assert!(sheet.handled.contains_key("i-00001") && sheet.handled.contains_key("i-03000"));
        assert!(!sheet.handled.contains_key("i-00002"));
    }
}
