//! Commands about the turns of a session as a whole: history that is shared, brought along, or taken away.
//!
//! A turn is a row that belongs to one session. A session that shares it has one small row in `shared`, and nothing of the
//! turn itself is copied. When its session lets go of it, the turn is handed to one of those who share it; only when
//! there is none is it deleted. Turns that are shared have ended, so nothing of them is in memory or alive in `log`.

use std::collections::HashSet;

use everturn_core::TurnId;
use rusqlite::{OptionalExtension, params};

use super::{Batch, Judged, Stop, follows, lookup::SessionState};
use crate::{
    EndedTurn, NewSession, Receipt, Refusal, Shares, StoreError, TruncateSession,
    sqlite::{
        fault::corrupt,
        legs, log,
        rows::{int, phase, to_json},
        tokens,
    },
};

impl Batch<'_, '_> {
    pub(super) fn create_session(&mut self, new: &NewSession) -> Judged {
        let tenant = self.tenant(&new.tenant)?;
        let created = Receipt { epoch: 0, version: 1 };
        let known = self.session(tenant, &new.id)?;
        if let Some(session) = &known
            && self.was_created(session, new)?
        {
            return Ok(created);
        }
        self.check_key(&new.tenant, new.key.as_ref(), new.at)?;
        if known.is_some() || self.is_deleted(tenant, &new.id)? {
            return Err(Refusal::Exists.into());
        }
        let parent = match &new.shares {
            Some(shares) => Some((self.check_shares(tenant, shares)?, shares.through)),
            None => None,
        };
        self.check_ended(&new.turns)?;

        let session = self.insert_session(&new.tenant, &new.id, &new.config, new.at, None)?;
        let mut last = 0;
        if let Some((parent, through)) = parent {
            last = parent.turns.min(through);
            self.share(parent.id, session, last)?;
        }
        for turn in &new.turns {
            last += 1;
            self.insert_ended(session, last, created.version, turn)?;
        }
        if last > 0 || new.title.is_some() {
            self.connection
                .prepare_cached("UPDATE sessions SET title = ?2, turns = ?3, current = ?4 WHERE id = ?1")?
                .execute(params![session, new.title, last, self.turn_at(session, last)?])?;
        }
        self.keep_key(&new.tenant, new.key.as_ref(), new.at)?;
        Ok(created)
    }

