//! The tables, and how older files come to have them.
//!
//! ```text
//! tenants      a number for every tenant
//! sessions     id is the position in the list: it rises and is never given again; turns is the last ordinal, current
//!              the turn that was started last (zero if none was), is_open whether that one runs or waits, queued how
//!              many turns come after it
//! configs      settings of a session, apart from it because they are large and rarely change
//! turns        each belongs to one session; others may share it. phase says what kind of status it has (see `rows.rs`),
//!              for the indexes; wake_at is that of a waiting turn; log_level is how far its log was shortened; node is
//!              set while the turn runs; head is the last seq known when the row was written, gathered the last seq in
//!              `chunks` when the turn last began to run or was gathered while it ran; by is the key that it was
//!              submitted with; options is what a turn that was queued asks of its model, if anything; messages is what
//!              it has added to history, unless it has_legs: then that is in `legs`
//! legs         what each leg of a turn that has waited has added to history; see `legs.rs`
//! shared       turns that a session has though they belong to another: all of them have ended. A turn has the same
//!              ordinal wherever it is; see `batch/history.rs`
//! truncations  the last truncation of a session, by which it is recognised
//! log          events of running turns in commit order: one row per turn and batch, and no index, so that a commit
//!              of many turns touches few pages. Rows of turns that do not run, and events up to `gathered`, are dead
//!              and wait for `trim.rs`
//! chunks       events gathered from `log` when a turn rests or its share of `log` grows large; see `log.rs`
//! records      what lies beside the turns; id is the position in the list: it rises and is never given again
//! blobs        the content of records, in parts
//! tombstones   names of deleted sessions
//! keys         callers' names for their commands, and what whoever repeats one is told; see `keys.rs`
//! usage        sums of what was used; an empty key is none
//! storage      bytes of the blobs and chunks of a tenant, kept by triggers: whatever writes or deletes one counts it
//! ```
//!
//! Tokens are five columns wherever they are: read and written, then those of the ones read that the provider had in its
//! cache or wrote to it, then those of the ones written that were reasoning; see `tokens.rs`.
//!
//! Columns that may be large come last in their row: SQLite reads the columns before them without touching them.
//!
//! Most indexes hold only the few rows that somebody looks for by them, so that a turn which does nothing but run and
//! end touches three of these: `turns_running`, `turns_ended` and `sessions_idle`.

use rusqlite::{Connection, TransactionBehavior};

/// "EvTn". Marks the file as ours.
pub(super) const APPLICATION_ID: i32 = 0x4576_546e;

/// The oldest version that this program reads. Those before were never released.
pub(super) const OLDEST: i32 = 2;

