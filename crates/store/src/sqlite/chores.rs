//! What is to be done at some time, of all tenants: turns that are due, sessions that are stalled, and what has grown
//! old. Each has an index of its own, in which nothing else is.

use everturn_core::{SessionId, TenantId, Timestamp, TurnId};
use rusqlite::{Connection, Params, params};

use super::rows::{int, name};
use crate::{DueTurn, StoreError};

/// See [`crate::Store::due`].
pub(super) fn due(connection: &Connection, limit: usize) -> Result<Vec<DueTurn>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT n.name, s.name, t.name, t.wake_at
         FROM turns t INDEXED BY turns_due JOIN sessions s ON s.id = t.session JOIN tenants n ON n.id = s.tenant
         WHERE t.wake_at IS NOT NULL ORDER BY t.wake_at, t.id LIMIT ?1",
    )?;
    let mut rows = select.query([int(limit as u64)])?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        due.push(DueTurn {
            tenant: name(row, 0)?,
            session: name(row, 1)?,
            turn: name(row, 2)?,
            wake_at: Timestamp(row.get(3)?),
        });
    }
    Ok(due)
}

/// See [`crate::Store::queued_of_tenant`].
pub(super) fn queued_of_tenant(connection: &Connection, tenant: &TenantId) -> Result<u64, StoreError> {
    let sql = "SELECT COALESCE(SUM(queued), 0) FROM sessions
        WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND queued > 0";
    let count: i64 = connection.prepare_cached(sql)?.query_row([tenant.as_str()], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// See [`crate::Store::stalled`].
pub(super) fn stalled(connection: &Connection, limit: usize) -> Result<Vec<(TenantId, SessionId)>, StoreError> {
    let sql = "SELECT n.name, s.name FROM sessions s INDEXED BY sessions_stalled JOIN tenants n ON n.id = s.tenant
        WHERE s.queued > 0 AND s.is_open = 0 ORDER BY s.id LIMIT ?1";
    sessions(connection, sql, [int(limit as u64)])
}

/// See [`crate::Store::idle_sessions`].
pub(super) fn idle_sessions(
    connection: &Connection,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<(TenantId, SessionId)>, StoreError> {
    let sql = "SELECT n.name, s.name FROM sessions s INDEXED BY sessions_idle JOIN tenants n ON n.id = s.tenant
        WHERE s.queued = 0 AND s.is_open = 0 AND s.updated_at < ?1 ORDER BY s.updated_at, s.id LIMIT ?2";
    sessions(connection, sql, params![before.millis(), int(limit as u64)])
}

fn sessions(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<(TenantId, SessionId)>, StoreError> {
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        sessions.push((name(row, 0)?, name(row, 1)?));
    }
    Ok(sessions)
}

/// See [`crate::Store::old_logs`]. The index has the turns of each level in the order in which they ended, so that those
/// which are short enough already are not looked at.
pub(super) fn old_logs(
    connection: &Connection,
    before: Timestamp,
    level: u8,
    limit: usize,
) -> Result<Vec<TurnId>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT rested_at, id, name FROM turns INDEXED BY turns_ended
         WHERE phase = 3 AND log_level = ?1 AND rested_at < ?2 ORDER BY rested_at, id LIMIT ?3",
    )?;
    let mut old: Vec<(i64, i64, TurnId)> = Vec::new();
    for shorter in 0..level {
        let mut rows = select.query(params![shorter, before.millis(), int(limit as u64)])?;
        while let Some(row) = rows.next()? {
            old.push((row.get(0)?, row.get(1)?, name(row, 2)?));
        }
    }
    old.sort_unstable();
    old.truncate(limit);
    Ok(old.into_iter().map(|(_, _, turn)| turn).collect())
}
