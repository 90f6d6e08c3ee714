//! Writes what several commands have in common.

use everturn_core::{Segment, SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage};
use rusqlite::params;

use super::Batch;
use crate::{
    CommandKey, Rest, StoreError, TurnStatus,
    sqlite::{
        keys,
        legs::{self, Kept},
        live::Standing,
        log,
        rows::{phase, to_json},
        tokens::{self, MOST},
    },
};

/// A turn's rows of `log` are gathered while it still runs once they are this many, or this large: so no commit has
/// much to gather, and what is kept in memory of a turn is bounded.
const GATHER_ROWS: usize = 1024;
const GATHER_BYTES: u64 = 256 * 1024;

/// A batch gathers no more of running turns than this; the others wait for the next batch, up to this many times the
/// amounts above. So turns that began together do not all hold up the same commit.
const GATHERED_ROWS: usize = 2 * GATHER_ROWS;
const GATHERED_BYTES: u64 = 4 * GATHER_BYTES;
const GATHER_OVERDUE: usize = 8;

/// A turn that comes to rest.
pub(super) struct Resting {
    pub(super) turn: i64,
    pub(super) session: i64,
    /// What it had used when it last rested.
    pub(super) before: Usage,
    /// Its messages as of then.
    pub(super) messages: Kept,
    /// Seq of its last event.
    pub(super) head: u64,
    /// The session's version from now on.
    pub(super) version: u64,
    /// Whether a turn of the session runs or waits from now on; none if that stays as it is.
    pub(super) is_open: Option<bool>,
    pub(super) at: Timestamp,
}

impl Batch<'_, '_> {
    /// Adds events to a running turn.
    pub(super) fn write_segment(&mut self, name: &TurnId, turn: i64, segment: &Segment) -> Result<(), StoreError> {
        if segment.count() == 0 {
            return Ok(());
        }
        let row = log::append(self.connection, self.ids.log(), turn, segment)?;
        let head = segment.first_seq() + u64::from(segment.count()) - 1;
        self.written.rows += 1;
        self.written.bytes += row.bytes;
        let load = self.staged.add_row(name, row, head);
        let is_due = load.rows >= GATHER_ROWS || load.bytes >= GATHER_BYTES;
        let is_overdue =
            load.rows >= GATHER_OVERDUE * GATHER_ROWS || load.bytes >= GATHER_OVERDUE as u64 * GATHER_BYTES;
        if is_overdue || (is_due && self.has_room()) { self.gather_running(name) } else { Ok(()) }
    }

    /// Gathers what a turn has in `log` while it runs on.
    fn gather_running(&mut self, name: &TurnId) -> Result<(), StoreError> {
        let Some(Standing { turn, head, load, .. }) = self.staged.standing(name) else { return Ok(()) };
        log::gather(self.connection, turn, &self.staged.rows(name), None)?;
        self.connection
            .prepare_cached("UPDATE turns SET head = ?2, gathered = ?2 WHERE id = ?1")?
            .execute(params![turn, head])?;
        self.staged.clear_rows(name);
        self.gathered.rows += load.rows;
        self.gathered.bytes += load.bytes;
        Ok(())
    }

    /// Gathers the turns whose rows are the oldest, as far as the batch has room.
    pub(in crate::sqlite) fn gather_oldest(&mut self, oldest: &[TurnId]) -> Result<(), StoreError> {
        for turn in oldest {
            if !self.has_room() {
                break;
            }
            self.gather_running(turn)?;
        }
        Ok(())
    }

    /// Gathers every turn that runs, whatever it takes, and leaves nothing in `log`.
    pub(in crate::sqlite) fn clear_log(&mut self, running: &[TurnId]) -> Result<(), StoreError> {
        for turn in running {
            self.gather_running(turn)?;
        }
        log::clear(self.connection)
    }

    fn has_room(&self) -> bool {
        self.gathered.rows < GATHERED_ROWS && self.gathered.bytes < GATHERED_BYTES
    }

