//! A file that is full, locked, read-only, corrupt, another program's, or of another version.

use std::fs;

use parallax_diagnosis::verdict::IncidentState;
use parallax_model::Micros;
use rusqlite::Connection;

use super::{
    super::{
        error::{StoreError, StoreErrorKind},
        sqlite::{SqliteStore, schema},
    },
    *,
};

fn open_error(options: &StoreOptions) -> StoreError {
    SqliteStore::open(options, NOW).map(drop).unwrap_err()
}

#[test]
fn a_second_process_on_the_file_is_refused_and_the_error_names_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = SqliteStore::open(&options(&folder), NOW).unwrap();
    let error = open_error(&options(&folder));
    assert_eq!(error.kind, StoreErrorKind::Locked);
    let message = error.message;
    assert!(
        message.contains(&format!("process {}", std::process::id())),
        "{message}"
    );
    assert!(message.contains("store.path of its own"), "{message}");
    drop(first);
    SqliteStore::open(&options(&folder), NOW).unwrap();
}

#[test]
fn a_corrupt_file_is_moved_aside_and_a_new_one_begun() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(&folder).path;
    let rubbish = b"this is no database, and long enough not to be taken for an empty one".repeat(100);
    for round in 0..5 {
        fs::write(&path, &rubbish).unwrap();
        let now = NOW.plus(Micros::from_secs(round));
        let (mut store, notices) = SqliteStore::open(&options(&folder), now).unwrap();
        let aside = format!("{}.corrupt-{}", path.display(), now.0 / 1_000_000);
        assert!(notices.len() == 1 && notices[0].contains(&aside), "{notices:?}");
        assert_eq!(fs::read(&aside).unwrap(), rubbish, "its content is preserved");
        store.write(&with_incidents([closed("i-1", NOW)])).unwrap();
        drop(store);
        fs::remove_file(&path).unwrap();
    }
    let kept = fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("corrupt")
        })
        .count();
    assert_eq!(kept, 3, "corrupt files do not fill the disk");
}

#[test]
fn a_damaged_page_is_found_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = SqliteStore::open(&options(&folder), NOW).unwrap();
    let batch = WriteBatch {
        failures: (0..5_000).map(|i| failure(i, NOW)).collect(),
        ..WriteBatch::default()
    };
    store.write(&batch).unwrap();
    drop(store);
    let path = options(&folder).path;
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4_096 * 4_096;
    bytes[middle..middle + 2_048].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let (_, notices) = SqliteStore::open(&options(&folder), NOW).unwrap();
    assert!(
        notices.len() == 1 && notices[0].contains("is corrupt"),
        "{notices:?}"
    );
}

#[test]
fn a_file_that_may_not_grow_is_full_and_goes_on_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = SqliteStore::open(&options(&folder), NOW).unwrap();
    store.limit(0).unwrap();
    let mut batch = with_incidents((0..50).map(|i| closed(&format!("i-{i}"), NOW)));
    let error = store.write(&batch).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Full, "{error}");
    assert!(error.message.contains("raise store.maxSize"), "{error}");
    assert!(
        store.incident_summaries(10).unwrap().is_empty(),
        "nothing of the batch is written"
    );
    store.limit(64 << 20).unwrap();
    batch.ends.clear();
    store.write(&batch).unwrap();
    assert_eq!(store.incident_summaries(100).unwrap().len(), 50);
}

#[test]
fn a_read_only_store_reports_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = SqliteStore::open(&options(&folder), NOW).unwrap();
    store.write(&with_incidents([closed("i-1", NOW)])).unwrap();
    store.read_only().unwrap();
    let error = store.write(&with_incidents([closed("i-2", NOW)])).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
    assert_eq!(
        store.incident_summaries(10).unwrap().len(),
        1,
        "existing data is still readable"
    );
}

#[test]
fn the_error_of_a_missing_folder_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = open_error(&StoreOptions::with_defaults(
        folder.path().join("nowhere/history.db"),
    ));
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(error.message.contains("its folder exists"), "{error}");
    let error = open_error(&StoreOptions::with_defaults(folder.path()));
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
}

#[test]
fn another_programs_database_and_a_newer_versions_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(&folder).path;
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE notes (text)")
        .unwrap();
    let before = fs::read(&path).unwrap();
    let error = open_error(&options(&folder));
    assert_eq!(error.kind, StoreErrorKind::Foreign);
    assert!(error.message.contains("another program's"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);

    fs::remove_file(&path).unwrap();
    drop(SqliteStore::open(&options(&folder), NOW).unwrap());
    Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = open_error(&options(&folder));
    assert_eq!(error.kind, StoreErrorKind::Foreign);
    assert!(error.message.contains("schema 99"), "{error}");
}

/// `tests/store/vN.sql` is a file as version N left it; these fixtures never change, new ones are added.
#[test]
fn a_file_of_each_earlier_version_is_brought_up_with_everything_in_it() {
    /// One fixture per version.
    const LEFT: &[(u32, &str)] = &[
        (1, include_str!("../../../tests/store/v1.sql")),
        (2, include_str!("../../../tests/store/v2.sql")),
    ];
    for (version, dump) in LEFT {
        let folder = tempfile::tempdir().unwrap();
        Connection::open(options(&folder).path)
            .unwrap()
            .execute_batch(dump)
            .unwrap();
        let (mut store, notices) = SqliteStore::open(&options(&folder), NOW).unwrap();
        assert!(notices.is_empty(), "{notices:?}");
        let kept = store.ended_incidents(None, 10).unwrap();
        assert_eq!(kept.len(), 1, "version {version}");
        assert_eq!(
            kept[0].summary.sentence,
            "pods on n2 are refused by their own node"
        );
        assert_eq!(kept[0].incident["occurrences"], 2);
        assert_eq!(store.unended_incidents().unwrap().len(), 1);
        assert_eq!(store.verdict_changes("i-1").unwrap().len(), 1);
        let target = "http://a.example.test/";
        let all = EventTime(0)..EventTime(i64::MAX);
        let rollups = store.rollups(RollupStep::Hour, target, all, 10).unwrap();
        assert_eq!(rollups[0].1.totals(), (12, 2));
        assert_eq!(store.failures(target, EventTime(i64::MAX), 10).unwrap().len(), 1);
        store.write(&with_incidents([closed("i-9", NOW)])).unwrap();
    }
}

