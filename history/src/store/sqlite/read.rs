//! Queries, each with a bounded number of rows.

use std::{borrow::Cow, ops::Range};

use parallax_model::{EventTime, Probability, TargetId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        HistoryCursor, IncidentSummary, RollupKey, RollupStep, StoredIncident,
        rollup::ProbeRollup,
        stored::{IncidentEnd, IncidentEnding, VerdictChange},
    },
    write::parse_json_column,
};

/// The columns of an [`IncidentSummary`]; other columns of an incident follow them.
const SUMMARY_COLUMNS: &str =
    "id, subject, region, sentence, probability, since, opened, seen, ended, ending, continued_by";

fn summary(row: &Row<'_>) -> rusqlite::Result<IncidentSummary> {
    let ended: Option<i64> = row.get(8)?;
    let ending: Option<String> = row.get(9)?;
    let end = match ended {
        None => None,
        Some(at) => Some(IncidentEnd {
            ended_at: EventTime(at),
            ending: match ending.as_deref() {
                Some("restart") => IncidentEnding::Restart,
                Some("continued") => IncidentEnding::Continued {
                    by: row.get::<_, Option<String>>(10)?.unwrap_or_default(),
                },
                _ => IncidentEnding::Judged,
            },
        }),
    };
    Ok(IncidentSummary {
        id: row.get(0)?,
        subject: row.get(1)?,
        region: row.get(2)?,
        sentence: row.get(3)?,
        probability: Probability::new(row.get(4)?).unwrap_or_default(),
        since: EventTime(row.get(5)?),
        opened: EventTime(row.get(6)?),
        seen: EventTime(row.get(7)?),
        end,
    })
}

fn stored_incident(row: &Row<'_>) -> rusqlite::Result<StoredIncident> {
    Ok(StoredIncident {
        summary: summary(row)?,
        incident: parse_json_column(row, 11)?,
    })
}

pub(super) fn ended(
    connection: &Connection,
    before: Option<&HistoryCursor>,
    limit: usize,
) -> rusqlite::Result<Vec<StoredIncident>> {
    let start = HistoryCursor {
        ended_at: EventTime(i64::MAX),
        id: None,
    };
    let before = before.unwrap_or(&start);
    let sql = format!(
        "SELECT {SUMMARY_COLUMNS}, incident FROM incidents WHERE ended IS NOT NULL AND (ended < ?1 OR ended = ?1 AND id > ?2) ORDER BY ended DESC, id LIMIT ?3"
    );
    connection
        .prepare_cached(&sql)?
        .query_map(
            params![before.ended_at.0, before.id, limit_param(limit)],
            stored_incident,
        )?
        .collect()
}

pub(super) fn summaries(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<IncidentSummary>> {
    let sql = format!(
        "SELECT {SUMMARY_COLUMNS} FROM incidents WHERE ended IS NOT NULL ORDER BY ended DESC, id LIMIT ?1"
    );
    connection
        .prepare_cached(&sql)?
        .query_map([limit_param(limit)], summary)?
        .collect()
}

pub(super) fn unended(connection: &Connection) -> rusqlite::Result<Vec<IncidentSummary>> {
    // Far more than can be open at the same time.
    let sql = format!(
        "SELECT {SUMMARY_COLUMNS} FROM incidents WHERE ended IS NULL ORDER BY opened DESC, id LIMIT 10000"
    );
    connection.prepare_cached(&sql)?.query_map([], summary)?.collect()
}

pub(super) fn incident(connection: &Connection, id: &str) -> rusqlite::Result<Option<StoredIncident>> {
    let sql = format!("SELECT {SUMMARY_COLUMNS}, incident FROM incidents WHERE id = ?1");
    connection
        .prepare_cached(&sql)?
        .query_row([id], stored_incident)
        .optional()
}

pub(super) fn changes(connection: &Connection, id: &str) -> rusqlite::Result<Vec<VerdictChange>> {
    connection
        .prepare_cached("SELECT at, verdict FROM verdicts WHERE incident = ?1 ORDER BY at LIMIT 1000")?
        .query_map([id], |row| {
            Ok(VerdictChange {
                changed_at: EventTime(row.get(0)?),
                verdict: parse_json_column(row, 1)?,
            })
        })?
        .collect()
}

pub(super) fn rollups(
    connection: &Connection,
    step: RollupStep,
    target: &str,
    span: &Range<EventTime>,
    limit: usize,
) -> rusqlite::Result<Vec<(RollupKey, ProbeRollup)>> {
    let Ok(id) = TargetId::new(target) else {
        return Ok(Vec::new());
    };
    // A roll-up starts at a whole second.
    let second = |at: EventTime| at.0.div_euclid(1_000_000) + i64::from(at.0.rem_euclid(1_000_000) > 0);
    connection
        .prepare_cached(
            "SELECT start, channel, placement, results, latency FROM rollups
             WHERE target = (SELECT number FROM targets WHERE id = ?1) AND step = ?2 AND start >= ?3 AND start < ?4
             ORDER BY start, channel, placement LIMIT ?5",
        )?
        .query_map(
            params![
                target,
                step.seconds(),
                second(span.start),
                second(span.end),
                limit_param(limit)
            ],
            |row| {
                let key = RollupKey {
                    start: EventTime(row.get::<_, i64>(0)?.saturating_mul(1_000_000)),
                    step,
                    target: id.clone(),
                    channel: Cow::Owned(row.get(1)?),
                    placement: Cow::Owned(row.get(2)?),
                };
                let rollup = ProbeRollup {
                    results: parse_json_column(row, 3)?,
                    latency: parse_json_column(row, 4)?,
                };
                Ok((key, rollup))
            },
        )?
        .collect()
}

pub(super) fn failures(
    connection: &Connection,
    target: &str,
    before: EventTime,
    limit: usize,
) -> rusqlite::Result<Vec<serde_json::Value>> {
    connection
        .prepare_cached(
            "SELECT recorded FROM failures WHERE target = (SELECT number FROM targets WHERE id = ?1) AND at < ?2
             ORDER BY at DESC, number DESC LIMIT ?3",
        )?
        .query_map(params![target, before.0, limit_param(limit)], |row| parse_json_column(row, 0))?
        .collect()
}

fn limit_param(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
