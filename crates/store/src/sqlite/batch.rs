//! Judges the commands of a batch and writes those that are kept.
//!
//! Every check of a command comes before its first write, so a refused command leaves nothing behind and needs no
//! savepoint.

mod lookup;
mod write;

use everturn_core::{Segment, SessionId, TenantId, TurnId, Usage};
use rusqlite::{Connection, params};

use super::{
    fault::corrupt,
    keys,
    live::{LiveTurns, Load, Staged, Standing},
    log::{self, MAX_SEQ},
    rows::{int, to_json},
};
use crate::{
    Append, BeginTurn, ClaimedTurn, Command, NewSession, NodeId, Receipt, Refusal, ResumeTurn, StoreError, TurnStatus,
};

type Verdict = Result<Receipt, Refusal>;

/// Rows are numbered by the writer: a number is not given twice as long as a reader may remember it.
#[derive(Debug)]
pub(super) struct RowIds {
    pub(super) next_turn: i64,
    pub(super) next_log: i64,
}

impl RowIds {
    fn turn(&mut self) -> i64 {
        self.next_turn += 1;
        self.next_turn - 1
    }

    fn log(&mut self) -> i64 {
        self.next_log += 1;
        self.next_log - 1
    }
}

/// A batch on its way into the database.
pub(super) struct Batch<'transaction, 'writer> {
    connection: &'transaction Connection,
    pub(super) staged: Staged<'writer>,
    ids: &'writer mut RowIds,
    /// How much of running turns it has gathered.
    gathered: Load,
    /// How much it has written to `log`.
    pub(super) written: Load,
    /// How much it has deleted there.
    pub(super) deleted: Load,
    /// Whether it has deleted a session.
    pub(super) has_deleted: bool,
}

impl<'transaction, 'writer> Batch<'transaction, 'writer> {
    pub(super) fn new(
        connection: &'transaction Connection,
        live: &'writer LiveTurns,
        ids: &'writer mut RowIds,
    ) -> Self {
        Self {
            connection,
            staged: Staged::new(live),
            ids,
            gathered: Load::default(),
            written: Load::default(),
            deleted: Load::default(),
            has_deleted: false,
        }
    }

    pub(super) fn judge(&mut self, command: &Command) -> Result<Verdict, StoreError> {
        match command {
            Command::CreateSession(new) => self.create_session(new),
            Command::BeginTurn(begin) => self.begin_turn(begin),
            Command::ResumeTurn(resume) => self.resume_turn(resume),
            Command::Append(append) => self.append(append),
            Command::DeleteSession { tenant, session } => self.delete_session(tenant, session),
        }
    }

    fn create_session(&mut self, new: &NewSession) -> Result<Verdict, StoreError> {
        let tenant = self.tenant(&new.tenant)?;
        if let Some(session) = self.session(tenant, &new.id)? {
            let unchanged = session.version > 1 || self.config(session.id)? == new.config;
            let same = !session.opened_by_turn && session.created_at == new.at && unchanged;
            return Ok(if same { Ok(Receipt { epoch: 0, version: 1 }) } else { Err(Refusal::Exists) });
        }
        if self.is_deleted(tenant, &new.id)? {
            return Ok(Err(Refusal::Exists));
        }
        self.insert_session(&new.tenant, &new.id, &new.config, new.at, 0)?;
        Ok(Ok(Receipt { epoch: 0, version: 1 }))
    }

