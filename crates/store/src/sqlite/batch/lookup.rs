//! What the commands of a batch are judged by, as far as it is in the database.

use everturn_core::{SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage};
use rusqlite::{OptionalExtension, params};

use super::{Batch, Stop};
use crate::{
    CommandKey, Refusal, StoreError, TurnStatus,
    sqlite::{
        fault::corrupt,
        keys,
        legs::Kept,
        rows::{from_json, to_json},
        tokens,
    },
};

/// What commands are judged by.
pub(super) struct SessionState {
    pub(super) id: i64,
    pub(super) tenant: i64,
    pub(super) version: u64,
    /// The ordinal of the last one.
    pub(super) turns: u64,
    /// The turn that was started last; zero if none was.
    pub(super) current: i64,
    /// How many of them are queued.
    pub(super) queued: u64,
    /// Whether one of them runs or waits.
    pub(super) is_open: bool,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) opened_by_turn: bool,
}

/// What commands are judged by, of a turn as its row has it.
pub(super) struct TurnState {
    pub(super) id: i64,
    pub(super) session: i64,
    pub(super) epoch: u64,
    pub(super) head: u64,
    pub(super) taken_epoch: u64,
    pub(super) taken_version: u64,
    /// The resumption that last took it up; empty before the first.
    pub(super) taken_by: String,
    pub(super) rest_version: u64,
    pub(super) usage: Usage,
    pub(super) messages: Kept,
    pub(super) log_level: u8,
    pub(super) status: TurnStatus,
}

impl Batch<'_, '_> {
    pub(super) fn config(&self, session: i64) -> Result<SessionConfig, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT config FROM configs WHERE session = ?1")?;
        let mut rows = select.query([session])?;
        let row = rows.next()?.ok_or_else(|| corrupt("a session without settings"))?;
        from_json(row, 0)
    }

    /// Whether a session has these settings.
    pub(super) fn has_config(&self, session: i64, config: &SessionConfig) -> Result<bool, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT 1 FROM configs WHERE session = ?1 AND config = ?2")?;
        Ok(select.exists(params![session, to_json(config)?])?)
    }

    /// The tenant's row; zero, which no row is, if there is none.
    pub(super) fn tenant(&self, name: &TenantId) -> Result<i64, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT id FROM tenants WHERE name = ?1")?;
        let found = select.query_row([name.as_str()], |row| row.get(0)).optional()?;
        Ok(found.unwrap_or(0))
    }

    pub(super) fn session(&self, tenant: i64, name: &SessionId) -> Result<Option<SessionState>, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT id, version, turns, queued, is_open, created_at, opened_by_turn, current, updated_at FROM sessions
             WHERE tenant = ?1 AND name = ?2",
        )?;
        let found = select.query_row(params![tenant, name.as_str()], |row| {
            Ok(SessionState {
                id: row.get(0)?,
                tenant,
                version: row.get(1)?,
                turns: row.get(2)?,
                queued: row.get(3)?,
                is_open: row.get(4)?,
                created_at: Timestamp(row.get(5)?),
                opened_by_turn: row.get(6)?,
                current: row.get(7)?,
                updated_at: Timestamp(row.get(8)?),
            })
        });
        Ok(found.optional()?)
    }

    pub(super) fn session_id(&self, tenant: i64, name: &SessionId) -> Result<Option<i64>, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT id FROM sessions WHERE tenant = ?1 AND name = ?2")?;
        Ok(select.query_row(params![tenant, name.as_str()], |row| row.get(0)).optional()?)
    }

    /// The tenant that a session belongs to.
    pub(super) fn tenant_of(&self, session: i64) -> Result<i64, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT tenant FROM sessions WHERE id = ?1")?;
        Ok(select.query_row([session], |row| row.get(0))?)
    }

    pub(super) fn is_deleted(&self, tenant: i64, session: &SessionId) -> Result<bool, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT 1 FROM tombstones WHERE tenant = ?1 AND name = ?2")?;
        Ok(select.exists(params![tenant, session.as_str()])?)
    }

    /// Refuses a command that is not recognised and whose key was kept not long ago.
    pub(super) fn check_key(&self, tenant: &TenantId, key: Option<&CommandKey>, at: Timestamp) -> Result<(), Stop> {
        let Some(key) = key else { return Ok(()) };
        match keys::find(self.connection, tenant, &key.key, at)? {
            None => Ok(()),
            Some(CommandKey { fingerprint, outcome, .. }) => Err(Refusal::Repeated { fingerprint, outcome }.into()),
        }
    }

    /// The first turn of a session's queue, and its ordinal.
    pub(super) fn first_queued(&self, session: i64) -> Result<Option<(i64, u64)>, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT id, ordinal FROM turns INDEXED BY turns_queued WHERE session = ?1 AND phase = 4
             ORDER BY ordinal LIMIT 1",
        )?;
        Ok(select.query_row([session], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    /// Whether a session has a turn, its own or one that it shares.
    pub(super) fn has_turn(&self, session: i64, turn: &TurnState) -> Result<bool, StoreError> {
        if turn.session == session {
            return Ok(true);
        }
        let mut select = self.connection.prepare_cached("SELECT 1 FROM shared WHERE turn = ?1 AND session = ?2")?;
        Ok(select.exists([turn.id, session])?)
    }

    pub(super) fn turn(&self, name: &TurnId) -> Result<Option<TurnState>, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT id, session, epoch, head, taken_epoch, taken_version, taken_by, rest_version, tokens_in,
                 tokens_out, tokens_cached, tokens_cache_write, tokens_reasoning, log_level, status, message_count, has_legs
             FROM turns WHERE name = ?1",
        )?;
        let mut rows = select.query([name.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(TurnState {
            id: row.get(0)?,
            session: row.get(1)?,
            epoch: row.get(2)?,
            head: row.get(3)?,
            taken_epoch: row.get(4)?,
            taken_version: row.get(5)?,
            taken_by: row.get(6)?,
            rest_version: row.get(7)?,
            usage: tokens::read(row, 8)?,
            messages: Kept { count: row.get(15)?, has_legs: row.get(16)? },
            log_level: row.get(13)?,
            status: from_json(row, 14)?,
        }))
    }
}
