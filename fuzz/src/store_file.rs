//! The store's file after something else has written to it: a broken disk, another program, a restored backup.

use std::fs;

use parallax_history::store::{
    DocumentKind, HistoryStore, RollupStep, SqliteFile, StoreOpener, StoreOptions, StoredDocument,
};
use parallax_model::EventTime;
use serde_json::json;
use tempfile::TempDir;

const NOW: EventTime = EventTime(1_795_000_000_000_000);
const LIMIT: usize = 16;
const KINDS: [DocumentKind; 5] = [
    DocumentKind::IncidentActions,
    DocumentKind::MaintenanceWindow,
    DocumentKind::Run,
    DocumentKind::Outbox,
    DocumentKind::Checkpoint,
];

/// The first two bytes select a place in a good file, which the others overwrite; zeros replace the whole file.
pub fn check(bytes: &[u8]) {
    thread_local! {
        static GOOD: Vec<u8> = good_file();
    }
    let Some((offset, overwrite)) = bytes.split_at_checked(2) else {
        return;
    };
    let offset = usize::from(u16::from_le_bytes([offset[0], offset[1]]));
    let content = if offset == 0 {
        overwrite.to_vec()
    } else {
        let mut content = GOOD.with(Clone::clone);
        let start = offset.min(content.len());
        let end = (start + overwrite.len()).min(content.len());
        content[start..end].copy_from_slice(&overwrite[..end - start]);
        content
    };
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("parallax.db");
    fs::write(&path, &content).expect("a file in a temporary folder");
    // A file that cannot be read is moved aside, and a new one is begun; anything else is an error with a reason.
    match SqliteFile::new(StoreOptions::with_defaults(&path)).open(NOW) {
        Ok((mut store, notices)) => {
            read_everything(store.as_mut());
            if !notices.is_empty() {
                let rest = store.documents(DocumentKind::Run, LIMIT);
                assert!(rest.is_ok_and(|rest| rest.is_empty()), "a new file has content");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn good_file() -> Vec<u8> {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("parallax.db");
    let (mut store, _) = SqliteFile::new(StoreOptions::with_defaults(&path))
        .open(NOW)
        .expect("a new store");
    for kind in KINDS {
        for number in 0..8 {
            let document = StoredDocument {
                kind,
                id: format!("document-{number}"),
                changed_at: NOW,
                value: json!({"number": number, "note": "x".repeat(64)}),
            };
            store.put_document(&document).expect("a document can be written");
        }
    }
    // Closing the last connection moves the log into the file.
    drop(store);
    fs::read(&path).expect("the file of the store")
}

/// Calls every query. What it returns is bounded, and an error is one of the store.
fn read_everything(store: &mut dyn HistoryStore) {
    for kind in KINDS {
        if let Ok(documents) = store.documents(kind, LIMIT) {
            assert!(documents.len() <= LIMIT);
        }
        let _ = store.document(kind, "document-3");
    }
    if let Ok(incidents) = store.ended_incidents(None, LIMIT) {
        assert!(incidents.len() <= LIMIT);
    }
    let _ = (
        store.incident_summaries(LIMIT),
        store.unended_incidents(),
        store.incident("document-3"),
        store.verdict_changes("document-3"),
        store.rollups(
            RollupStep::Hour,
            "http://shop.example.test/",
            EventTime(0)..NOW,
            LIMIT,
        ),
        store.failures("http://shop.example.test/", NOW, LIMIT),
        store.prune_step(NOW),
        store.size_bytes(),
    );
}
