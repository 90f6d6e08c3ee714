//! What the commands of a batch are judged by, as far as it is in the database.

use everturn_core::{SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage};
use rusqlite::{OptionalExtension, params};

use super::Batch;
use crate::{
    CommandKey, Refusal, StoreError, TurnStatus,
    sqlite::{fault::corrupt, keys, rows::from_json},
};

/// What commands are judged by.
pub(super) struct SessionState {
    pub(super) id: i64,
    pub(super) version: u64,
    pub(super) turns: u64,
    pub(super) created_at: Timestamp,
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
    pub(super) status: TurnStatus,
}

impl Batch<'_, '_> {
    pub(super) fn config(&self, session: i64) -> Result<SessionConfig, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT config FROM configs WHERE session = ?1")?;
        let mut rows = select.query([session])?;
        let row = rows.next()?.ok_or_else(|| corrupt("a session without settings"))?;
        from_json(row, 0)
    }

    /// The tenant's row; zero, which no row is, if there is none.
    pub(super) fn tenant(&self, name: &TenantId) -> Result<i64, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT id FROM tenants WHERE name = ?1")?;
        let found = select.query_row([name.as_str()], |row| row.get(0)).optional()?;
        Ok(found.unwrap_or(0))
    }

    pub(super) fn session(&self, tenant: i64, name: &SessionId) -> Result<Option<SessionState>, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT id, version, turns, created_at, opened_by_turn FROM sessions WHERE tenant = ?1 AND name = ?2",
        )?;
        let found = select.query_row(params![tenant, name.as_str()], |row| {
            Ok(SessionState {
                id: row.get(0)?,
                version: row.get(1)?,
                turns: row.get(2)?,
                created_at: Timestamp(row.get(3)?),
                opened_by_turn: row.get(4)?,
            })
        });
        Ok(found.optional()?)
    }

    pub(super) fn is_deleted(&self, tenant: i64, session: &SessionId) -> Result<bool, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT 1 FROM tombstones WHERE tenant = ?1 AND name = ?2")?;
        Ok(select.exists(params![tenant, session.as_str()])?)
    }

    /// Why a command that is not recognised must not be kept: one of its key was, and not long ago.
    pub(super) fn repeated(
        &self,
        tenant: &TenantId,
        key: Option<&CommandKey>,
        at: Timestamp,
    ) -> Result<Option<Refusal>, StoreError> {
        let Some(key) = key else { return Ok(None) };
        let found = keys::find(self.connection, tenant, &key.key, at)?;
        Ok(found.map(|CommandKey { fingerprint, outcome, .. }| Refusal::Repeated { fingerprint, outcome }))
    }

    pub(super) fn last_turn(&self, session: &SessionState) -> Result<Option<(TurnId, TurnStatus)>, StoreError> {
        let mut select =
            self.connection.prepare_cached("SELECT name, status FROM turns WHERE session = ?1 AND ordinal = ?2")?;
        let mut rows = select.query(params![session.id, session.turns])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some((TurnId::try_from(row.get::<_, String>(0)?).map_err(corrupt)?, from_json(row, 1)?)))
    }

    pub(super) fn turn(&self, name: &TurnId) -> Result<Option<TurnState>, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT id, session, epoch, head, taken_epoch, taken_version, taken_by, rest_version, tokens_in,
                 tokens_out, status
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
            usage: Usage { input: row.get(8)?, output: row.get(9)? },
            status: from_json(row, 10)?,
        }))
    }
}