    fn begin_turn(&mut self, begin: &BeginTurn) -> Result<Verdict, StoreError> {
        let tenant = self.tenant(&begin.tenant)?;
        let session = self.session(tenant, &begin.session)?;
        let version = begin.expected_version.unwrap_or(0).saturating_add(1);
        let known = self.turn(&begin.turn)?;
        if let (Some(turn), Some(session)) = (&known, &session)
            && turn.session == session.id
        {
            return Ok(Ok(Receipt { epoch: 1, version }));
        }
        if let Some(repeated) = self.repeated(&begin.tenant, begin.key.as_ref(), begin.at)? {
            return Ok(Err(repeated));
        }
        if known.is_some() {
            return Ok(Err(Refusal::Exists));
        }
        let superseded = match (begin.expected_version, &session, &begin.supersedes) {
            (None, None, None) if !self.is_deleted(tenant, &begin.session)? => None,
            (None, Some(_), _) | (None, None, None) => return Ok(Err(Refusal::Exists)),
            (None, None, Some(_)) | (Some(_), None, _) => return Ok(Err(Refusal::NotFound)),
            (Some(expected), Some(session), supersedes) => {
                if session.version != expected {
                    return Ok(Err(Refusal::Changed));
                }
                match (self.last_turn(session)?, supersedes) {
                    (None | Some((_, TurnStatus::Ended)), None) => None,
                    (Some((last, TurnStatus::Waiting(_))), Some(end)) if last == end.turn => {
                        let Some(turn) = self.turn(&end.turn)? else { return Ok(Err(Refusal::NotFound)) };
                        if let Err(gap) = follows(turn.head, &end.segment) {
                            return Ok(Err(gap));
                        }
                        Some((turn, end))
                    }
                    (_, Some(end)) if self.turn(&end.turn)?.is_none_or(|turn| turn.session != session.id) => {
                        return Ok(Err(Refusal::NotFound));
                    }
                    _ => return Ok(Err(Refusal::Changed)),
                }
            }
        };
        if let Err(gap) = follows(0, &begin.segment) {
            return Ok(Err(gap));
        }

        let (id, ordinal) = match &session {
            Some(session) => {
                self.connection
                    .prepare_cached(
                        "UPDATE sessions SET version = ?2, turns = turns + 1, updated_at = ?3 WHERE id = ?1",
                    )?
                    .execute(params![session.id, version, begin.at.millis()])?;
                self.update_config(session.id, &begin.config)?;
                (session.id, session.turns + 1)
            }
            None => (self.insert_session(&begin.tenant, &begin.session, &begin.config, begin.at, 1)?, 1),
        };
        if let Some((turn, end)) = superseded {
            log::gather(self.connection, turn.id, &[], Some(&end.segment))?;
            let head = turn.head + u64::from(end.segment.count());
            self.write_rest(turn.id, turn.usage, id, head, version, &end.rest)?;
        }

        let turn = self.ids.turn();
        let head = u64::from(begin.segment.count());
        self.connection
            .prepare_cached(
                "INSERT INTO turns (id, name, session, ordinal, epoch, node, head, gathered, taken_epoch,
                     taken_version, taken_by, rest_version, tokens_in, tokens_out, created_at, status, messages)
                 VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, 0, 1, ?7, '', 0, 0, 0, ?8, ?9, ?10)",
            )?
            .execute(params![
                turn,
                begin.turn.as_str(),
                id,
                ordinal,
                begin.node.0,
                head,
                version,
                begin.at.millis(),
                to_json(&TurnStatus::Running)?,
                to_json(&begin.messages)?,
            ])?;
        self.staged.start(&begin.turn, Standing { turn, session: id, epoch: 1, head: 0, load: Load::default() });
        self.write_segment(&begin.turn, turn, &begin.segment)?;
        if let Some(key) = &begin.key {
            keys::keep(self.connection, &begin.tenant, key, begin.at)?;
        }
        Ok(Ok(Receipt { epoch: 1, version }))
    }

    fn resume_turn(&mut self, resume: &ResumeTurn) -> Result<Verdict, StoreError> {
        let tenant = self.tenant(&resume.tenant)?;
        let session = self.session(tenant, &resume.session)?;
        let turn = self.turn(&resume.turn)?;
        let found = session.zip(turn).filter(|(session, turn)| turn.session == session.id);
        if let Some((_, turn)) = &found
            && turn.taken_by == resume.id.as_str()
        {
            return Ok(Ok(Receipt { epoch: turn.taken_epoch, version: turn.taken_version }));
        }
        if let Some(repeated) = self.repeated(&resume.tenant, resume.key.as_ref(), resume.at)? {
            return Ok(Err(repeated));
        }
        let Some((session, turn)) = found else { return Ok(Err(Refusal::NotFound)) };
        if session.version != resume.expected_version || !matches!(turn.status, TurnStatus::Waiting(_)) {
            return Ok(Err(Refusal::Changed));
        }
        if let Err(gap) = follows(turn.head, &resume.segment) {
            return Ok(Err(gap));
        }

        let (epoch, version) = (turn.epoch + 1, session.version + 1);
        self.connection
            .prepare_cached("UPDATE sessions SET version = ?2, updated_at = ?3 WHERE id = ?1")?
            .execute(params![session.id, version, resume.at.millis()])?;
        self.update_config(session.id, &resume.config)?;
        self.connection
            .prepare_cached(
                "UPDATE turns SET epoch = ?2, node = ?3, head = ?4, gathered = ?7, taken_epoch = ?2,
                     taken_version = ?5, status = ?6, taken_by = ?8
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
            ])?;
        let standing = Standing { turn: turn.id, session: session.id, epoch, head: turn.head, load: Load::default() };
        self.staged.start(&resume.turn, standing);
        self.write_segment(&resume.turn, turn.id, &resume.segment)?;
        if let Some(key) = &resume.key {
            keys::keep(self.connection, &resume.tenant, key, resume.at)?;
        }
        Ok(Ok(Receipt { epoch, version }))
    }

    fn append(&mut self, append: &Append) -> Result<Verdict, StoreError> {
        let Some(turn) = self.staged.standing(&append.turn) else { return self.append_to_resting(append) };
        if turn.epoch != append.epoch {
            return Ok(Err(Refusal::Fenced));
        }
        if let Err(gap) = follows(turn.head, &append.segment) {
            let kept = append.rest.is_none() && ends_within(&append.segment, turn.head);
            return Ok(if kept { Ok(Receipt { epoch: turn.epoch, version: 0 }) } else { Err(gap) });
        }
        let Some(rest) = &append.rest else {
            self.write_segment(&append.turn, turn.turn, &append.segment)?;
            return Ok(Ok(Receipt { epoch: turn.epoch, version: 0 }));
        };
        if rest.status == TurnStatus::Running {
            return Ok(Err(Refusal::Changed));
        }

        log::gather(self.connection, turn.turn, &self.staged.rows(&append.turn), Some(&append.segment))?;
        let (version, usage): (u64, Usage) = self
            .connection
            .prepare_cached(
                "SELECT s.version, t.tokens_in, t.tokens_out FROM turns t JOIN sessions s ON s.id = t.session
                 WHERE t.id = ?1",
            )?
            .query_row([turn.turn], |row| {
                Ok((row.get::<_, u64>(0)?, Usage { input: row.get(1)?, output: row.get(2)? }))
            })?;
        let version = version + 1;
        self.connection
            .prepare_cached("UPDATE sessions SET version = ?2, updated_at = ?3 WHERE id = ?1")?
            .execute(params![turn.session, version, append.at.millis()])?;
        let head = turn.head + u64::from(append.segment.count());
        self.write_rest(turn.turn, usage, turn.session, head, version, rest)?;
        self.staged.stop(&append.turn);
        Ok(Ok(Receipt { epoch: turn.epoch, version }))
    }

    /// Nothing can be appended to a turn that rests; but the append may be the one that brought it there.
    fn append_to_resting(&mut self, append: &Append) -> Result<Verdict, StoreError> {
        let Some(turn) = self.turn(&append.turn)? else { return Ok(Err(Refusal::NotFound)) };
        if turn.epoch != append.epoch {
            return Ok(Err(Refusal::Fenced));
        }
        if !ends_within(&append.segment, turn.head) {
            return Ok(Err(Refusal::Changed));
        }
        Ok(match &append.rest {
            None => Ok(Receipt { epoch: turn.epoch, version: 0 }),
            Some(_) if ends_at(&append.segment, turn.head) => {
                Ok(Receipt { epoch: turn.epoch, version: turn.rest_version })
            }
            Some(_) => Err(Refusal::Changed),
        })
    }

    fn delete_session(&mut self, tenant: &TenantId, name: &SessionId) -> Result<Verdict, StoreError> {
        let done = Receipt { epoch: 0, version: 0 };
        let tenant = self.tenant(tenant)?;
        let Some(session) = self.session(tenant, name)? else {
            return Ok(if self.is_deleted(tenant, name)? { Ok(done) } else { Err(Refusal::NotFound) });
        };
        let turns: Vec<(i64, String)> = self
            .connection
            .prepare_cached("SELECT id, name FROM turns WHERE session = ?1")?
            .query_map([session.id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (id, turn) in turns {
            let turn = TurnId::try_from(turn).map_err(corrupt)?;
            let rows = self.staged.rows(&turn);
            log::delete_rows(self.connection, &rows)?;
            self.deleted.rows += rows.len();
            self.deleted.bytes += rows.iter().map(|row| row.bytes).sum::<u64>();
            log::delete_chunks(self.connection, id)?;
            self.staged.stop(&turn);
        }
        for statement in [
            "DELETE FROM turns WHERE session = ?1",
            "DELETE FROM configs WHERE session = ?1",
            "DELETE FROM sessions WHERE id = ?1",
        ] {
            self.connection.prepare_cached(statement)?.execute([session.id])?;
        }
        self.connection
            .prepare_cached("INSERT INTO tombstones (tenant, name) VALUES (?1, ?2)")?
            .execute(params![tenant, name.as_str()])?;
        self.has_deleted = true;
        Ok(Ok(done))
    }

    /// See [`crate::Store::claim`]. The file has one user, so the owner of whatever this node does not own is gone.
    pub(super) fn claim(&mut self, node: &NodeId, limit: usize) -> Result<Vec<ClaimedTurn>, StoreError> {
        let mut claimed = Vec::new();
        let mut ids = Vec::new();
        {
            let mut select = self.connection.prepare_cached(
                "SELECT t.id, t.name, t.epoch, s.name, n.name FROM turns t
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

/// Whether a segment begins right after `head` and ends where a log may end.
fn follows(head: u64, segment: &Segment) -> Result<(), Refusal> {
    let first_seq = segment.first_seq();
    if first_seq == head + 1 && head + u64::from(segment.count()) <= MAX_SEQ {
        Ok(())
    } else {
        Err(Refusal::Gap { head, first_seq })
    }
}

/// Whether a log that ends at `head` has all of a segment's events.
fn ends_within(segment: &Segment, head: u64) -> bool {
    segment.first_seq().saturating_add(u64::from(segment.count())) <= head + 1
}

/// Whether a log that ends at `head` ends with a segment.
fn ends_at(segment: &Segment, head: u64) -> bool {
    segment.first_seq().saturating_add(u64::from(segment.count())) == head + 1
}
