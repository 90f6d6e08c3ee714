//! What commands change beside the turns: records, their blobs, and titles.

use bytes::Bytes;
use everturn_core::{Json, SessionId, TenantId, Timestamp, TurnId};
use rusqlite::{OptionalExtension, params};

use super::{Batch, Judged, Stop};
use crate::{Put, Receipt, Record, RecordKind, Refusal, StoreError, Write};

impl Batch<'_, '_> {
    pub(super) fn put(&mut self, put: &Put) -> Judged {
        self.check_key(&put.tenant, put.key.as_ref(), put.at)?;
        let tenant = self.tenant(&put.tenant)?;
        self.check_writes(tenant, &put.writes, None)?;
        for expect in &put.expects {
            if self.revision(tenant, expect.kind, &expect.id)? != expect.revision {
                return Err(Refusal::Changed.into());
            }
        }

        let tenant = self.tenant_or_new(&put.tenant)?;
        self.write_each(tenant, &put.writes, put.at)?;
        self.keep_key(&put.tenant, put.key.as_ref(), put.at)?;
        Ok(Receipt { epoch: 0, version: 0 })
    }

    /// Refuses writes that speak of a session that is not there. `own` is that of the command itself.
    pub(super) fn check_writes(&self, tenant: i64, writes: &[Write], own: Option<&SessionId>) -> Result<(), Stop> {
        for session in writes.iter().filter_map(Write::session) {
            if own != Some(session) && self.session_id(tenant, session)?.is_none() {
                return Err(Refusal::NotFound.into());
            }
        }
        Ok(())
    }

    /// Writes what a command brings along; most bring nothing. The tenant is known.
    pub(super) fn write_all(&mut self, tenant: &TenantId, writes: &[Write], at: Timestamp) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        let tenant = self.tenant(tenant)?;
        self.write_each(tenant, writes, at)
    }

    /// Writes what [`Batch::check_writes`] has let pass.
    pub(super) fn write_each(&mut self, tenant: i64, writes: &[Write], at: Timestamp) -> Result<(), StoreError> {
        for write in writes {
            match write {
                Write::Record(record) => self.write_record(tenant, record, at)?,
                Write::Close { kind, id, state, outcome } => {
                    let mut update = self.connection.prepare_cached(
                        "UPDATE records SET revision = revision + 1, updated_at = ?4, state = ?5, outcome = ?6
                         WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND (state <> ?5 OR outcome IS NOT ?6)",
                    )?;
                    let outcome = outcome.as_ref().map(Json::as_str);
                    update.execute(params![tenant, kind.number(), id, at.millis(), state, outcome])?;
                }
                Write::Remove { kind, id } => self.remove_record(tenant, *kind, id)?,
                Write::Blob { kind, id, part, bytes } => self.write_blob(tenant, *kind, id, *part, bytes)?,
                Write::Title { session, title } => {
                    self.connection
                        .prepare_cached("UPDATE sessions SET title = ?3 WHERE tenant = ?1 AND name = ?2")?
                        .execute(params![tenant, session.as_str(), title])?;
                }
                Write::Usage(used) => self.spent.add(tenant, used),
            }
        }
        Ok(())
    }

    fn write_record(&self, tenant: i64, record: &Record, at: Timestamp) -> Result<(), StoreError> {
        let outcome = record.outcome.as_ref().map(Json::as_str);
        if let Some(id) = self.record_id(tenant, record.kind, &record.id)? {
            let mut update = self.connection.prepare_cached(
                "UPDATE records SET revision = revision + 1, updated_at = ?2, state = ?3, outcome = ?4, body = ?5
                 WHERE id = ?1 AND (state <> ?3 OR outcome IS NOT ?4 OR body <> ?5)",
            )?;
            update.execute(params![id, at.millis(), record.state, outcome, record.body.as_str()])?;
            return Ok(());
        }
        let session = match &record.session {
            Some(session) => self.session_id(tenant, session)?,
            None => None,
        };
        self.connection
            .prepare_cached(
                "INSERT INTO records (tenant, kind, name, session, turn, revision, created_at, updated_at, state,
                     outcome, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                tenant,
                record.kind.number(),
                record.id,
                session,
                record.turn.as_ref().map(TurnId::as_str),
                at.millis(),
                record.state,
                outcome,
                record.body.as_str(),
            ])?;
        Ok(())
    }

    fn remove_record(&mut self, tenant: i64, kind: RecordKind, name: &str) -> Result<(), StoreError> {
        let Some(id) = self.record_id(tenant, kind, name)? else { return Ok(()) };
        for statement in ["DELETE FROM blobs WHERE record = ?1", "DELETE FROM records WHERE id = ?1"] {
            self.connection.prepare_cached(statement)?.execute([id])?;
        }
        self.gone.from_pages = true;
        Ok(())
    }

    fn write_blob(
        &self,
        tenant: i64,
        kind: RecordKind,
        name: &str,
        part: u32,
        bytes: &Bytes,
    ) -> Result<(), StoreError> {
        let Some(id) = self.record_id(tenant, kind, name)? else { return Ok(()) };
        self.connection
            .prepare_cached(
                "INSERT INTO blobs (record, part, bytes) VALUES (?1, ?2, ?3)
                 ON CONFLICT (record, part) DO UPDATE SET bytes = excluded.bytes",
            )?
            .execute(params![id, part, bytes.as_ref()])?;
        Ok(())
    }

    fn record_id(&self, tenant: i64, kind: RecordKind, name: &str) -> Result<Option<i64>, StoreError> {
        let mut select =
            self.connection.prepare_cached("SELECT id FROM records WHERE tenant = ?1 AND kind = ?2 AND name = ?3")?;
        Ok(select.query_row(params![tenant, kind.number(), name], |row| row.get(0)).optional()?)
    }

    fn revision(&self, tenant: i64, kind: RecordKind, name: &str) -> Result<Option<u64>, StoreError> {
        let mut select = self
            .connection
            .prepare_cached("SELECT revision FROM records WHERE tenant = ?1 AND kind = ?2 AND name = ?3")?;
        Ok(select.query_row(params![tenant, kind.number(), name], |row| row.get(0)).optional()?)
    }
}
