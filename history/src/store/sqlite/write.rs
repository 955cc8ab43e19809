//! Writes a batch in one transaction.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::{Serialize, de::DeserializeOwned};

use super::super::{
    RollupKey, WriteBatch,
    rollup::ProbeRollup,
    stored::{IncidentEnd, IncidentEnding, IncidentSummary},
};

pub(super) fn write_batch(connection: &mut Connection, batch: &WriteBatch) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    write_incidents(&transaction, batch)?;
    write_ends(&transaction, &batch.ends)?;
    for (key, rollup) in &batch.rollups {
        add_rollup(&transaction, key, rollup)?;
    }
    write_failures(&transaction, batch)?;
    transaction.commit()
}

fn write_incidents(transaction: &Transaction<'_>, batch: &WriteBatch) -> rusqlite::Result<()> {
    let mut put = transaction.prepare_cached(
        "INSERT OR REPLACE INTO incidents (id, subject, region, sentence, probability, since, opened, seen, ended, ending, continued_by, incident)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    for row in batch.incidents.values() {
        let summary = IncidentSummary::from_incident(&row.incident, row.seen_at);
        let (ended, ending, by) = end_columns(summary.end.as_ref());
        put.execute(params![
            summary.id,
            summary.subject,
            summary.region,
            summary.sentence,
            summary.probability.get(),
            summary.since.0,
            summary.opened.0,
            summary.seen.0,
            ended,
            ending,
            by,
            to_json(&row.incident)?,
        ])?;
    }
    let mut put = transaction
        .prepare_cached("INSERT OR REPLACE INTO verdicts (incident, at, verdict) VALUES (?1, ?2, ?3)")?;
    for row in &batch.changes {
        put.execute(params![row.incident, row.changed_at.0, to_json(&row.verdict)?])?;
    }
    Ok(())
}

fn end_columns(end: Option<&IncidentEnd>) -> (Option<i64>, Option<&'static str>, Option<&str>) {
    let Some(end) = end else { return (None, None, None) };
    let (label, by) = match &end.ending {
        IncidentEnding::Judged => ("judged", None),
        IncidentEnding::Restart => ("restart", None),
        IncidentEnding::Continued { by } => ("continued", Some(by.as_str())),
    };
    (Some(end.ended_at.0), Some(label), by)
}

fn write_ends(transaction: &Transaction<'_>, ends: &[(String, IncidentEnd)]) -> rusqlite::Result<()> {
    let mut put = transaction.prepare_cached(
        "UPDATE incidents SET ended = ?2, ending = ?3, continued_by = ?4 WHERE id = ?1 AND ended IS NULL",
    )?;
    for (id, end) in ends {
        let (ended, ending, by) = end_columns(Some(end));
        put.execute(params![id, ended, ending, by])?;
    }
    Ok(())
}

fn target_number(transaction: &Transaction<'_>, id: &str) -> rusqlite::Result<i64> {
    let known = transaction
        .prepare_cached("SELECT number FROM targets WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    if let Some(number) = known {
        return Ok(number);
    }
    transaction
        .prepare_cached("INSERT INTO targets (id) VALUES (?1)")?
        .insert([id])
}

/// Adds to the existing roll-up: its counts arrive in several parts.
fn add_rollup(transaction: &Transaction<'_>, key: &RollupKey, rollup: &ProbeRollup) -> rusqlite::Result<()> {
    let target = target_number(transaction, key.target.as_str())?;
    let place = params![
        target,
        key.step.seconds(),
        key.start.0 / 1_000_000,
        key.channel,
        key.placement
    ];
    let known = transaction
        .prepare_cached(
            "SELECT results, latency FROM rollups WHERE target = ?1 AND step = ?2 AND start = ?3 AND channel = ?4 AND placement = ?5",
        )?
        .query_row(place, |row| {
            Ok(ProbeRollup {
                results: parse_json_column(row, 0)?,
                latency: parse_json_column(row, 1)?,
            })
        })
        .optional()?;
    let mut sum = known.unwrap_or_default();
    sum.merge(rollup);
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO rollups (target, step, start, channel, placement, results, latency) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            target,
            key.step.seconds(),
            key.start.0 / 1_000_000,
            key.channel,
            key.placement,
            to_json(&sum.results)?,
            to_json(&sum.latency)?,
        ])?;
    Ok(())
}

fn write_failures(transaction: &Transaction<'_>, batch: &WriteBatch) -> rusqlite::Result<()> {
    let mut put =
        transaction.prepare_cached("INSERT INTO failures (target, at, recorded) VALUES (?1, ?2, ?3)")?;
    for recorded in &batch.failures {
        let seen = &recorded.observation;
        let target = target_number(transaction, seen.target.as_str())?;
        put.execute(params![target, seen.started.0, to_json(recorded)?])?;
    }
    Ok(())
}

fn to_json<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Parses a column with JSON.
pub(super) fn parse_json_column<T: DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
    })
}
