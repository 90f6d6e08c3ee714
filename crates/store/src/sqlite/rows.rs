//! Sessions and turns as they are read.

use everturn_core::{Compaction, KeyId, ModelOptions, SessionConfig, SessionId, TenantId, Timestamp, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use serde::{Serialize, de::DeserializeOwned};

use super::{fault::corrupt, legs, tokens};
use crate::{SessionRecord, SessionRow, StoreError, TurnOutline, TurnRecord, TurnStatus, TurnSummary};

/// The JSON of a value of ours.
pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(corrupt)
}

/// The value of a JSON column.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    let text = row.get_ref(column)?.as_str().map_err(corrupt)?;
    serde_json::from_str(text).map_err(corrupt)
}

/// The kind of a status, as the indexes know it. Stored, so they must stay as they are.
pub(super) fn phase(status: &TurnStatus) -> u8 {
    match status {
        TurnStatus::Running => 1,
        TurnStatus::Waiting(_) => 2,
        TurnStatus::Ended(_) => 3,
        TurnStatus::Queued => 4,
    }
}

/// A number as SQLite keeps it. The numbers that are stored never come near the limit; those in questions may.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn name<T: TryFrom<String>>(row: &Row<'_>, column: usize) -> Result<T, StoreError>
where
    T::Error: std::fmt::Display,
{
    T::try_from(row.get(column)?).map_err(corrupt)
}

const SESSION: &str = "
    SELECT s.id, s.name, s.version, s.tokens_in, s.tokens_out, s.tokens_cached, s.tokens_cache_write,
        s.tokens_reasoning, s.created_at, s.updated_at, s.title, s.queued, t.name, t.status, c.config
    FROM sessions s
    JOIN configs c ON c.session = s.id
    LEFT JOIN turns t ON t.id = s.current
    WHERE s.tenant = (SELECT id FROM tenants WHERE name = ?1)";

fn session_row(tenant: &TenantId, row: &Row<'_>) -> Result<SessionRow, StoreError> {
    let last_turn = match row.get::<_, Option<String>>(12)? {
        Some(turn) => Some(TurnSummary { id: TurnId::try_from(turn).map_err(corrupt)?, status: from_json(row, 13)? }),
        None => None,
    };
    let session = SessionRecord {
        id: name::<SessionId>(row, 1)?,
        tenant: tenant.clone(),
        version: row.get(2)?,
        config: from_json::<SessionConfig>(row, 14)?,
        usage: tokens::read(row, 3)?,
        created_at: Timestamp(row.get(8)?),
        updated_at: Timestamp(row.get(9)?),
        title: row.get(10)?,
        last_turn,
        queued: row.get(11)?,
    };
    Ok(SessionRow { position: row.get(0)?, session })
}

/// See [`crate::Store::session`].
pub(super) fn session(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
) -> Result<Option<SessionRecord>, StoreError> {
    let mut select = connection.prepare_cached(&format!("{SESSION} AND s.name = ?2"))?;
    let mut rows = select.query([tenant.as_str(), session.as_str()])?;
    rows.next()?.map(|row| session_row(tenant, row).map(|row| row.session)).transpose()
}

/// See [`crate::Store::sessions`].
pub(super) fn sessions(
    connection: &Connection,
    tenant: &TenantId,
    below: Option<u64>,
    limit: usize,
) -> Result<Vec<SessionRow>, StoreError> {
    let mut select = connection.prepare_cached(&format!("{SESSION} AND s.id < ?2 ORDER BY s.id DESC LIMIT ?3"))?;
    let mut rows = select.query(params![tenant.as_str(), below.map_or(i64::MAX, int), int(limit as u64)])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        page.push(session_row(tenant, row)?);
    }
    Ok(page)
}

/// Where the turns of a session are found.
pub(super) struct Place {
    /// The session's row.
    id: i64,
    /// Whether it shares turns of others. One that does not never will: turns are shared when a session is created.
    shares: bool,
    /// The turn that was started last.
    pub(super) last: Option<TurnId>,
}