    /// Whether a session was created by this command: at this time, and as long as nothing has changed it, as it says.
    fn was_created(&self, session: &SessionState, new: &NewSession) -> Result<bool, StoreError> {
        if session.opened_by_turn || session.created_at != new.at {
            return Ok(false);
        }
        if session.version > 1 {
            return Ok(true);
        }
        if !new.may_have_made(session.turns) || self.config(session.id)? != new.config {
            return Ok(false);
        }
        for turn in &new.turns {
            match self.turn(&turn.turn)? {
                Some(turn) if self.has_turn(session.id, &turn)? => {}
                Some(_) | None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether a session's turns may be shared as it is asked, and the session.
    fn check_shares(&self, tenant: i64, shares: &Shares) -> Result<SessionState, Stop> {
        let session = self.session(tenant, &shares.session)?.ok_or(Refusal::NotFound)?;
        // What has not ended is the turn that is open, if one is, and those in the queue.
        let open = if session.is_open { self.ordinal(session.current)? } else { None };
        let queued = if session.queued > 0 { self.first_queued(session.id)? } else { None };
        let is_beyond = |ordinal: u64| ordinal > shares.through;
        let all_ended = open.is_none_or(is_beyond) && queued.is_none_or(|(_, ordinal)| is_beyond(ordinal));
        if session.version != shares.expected_version || !all_ended {
            return Err(Refusal::Changed.into());
        }
        Ok(session)
    }

    /// Refuses turns that are not over, or have a name that is taken, or a log that does not begin at the beginning.
    fn check_ended<'a>(&self, turns: impl IntoIterator<Item = &'a EndedTurn>) -> Result<(), Stop> {
        let mut names = HashSet::new();
        for turn in turns {
            if !turn.rest.status.is_ended() || turn.rest.keeps > 0 {
                return Err(Refusal::Changed.into());
            }
            if !names.insert(&turn.turn) || self.turn(&turn.turn)?.is_some() {
                return Err(Refusal::Exists.into());
            }
            follows(0, &turn.segment)?;
        }
        Ok(())
    }

    pub(super) fn truncate_session(&mut self, truncate: &TruncateSession) -> Judged {
        let tenant = self.tenant(&truncate.tenant)?;
        let session = self.session(tenant, &truncate.session)?;
        let receipt = Receipt { epoch: 0, version: truncate.expected_version.saturating_add(1) };
        if let Some(session) = &session
            && self.was_truncated(session.id, receipt.version, truncate)?
        {
            return Ok(receipt);
        }
        self.check_key(&truncate.tenant, truncate.key.as_ref(), truncate.at)?;
        let session = session.ok_or(Refusal::NotFound)?;
        if session.version != truncate.expected_version || session.is_open || session.queued > 0 {
            return Err(Refusal::Changed.into());
        }
        self.check_ended(&truncate.turn)?;

        self.let_go(session.id, truncate.through)?;
        let mut last = session.turns.min(truncate.through);
        if let Some(turn) = &truncate.turn {
            last += 1;
            self.insert_ended(session.id, last, receipt.version, turn)?;
        }
        self.connection
            .prepare_cached(
                "UPDATE sessions SET version = ?2, updated_at = ?3, turns = ?4, current = ?5 WHERE id = ?1",
            )?
            .execute(params![
                session.id,
                receipt.version,
                truncate.at.millis(),
                last,
                self.turn_at(session.id, last)?
            ])?;
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO truncations (session, version, at, through, turn) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                session.id,
                receipt.version,
                truncate.at.millis(),
                int(truncate.through),
                truncate.turn.as_ref().map(|turn| turn.turn.as_str()),
            ])?;
        self.keep_key(&truncate.tenant, truncate.key.as_ref(), truncate.at)?;
        Ok(receipt)
    }

