//! Documents: read and written one at a time, each in its own transaction.

use parallax_model::EventTime;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{StoredDocument, document::DocumentKind},
    write::parse_json_column,
};

pub(super) fn put(connection: &Connection, document: &StoredDocument) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO documents (sort, id, at, document) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            document.kind.label(),
            document.id,
            document.changed_at.0,
            document.value.to_string()
        ])
        .map(|_| ())
}

fn document(sort: DocumentKind) -> impl FnMut(&Row<'_>) -> rusqlite::Result<StoredDocument> {
    move |row| {
        Ok(StoredDocument {
            kind: sort,
            id: row.get(0)?,
            changed_at: EventTime(row.get(1)?),
            value: parse_json_column(row, 2)?,
        })
    }
}

pub(super) fn list(
    connection: &Connection,
    sort: DocumentKind,
    limit: usize,
) -> rusqlite::Result<Vec<StoredDocument>> {
    connection
        .prepare_cached(
            "SELECT id, at, document FROM documents WHERE sort = ?1 ORDER BY at DESC, id LIMIT ?2",
        )?
        .query_map(
            params![sort.label(), i64::try_from(limit).unwrap_or(i64::MAX)],
            document(sort),
        )?
        .collect()
}

pub(super) fn get(
    connection: &Connection,
    sort: DocumentKind,
    id: &str,
) -> rusqlite::Result<Option<StoredDocument>> {
    connection
        .prepare_cached("SELECT id, at, document FROM documents WHERE sort = ?1 AND id = ?2")?
        .query_row(params![sort.label(), id], document(sort))
        .optional()
}

/// Removes at most `rows` documents last changed before a time. Returns whether there were any.
pub(super) fn remove_older_than(connection: &Connection, before: i64, rows: i64) -> rusqlite::Result<bool> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM documents WHERE (sort, id) IN (SELECT sort, id FROM documents WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute([before, rows])?;
    Ok(removed > 0)
}