/// The statements that lead to [`OLDEST`], and from each version to the next. Append only once a version was
/// released; until then the tables of the last one are changed in place, and have another number.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE tenants (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    ) STRICT;

    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant INTEGER NOT NULL REFERENCES tenants,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        turns INTEGER NOT NULL,
        current INTEGER NOT NULL,
        queued INTEGER NOT NULL,
        is_open INTEGER NOT NULL,
        tokens_in INTEGER NOT NULL,
        tokens_out INTEGER NOT NULL,
        tokens_cached INTEGER NOT NULL,
        tokens_cache_write INTEGER NOT NULL,
        tokens_reasoning INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        opened_by_turn INTEGER NOT NULL,
        title TEXT,
        UNIQUE (tenant, name)
    ) STRICT;
    CREATE INDEX sessions_by_position ON sessions (tenant, id);
    CREATE INDEX sessions_stalled ON sessions (id) WHERE queued > 0 AND is_open = 0;
    CREATE INDEX sessions_queued ON sessions (tenant, queued) WHERE queued > 0;
    CREATE INDEX sessions_idle ON sessions (updated_at) WHERE queued = 0 AND is_open = 0;

    CREATE TABLE configs (
        session INTEGER PRIMARY KEY REFERENCES sessions,
        config TEXT NOT NULL
    ) STRICT;

    CREATE TABLE turns (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES sessions,
        ordinal INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        node TEXT,
        head INTEGER NOT NULL,
        gathered INTEGER NOT NULL,
        taken_epoch INTEGER NOT NULL,
        taken_version INTEGER NOT NULL,
        taken_by TEXT NOT NULL,
        rest_version INTEGER NOT NULL,
        tokens_in INTEGER NOT NULL,
        tokens_out INTEGER NOT NULL,
        tokens_cached INTEGER NOT NULL,
        tokens_cache_write INTEGER NOT NULL,
        tokens_reasoning INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        rested_at INTEGER,
        wake_at INTEGER,
        log_level INTEGER NOT NULL,
        begins_history INTEGER NOT NULL,
        message_count INTEGER NOT NULL,
        has_legs INTEGER NOT NULL,
        by TEXT,
        phase INTEGER NOT NULL,
        status TEXT NOT NULL,
        compaction TEXT,
        options TEXT,
        messages TEXT NOT NULL,
        UNIQUE (session, ordinal)
    ) STRICT;
    CREATE INDEX turns_running ON turns (id) WHERE node IS NOT NULL;
    CREATE INDEX turns_due ON turns (wake_at) WHERE wake_at IS NOT NULL;
    CREATE INDEX turns_ended ON turns (log_level, rested_at) WHERE phase = 3;
    CREATE INDEX turns_queued ON turns (session, ordinal) WHERE phase = 4;

    CREATE TABLE legs (
        id INTEGER PRIMARY KEY,
        messages TEXT NOT NULL
    ) STRICT;

    CREATE TABLE shared (
        session INTEGER NOT NULL REFERENCES sessions,
        ordinal INTEGER NOT NULL,
        turn INTEGER NOT NULL REFERENCES turns,
        PRIMARY KEY (session, ordinal)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX shared_by_turn ON shared (turn, session);

    CREATE TABLE truncations (
        session INTEGER PRIMARY KEY REFERENCES sessions,
        version INTEGER NOT NULL,
        at INTEGER NOT NULL,
        through INTEGER NOT NULL,
        turn TEXT
    ) STRICT;

    CREATE TABLE log (
        id INTEGER PRIMARY KEY,
        turn INTEGER NOT NULL,
        first_seq INTEGER NOT NULL,
        count INTEGER NOT NULL,
        bytes BLOB NOT NULL
    ) STRICT;

    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY,
        segments BLOB NOT NULL
    ) STRICT;

    CREATE TABLE records (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant INTEGER NOT NULL REFERENCES tenants,
        kind INTEGER NOT NULL,
        name TEXT NOT NULL,
        session INTEGER REFERENCES sessions,
        turn TEXT,
        revision INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        outcome TEXT,
        body TEXT NOT NULL,
        UNIQUE (tenant, kind, name)
    ) STRICT;
    CREATE INDEX records_by_position ON records (tenant, kind, id);
    CREATE INDEX records_by_state ON records (tenant, kind, state, id);
    CREATE INDEX records_by_session ON records (session, kind, id);
    CREATE INDEX records_by_session_and_state ON records (session, kind, state, id);
    CREATE INDEX records_by_time ON records (kind, state, updated_at);
    CREATE INDEX records_of_all ON records (kind, state, id) WHERE kind = 7 OR kind = 8;

    CREATE TABLE blobs (
        id INTEGER PRIMARY KEY,
        record INTEGER NOT NULL REFERENCES records,
        part INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (record, part)
    ) STRICT;

    CREATE TABLE tombstones (
        tenant INTEGER NOT NULL REFERENCES tenants,
        name TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (tenant, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tombstones_by_time ON tombstones (at);

    CREATE TABLE keys (
        id INTEGER PRIMARY KEY,
        tenant INTEGER NOT NULL REFERENCES tenants,
        key TEXT NOT NULL,
        at INTEGER NOT NULL,
        fingerprint TEXT NOT NULL,
        outcome TEXT NOT NULL,
        UNIQUE (tenant, key)
    ) STRICT;
    CREATE INDEX keys_by_time ON keys (at);

    CREATE TABLE usage (
        tenant INTEGER NOT NULL REFERENCES tenants,
        day INTEGER NOT NULL,
        agent TEXT NOT NULL,
        model TEXT NOT NULL,
        key TEXT NOT NULL,
        turns INTEGER NOT NULL,
        calls INTEGER NOT NULL,
        tokens_in INTEGER NOT NULL,
        tokens_out INTEGER NOT NULL,
        tokens_cached INTEGER NOT NULL,
        tokens_cache_write INTEGER NOT NULL,
        tokens_reasoning INTEGER NOT NULL,
        PRIMARY KEY (tenant, day, agent, model, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX usage_by_key ON usage (tenant, day, key);

    CREATE TABLE storage (
        tenant INTEGER PRIMARY KEY REFERENCES tenants,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE TRIGGER blob_added AFTER INSERT ON blobs BEGIN
        INSERT INTO storage SELECT tenant, length(NEW.bytes) FROM records WHERE id = NEW.record
            ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER blob_changed AFTER UPDATE OF bytes ON blobs BEGIN
        UPDATE storage SET bytes = bytes + length(NEW.bytes) - length(OLD.bytes)
            WHERE tenant = (SELECT tenant FROM records WHERE id = NEW.record);
    END;
    CREATE TRIGGER blob_deleted BEFORE DELETE ON blobs BEGIN
        UPDATE storage SET bytes = bytes - length(OLD.bytes)
            WHERE tenant = (SELECT tenant FROM records WHERE id = OLD.record);
    END;
    CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
        INSERT INTO storage
            SELECT s.tenant, length(NEW.segments) FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = NEW.id >> 30
            ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER chunk_deleted BEFORE DELETE ON chunks BEGIN
        UPDATE storage SET bytes = bytes - length(OLD.segments)
            WHERE tenant = (SELECT s.tenant FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = OLD.id >> 30);
    END;
"];

/// The version that this program writes.
pub(super) const VERSION: i32 = OLDEST - 1 + MIGRATIONS.len() as i32;

/// The version of a file; zero if it has none yet.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the file to [`VERSION`]: all the way, or not at all.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&transaction)?;
    for (version, migration) in (OLDEST..).zip(MIGRATIONS).filter(|(version, _)| *version > from) {
        tracing::debug!(version, "migrating the database");
        transaction.execute_batch(migration)?;
    }
    if from < VERSION {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}
