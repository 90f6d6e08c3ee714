//! Judges the commands of a batch and writes those that are kept.
//!
//! Every check of a command comes before its first write, so a refused command leaves nothing behind and needs no
//! savepoint.

use everturn_core::{Segment, SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    fault::corrupt,
    live::{LiveTurns, Load, Staged, Standing},
    log::{self, MAX_SEQ},
    rows::{from_json, int, to_json},
};
use crate::{
    Append, BeginTurn, ClaimedTurn, Command, NewSession, NodeId, Receipt, Refusal, Rest, ResumeTurn, StoreError,
    TurnStatus,
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

/// More tokens than anybody can use. Keeps sums within what SQLite counts with.
const MAX_TOKENS: i64 = 1 << 60;

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
}

struct SessionState {
    id: i64,
    version: u64,
    turns: u64,
    created_at: Timestamp,
    opened_by_turn: bool,
}

struct TurnState {
    id: i64,
    session: i64,
    epoch: u64,
    head: u64,
    taken_epoch: u64,
    taken_version: u64,
    rest_version: u64,
    usage: Usage,
    status: TurnStatus,
}

impl<'transaction, 'writer> Batch<'transaction, 'writer> {
    pub(super) fn new(
        connection: &'transaction Connection,
        live: &'writer LiveTurns,
        ids: &'writer mut RowIds,
    ) -> Self {
        Self { connection, staged: Staged::new(live), ids, gathered: Load::default() }
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
        self.insert_session(tenant, &new.id, &new.config, new.at, 0)?;
        Ok(Ok(Receipt { epoch: 0, version: 1 }))
    }