#[test]
fn the_fixture_of_the_newest_version_has_its_tables() {
    let tables = |connection: &Connection| -> Vec<String> {
        connection
            .prepare(
                "SELECT type || ' ' || name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY 1",
            )
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    let fixture = Connection::open_in_memory().unwrap();
    fixture
        .execute_batch(include_str!("../../../tests/store/v2.sql"))
        .unwrap();
    let mut new = Connection::open_in_memory().unwrap();
    schema::migrate(&mut new, schema::MIGRATIONS).unwrap();
    assert_eq!(tables(&fixture), tables(&new));
}

#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection, schema::MIGRATIONS).unwrap();
    let mut steps = schema::MIGRATIONS.to_vec();
    steps.extend(["CREATE TABLE runs (id TEXT)", "CREATE TABLE runs (id TEXT)"]);
    schema::migrate(&mut connection, &steps).unwrap_err();
    let version: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version as usize, schema::MIGRATIONS.len());
    let runs: i64 = connection
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name = 'runs'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(runs, 0);
}

fn prune_all(store: &mut SqliteStore, now: EventTime) -> usize {
    let mut steps = 0;
    while store.prune_step(now).unwrap() {
        steps += 1;
        assert!(steps < 10_000, "it terminates");
    }
    steps
}

#[test]
fn old_data_is_deleted_and_the_rest_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = SqliteStore::open(&options(&folder), NOW).unwrap();
    let days = |n: u64| NOW.minus(Micros::from_secs(n * 86_400));
    let mut batch = with_incidents([closed("old", days(366)), closed("new", days(364))]);
    let mut open = incident("open", IncidentState::Open);
    open.opened = days(1_000);
    batch.incidents.extend(with_incidents([open]).incidents);
    batch.failures = [failure(1, days(8)), failure(2, days(6))].into();
    for (step, day) in [
        (RollupStep::FiveMinutes, 8),
        (RollupStep::FiveMinutes, 6),
        (RollupStep::Hour, 91),
        (RollupStep::Hour, 89),
    ] {
        batch.rollups.extend([rollup("http://a/", step, days(day), 1)]);
    }
    batch
        .rollups
        .extend([rollup("http://gone/", RollupStep::Hour, days(91), 1)]);
    store.write(&batch).unwrap();
    prune_all(&mut store, NOW);
    let left: Vec<_> = store
        .incident_summaries(10)
        .unwrap()
        .into_iter()
        .map(|one| one.id)
        .collect();
    assert_eq!(left, ["new"]);
    assert!(
        store.verdict_changes("old").unwrap().is_empty() && !store.verdict_changes("new").unwrap().is_empty()
    );
    assert_eq!(
        store.unended_incidents().unwrap().len(),
        1,
        "an incident without an end is never deleted"
    );
    assert_eq!(
        store.failures("http://a.example.test/", NOW, 10).unwrap().len(),
        1
    );
    for step in RollupStep::ALL {
        assert_eq!(
            store
                .rollups(step, "http://a/", EventTime(0)..NOW, 10)
                .unwrap()
                .len(),
            1
        );
    }
    assert_eq!(store.targets().unwrap(), ["http://a.example.test/", "http://a/"]);
}

#[test]
fn beyond_the_size_limit_the_least_valuable_data_is_deleted_in_short_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut small = options(&folder);
    small.max_bytes = 4 << 20;
    let (mut store, _) = SqliteStore::open(&small, NOW).unwrap();
    store
        .write(&with_incidents((0..20).map(|i| closed(&format!("i-{i}"), NOW))))
        .unwrap();
    let mut n = 0;
    let full = loop {
        let batch = WriteBatch {
            failures: (0..1_000).map(|i| failure(n * 1_000 + i, NOW)).collect(),
            ..WriteBatch::default()
        };
        n += 1;
        if let Err(error) = store.write(&batch) {
            break error;
        }
    };
    assert_eq!(full.kind, StoreErrorKind::Full);
    assert!(store.main_bytes() <= 4 << 20, "the file never exceeds its limit");
    assert!(prune_all(&mut store, NOW) > 0);
    assert!(
        store.used_bytes() <= (4 << 20) * 90 / 100,
        "{}",
        store.used_bytes()
    );
    assert_eq!(
        store.incident_summaries(100).unwrap().len(),
        20,
        "incidents are deleted last"
    );
    assert!(
        !store
            .failures("http://a.example.test/", EventTime(i64::MAX), 1)
            .unwrap()
            .is_empty(),
        "no more is deleted than needed"
    );
    store.write(&with_incidents([closed("after", NOW)])).unwrap();

    // After a restart with a smaller limit, more is deleted.
    drop(store);
    small.max_bytes = 1 << 20;
    let (mut store, _) = SqliteStore::open(&small, NOW).unwrap();
    prune_all(&mut store, NOW);
    assert!(store.main_bytes() <= 2 << 20, "{}", store.main_bytes());
    assert_eq!(store.incident_summaries(100).unwrap().len(), 21);
}
