//! Commands about turns: begin, take up, append, end, claim.

use everturn_core::{KeyId, SessionId, TenantId, TurnId};
use rusqlite::params;

use super::{
    Batch, Judged, Stop, ends_at, ends_within, follows,
    lookup::{SessionState, TurnState},
    write::Resting,
};
use crate::{
    Append, BeginTurn, ClaimedTurn, EndTurn, NodeId, Receipt, Refusal, ResumeTurn, Start, StoreError, Supersede,
    TurnStatus,
    sqlite::{
        fault::corrupt,
        legs::Kept,
        live::{Load, Standing},
        log,
        rows::{int, phase, to_json},
        tokens,
    },
};

impl Batch<'_, '_> {
    pub(super) fn begin_turn(&mut self, begin: &BeginTurn) -> Judged {
        let tenant = self.tenant(&begin.tenant)?;
        let session = self.session(tenant, &begin.session)?;
        let (node, epoch, status) = match &begin.start {
            Start::Now(node) => (Some(node), 1, TurnStatus::Running),
            Start::Queued => (None, 0, TurnStatus::Queued),
        };
        let known = self.turn(&begin.turn)?;
        if let (Some(turn), Some(session)) = (&known, &session)
            && self.has_turn(session.id, turn)?
        {
            let expected = begin.expected_version.unwrap_or(0).saturating_add(1);
            let version = if turn.status == TurnStatus::Queued { turn.taken_version } else { expected };
            return Ok(Receipt { epoch, version });
        }
        self.check_key(&begin.tenant, begin.key.as_ref(), begin.at)?;
        if known.is_some() {
            return Err(Refusal::Exists.into());
        }
        let superseded = match (begin.expected_version, &session) {
            (None, Some(_)) => return Err(Refusal::Exists.into()),
            (None, None) if begin.supersedes.is_some() || node.is_none() => return Err(Refusal::NotFound.into()),
            (None, None) if self.is_deleted(tenant, &begin.session)? => return Err(Refusal::Exists.into()),
            (None, None) => None,
            (Some(_), None) => return Err(Refusal::NotFound.into()),
            (Some(expected), Some(session)) => {
                if session.version != expected && !self.may_join(begin, session)? {
                    return Err(Refusal::Changed.into());
                }
                self.place(begin, session)?
            }
        };
        let version = session.as_ref().map_or(1, |session| session.version + 1);
        follows(0, &begin.segment)?;
        self.check_writes(tenant, &begin.writes, Some(&begin.session))?;

        if let Some((turn, end)) = superseded {
            log::gather(self.connection, turn.id, &[], Some(&end.segment))?;
            let head = turn.head + u64::from(end.segment.count());
            let resting = Resting {
                turn: turn.id,
                session: turn.session,
                before: turn.usage,
                messages: turn.messages,
                head,
                version,
                is_open: Some(true),
                at: begin.at,
            };
            self.write_rest(resting, &end.rest)?;
        }
        let turn = self.ids.turn();
        let (id, ordinal) = match &session {
            Some(session) => {
                let ordinal = session.turns + 1;
                let current = if node.is_some() { turn } else { session.current };
                self.connection
                    .prepare_cached(if node.is_some() {
                        "UPDATE sessions SET version = ?2, updated_at = ?3, turns = ?4, current = ?5, is_open = 1
                         WHERE id = ?1"
                    } else {
                        "UPDATE sessions SET version = ?2, updated_at = ?3, turns = ?4, current = ?5,
                             queued = queued + 1
                         WHERE id = ?1"
                    })?
                    .execute(params![session.id, version, begin.at.millis(), ordinal, current])?;
                self.update_config(session.id, &begin.config)?;
                (session.id, ordinal)
            }
            None => (self.insert_session(&begin.tenant, &begin.session, &begin.config, begin.at, Some(turn))?, 1),
        };

        let head = u64::from(begin.segment.count());
        self.connection
            .prepare_cached(
                "INSERT INTO turns (id, name, session, ordinal, epoch, node, head, gathered, taken_epoch,
                     taken_version, taken_by, rest_version, tokens_in, tokens_out, tokens_cached, tokens_cache_write,
                     tokens_reasoning, created_at, log_level, begins_history, message_count, has_legs, phase, status,
                     messages, by, options)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?5, ?8, '', 0, 0, 0, 0, 0, 0, ?9, 0, ?10, ?11, 0, ?12, ?13,
                     ?14, ?15, ?16)",
            )?
            .execute(params![
                turn,
                begin.turn.as_str(),
                id,
                ordinal,
                epoch,
                node.map(|node| &node.0),
                head,
                version,
                begin.at.millis(),
                begin.begins_history,
                begin.messages.len(),
                phase(&status),
                to_json(&status)?,
                to_json(&begin.messages)?,
                begin.by.as_ref().map(KeyId::as_str),
                (!begin.options.is_empty()).then(|| to_json(&begin.options)).transpose()?,
            ])?;
        if node.is_some() {
            self.staged.start(&begin.turn, Standing { turn, session: id, epoch, head: 0, load: Load::default() });
            self.write_segment(&begin.turn, turn, &begin.segment)?;
        }
        self.write_all(&begin.tenant, &begin.writes, begin.at)?;
        self.keep_key(&begin.tenant, begin.key.as_ref(), begin.at)?;
        Ok(Receipt { epoch, version })
    }

    /// Whether a turn can join the queue of a session that has gone on since that was decided.
    fn may_join(&self, begin: &BeginTurn, session: &SessionState) -> Result<bool, StoreError> {
        let is_later = begin.expected_version.is_some_and(|expected| expected < session.version);
        let is_busy = session.is_open || session.queued > 0;
        Ok(begin.start == Start::Queued && is_later && is_busy && self.has_config(session.id, &begin.config)?)
    }

    /// Whether a session's other turns let a new one in, and the one that it takes the place of.
    fn place<'a>(
        &self,
        begin: &'a BeginTurn,
        session: &SessionState,
    ) -> Result<Option<(TurnState, &'a Supersede)>, Stop> {
        if begin.start == Start::Queued {
            let is_bare = begin.supersedes.is_none() && begin.segment.count() == 0;
            return if is_bare { Ok(None) } else { Err(Refusal::Changed.into()) };
        }
        let Some(end) = &begin.supersedes else {
            let is_free = !session.is_open && session.queued == 0;
            return if is_free { Ok(None) } else { Err(Refusal::Changed.into()) };
        };
        let turn = self.turn(&end.turn)?.ok_or(Refusal::NotFound)?;
        if !self.has_turn(session.id, &turn)? {
            return Err(Refusal::NotFound.into());
        }
        let waits = matches!(turn.status, TurnStatus::Waiting(_));
        if !waits || session.queued > 0 || !end.rest.status.is_ended() || !turn.messages.allows(&end.rest) {
            return Err(Refusal::Changed.into());
        }
        follows(turn.head, &end.segment)?;
        Ok(Some((turn, end)))
    }

    /// A turn with its session, if it is one of that session.
    fn turn_of(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<(SessionState, TurnState)>, StoreError> {
        let Some(session) = self.session(self.tenant(tenant)?, session)? else { return Ok(None) };
        let Some(turn) = self.turn(turn)? else { return Ok(None) };
        Ok(self.has_turn(session.id, &turn)?.then_some((session, turn)))
    }

    pub(super) fn resume_turn(&mut self, resume: &ResumeTurn) -> Judged {
        let found = self.turn_of(&resume.tenant, &resume.session, &resume.turn)?;
        if let Some((_, turn)) = &found
            && turn.taken_by == resume.id.as_str()
        {
            return Ok(Receipt { epoch: turn.taken_epoch, version: turn.taken_version });
        }
        self.check_key(&resume.tenant, resume.key.as_ref(), resume.at)?;
        let (session, turn) = found.ok_or(Refusal::NotFound)?;
        let is_its_turn = match turn.status {
            TurnStatus::Waiting(_) => true,
            TurnStatus::Queued => {
                !session.is_open && self.first_queued(session.id)?.is_some_and(|(first, _)| first == turn.id)
            }
            TurnStatus::Running | TurnStatus::Ended(_) => false,
        };
        let is_current = session.version == resume.expected_version
            || (turn.status == TurnStatus::Queued
                && resume.expected_version < session.version
                && self.has_config(session.id, &resume.config)?);
        if !is_current || !is_its_turn {
            return Err(Refusal::Changed.into());
        }
        follows(turn.head, &resume.segment)?;
        self.check_writes(session.tenant, &resume.writes, None)?;

        let (epoch, version) = (turn.epoch + 1, session.version + 1);
        let left_the_queue = turn.status == TurnStatus::Queued;
        self.connection
            .prepare_cached(
                "UPDATE sessions SET version = ?2, updated_at = ?3, current = ?4, is_open = 1, queued = queued - ?5
                 WHERE id = ?1",
            )?
            .execute(params![session.id, version, resume.at.millis(), turn.id, left_the_queue])?;
        self.update_config(session.id, &resume.config)?;
        self.connection
            .prepare_cached(
                "UPDATE turns SET epoch = ?2, node = ?3, head = ?4, gathered = ?7, taken_epoch = ?2,
                     taken_version = ?5, phase = ?9, status = ?6, taken_by = ?8, wake_at = NULL
                 WHERE id = ?1",
            )?
            .execute(params![
                turn.id,
                epoch,
                resume.node.0,
                turn.head + u64::from(resume.segment.count()),
                version,
                to_json(&TurnStatus::Running)?,
                turn.head,
                resume.id.as_str(),
                phase(&TurnStatus::Running),
            ])?;
        let standing = Standing { turn: turn.id, session: session.id, epoch, head: turn.head, load: Load::default() };
        self.staged.start(&resume.turn, standing);
        self.write_segment(&resume.turn, turn.id, &resume.segment)?;
        self.write_all(&resume.tenant, &resume.writes, resume.at)?;
        self.keep_key(&resume.tenant, resume.key.as_ref(), resume.at)?;
        Ok(Receipt { epoch, version })
    }

    pub(super) fn end_turn(&mut self, end: &EndTurn) -> Judged {
        let found = self.turn_of(&end.tenant, &end.session, &end.turn)?;
        let version = end.expected_version.saturating_add(1);
        if let Some((_, turn)) = &found
            && turn.status.is_ended()
            && turn.status == end.rest.status
            && turn.rest_version == version
            && ends_at(&end.segment, turn.head)
        {
            return Ok(Receipt { epoch: turn.epoch, version });
        }
        self.check_key(&end.tenant, end.key.as_ref(), end.at)?;
        let (session, turn) = found.ok_or(Refusal::NotFound)?;
        let was_queued = turn.status == TurnStatus::Queued;
        let rests = was_queued || matches!(turn.status, TurnStatus::Waiting(_));
        let is_sound = end.rest.status.is_ended() && turn.messages.allows(&end.rest);
        if session.version != end.expected_version || !rests || !is_sound {
            return Err(Refusal::Changed.into());
        }
        follows(turn.head, &end.segment)?;
        self.check_writes(session.tenant, &end.writes, None)?;

        log::gather(self.connection, turn.id, &[], Some(&end.segment))?;
        let head = turn.head + u64::from(end.segment.count());
        let resting = Resting {
            turn: turn.id,
            session: session.id,
            before: turn.usage,
            messages: turn.messages,
            head,
            version,
            // The end of a queued turn leaves the one that is open as it is.
            is_open: (!was_queued).then_some(false),
            at: end.at,
        };
        self.write_rest(resting, &end.rest)?;
        if was_queued {
            self.connection
                .prepare_cached("UPDATE sessions SET queued = queued - 1 WHERE id = ?1")?
                .execute([session.id])?;
        }
        self.write_all(&end.tenant, &end.writes, end.at)?;
        self.keep_key(&end.tenant, end.key.as_ref(), end.at)?;
        Ok(Receipt { epoch: turn.epoch, version })
    }

    pub(super) fn append(&mut self, append: &Append) -> Judged {
        let Some(turn) = self.staged.standing(&append.turn) else { return self.append_to_resting(append) };
        if turn.epoch != append.epoch {
            return Err(Refusal::Fenced.into());
        }
        let plain = Receipt { epoch: turn.epoch, version: 0 };
        if let Err(gap) = follows(turn.head, &append.segment) {
            let kept = append.rest.is_none() && ends_within(&append.segment, turn.head);
            return if kept { Ok(plain) } else { Err(gap.into()) };
        }
        if let Some(rest) = &append.rest
            && matches!(rest.status, TurnStatus::Running | TurnStatus::Queued)
        {
            return Err(Refusal::Changed.into());
        }
        let tenant = if append.writes.is_empty() { 0 } else { self.tenant_of(turn.session)? };
        self.check_writes(tenant, &append.writes, None)?;

        let Some(rest) = &append.rest else {
            self.write_segment(&append.turn, turn.turn, &append.segment)?;
            self.write_each(tenant, &append.writes, append.at)?;
            return Ok(plain);
        };
        let (before, messages) = self
            .connection
            .prepare_cached(
                "SELECT tokens_in, tokens_out, tokens_cached, tokens_cache_write, tokens_reasoning, message_count,
                     has_legs
                 FROM turns WHERE id = ?1",
            )?
            .query_row([turn.turn], |row| {
                Ok((tokens::read(row, 0)?, Kept { count: row.get(5)?, has_legs: row.get(6)? }))
            })?;
        if !messages.allows(rest) {
            return Err(Refusal::Changed.into());
        }
        log::gather(self.connection, turn.turn, &self.staged.rows(&append.turn), Some(&append.segment))?;
        let version: u64 = self
            .connection
            .prepare_cached("SELECT version FROM sessions WHERE id = ?1")?
            .query_row([turn.session], |row| row.get(0))?;
        let version = version + 1;
        let head = turn.head + u64::from(append.segment.count());
        let resting = Resting {
            turn: turn.turn,
            session: turn.session,
            before,
            messages,
            head,
            version,
            is_open: Some(!rest.status.is_ended()),
            at: append.at,
        };
        self.write_rest(resting, rest)?;
        self.staged.stop(&append.turn);
        self.write_each(tenant, &append.writes, append.at)?;
        Ok(Receipt { version, ..plain })
    }

    /// Nothing can be appended to a turn that rests; but the append may be the one that brought it there.
    fn append_to_resting(&self, append: &Append) -> Judged {
        let turn = self.turn(&append.turn)?.ok_or(Refusal::NotFound)?;
        if turn.epoch != append.epoch {
            return Err(Refusal::Fenced.into());
        }
        if turn.status == TurnStatus::Queued || !ends_within(&append.segment, turn.head) {
            return Err(Refusal::Changed.into());
        }
        match &append.rest {
            None => Ok(Receipt { epoch: turn.epoch, version: 0 }),
            Some(_) if ends_at(&append.segment, turn.head) => {
                Ok(Receipt { epoch: turn.epoch, version: turn.rest_version })
            }
            Some(_) => Err(Refusal::Changed.into()),
        }
    }

    /// See [`crate::Store::claim`]. The file has one user, so the owner of whatever this node does not own is gone.
    pub(in crate::sqlite) fn claim(&mut self, node: &NodeId, limit: usize) -> Result<Vec<ClaimedTurn>, StoreError> {
        let mut claimed = Vec::new();
        let mut ids = Vec::new();
        {
            let mut select = self.connection.prepare_cached(
                "SELECT t.id, t.name, t.epoch, s.name, n.name, t.by FROM turns t
                 JOIN sessions s ON s.id = t.session JOIN tenants n ON n.id = s.tenant
                 WHERE t.node IS NOT NULL AND t.node <> ?1 ORDER BY t.id LIMIT ?2",
            )?;
            let mut rows = select.query(params![node.0, int(limit as u64)])?;
            while let Some(row) = rows.next()? {
                let turn = TurnId::try_from(row.get::<_, String>(1)?).map_err(corrupt)?;
                let Some(standing) = self.staged.standing(&turn) else {
                    return Err(corrupt(format_args!("the running turn {turn} is not known to run")));
                };
                ids.push(row.get::<_, i64>(0)?);
                claimed.push(ClaimedTurn {
                    tenant: TenantId::try_from(row.get::<_, String>(4)?).map_err(corrupt)?,
                    session: SessionId::try_from(row.get::<_, String>(3)?).map_err(corrupt)?,
                    by: row.get::<_, Option<String>>(5)?.map(KeyId::try_from).transpose().map_err(corrupt)?,
                    epoch: row.get::<_, u64>(2)? + 1,
                    head: standing.head,
                    turn,
                });
            }
        }
        let mut update = self.connection.prepare_cached("UPDATE turns SET node = ?2, epoch = ?3 WHERE id = ?1")?;
        for (id, claim) in ids.into_iter().zip(&claimed) {
            update.execute(params![id, node.0, claim.epoch])?;
            self.staged.set_epoch(&claim.turn, claim.epoch);
        }
        Ok(claimed)
    }
}
