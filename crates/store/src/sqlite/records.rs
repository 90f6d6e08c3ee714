//! Records and their blobs as they are read.

use bytes::Bytes;
use everturn_core::{Json, SessionId, TenantId, Timestamp, TurnId};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{
    fault::corrupt,
    rows::{int, name},
};
use crate::{Record, RecordFilter, RecordKind, RecordRow, StoreError};

const RECORD: &str = "
    SELECT r.id, n.name, r.kind, r.name, s.name, r.turn, r.revision, r.created_at, r.updated_at, r.state, r.outcome,
        r.body
    FROM records r
    JOIN tenants n ON n.id = r.tenant
    LEFT JOIN sessions s ON s.id = r.session";

const TENANT: &str = "r.tenant = (SELECT id FROM tenants WHERE name = ?1) AND r.kind = ?2";

/// Records by way of an index. Without it the cost of a page would depend on what SQLite takes for the best way.
fn by(index: &str) -> String {
    RECORD.replace("records r", &format!("records r INDEXED BY {index}"))
}

fn record_row(row: &Row<'_>) -> Result<RecordRow, StoreError> {
    let kind = row.get(2)?;
    let kind = RecordKind::from_number(kind).ok_or_else(|| corrupt(format_args!("a record of kind {kind}")))?;
    let session = row.get::<_, Option<String>>(4)?;
    let turn = row.get::<_, Option<String>>(5)?;
    let outcome = row.get_ref(10)?.as_str_or_null().map_err(corrupt)?;
    Ok(RecordRow {
        position: row.get(0)?,
        tenant: name::<TenantId>(row, 1)?,
        revision: row.get(6)?,
        created_at: Timestamp(row.get(7)?),
        updated_at: Timestamp(row.get(8)?),
        record: Record {
            kind,
            id: row.get(3)?,
            session: session.map(SessionId::try_from).transpose().map_err(corrupt)?,
            turn: turn.map(TurnId::try_from).transpose().map_err(corrupt)?,
            state: row.get(9)?,
            outcome: outcome.map(Json::parse).transpose().map_err(corrupt)?,
            body: Json::parse(row.get_ref(11)?.as_str().map_err(corrupt)?).map_err(corrupt)?,
        },
    })
}

fn rows(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<RecordRow>, StoreError> {
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(record_row(row)?);
    }
    Ok(rows)
}

/// See [`crate::Store::record`].
pub(super) fn record(
    connection: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    id: &str,
) -> Result<Option<RecordRow>, StoreError> {
    let sql = format!("{RECORD} WHERE {TENANT} AND r.name = ?3");
    Ok(rows(connection, &sql, params![tenant.as_str(), kind.number(), id])?.pop())
}

/// See [`crate::Store::records`]. Each filter has an index of its own.
pub(super) fn records(
    connection: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    filter: &RecordFilter,
    below: Option<u64>,
    limit: usize,
) -> Result<Vec<RecordRow>, StoreError> {
    let (tenant, kind, limit) = (tenant.as_str(), kind.number(), int(limit as u64));
    let below = below.map_or(i64::MAX, int);
    let sql =
        |index: &str, wanted: &str| format!("{} WHERE {wanted} AND r.id < ?3 ORDER BY r.id DESC LIMIT ?4", by(index));
    let session_of = "r.kind = ?2 AND r.session =
        (SELECT id FROM sessions WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND name = ?5)";
    match (&filter.session, &filter.state) {
        (None, None) => rows(connection, &sql("records_by_position", TENANT), params![tenant, kind, below, limit]),
        (None, Some(state)) => {
            let sql = sql("records_by_state", &format!("{TENANT} AND r.state = ?5"));
            rows(connection, &sql, params![tenant, kind, below, limit, state])
        }
        (Some(session), None) => {
            let sql = sql("records_by_session", session_of);
            rows(connection, &sql, params![tenant, kind, below, limit, session.as_str()])
        }
        (Some(session), Some(state)) => {
            let sql = sql("records_by_session_and_state", &format!("{session_of} AND r.state = ?6"));
            rows(connection, &sql, params![tenant, kind, below, limit, session.as_str(), state])
        }
    }
}

/// See [`crate::Store::blob`].
pub(super) fn blob(
    connection: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    id: &str,
    part: u32,
) -> Result<Option<Bytes>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT b.bytes FROM records r JOIN blobs b ON b.record = r.id
         WHERE r.tenant = (SELECT id FROM tenants WHERE name = ?1) AND r.kind = ?2 AND r.name = ?3 AND b.part = ?4",
    )?;
    let found = select.query_row(params![tenant.as_str(), kind.number(), id, part], |row| row.get::<_, Vec<u8>>(0));
    Ok(found.optional()?.map(Bytes::from))
}

/// See [`crate::Store::old_records`].
pub(super) fn old_records(
    connection: &Connection,
    kind: RecordKind,
    state: &str,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<RecordRow>, StoreError> {
    let sql = format!(
        "{} WHERE r.kind = ?1 AND r.state = ?2 AND r.updated_at < ?3 ORDER BY r.updated_at, r.id LIMIT ?4",
        by("records_by_time")
    );
    rows(connection, &sql, params![kind.number(), state, before.millis(), int(limit as u64)])
}

/// Records of all tenants. The number is part of the text: SQLite uses the index only where it can see that it applies.
pub(super) fn of_all_sql(kind: RecordKind) -> String {
    let records = match kind {
        RecordKind::Key | RecordKind::Notice => by("records_of_all"),
        _ => RECORD.to_owned(),
    };
    let kind = kind.number();
    format!("{records} WHERE r.kind = {kind} AND r.state = ?1 AND r.id > ?2 ORDER BY r.id LIMIT ?3")
}

/// See [`crate::Store::records_of_all`].
pub(super) fn records_of_all(
    connection: &Connection,
    kind: RecordKind,
    state: &str,
    above: Option<u64>,
    limit: usize,
) -> Result<Vec<RecordRow>, StoreError> {
    rows(connection, &of_all_sql(kind), params![state, above.map_or(0, int), int(limit as u64)])
}