/// Where the turns of a session are found, if there is such a session.
pub(super) fn place(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
) -> Result<Option<Place>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT s.id, EXISTS (SELECT 1 FROM shared h WHERE h.session = s.id), t.name
         FROM sessions s LEFT JOIN turns t ON t.id = s.current
         WHERE s.tenant = (SELECT id FROM tenants WHERE name = ?1) AND s.name = ?2",
    )?;
    let mut rows = select.query([tenant.as_str(), session.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let last = row.get::<_, Option<String>>(2)?.map(TurnId::try_from).transpose().map_err(corrupt)?;
    Ok(Some(Place { id: row.get(0)?, shares: row.get(1)?, last }))
}

/// What [`turn_record`] reads of the turn `t`.
fn turn_columns() -> String {
    format!("{TURN}, {}", legs::MESSAGES)
}

const TURN: &str = "t.name, t.ordinal, t.head, t.tokens_in, t.tokens_out, t.tokens_cached, t.tokens_cache_write,
    t.tokens_reasoning, t.created_at, t.rested_at, t.status, t.begins_history, t.compaction, t.by, t.options";

impl Place {
    /// Selects the session's turns as far as they are `wanted`, in this order. Its own come in the order of an index, and
    /// so do those that it shares; SQLite merges the two.
    fn select(&self, columns: &str, wanted: &str, order: &str) -> String {
        let own = format!("SELECT {columns}, t.ordinal AS place FROM turns t WHERE t.session = ?1");
        let shared =
            format!("SELECT {columns}, h.ordinal FROM shared h JOIN turns t ON t.id = h.turn WHERE h.session = ?1");
        let (of_own, of_shared) = (wanted.replace("place", "t.ordinal"), wanted.replace("place", "h.ordinal"));
        if self.shares {
            format!("{own} {of_own} UNION ALL {shared} {of_shared} ORDER BY place {order}")
        } else {
            format!("{own} {of_own} ORDER BY place {order}")
        }
    }
}

fn turn_record(row: &Row<'_>) -> Result<TurnRecord, StoreError> {
    let compaction = row.get_ref(12)?.as_str_or_null().map_err(corrupt)?;
    let options = row.get_ref(14)?.as_str_or_null().map_err(corrupt)?;
    Ok(TurnRecord {
        id: name::<TurnId>(row, 0)?,
        ordinal: row.get(1)?,
        head: row.get(2)?,
        usage: tokens::read(row, 3)?,
        created_at: Timestamp(row.get(8)?),
        rested_at: row.get::<_, Option<i64>>(9)?.map(Timestamp),
        status: from_json::<TurnStatus>(row, 10)?,
        begins_history: row.get(11)?,
        compaction: compaction.map(serde_json::from_str::<Compaction>).transpose().map_err(corrupt)?,
        options: options.map(serde_json::from_str::<ModelOptions>).transpose().map_err(corrupt)?.unwrap_or_default(),
        messages: from_json(row, 15)?,
        by: row.get::<_, Option<String>>(13)?.map(KeyId::try_from).transpose().map_err(corrupt)?,
    })
}

fn records(mut rows: Rows<'_>) -> Result<Vec<TurnRecord>, StoreError> {
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        turns.push(turn_record(row)?);
    }
    Ok(turns)
}

/// See [`crate::Store::turns`]. Heads are those of the rows.
pub(super) fn turns(connection: &Connection, place: &Place) -> Result<Vec<TurnRecord>, StoreError> {
    let mut select = connection.prepare_cached(&place.select(&turn_columns(), "", ""))?;
    records(select.query([place.id])?)
}

/// See [`crate::Store::turns_below`]. Heads are those of the rows.
pub(super) fn turns_below(
    connection: &Connection,
    place: &Place,
    below: Option<u64>,
    limit: usize,
) -> Result<Vec<TurnRecord>, StoreError> {
    let mut select = connection.prepare_cached(&place.select(&turn_columns(), "AND place < ?2", "DESC LIMIT ?3"))?;
    records(select.query(params![place.id, below.map_or(i64::MAX, int), int(limit as u64)])?)
}

