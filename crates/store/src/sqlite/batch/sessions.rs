//! Commands about sessions as a whole, and about what has grown old.

use everturn_core::Timestamp;
use rusqlite::params;

use super::{Batch, Judged, follows};
use crate::{DeleteSession, Receipt, Refusal, ReplaceLog, sqlite::log};

impl Batch<'_, '_> {
    pub(super) fn delete_session(&mut self, delete: &DeleteSession) -> Judged {
        let done = Receipt { epoch: 0, version: 0 };
        let tenant = self.tenant(&delete.tenant)?;
        let session = self.session(tenant, &delete.session)?;
        if session.is_none() && self.is_deleted(tenant, &delete.session)? {
            return Ok(done);
        }
        self.check_key(&delete.tenant, delete.key.as_ref(), delete.at)?;
        let session = session.ok_or(Refusal::NotFound)?;
        let is_idle = |before| !session.is_open && session.queued == 0 && session.updated_at < before;
        if delete.idle_before.is_some_and(|before| !is_idle(before)) {
            return Err(Refusal::Changed.into());
        }

        self.let_go(session.id, 0)?;
        for statement in [
            "DELETE FROM truncations WHERE session = ?1",
            "DELETE FROM blobs WHERE record IN (SELECT id FROM records WHERE session = ?1)",
            "DELETE FROM records WHERE session = ?1",
            "DELETE FROM configs WHERE session = ?1",
            "DELETE FROM sessions WHERE id = ?1",
        ] {
            self.connection.prepare_cached(statement)?.execute([session.id])?;
        }
        self.connection
            .prepare_cached("INSERT INTO tombstones (tenant, name, at) VALUES (?1, ?2, ?3)")?
            .execute(params![tenant, delete.session.as_str(), delete.at.millis()])?;
        self.keep_key(&delete.tenant, delete.key.as_ref(), delete.at)?;
        self.gone.from_log = true;
        self.gone.from_pages = true;
        Ok(done)
    }

    pub(super) fn forget_deleted(&mut self, before: Timestamp) -> Judged {
        self.connection.prepare_cached("DELETE FROM tombstones WHERE at < ?1")?.execute([before.millis()])?;
        Ok(Receipt { epoch: 0, version: 0 })
    }

    pub(super) fn replace_log(&mut self, replace: &ReplaceLog) -> Judged {
        let turn = self.turn(&replace.turn)?.ok_or(Refusal::NotFound)?;
        if !turn.status.is_ended() || replace.level < turn.log_level {
            return Err(Refusal::Changed.into());
        }
        let mut last = 0;
        for segment in &replace.segments {
            follows(last, segment).map_err(|_| Refusal::Gap { head: turn.head, first_seq: segment.first_seq() })?;
            last += u64::from(segment.count());
        }
        if last != turn.head {
            return Err(Refusal::Gap { head: turn.head, first_seq: last + 1 }.into());
        }

        log::delete_chunks(self.connection, turn.id)?;
        log::write_chunks(self.connection, turn.id, &replace.segments)?;
        self.connection
            .prepare_cached("UPDATE turns SET log_level = ?2 WHERE id = ?1")?
            .execute(params![turn.id, replace.level])?;
        // What the turn had in `log` before it rested lies there dead.
        self.gone.from_log = true;
        self.gone.from_pages = true;
        Ok(Receipt { epoch: turn.epoch, version: 0 })
    }
}