    /// Writes what is kept of a turn that comes to rest, and what that changes in its session.
    pub(super) fn write_rest(&self, resting: Resting, rest: &Rest) -> Result<(), StoreError> {
        let Resting { turn, session, before, messages, head, version, is_open, at } = resting;
        let compaction = rest.compaction.as_ref().map(to_json).transpose()?;
        let [input, output, cached, cache_write, reasoning] = tokens::columns(rest.usage);
        let before = tokens::columns(before);
        let (messages, in_row) = legs::add(self.connection, turn, messages, rest)?;
        let wake_at = match &rest.status {
            TurnStatus::Waiting(wait) => wait.wake_at.map(Timestamp::millis),
            TurnStatus::Running | TurnStatus::Ended(_) | TurnStatus::Queued => None,
        };
        self.connection
            .prepare_cached(
                "UPDATE turns SET node = NULL, head = ?2, rest_version = ?3, tokens_in = ?4, tokens_out = ?5,
                     tokens_cached = ?6, tokens_cache_write = ?7, tokens_reasoning = ?8, rested_at = ?9, wake_at = ?10,
                     phase = ?11, status = ?12, compaction = ?13, messages = ?14, message_count = ?15, has_legs = ?16
                 WHERE id = ?1",
            )?
            .execute(params![
                turn,
                head,
                version,
                input,
                output,
                cached,
                cache_write,
                reasoning,
                at.millis(),
                wake_at,
                phase(&rest.status),
                to_json(&rest.status)?,
                compaction,
                in_row,
                messages.count,
                messages.has_legs,
            ])?;
        self.connection
            .prepare_cached(
                "UPDATE sessions SET version = ?2, updated_at = ?3, is_open = ifnull(?4, is_open),
                     tokens_in = min(tokens_in + ?5, ?10), tokens_out = min(tokens_out + ?6, ?10),
                     tokens_cached = min(tokens_cached + ?7, ?10),
                     tokens_cache_write = min(tokens_cache_write + ?8, ?10),
                     tokens_reasoning = min(tokens_reasoning + ?9, ?10)
                 WHERE id = ?1",
            )?
            .execute(params![
                session,
                version,
                at.millis(),
                is_open,
                input - before[0],
                output - before[1],
                cached - before[2],
                cache_write - before[3],
                reasoning - before[4],
                MOST
            ])?;
        Ok(())
    }

    /// The tenant's row.
    pub(super) fn tenant_or_new(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        match self.tenant(tenant)? {
            0 => {
                let mut insert = self.connection.prepare_cached("INSERT INTO tenants (name) VALUES (?1)")?;
                Ok(insert.insert([tenant.as_str()])?)
            }
            known => Ok(known),
        }
    }

    /// Adds a session that has no turn, or is opened by one, its first.
    pub(super) fn insert_session(
        &self,
        tenant: &TenantId,
        name: &SessionId,
        config: &SessionConfig,
        at: Timestamp,
        opened_by: Option<i64>,
    ) -> Result<i64, StoreError> {
        let tenant = self.tenant_or_new(tenant)?;
        self.connection
            .prepare_cached(
                "INSERT INTO sessions (tenant, name, version, turns, current, queued, is_open, tokens_in, tokens_out,
                     tokens_cached, tokens_cache_write, tokens_reasoning, created_at, updated_at, opened_by_turn)
                 VALUES (?1, ?2, 1, ?3, ?5, 0, ?3, 0, 0, 0, 0, 0, ?4, ?4, ?3)",
            )?
            .execute(params![tenant, name.as_str(), opened_by.is_some(), at.millis(), opened_by.unwrap_or(0)])?;
        let id = self.connection.last_insert_rowid();
        self.connection
            .prepare_cached("INSERT INTO configs (session, config) VALUES (?1, ?2)")?
            .execute(params![id, to_json(config)?])?;
        Ok(id)
    }

    pub(super) fn keep_key(
        &self,
        tenant: &TenantId,
        key: Option<&CommandKey>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        key.map_or(Ok(()), |key| keys::keep(self.connection, tenant, key, at))
    }

    pub(super) fn update_config(&self, session: i64, config: &SessionConfig) -> Result<(), StoreError> {
        self.connection
            .prepare_cached("UPDATE configs SET config = ?2 WHERE session = ?1 AND config <> ?2")?
            .execute(params![session, to_json(config)?])?;
        Ok(())
    }
}