/// The place of a turn in its session.
pub(super) fn ordinal(connection: &Connection, turn: &TurnId) -> Result<Option<u64>, StoreError> {
    let mut select = connection.prepare_cached("SELECT ordinal FROM turns WHERE name = ?1")?;
    Ok(select.query_row([turn.as_str()], |row| row.get(0)).optional()?)
}

/// See [`crate::Store::outlines_below`].
pub(super) fn outlines_below(
    connection: &Connection,
    place: &Place,
    below: Option<u64>,
    limit: usize,
) -> Result<Vec<TurnOutline>, StoreError> {
    const OUTLINE: &str = "t.name, t.ordinal, t.head, t.status, t.begins_history, t.message_count";
    let mut select = connection.prepare_cached(&place.select(OUTLINE, "AND place < ?2", "DESC LIMIT ?3"))?;
    let mut rows = select.query(params![place.id, below.map_or(i64::MAX, int), int(limit as u64)])?;
    let mut outlines = Vec::new();
    while let Some(row) = rows.next()? {
        outlines.push(TurnOutline {
            id: name::<TurnId>(row, 0)?,
            ordinal: row.get(1)?,
            head: row.get(2)?,
            status: from_json::<TurnStatus>(row, 3)?,
            begins_history: row.get(4)?,
            message_count: row.get(5)?,
        });
    }
    Ok(outlines)
}

/// See [`crate::Store::queued`]. A queued turn is never shared.
pub(super) fn queued(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
    limit: usize,
) -> Result<Vec<TurnRecord>, StoreError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT {} FROM turns t INDEXED BY turns_queued
         WHERE t.session = (SELECT id FROM sessions WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND name = ?2)
             AND t.phase = 4
         ORDER BY t.ordinal LIMIT ?3",
        turn_columns()
    ))?;
    records(select.query(params![tenant.as_str(), session.as_str(), int(limit as u64)])?)
}

/// See [`crate::Store::message_count`]. Goes back as far as history does.
pub(super) fn message_count(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
) -> Result<u64, StoreError> {
    let Some(place) = place(connection, tenant, session)? else { return Ok(0) };
    let mut select = connection.prepare_cached(&place.select("t.message_count, t.begins_history", "", "DESC"))?;
    let mut rows = select.query([place.id])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += row.get::<_, u64>(0)?;
        if row.get(1)? {
            break;
        }
    }
    Ok(count)
}

/// See [`crate::Store::history_bytes`]. SQLite knows the length of a column without reading it.
pub(super) fn history_bytes(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
    below: Option<u64>,
    limit: usize,
) -> Result<u64, StoreError> {
    let Some(place) = place(connection, tenant, session)? else { return Ok(0) };
    let bytes = format!("{} AS bytes", legs::BYTES);
    let lengths = place.select(&bytes, "AND place < ?2", "DESC LIMIT ?3");
    let mut select = connection.prepare_cached(&format!("SELECT COALESCE(SUM(bytes), 0) FROM ({lengths})"))?;
    Ok(select.query_row(params![place.id, below.map_or(i64::MAX, int), int(limit as u64)], |row| row.get(0))?)
}

/// See [`crate::Store::turn`]. The head is that of the row.
pub(super) fn turn(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Option<TurnRecord>, StoreError> {
    const SESSION: &str =
        "(SELECT id FROM sessions WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND name = ?2)";
    let mut select = connection.prepare_cached(&format!(
        "SELECT {} FROM turns t WHERE t.name = ?3
             AND (t.session = {SESSION} OR EXISTS (SELECT 1 FROM shared h WHERE h.turn = t.id AND h.session = {SESSION}))",
        turn_columns()
    ))?;
    let mut rows = select.query([tenant.as_str(), session.as_str(), turn.as_str()])?;
    rows.next()?.map(turn_record).transpose()
}

/// The row of a turn.
pub(super) fn turn_id(connection: &Connection, turn: &TurnId) -> Result<Option<i64>, StoreError> {
    let mut select = connection.prepare_cached("SELECT id FROM turns WHERE name = ?1")?;
    Ok(select.query_row([turn.as_str()], |row| row.get(0)).optional()?)
}