    fn begin_turn(&mut self, begin: &BeginTurn) -> Result<Verdict, StoreError> {
        let tenant = self.tenant(&begin.tenant)?;
        let session = self.session(tenant, &begin.session)?;
        let version = begin.expected_version.unwrap_or(0).saturating_add(1);
        if let Some(turn) = self.turn(&begin.turn)? {
            let same = session.is_some_and(|session| session.id == turn.session);
            return Ok(if same { Ok(Receipt { epoch: 1, version }) } else { Err(Refusal::Exists) });
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
            None => (self.insert_session(tenant, &begin.session, &begin.config, begin.at, 1)?, 1),
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
                "INSERT INTO turns (id, name, session, ordinal, epoch, node, head, taken_epoch, taken_version,
                     rest_version, tokens_in, tokens_out, created_at, status, messages)
                 VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, 1, ?7, 0, 0, 0, ?8, ?9, ?10)",
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
        Ok(Ok(Receipt { epoch: 1, version }))
    }

    fn resume_turn(&mut self, resume: &ResumeTurn) -> Result<Verdict, StoreError> {
        let tenant = self.tenant(&resume.tenant)?;
        let Some(session) = self.session(tenant, &resume.session)? else { return Ok(Err(Refusal::NotFound)) };
        let turn = match self.turn(&resume.turn)? {
            Some(turn) if turn.session == session.id => turn,
            Some(_) | None => return Ok(Err(Refusal::NotFound)),
        };
        let version = resume.expected_version.saturating_add(1);
        if turn.taken_version == version && turn.taken_epoch > 1 {
            // Somebody resumed it at this version. If it was not this command, then its events are others.
            let rows = self.staged.rows(&resume.turn);
            let before = resume.segment.first_seq().saturating_sub(1);
            let kept = log::read(self.connection, turn.id, before, 1, &rows)?;
            let same = kept.first() == Some(&resume.segment);
            let receipt = Receipt { epoch: turn.taken_epoch, version };
            return Ok(if same { Ok(receipt) } else { Err(Refusal::Changed) });
        }
        if session.version != resume.expected_version || !matches!(turn.status, TurnStatus::Waiting(_)) {
            return Ok(Err(Refusal::Changed));
        }
        if let Err(gap) = follows(turn.head, &resume.segment) {
            return Ok(Err(gap));
        }

        let epoch = turn.epoch + 1;
        self.connection
            .prepare_cached("UPDATE sessions SET version = ?2, updated_at = ?3 WHERE id = ?1")?
            .execute(params![session.id, version, resume.at.millis()])?;
        self.update_config(session.id, &resume.config)?;
        self.connection
            .prepare_cached(
                "UPDATE turns SET epoch = ?2, node = ?3, head = ?4, taken_epoch = ?2, taken_version = ?5, status = ?6
                 WHERE id = ?1",
            )?
            .execute(params![
                turn.id,
                epoch,
                resume.node.0,
                turn.head + u64::from(resume.segment.count()),
                version,
                to_json(&TurnStatus::Running)?
            ])?;
        let standing = Standing { turn: turn.id, session: session.id, epoch, head: turn.head, load: Load::default() };
        self.staged.start(&resume.turn, standing);
        self.write_segment(&resume.turn, turn.id, &resume.segment)?;
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
            log::delete_rows(self.connection, &self.staged.rows(&turn))?;
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

    /// Adds events to a running turn.
    fn write_segment(&mut self, name: &TurnId, turn: i64, segment: &Segment) -> Result<(), StoreError> {
        if segment.count() == 0 {
            return Ok(());
        }
        let row = log::append(self.connection, self.ids.log(), turn, segment)?;
        let head = segment.first_seq() + u64::from(segment.count()) - 1;
        let load = self.staged.add_row(name, row, head);
        let is_due = load.rows >= GATHER_ROWS || load.bytes >= GATHER_BYTES;
        let is_overdue =
            load.rows >= GATHER_OVERDUE * GATHER_ROWS || load.bytes >= GATHER_OVERDUE as u64 * GATHER_BYTES;
        let has_room = self.gathered.rows < GATHERED_ROWS && self.gathered.bytes < GATHERED_BYTES;
        if is_overdue || (is_due && has_room) {
            self.gathered.rows += load.rows;
            self.gathered.bytes += load.bytes;
            log::gather(self.connection, turn, &self.staged.rows(name), None)?;
            self.connection.prepare_cached("UPDATE turns SET head = ?2 WHERE id = ?1")?.execute(params![turn, head])?;
            self.staged.clear_rows(name);
        }
        Ok(())
    }

    /// Writes what is kept of a turn that comes to rest, and adds its tokens to its session.
    fn write_rest(
        &self,
        turn: i64,
        before: Usage,
        session: i64,
        head: u64,
        version: u64,
        rest: &Rest,
    ) -> Result<(), StoreError> {
        let compaction = rest.compaction.as_ref().map(to_json).transpose()?;
        let (tokens_in, tokens_out) = (tokens(rest.usage.input), tokens(rest.usage.output));
        self.connection
            .prepare_cached(
                "UPDATE turns SET node = NULL, head = ?2, rest_version = ?3, tokens_in = ?4, tokens_out = ?5,
                     status = ?6, compaction = ?7, messages = ?8
                 WHERE id = ?1",
            )?
            .execute(params![
                turn,
                head,
                version,
                tokens_in,
                tokens_out,
                to_json(&rest.status)?,
                compaction,
                to_json(&rest.messages)?,
            ])?;
        self.connection
            .prepare_cached(
                "UPDATE sessions SET tokens_in = min(tokens_in + ?2, ?4), tokens_out = min(tokens_out + ?3, ?4)
                 WHERE id = ?1",
            )?
            .execute(params![
                session,
                tokens_in - tokens(before.input),
                tokens_out - tokens(before.output),
                MAX_TOKENS
            ])?;
        Ok(())
    }

    fn insert_session(
        &self,
        tenant: i64,
        name: &SessionId,
        config: &SessionConfig,
        at: Timestamp,
        turns: u64,
    ) -> Result<i64, StoreError> {
        self.connection
            .prepare_cached(
                "INSERT INTO sessions (tenant, name, version, turns, tokens_in, tokens_out, created_at, updated_at,
                     opened_by_turn)
                 VALUES (?1, ?2, 1, ?3, 0, 0, ?4, ?4, ?5)",
            )?
            .execute(params![tenant, name.as_str(), turns, at.millis(), turns > 0])?;
        let id = self.connection.last_insert_rowid();
        self.connection
            .prepare_cached("INSERT INTO configs (session, config) VALUES (?1, ?2)")?
            .execute(params![id, to_json(config)?])?;
        Ok(id)
    }

    fn update_config(&self, session: i64, config: &SessionConfig) -> Result<(), StoreError> {
        self.connection
            .prepare_cached("UPDATE configs SET config = ?2 WHERE session = ?1 AND config <> ?2")?
            .execute(params![session, to_json(config)?])?;
        Ok(())
    }

    fn config(&self, session: i64) -> Result<SessionConfig, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT config FROM configs WHERE session = ?1")?;
        let mut rows = select.query([session])?;
        let row = rows.next()?.ok_or_else(|| corrupt("a session without settings"))?;
        from_json(row, 0)
    }

    /// The tenant's row. Made when it is first asked for.
    fn tenant(&self, name: &TenantId) -> Result<i64, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT id FROM tenants WHERE name = ?1")?;
        if let Some(id) = select.query_row([name.as_str()], |row| row.get(0)).optional()? {
            return Ok(id);
        }
        self.connection.prepare_cached("INSERT INTO tenants (name) VALUES (?1)")?.execute([name.as_str()])?;
        Ok(self.connection.last_insert_rowid())
    }

    fn session(&self, tenant: i64, name: &SessionId) -> Result<Option<SessionState>, StoreError> {
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

    fn is_deleted(&self, tenant: i64, session: &SessionId) -> Result<bool, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT 1 FROM tombstones WHERE tenant = ?1 AND name = ?2")?;
        Ok(select.exists(params![tenant, session.as_str()])?)
    }

    fn last_turn(&self, session: &SessionState) -> Result<Option<(TurnId, TurnStatus)>, StoreError> {
        let mut select =
            self.connection.prepare_cached("SELECT name, status FROM turns WHERE session = ?1 AND ordinal = ?2")?;
        let mut rows = select.query(params![session.id, session.turns])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some((TurnId::try_from(row.get::<_, String>(0)?).map_err(corrupt)?, from_json(row, 1)?)))
    }

    fn turn(&self, name: &TurnId) -> Result<Option<TurnState>, StoreError> {
        let mut select = self.connection.prepare_cached(
            "SELECT id, session, epoch, head, taken_epoch, taken_version, rest_version, tokens_in, tokens_out, status
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
            rest_version: row.get(6)?,
            usage: Usage { input: row.get(7)?, output: row.get(8)? },
            status: from_json(row, 9)?,
        }))
    }
}

fn tokens(count: u64) -> i64 {
    int(count).min(MAX_TOKENS)
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
