//! Retention by age and by size, and returning free pages to the disk, in bounded steps between writes.

use parallax_model::EventTime;
use rusqlite::{Connection, params};

use super::{
    super::{RollupStep, StoreOptions},
    document,
};

/// Maximum number of rows deleted in one step.
const ROWS: i64 = 2_000;
/// Maximum number of incidents deleted in one step; each is as large as a hundred other rows.
const INCIDENTS: i64 = 50;
/// Maximum number of pages returned in one step: a megabyte.
const PAGES: i64 = 256;

/// Percentage of the size limit above which data is deleted.
const TOO_FULL: i64 = 90;

/// Runs one step. Returns whether there may be more to do.
pub(super) fn step(
    connection: &mut Connection,
    options: &StoreOptions,
    now: EventTime,
) -> rusqlite::Result<bool> {
    if too_old(connection, options, now)? || too_much(connection, options)? {
        return Ok(true);
    }
    vacuum(connection)
}

fn too_old(connection: &mut Connection, options: &StoreOptions, now: EventTime) -> rusqlite::Result<bool> {
    if failures(connection, now.minus(options.keep_failures).0)? {
        return Ok(true);
    }
    for (step, keep) in [
        (RollupStep::Fine, options.keep_fine()),
        (RollupStep::Coarse, options.keep_rollups),
    ] {
        if rollups(connection, step, now.minus(keep).0 / 1_000_000)? {
            return Ok(true);
        }
    }
    if incidents(connection, now.minus(options.keep_incidents).0)?
        || document::remove(connection, now.minus(options.keep_incidents).0, ROWS)?
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
fn too_much(connection: &mut Connection, options: &StoreOptions) -> rusqlite::Result<bool> {
    let [size, pages, free] =
        ["page_size", "page_count", "freelist_count"].map(|name| pragma(connection, name));
    let (size, used) = (size?, pages? - free?);
    let most = i64::try_from(options.max_bytes).unwrap_or(i64::MAX) / size.max(1);
    if used.saturating_mul(100) <= most.saturating_mul(TOO_FULL) {
        return Ok(false);
    }
    if failures(connection, i64::MAX)? {
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
            && rollups(connection, step, oldest.saturating_add(24 * 3_600))?
        {
            return Ok(true);
        }
    }
    Ok(document::remove(connection, i64::MAX, INCIDENTS)? || incidents(connection, i64::MAX)?)
}

/// Deletes the oldest rows, as far as they are from before a time.
fn failures(connection: &Connection, before: i64) -> rusqlite::Result<bool> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM failures WHERE number IN (SELECT number FROM failures ORDER BY number LIMIT ?1) AND at < ?2",
        )?
        .execute(params![ROWS, before])?;
    Ok(removed > 0)
}

/// Deletes roll-ups that started before a second, target by target along the primary key.
fn rollups(connection: &Connection, step: RollupStep, before: i64) -> rusqlite::Result<bool> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM rollups WHERE (target, step, start, channel, placement) IN (
                 SELECT target, step, start, channel, placement FROM targets
                 CROSS JOIN rollups ON target = targets.number AND step = ?1 AND start < ?2 LIMIT ?3)",
        )?
        .execute(params![step.seconds(), before, ROWS])?;
    Ok(removed > 0)
}

/// Deletes incidents that ended before a time, with their verdicts; an incident without an end is never deleted.
fn incidents(connection: &mut Connection, before: i64) -> rusqlite::Result<bool> {
    let transaction = connection.transaction()?;
    let which = "SELECT id FROM incidents WHERE ended < ?1 ORDER BY ended, id LIMIT ?2";
    transaction
        .prepare_cached(&format!("DELETE FROM verdicts WHERE incident IN ({which})"))?
        .execute(params![before, INCIDENTS])?;
    let removed = transaction
        .prepare_cached(&format!("DELETE FROM incidents WHERE id IN ({which})"))?
        .execute(params![before, INCIDENTS])?;
    transaction.commit()?;
    Ok(removed > 0)
}

/// Returns some pages while more than a tenth of the file is free.
fn vacuum(connection: &Connection) -> rusqlite::Result<bool> {
    let (pages, free) = (
        pragma(connection, "page_count")?,
        pragma(connection, "freelist_count")?,
    );
    if free <= PAGES || free.saturating_mul(10) <= pages {
        return Ok(false);
    }
    // Each step of the statement frees one page.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(true)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