    /// Whether this truncation was the last one of the session, and gave it this version.
    fn was_truncated(&self, session: i64, version: u64, truncate: &TruncateSession) -> Result<bool, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT 1 FROM truncations
             WHERE session = ?1 AND version = ?2 AND at = ?3 AND through = ?4 AND turn IS ?5",
        )?;
        Ok(select.exists(params![
            session,
            int(version),
            truncate.at.millis(),
            int(truncate.through),
            truncate.turn.as_ref().map(|turn| turn.turn.as_str()),
        ])?)
    }

    /// Lets a session have the turns that another has, up to an ordinal. Reads indexes alone.
    fn share(&self, from: i64, with: i64, through: u64) -> Result<(), StoreError> {
        self.connection
            .prepare_cached(
                "INSERT INTO shared (session, ordinal, turn)
                 SELECT ?2, ordinal, id FROM turns WHERE session = ?1 AND ordinal <= ?3
                 UNION ALL SELECT ?2, ordinal, turn FROM shared WHERE session = ?1 AND ordinal <= ?3",
            )?
            .execute(params![from, with, int(through)])?;
        Ok(())
    }

    /// Takes a session's turns after an ordinal away from it. Those that others share are handed to one of them.
    pub(super) fn let_go(&mut self, session: i64, through: u64) -> Result<(), StoreError> {
        let through = int(through);
        self.connection
            .prepare_cached("DELETE FROM shared WHERE session = ?1 AND ordinal > ?2")?
            .execute([session, through])?;
        let own: Vec<(i64, String)> = self
            .connection
            .prepare_cached("SELECT id, name FROM turns WHERE session = ?1 AND ordinal > ?2")?
            .query_map([session, through], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (turn, name) in own {
            if !self.hand_over(turn)? {
                self.delete_turn(turn, &TurnId::try_from(name).map_err(corrupt)?)?;
            }
        }
        Ok(())
    }

    /// Makes a turn belong to one of those who share it, if there is any.
    fn hand_over(&self, turn: i64) -> Result<bool, StoreError> {
        let heir: Option<i64> = self
            .connection
            .prepare_cached("SELECT session FROM shared WHERE turn = ?1 ORDER BY session LIMIT 1")?
            .query_row([turn], |row| row.get(0))
            .optional()?;
        let Some(heir) = heir else { return Ok(false) };
        self.connection.prepare_cached("DELETE FROM shared WHERE turn = ?1 AND session = ?2")?.execute([turn, heir])?;
        self.connection.prepare_cached("UPDATE turns SET session = ?2 WHERE id = ?1")?.execute([turn, heir])?;
        Ok(true)
    }

    /// Deletes a turn with its log.
    fn delete_turn(&mut self, turn: i64, name: &TurnId) -> Result<(), StoreError> {
        let rows = self.staged.rows(name);
        log::delete_rows(self.connection, &rows)?;
        self.gone.rows.rows += rows.len();
        self.gone.rows.bytes += rows.iter().map(|row| row.bytes).sum::<u64>();
        log::delete_chunks(self.connection, turn)?;
        legs::delete(self.connection, turn)?;
        self.connection.prepare_cached("DELETE FROM turns WHERE id = ?1")?.execute([turn])?;
        self.staged.stop(name);
        // What the turn had in `log` before it rested lies there dead.
        self.gone.from_log = true;
        self.gone.from_pages = true;
        Ok(())
    }

    /// Adds a turn that is over.
    fn insert_ended(&mut self, session: i64, ordinal: u64, version: u64, ended: &EndedTurn) -> Result<(), StoreError> {
        let EndedTurn { turn, segment, rest, begins_history, at } = ended;
        let id = self.ids.turn();
        let [input, output, cached, cache_write, reasoning] = tokens::columns(rest.usage);
        self.connection
            .prepare_cached(
                "INSERT INTO turns (id, name, session, ordinal, epoch, head, gathered, taken_epoch, taken_version,
                     taken_by, rest_version, tokens_in, tokens_out, tokens_cached, tokens_cache_write, tokens_reasoning,
                     created_at, rested_at, log_level, begins_history, message_count, has_legs, phase, status,
                     compaction, messages)
                 VALUES (?1, ?2, ?3, ?4, 0, ?5, ?5, 0, ?6, '', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, 0, ?13, ?14, 0,
                     ?15, ?16, ?17, ?18)",
            )?
            .execute(params![
                id,
                turn.as_str(),
                session,
                ordinal,
                segment.count(),
                version,
                input,
                output,
                cached,
                cache_write,
                reasoning,
                at.millis(),
                begins_history,
                rest.messages.len(),
                phase(&rest.status),
                to_json(&rest.status)?,
                rest.compaction.as_ref().map(to_json).transpose()?,
                to_json(&rest.messages)?,
            ])?;
        // After the turn, which says whose it is.
        log::write_chunks(self.connection, id, std::slice::from_ref(segment))?;
        Ok(())
    }

    /// A session's turn of an ordinal, its own or a shared one; zero if it has none.
    fn turn_at(&self, session: i64, ordinal: u64) -> Result<i64, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT id FROM turns WHERE session = ?1 AND ordinal = ?2
             UNION ALL SELECT turn FROM shared WHERE session = ?1 AND ordinal = ?2",
        )?;
        Ok(select.query_row(params![session, int(ordinal)], |row| row.get(0)).optional()?.unwrap_or(0))
    }

    fn ordinal(&self, turn: i64) -> Result<Option<u64>, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT ordinal FROM turns WHERE id = ?1")?;
        Ok(select.query_row([turn], |row| row.get(0)).optional()?)
    }
}
