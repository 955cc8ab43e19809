//! Retention by age and by size, and returning free pages to the disk, in bounded steps between writes.

use parallax_model::EventTime;
use rusqlite::{Connection, params};

use super::{
    super::{RollupStep, StoreOptions},
    document,
};

/// Maximum number of rows deleted in one step.
const MAX_ROWS: i64 = 2_000;
/// Maximum number of incidents deleted in one step; each is as large as a hundred other rows.
const MAX_INCIDENTS: i64 = 50;
/// Maximum number of pages returned in one step: a megabyte.
const MAX_PAGES: i64 = 256;

/// Percentage of the size limit above which data is deleted.
const FILL_LIMIT_PERCENT: i64 = 90;

/// Runs one step. Returns whether there may be more to do.
pub(super) fn prune_step(
    connection: &mut Connection,
    options: &StoreOptions,
    now: EventTime,
) -> rusqlite::Result<bool> {
    if prune_by_age(connection, options, now)? || prune_by_size(connection, options)? {
        return Ok(true);
    }
    vacuum(connection)
}

fn prune_by_age(
    connection: &mut Connection,
    options: &StoreOptions,
    now: EventTime,
) -> rusqlite::Result<bool> {
    if delete_failures(connection, now.minus(options.keep_failures).0)? {
        return Ok(true);
    }
    for (step, keep) in [
        (RollupStep::FiveMinutes, options.keep_fine_rollups()),
        (RollupStep::Hour, options.keep_rollups),
    ] {
        if delete_rollups(connection, step, now.minus(keep).0 / 1_000_000)? {
            return Ok(true);
        }
    }
    if delete_incidents(connection, now.minus(options.keep_incidents).0)?
        || document::remove_older_than(connection, now.minus(options.keep_incidents).0, MAX_ROWS)?
    {
        return Ok(true);
    }
    // Targets without any remaining row.
    connection
        .prepare_cached(
            "DELETE FROM targets WHERE NOT EXISTS (SELECT 1 FROM rollups WHERE target = targets.number)
             AND NOT EXISTS (SELECT 1 FROM failures WHERE target = targets.number)",
        )?
        .execute([])?;
    Ok(false)
}

/// The least valuable first, as in the queue: failures, roll-ups per five minutes, per hour, incidents.
fn prune_by_size(connection: &mut Connection, options: &StoreOptions) -> rusqlite::Result<bool> {
    let [size, pages, free] =
        ["page_size", "page_count", "freelist_count"].map(|name| read_pragma(connection, name));
    let (size, used) = (size?, pages? - free?);
    let most = i64::try_from(options.max_bytes).unwrap_or(i64::MAX) / size.max(1);
    if used.saturating_mul(100) <= most.saturating_mul(FILL_LIMIT_PERCENT) {
        return Ok(false);
    }
    if delete_failures(connection, i64::MAX)? {
        return Ok(true);
    }
    for step in RollupStep::ALL {
        // A day of one step at a time, over all targets.
        let oldest: Option<i64> = connection
            .prepare_cached(
                "SELECT min((SELECT min(start) FROM rollups WHERE target = targets.number AND step = ?1)) FROM targets",
            )?
            .query_row([step.seconds()], |row| row.get(0))?;
        if let Some(oldest) = oldest
            && delete_rollups(connection, step, oldest.saturating_add(24 * 3_600))?
        {
            return Ok(true);
        }
    }
    Ok(document::remove_older_than(connection, i64::MAX, MAX_INCIDENTS)?
        || delete_incidents(connection, i64::MAX)?)
}

/// Deletes the oldest rows, as far as they are from before a time.
fn delete_failures(connection: &Connection, before: i64) -> rusqlite::Result<bool> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM failures WHERE number IN (SELECT number FROM failures ORDER BY number LIMIT ?1) AND at < ?2",
        )?
        .execute(params![MAX_ROWS, before])?;
    Ok(removed > 0)
}

/// Deletes roll-ups that started before a second, target by target along the primary key.
fn delete_rollups(connection: &Connection, step: RollupStep, before: i64) -> rusqlite::Result<bool> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM rollups WHERE (target, step, start, channel, placement) IN (
                 SELECT target, step, start, channel, placement FROM targets
                 CROSS JOIN rollups ON target = targets.number AND step = ?1 AND start < ?2 LIMIT ?3)",
        )?
        .execute(params![step.seconds(), before, MAX_ROWS])?;
    Ok(removed > 0)
}

/// Deletes incidents that ended before a time, with their verdicts; an incident without an end is never deleted.
fn delete_incidents(connection: &mut Connection, before: i64) -> rusqlite::Result<bool> {
    let transaction = connection.transaction()?;
    let query = "SELECT id FROM incidents WHERE ended < ?1 ORDER BY ended, id LIMIT ?2";
    transaction
        .prepare_cached(&format!("DELETE FROM verdicts WHERE incident IN ({query})"))?
        .execute(params![before, MAX_INCIDENTS])?;
    let removed = transaction
        .prepare_cached(&format!("DELETE FROM incidents WHERE id IN ({query})"))?
        .execute(params![before, MAX_INCIDENTS])?;
    transaction.commit()?;
    Ok(removed > 0)
}

/// Returns some pages while more than a tenth of the file is free.
fn vacuum(connection: &Connection) -> rusqlite::Result<bool> {
    let (pages, free) = (
        read_pragma(connection, "page_count")?,
        read_pragma(connection, "freelist_count")?,
    );
    if free <= MAX_PAGES || free.saturating_mul(10) <= pages {
        return Ok(false);
    }
    // Each step of the statement frees one page.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({MAX_PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(true)
}

fn read_pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
